"""Recordings made by hand, and drawn at random."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from bindings.sources.recording.file import format_recording
from bindings.sources.recording.model import (
    ACCEPTED,
    RECORDED,
    RecordedAnswer,
    RecordedClient,
    RecordedPublishing,
    RecordedRequest,
    Recording,
)
from exchange import Exchange, Profile, Queue, Topology, Typed
from exchange.amqp.methods import METHODS

NOW = "2026-05-01T12:00:00Z"
SHOP = RecordedClient("Pika Python Client Library", "1.3.2", "Python", "shop")
DEFAULTS = {"shortstr": "", "bit": False, "table": {}}


def request(
    method: str,
    *,
    client: RecordedClient = SHOP,
    vhost: str = "/",
    count: int = 1,
    answer: RecordedAnswer | None = ACCEPTED,
    **given: Any,
) -> RecordedRequest:
    """Return a request with these arguments, ``is_global`` for global, and the usual ones for the others."""
    given["global"] = given.pop("is_global", False)
    kinds = {**dict(METHODS[method].arguments), "prefetch_count": "short", "prefetch_global": "bit"}
    arguments = {name: given.get(name, DEFAULTS.get(kinds[name], 0)) for name in RECORDED[method]}
    answers = Counter[RecordedAnswer]() if answer is None else Counter({answer: count})
    return RecordedRequest(client, vhost, method, arguments, NOW, NOW, count, answers)


def publishing(
    exchange: str, *, client: RecordedClient = SHOP, vhost: str = "/", size: int = 10, messages: int = 1
) -> RecordedPublishing:
    return RecordedPublishing(client, vhost, exchange, False, False, NOW, NOW, messages, size)


def recording(*rows: RecordedRequest | RecordedPublishing, broker: str = "RabbitMQ 3.10.8") -> Recording:
    made = Recording("127.0.0.1:5672", NOW, NOW, [broker])
    made.requests = [row for row in rows if isinstance(row, RecordedRequest)]
    made.publishing = [row for row in rows if isinstance(row, RecordedPublishing)]
    made.connections = Counter({row.client: 1 for row in rows})
    made.opened = len(made.connections)
    return made


def text_of(made: Recording) -> str:
    return b"".join(format_recording(made)).decode()


QUEUES = ("a", "b", "c", "")
EXCHANGES = ("x", "y", "amq.topic", "")
TABLES: tuple[dict[str, Any], ...] = (
    {}, {}, {"x-queue-type": "quorum"}, {"x-queue-type": "stream"}, {"x-queue-type": "classic"},
    {"x-message-ttl": 60_000}, {"x-message-ttl": Typed("signedint", 60_000)}, {"x-message-ttl": -1},
    {"x-queue-mode": "lazy"}, {"x-queue-version": 1}, {"x-queue-version": 2}, {"x-max-priority": 5},
    {"x-queue-master-locator": "min-masters"}, {"x-dead-letter-exchange": "x"}, {"x-dead-letter-routing-key": "k"},
    {"x-queue-type": "quorum", "x-delivery-limit": 5}, {"x-max-age": "1h", "x-delivery-limit": 5},
    {"x-queue-type": "quorum", "x-max-priority": 5}, {"x-own": "argument"}, {"x-queue-type": "unknown"},
)  # fmt: skip


def random_topology(rng: Random, profile: Profile) -> Topology:
    """Draw what is there before clients ask: some queues and exchanges of the names that they use."""
    names = [name for name in QUEUES if name and rng.random() < 0.3]
    queues = [Queue(name, rng.random() < 0.8, arguments=rng.choice(TABLES)) for name in names]
    exchange = Exchange("x", rng.choice(["topic", "fanout"]), internal=rng.random() < 0.3)
    return Topology([exchange] if rng.random() < 0.5 else [], queues, profile=profile)


def random_recording(rng: Random, size: int = 40) -> Recording:
    """Draw what clients ask: declarations, bindings, consumers, messages, that contradict each other at times."""
    return recording(*(_random_row(rng) for _ in range(size)))


def _random_row(rng: Random) -> RecordedRequest | RecordedPublishing:
    queue, exchange = rng.choice(QUEUES), rng.choice(EXCHANGES)

    def yes() -> bool:
        return rng.random() < 0.3

    declared: dict[str, Any] = {"durable": not yes(), "auto_delete": rng.random() < 0.1, "passive": rng.random() < 0.1}
    match rng.randrange(10):
        case 0 | 1 | 2:
            exclusive = queue == "" or rng.random() < 0.15
            tables = TABLES if queue else TABLES[:-1]  # an unknown type without a name fails in each release's own way
            return request("queue.declare", queue=queue, **declared, exclusive=exclusive, arguments=rng.choice(tables))
        case 3:
            kind = rng.choice(["topic", "fanout", "headers", "direct"])
            return request("exchange.declare", exchange=exchange, type=kind, **declared, internal=yes())
        case 4:
            return request("queue.bind", queue=queue, exchange=exchange, routing_key=rng.choice(["k", "#.a.#.b.#", ""]))
        case 5:
            return request("exchange.bind", destination=exchange, source=rng.choice(EXCHANGES), routing_key="k")
        case 6:
            return request("basic.qos", prefetch_count=rng.choice([0, 5]), is_global=yes())
        case 7:
            arguments = rng.choice([{}, {}, {"x-priority": 5}, {"x-priority": "high"}, {"x-stream-offset": "first"}])
            count, shared = rng.choice([(0, False), (5, False), (5, True)])
            return request(
                "basic.consume", queue=queue, no_ack=yes(), arguments=arguments, prefetch_count=count,
                prefetch_global=shared,
            )  # fmt: skip
        case 8:
            return publishing(exchange)
        case _:
            name = rng.choice(["basic.get", "queue.purge", "queue.delete"])
            return request(name, queue=queue, if_unused=yes(), if_empty=yes())
