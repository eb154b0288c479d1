"""Partitions that a RabbitMQ target cannot choose are refused when the configuration is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.daemon.config import read_config
from bridge.endpoint import BridgeLayout, Misfit
from bridge.endpoints.rabbitmq.routes import PublishAddress, build_routes
from exchange import Queue, Topology
from exchange.errors import InputError
from exchange.partition.partitioning.specification import Partitioning


def layout_of(partitioning: str | None) -> BridgeLayout:
    parsed = None if partitioning is None else Partitioning.parse(partitioning)
    return BridgeLayout([], {}, Topology(queues=[Queue("out", partitioning=parsed)]), 1)


@pytest.mark.parametrize(
    ("partitioning", "address", "words"),
    [
        ("kafka.murmur2 over 4", PublishAddress.queue("plain"), r'name a queue for each: "plain-\{partition\}"'),
        ("kafka.murmur2 over 4", PublishAddress("x"), r'routing_key = "\{partition\}".*x-consistent-hash with'),
        ("kafka.murmur2 over 4", PublishAddress("x", "fixed"), r'routing_key = "\{partition\}"'),
        ("rabbitmq.super_stream over 3", PublishAddress("x"), "or the name of the super stream"),
        ("rabbitmq.consistent_hash over 3", PublishAddress.queue("plain"), "name a queue for each"),
        (None, PublishAddress.queue("out-{partition}"), "the topology does not partition 'out'"),
    ],
)
def test_an_address_that_would_choose_other_partitions_is_refused_with_a_way_out(
    partitioning: str | None, address: PublishAddress, words: str
) -> None:
    with pytest.raises(Misfit, match=words) as caught:
        build_routes({"out": address}, layout_of(partitioning))
    assert caught.value.key == "queues.out"


@pytest.mark.parametrize(
    ("partitioning", "address", "names"),
    [
        (None, PublishAddress.queue("plain"), ["plain"]),
        ("kafka.murmur2 over 1", PublishAddress.queue("plain"), ["plain"]),
        ("kafka.murmur2 over 3", PublishAddress.queue("p.{partition}.q"), ["p.0.q", "p.1.q", "p.2.q", "!p.3.q"]),
        ("rabbitmq.super_stream over 2", PublishAddress.queue("ss"), ["ss-0", "ss-1", "!ss-2"]),
        ("rabbitmq.super_stream over ss-eu,ss-us", PublishAddress.queue("ss"), ["ss-eu", "ss-us"]),
        ("rocketmq.hash over a:2", PublishAddress.queue("q/{partition}"), ["q/a:0", "q/a:1"]),
        ("rabbitmq.super_stream over eu,us", PublishAddress("ss", "{partition}"), ["ss"]),
        ("rabbitmq.consistent_hash over 3", PublishAddress("x"), ["x"]),
    ],
)
def test_each_partition_is_expected_by_name(
    partitioning: str | None, address: PublishAddress, names: list[str]
) -> None:
    route = build_routes({"out": address}, layout_of(partitioning))["out"]
    assert [f"!{each.name}" if each.absent else each.name for each in route.expected] == names


def test_a_wrong_value_is_reported_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "t.bindings").write_text("queue orders: partitioned kafka.murmur2 over 4\n")
    (tmp_path / "b.toml").write_text(
        'topology = "t.bindings"\n[sources.a]\nurl = "amqp://h"\nqueue = "in"\n'
        '[targets.b]\nurl = "amqp://h"\nqueues = { orders = "orders" }\n'
    )
    with pytest.raises(InputError, match=r"\[targets\.b\] queues\.orders: the topology spreads 'orders' over 4"):
        read_config(tmp_path / "b.toml")


def test_more_prefetch_than_amqp_can_ask_for_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.bindings").write_text("queue orders\n")
    (tmp_path / "b.toml").write_text(
        'topology = "t.bindings"\n[sources.a]\nurl = "amqp://h"\nqueue = "in"\nprefetch = 100000\n'
        '[targets.b]\nurl = "amqp://h"\nqueues = { orders = "orders" }\n'
    )
    with pytest.raises(InputError, match="prefetch: must be a whole number, at least 1 and at most 65,535"):
        read_config(tmp_path / "b.toml")
