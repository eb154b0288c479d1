"""The facts about releases whose source is live brokers: each broker that is here behaves as the table says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pika
import pika.exceptions
import pytest

from bindings.upgrade.facts import FACTS
from bindings.upgrade.releases import release_of
from bindings.upgrade.upgrade import upgrade_topology
from exchange import Binding, Exchange, Policy, Queue, Topology, Typed
from tests.recorders.rabbitmq_arguments import answer_to_policy
from tests.support.amqp_wire import all_types_in_pika
from tests.support.differential import manage

if TYPE_CHECKING:
    from collections.abc import Callable

    from pika.adapters.blocking_connection import BlockingChannel

    from tests.support.servers import Server

pytestmark = pytest.mark.live


def holds(fact: str, server: Server) -> bool:
    """Return whether the table has a fact for the release of a server."""
    [since] = [each.since for each in FACTS if each.id == fact]
    return release_of(server.version).numbers >= since


def code_of(server: Server, act: Callable[[BlockingChannel], Any]) -> int | None:
    """Return the code with which a broker closes the channel or connection on an action; None if it does not."""
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    try:
        act(connection.channel())
    except (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker) as error:
        return int(error.reply_code)
    finally:
        if connection.is_open:
            connection.close()
    return None


@pytest.fixture
def name() -> str:
    return f"hashstar-upgrade-{uuid4().hex[:8]}"


def test_what_is_foretold_to_be_refused_is_what_the_broker_refuses(rabbitmq_servers: list[Server], name: str) -> None:
    """Of parts that 3.10 accepts: queues, bindings and policies, each asked of the broker itself."""
    queues = [
        Queue(name, arguments=arguments)
        for arguments in (
            {}, {"x-queue-mode": "lazy"}, {"x-queue-version": 1}, {"x-queue-version": 2},
            {"x-queue-master-locator": "min-masters"}, {"x-max-priority": 5},
        )
    ]  # fmt: skip
    policies = [
        Policy(name, f"^{name}$", definition, "queues")
        for definition in (
            {"ha-mode": "all"}, {"queue-master-locator": "min-masters"}, {"max-length": 5}, {"queue-mode": "lazy"},
        )
    ]  # fmt: skip
    for server in rabbitmq_servers:
        old, new = release_of("3.10"), release_of(server.version)

        def foretold(topology: Topology, old: Any = old, new: Any = new) -> bool:
            sightings = upgrade_topology(topology, old, new).sightings
            return any(sighting.fact.id in ("HSU001", "HSU004") for sighting in sightings)

        for queue in queues:

            def declare(channel: BlockingChannel, queue: Queue = queue) -> None:
                channel.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))
                channel.queue_delete(queue.name)

            refused = code_of(server, declare) is not None
            assert refused is foretold(Topology(queues=[queue])), (server.version, queue)
        for policy in policies if server.management_url is not None else ():
            refused = answer_to_policy(server, policy) is not None
            assert refused is foretold(Topology(policies=[policy])), (server.version, policy)


def test_transient_queues_that_are_not_exclusive_are_refused(rabbitmq_servers: list[Server], name: str) -> None:
    """Where the feature is denied, as it is by default since 4.3, but for packages that permit it."""

    def declare(channel: BlockingChannel) -> None:
        channel.queue_declare(name, durable=False)
        channel.queue_delete(name)

    for server in rabbitmq_servers:
        if server.management_url is None:
            pytest.skip("needs the management API")
        denied = False
        if holds("HSU101", server):  # the API came between 3.10 and 4.0
            features = manage(server, "GET", "deprecated-features")
            denied = any(
                f["name"] == "transient_nonexcl_queues" and f["deprecation_phase"] == "denied_by_default"
                for f in features
            )
        assert code_of(server, declare) == (541 if denied else None), server.version
        assert holds("HSU005", server) or not denied


@pytest.mark.parametrize("failed", [True, False], ids=["reject", "nack"])
def test_a_message_that_comes_back_more_than_20_times_is_dropped(
    rabbitmq_servers: list[Server], name: str, failed: bool
) -> None:
    """Since 4.3 only if its deliveries have failed."""
    for server in rabbitmq_servers:
        connection = pika.BlockingConnection(pika.URLParameters(server.url))
        channel = connection.channel()
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
        give_back = channel.basic_reject if failed else channel.basic_nack
        try:
            channel.confirm_delivery()
            channel.basic_publish("", name, b"again")
            returns = 0
            while returns <= 30:
                method = get(channel, name)
                if method is None:
                    break
                give_back(method.delivery_tag)
                returns += 1
            counts = holds("HSU007", server) and (failed or not holds("HSU016", server))
            assert returns == (21 if counts else 31), server.version
        finally:
            channel.queue_delete(name)
            connection.close()


def get(channel: BlockingChannel, queue: str) -> Any:
    """Return the delivery of the next message; None if none comes."""
    for _ in range(20):
        method, _, _ = channel.basic_get(queue)
        if method is not None:
            return method
        time.sleep(0.05)
    return None


@pytest.mark.parametrize(
    ("fact", "wanted", "sent"),
    [("HSU011", 1, 1.0), ("HSU011", 1.0, 1), ("HSU012", Typed("timestamp", 5000), Typed("timestamp", 5000))],
)
def test_numbers_in_headers_no_longer_equal_those_of_another_kind(
    rabbitmq_servers: list[Server], name: str, fact: str, wanted: Any, sent: Any
) -> None:
    topology = Topology([Exchange(name, "headers")], [Queue(name)], [Binding.to_queue(name, name, "", {"h": wanted})])
    for server in rabbitmq_servers:
        with all_types_in_pika():
            connection = pika.BlockingConnection(pika.URLParameters(server.url))
            channel = connection.channel()
            channel.queue_declare(name, durable=True)
            channel.exchange_declare(name, "headers", durable=True)
            channel.queue_bind(name, name, "", {"h": wanted})
            channel.confirm_delivery()
            properties = pika.BasicProperties(headers={"h": sent})
            try:
                channel.basic_publish(name, "", b"", properties, mandatory=True)
                routed = True
            except pika.exceptions.UnroutableError:
                routed = False
            channel.exchange_delete(name)
            channel.queue_delete(name)
            connection.close()
        assert routed is not holds(fact, server), server.version
    [vhost] = [upgrade_topology(topology, release_of("3.10"), release_of("4.3"))]
    assert fact in {sighting.fact.id for sighting in vhost.sightings if sighting.parts}


def test_unknown_exchange_types_are_answered_as_the_table_says(rabbitmq_servers: list[Server], name: str) -> None:
    for server in rabbitmq_servers:
        unknown = code_of(server, lambda channel: channel.exchange_declare(name, "x-nothing"))
        assert unknown == (406 if holds("HSU101", server) else 503), server.version


def test_a_global_prefetch_is_one_of_each_consumer(rabbitmq_servers: list[Server], name: str) -> None:
    for server in rabbitmq_servers:
        connection = pika.BlockingConnection(pika.URLParameters(server.url))
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        delivered: list[Any] = []
        channel.confirm_delivery()
        for _ in range(6):
            channel.basic_publish("", name, b"")
        channel.basic_qos(prefetch_count=2, global_qos=True)
        for _ in range(2):
            channel.basic_consume(name, lambda *delivery, into=delivered: into.append(delivery))
        connection.process_data_events(1)
        channel.queue_delete(name)
        connection.close()
        assert len(delivered) == (4 if holds("HSU104", server) else 2), server.version
