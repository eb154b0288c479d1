"""Count the wrong routes of kombu and FastStream, by themselves and with our adapters.

``python -m tests.support.wrong_routes`` prints the table of docs/adapters.md.

The truth is a recording of RabbitMQ (`tests.recorders.rabbitmq_topics`): which of some hundred patterns match which of
some hundred keys. Each pattern is bound to a queue of its own, each key is published once, through the library's own
API; a wrong route is a queue that misses the message, or gets it without a match.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from importlib.metadata import version
from typing import Any, NamedTuple

from faststream.exceptions import SubscriberNotFound
from faststream.rabbit import ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue
from faststream.rabbit import TestRabbitBroker as StockTestRabbitBroker
from kombu import Connection, Exchange, Producer, Queue

from bindings.adapters.faststream import TestRabbitBroker
from bindings.adapters.kombu import find_broker, register, route_exactly
from exchange import Topology
from tests.recorders import golden
from tests.recorders.rabbitmq_topics import KEYS, PATTERNS

BREAKING = ("*eu",)
"""Patterns that kombu cannot compile."""


class Count(NamedTuple):
    """The result for one library."""

    pairs: int
    missed: int
    surplus: int
    examples: tuple[str, ...] = ()

    @property
    def wrong(self) -> int:
        """Number of pairs of a pattern and a key that were decided wrongly."""
        return self.missed + self.surplus


def truth(keys: Sequence[str]) -> list[set[int]]:
    """Return for each key the numbers of the patterns that match it, as RabbitMQ 4.3 has it."""
    answers = golden.read("rabbitmq-topics-4.3")["answers"]
    return [set(answers[KEYS.index(key)]) for key in keys]


def compare(keys: Sequence[str], routes: Sequence[set[int]], numbers: set[int]) -> Count:
    """Compare the routes of keys with the truth about the patterns of these numbers."""
    missed = surplus = 0
    examples: list[str] = []
    for key, got, all_matching in zip(keys, routes, truth(keys), strict=True):
        wanted = all_matching & numbers
        missed += len(wanted - got)
        surplus += len(got - wanted)
        examples += [f"{PATTERNS[number]!r} misses {key!r}" for number in sorted(wanted - got)]
        examples += [f"{PATTERNS[number]!r} takes {key!r}" for number in sorted(got - wanted)]
    return Count(len(keys) * len(numbers), missed, surplus, tuple(examples))


def kombu_memory_topics(keys: Sequence[str] = KEYS, *, exact: bool) -> Count:
    """Route through kombu's memory transport, by itself or with `route_exactly`."""
    with route_exactly() if exact else nullcontext():
        # kombu makes a broken expression of some patterns, with which every publish to the exchange raises an error.
        numbers = {number for number, pattern in enumerate(PATTERNS) if exact or pattern not in BREAKING}
        return _kombu_topics("memory://", keys, numbers)


def kombu_transport_topics(keys: Sequence[str] = KEYS) -> Count:
    """Route through our own transport of kombu."""
    register()
    find_broker(topology=Topology())
    return _kombu_topics("hashstar://", keys, set(range(len(PATTERNS))))


def _kombu_topics(url: str, keys: Sequence[str], numbers: set[int]) -> Count:
    routes = []
    with Connection(url) as connection:
        channel = connection.channel()
        exchange = Exchange("topics", "topic", durable=False)
        names = {number: f"topics-{number}" for number in sorted(numbers)}
        for number, name in names.items():
            Queue(name, exchange, PATTERNS[number], durable=False)(channel).declare()
        producer = Producer(channel, exchange)
        for key in keys:
            producer.publish("", routing_key=key)
            routes.append({number for number, name in names.items() if channel.queue_purge(name)})
        for name in names.values():
            channel.queue_delete(name)
        channel.exchange_delete("topics")
    return compare(keys, routes, numbers)


def faststream_topics(keys: Sequence[str] = KEYS, *, exact: bool) -> Count:
    """Route through FastStream's TestRabbitBroker, its own or ours."""
    return asyncio.run(_faststream_topics(keys, TestRabbitBroker if exact else StockTestRabbitBroker))


async def _faststream_topics(keys: Sequence[str], kind: Any) -> Count:
    broker = RabbitBroker()
    exchange = RabbitExchange("topics", type=ExchangeType.TOPIC)
    got: set[int] = set()
    # The empty pattern cannot be said: FastStream binds the name of the queue instead.
    numbers = {number for number, pattern in enumerate(PATTERNS) if pattern}

    def subscribe(number: int) -> None:
        @broker.subscriber(RabbitQueue(f"topics-{number}", routing_key=PATTERNS[number]), exchange)
        async def handle(body: str) -> None:
            got.add(number)

    for number in sorted(numbers):
        subscribe(number)
    routes = []
    async with kind(broker) as open_broker:
        for key in keys:
            got.clear()
            with suppress(SubscriberNotFound):
                await open_broker.publish("", routing_key=key, exchange=exchange)
            routes.append(set(got))
    return compare(keys, routes, numbers)


def main() -> None:
    """Print the table of docs/adapters.md, and examples."""
    rows = [
        (
            "kombu",
            "memory and other virtual transports",
            kombu_memory_topics(exact=False),
            kombu_memory_topics(exact=True),
        ),
        ("kombu", "hashstar://", None, kombu_transport_topics()),
        ("faststream", "TestRabbitBroker", faststream_topics(exact=False), faststream_topics(exact=True)),
    ]
    print("| library | release | what | pairs | wrong before | missed, surplus | wrong with hashstar |")
    print("|---|---|---|---|---|---|---|")
    for library, what, before, after in rows:
        old = ("-", "-") if before is None else (f"{before.wrong:,}", f"{before.missed:,}, {before.surplus:,}")
        print(f"| {library} | {version(library)} | {what} | {after.pairs:,} | {old[0]} | {old[1]} | {after.wrong:,} |")
        for example in () if before is None else before.examples[:: max(1, len(before.examples) // 20)]:
            print(f"    {example}", file=sys.stderr)


if __name__ == "__main__":
    main()
