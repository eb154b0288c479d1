"""Whatever key a publisher writes, every strategy chooses or raises InputError, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given

from bridge.cli import hashstar
from exchange import Binding, Exchange, HashstarError, InputError, Message, Queue, Router, Topology
from exchange.partition.batch import partition_batch
from exchange.partition.hashing.keys import describe_key, serialize_key
from exchange.partition.partitioner import Producer
from exchange.partition.partitioning.key_source import KeySource
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.partitioning.strategies import STRATEGIES
from tests.support.partition_keys import LONG, PARAMETERS, keys, nested, partitioner_for, partitions_for
from tests.support.tiers import examples


def choose(name: str, key: Any) -> None:
    partitioner_for(name).choose(key, partitions_for(name))


def choose_next(name: str, key: Any) -> None:
    Producer(partitioner_for(name), lambda below: below - 1).choose("topic", key, partitions_for(name))


def choose_many(name: str, key: Any) -> None:
    partition_batch(partitioner_for(name), ["x", key], partitions_for(name))


@pytest.mark.parametrize("name", STRATEGIES)
@examples(100, share=20)
@given(key=keys)
def test_a_strategy_chooses_or_raises_a_hashstar_error(name: str, key: Any) -> None:
    for way in (choose, choose_next, choose_many):
        try:
            way(name, key)
        except HashstarError as error:
            # An error that quotes all of a key is a log that a publisher fills.
            assert len(str(error)) < 500  # noqa: PT017


@pytest.mark.parametrize("key", [LONG, -LONG, 2**63, -(2**63) - 1, 10**400, pytest.param(10**5_000, id="endless")])
def test_an_integer_beyond_64_bits_has_no_bytes(key: int) -> None:
    with pytest.raises(InputError, match="does not fit Java's long"):
        serialize_key(key)


@pytest.mark.parametrize("key", [2**63 - 1, -(2**63)])
def test_an_integer_of_64_bits_has_eight_bytes(key: int) -> None:
    assert serialize_key(key) == key.to_bytes(8, signed=True)


def test_a_key_that_cannot_be_written_is_shown_by_its_type() -> None:
    assert describe_key(10**5_000) == "a value of type int"
    assert describe_key(nested(100_000)) == "a value of type list"
    assert len(describe_key("x" * 1_000)) == 80


def partitioned(name: str, key: KeySource) -> Topology:
    partitioning = Partitioning(name + PARAMETERS.get(name, ""), partitions_for(name), key)
    topology = (
        Topology().declare_exchange(Exchange("in", "fanout")).declare_queue(Queue("q", partitioning=partitioning))
    )
    return topology.bind(Binding.to_queue("in", "q"))


BODIES = [
    b"", b"{", b"\xff\xfe", b"[]", b"NaN", b'{"id":null}', b'{"id":NaN}', b'{"id":1e999}', b'{"id":-0.0}', b'{"id":""}',
    b'{"id":"\\ud800"}', b'{"id":true}', b'{"id":%d}' % LONG, b'{"id":-%d}' % LONG, b'{"id":%s}' % (b"9" * 4_000),
    b'{"id":%s}' % (b"9" * 5_000), b'{"id":[1,{"a":[]}]}',
    *[b'{"id":%s%s}' % (b"[" * n, b"]" * n) for n in (50, 330, 480, 900, 20_000)],
]  # fmt: skip


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_route_survives_any_body(name: str) -> None:
    router = Router(partitioned(name, KeySource("body", "/id")))
    for body in BODIES:
        assert router.route(Message("in", "k", body=body)).queues == ("q",)


@pytest.mark.parametrize("name", STRATEGIES)
@examples(40)
@given(key=keys)
def test_a_route_survives_any_header(name: str, key: Any) -> None:
    """Also one that a message does not take: it keeps the mapping, which may change."""
    router = Router(partitioned(name, KeySource("header", "id")))
    headers: dict[str, Any] = {}
    message = Message("in", "k", headers)
    headers["id"] = key
    assert router.route(message).queues == ("q",)


def test_a_key_that_is_too_long_an_integer_decides_nothing_and_says_why() -> None:
    [placement] = (
        Router(partitioned("kafka.murmur2", KeySource("body", "/id")))
        .route(Message("in", "k", body=b'{"id":%d}' % LONG))
        .placements
    )
    assert placement.partition is None
    assert "does not fit Java's long" in placement.rule


@pytest.mark.parametrize("command", [["route"], ["route", "--skip-bad"], ["audit", "--no-spark"]])
def test_the_commands_route_it(tmp_path: Path, command: list[str]) -> None:
    topology, lines = tmp_path / "t.bindings", tmp_path / "lines.jsonl"
    topology.write_text('exchange e: fanout\nqueue q: partitioned kafka.murmur2 over 3 by body "/id"\ne -> q\n')
    messages = [{"exchange": "e", "routing_key": "k", "body": f'{{"id":{n}}}'} for n in (1, LONG)]
    lines.write_text("".join(json.dumps(message) + "\n" for message in messages))
    result = CliRunner().invoke(hashstar, [*command, "-t", str(topology), str(lines)])
    assert result.exit_code == 0, result.output
