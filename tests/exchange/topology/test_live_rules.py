"""RabbitMQ's rules for declaring, binding and deleting: a live broker accepts and refuses what the engine does."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from exchange import Binding, Destination, Exchange, Queue, Topology
from exchange.entities.releases import find_profile
from exchange.errors import BrokerError
from tests.support import topologies
from tests.support.amqp_wire import all_types_in_pika
from tests.support.differential import manage

if TYPE_CHECKING:
    from tests.support.servers import Server

STEPS = int(os.environ.get("HASHSTAR_LIVE_STEPS", "600"))

TYPES = ("direct", "fanout", "topic", "headers", "x-random", "x-local-random", "x-recent-history", "x-nonsense",
         "x-consistent-hash", "x-modulus-hash")  # fmt: skip
SOME = ("hashstar-a", "hashstar-b", "hashstar-c", "hashstar-d", "hashstar-a", "hashstar-b", "hashstar-c")
EXCHANGES = (*SOME, "", "amq.topic", "amq.nothing", "hashstar-\n-e")
QUEUES = (*SOME, "amq.nothing")  # pika waits for ever for the declaration of a name that the broker strips

KEYS_OF_RINGS = ("1", "+2", "-1", "10000", "10001", " 1", "1_0", '"\\\n')

Operation = tuple[str, tuple[Any, ...], dict[str, Any], Callable[[Any], object]]


@pytest.mark.live
@pytest.mark.timeout(0)  # a full run takes long, and longer on a busy machine
def test_a_live_broker_accepts_and_refuses_the_same(rabbitmq_servers: list[Server]) -> None:
    """For random operations, the reply code and text are the same, and so are exchanges and bindings in the end."""
    with all_types_in_pika():
        for server in rabbitmq_servers:
            _compare(server, Random(2026))


def _compare(server: Server, rng: Random) -> None:
    import pika
    import pika.exceptions

    profile = find_profile(server.version)
    topology = Topology(profile=profile)
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    channel = connection.channel()
    try:
        for _ in range(STEPS):
            method, arguments, options, on_broker = _operation(rng, topology)
            expected = ""
            try:
                after = getattr(topology, method)(*arguments, **options)
            except BrokerError as error:
                after, expected = topology, str(error)
            try:
                on_broker(channel)
                answer = ""
            except pika.exceptions.ChannelClosedByBroker as error:
                answer = f"{error.reply_code} {error.reply_text}"
                channel = connection.channel()
            except pika.exceptions.ConnectionClosedByBroker as error:
                answer = f"{error.reply_code} {error.reply_text}"
                connection = pika.BlockingConnection(pika.URLParameters(server.url))
                channel = connection.channel()
            if answer == "541 INTERNAL_ERROR":  # an answer without details
                expected = expected.partition(" - ")[0]
            assert answer == expected, f"RabbitMQ {server.version}: {method}{arguments}{options} of {topology}"
            topology = after
        _compare_what_is_left(server, topology, channel)
    finally:
        if connection.is_closed:
            connection = pika.BlockingConnection(pika.URLParameters(server.url))
        channel = connection.channel()
        for name in {*SOME, "hashstar--e"}:
            channel.exchange_delete(name)
            channel.queue_delete(name)
        connection.close()


def _compare_what_is_left(server: Server, topology: Topology, channel: Any) -> None:
    names = {name for name in topology.exchanges if name.startswith("hashstar-")}
    if server.management_url is None:
        for name in names:
            channel.exchange_declare(name, passive=True)
        return
    listed = [exchange["name"] for exchange in manage(server, "GET", "exchanges/%2F")]
    assert {name for name in listed if name.startswith("hashstar-")} == names
    # Without their arguments, since JSON has no types of them; their number is compared.
    there = Counter(
        (binding["source"], binding["destination_type"], binding["destination"], binding["routing_key"])
        for binding in manage(server, "GET", "bindings/%2F")
        if binding["source"] and "hashstar-" in binding["source"] + binding["destination"]
    )
    assert there == Counter(
        (b.source, *b.destination, b.routing_key)
        for b in topology.bindings
        if "hashstar-" in b.source + b.destination.name
    )


def _operation(rng: Random, topology: Topology) -> Operation:
    return rng.choice((_declare_exchange, _declare_queue, _bind, _bind, _bind, _unbind, _unbind, _delete))(
        rng, topology
    )


def _declare_exchange(rng: Random, topology: Topology) -> Operation:
    arguments: dict[str, Any] = {}
    if rng.random() < 0.4:
        arguments["alternate-exchange"] = rng.choice(("hashstar-a", "hashstar-b", 1, True))
    if rng.random() < 0.2:
        arguments["x-recent-history-length"] = rng.choice((1, 0, -1, "1"))
    name, kind = rng.choice(EXCHANGES), rng.choice(TYPES)
    if kind == "x-consistent-hash" and rng.random() < 0.5:
        arguments["hash-header"] = rng.choice(("h", "h", "h", "", b"h", 1))
    if kind == "x-consistent-hash" and rng.random() < 0.5:
        arguments["hash-property"] = rng.choice(("message_id", "message_id", "timestamp", "priority", "", None))
    old = topology.exchanges.get(name)
    flags = {"durable": rng.random() < 0.8, "auto_delete": rng.random() < 0.3, "internal": rng.random() < 0.1}
    if old is not None and rng.random() < 0.7:
        kind, flags = old.type, {"durable": old.durable, "auto_delete": old.auto_delete, "internal": old.internal}
    exchange = Exchange(name, kind, **flags, arguments=arguments)
    return (
        "declare_exchange", (exchange,), {},
        lambda channel: channel.exchange_declare(name, kind, **flags, arguments=arguments),
    )  # fmt: skip


def _declare_queue(rng: Random, topology: Topology) -> Operation:
    arguments: dict[str, Any] = {}
    if rng.random() < 0.3:
        arguments["x-max-length"] = rng.choice((1, 2))
    if rng.random() < 0.3:
        arguments["x-queue-type"] = rng.choice(("classic", "quorum"))
    if rng.random() < 0.1:
        arguments["x-dead-letter-exchange"] = "hashstar-a"
    name = rng.choice(QUEUES)
    queue = Queue(name, arguments=arguments)
    return (
        "declare_queue", (queue,), {},
        lambda channel: channel.queue_declare(name, durable=True, arguments=arguments),
    )  # fmt: skip


def _binding(rng: Random, topology: Topology) -> Binding:
    present = list(topology.bindings)
    if present and rng.random() < 0.3:
        return rng.choice(present)
    kind = rng.choice(("queue", "exchange"))
    destination = Destination(kind, rng.choice(EXCHANGES if kind == "exchange" else QUEUES))  # type: ignore[arg-type]
    key = rng.choice(("", "", "a.*", "#.#.#", "#.a.#.b.#", *KEYS_OF_RINGS))
    arguments = {"x-match": rng.choice(("all", "any", "some", 1))} if rng.random() < 0.3 else {}
    if rng.random() < 0.2:
        arguments["h"] = rng.choice(topologies.VALUES)
    return Binding.to_queue(rng.choice(EXCHANGES), "", key, arguments)._replace(destination=destination)


def _on_binding(verb: str, binding: Binding) -> Operation:
    def on_broker(channel: Any) -> object:
        source, (kind, name), key, arguments = binding
        return getattr(channel, f"{kind}_{verb}")(name, source, key, dict(arguments))

    return verb, (binding,), {}, on_broker


def _bind(rng: Random, topology: Topology) -> Operation:
    return _on_binding("bind", _binding(rng, topology))


def _unbind(rng: Random, topology: Topology) -> Operation:
    return _on_binding("unbind", _binding(rng, topology))


def _delete(rng: Random, topology: Topology) -> Operation:
    if rng.random() < 0.5:
        name = rng.choice(QUEUES)
        return "delete_queue", (name,), {}, lambda channel: channel.queue_delete(name)
    name, if_unused = rng.choice(EXCHANGES), rng.random() < 0.5
    return (
        "delete_exchange", (name,), {"if_unused": if_unused},
        lambda channel: channel.exchange_delete(name, if_unused=if_unused),
    )  # fmt: skip
