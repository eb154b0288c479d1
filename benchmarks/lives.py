"""The life of messages in the virtual broker's queues, beside the routing that each life begins with.

A life is one message, from its publish until it is acknowledged or gone. The floor is `Router.route` for the same
messages: what a publish costs without queues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.measure import Contestant, microseconds_per, run_rounds, show, time_call
from exchange import Message, Queue, Router, Topology
from exchange.lifecycle.broker import Broker


def lives(quick: bool) -> None:
    """Consumed, expired, over limits, rejected over several hops, given back up to the delivery limit."""
    number = 20_000 if quick else 100_000
    messages = [Message("", "a", body=b"%d" % at) for at in range(number)]
    router = Router(Topology(queues=[Queue("a")]))
    rows = [
        Contestant("Router.route", lambda: microseconds_per(router.route, messages), "floor"),
        _row("consumed and acknowledged", messages, _consume, [Queue("a")]),
        _row("consumed, quorum queue", messages, _consume, [_queue("a", "quorum")]),
        _row("expired, 1 dead letter", messages, _expire, [_queue("a", ttl=10, dead="b"), Queue("b")]),
        _row("dropped, 1 dead letter", messages, _publish, [_queue("a", length=10, dead="b"), _queue("b", length=10)]),
        _row("rejected twice, 2 dead letters", messages, _reject,
             [_queue("a", dead="b"), _queue("b", dead="c"), _queue("c", length=10)]),
        _row("given back, over its limit", messages, _give_back,
             [_queue("a", "quorum", limit=2, dead="c"), _queue("c", length=10)]),
    ]  # fmt: skip
    done = run_rounds(rows, 3 if quick else 5)
    show("lives", f"{number:,} messages through the default exchange", done)
    print("  lives/s: " + ", ".join(f"{row.name} {1e6 / row.cost:,.0f}" for row in done if row.cost))


def _row(
    name: str, messages: list[Message], work: Callable[[Broker, list[Message]], None], queues: list[Queue]
) -> Contestant:
    def measure() -> float:
        broker = Broker(Topology(queues=queues))
        return time_call(lambda: work(broker, messages))[0] / len(messages) * 1e6

    return Contestant(name, measure)


def _queue(
    name: str,
    kind: str = "classic",
    *,
    dead: str | None = None,
    ttl: int | None = None,
    length: int | None = None,
    limit: int | None = None,
) -> Queue:
    given: dict[str, Any] = {"queue-type": kind, "message-ttl": ttl, "max-length": length, "delivery-limit": limit}
    if dead is not None:
        given |= {"dead-letter-exchange": "", "dead-letter-routing-key": dead}
    return Queue(name, arguments={f"x-{key}": value for key, value in given.items() if value is not None})


def _publish(broker: Broker, messages: list[Message]) -> None:
    for message in messages:
        broker.publish(message)


def _consume(broker: Broker, messages: list[Message]) -> None:
    consumer = broker.consume("a", prefetch=10)
    for message in messages:
        broker.publish(message)
        if (delivery := consumer.receive()) is not None:
            broker.ack(delivery)


def _expire(broker: Broker, messages: list[Message]) -> None:
    for message in messages:
        broker.publish(message)
    broker.advance(1)


def _reject(broker: Broker, messages: list[Message]) -> None:
    consumers = [broker.consume(queue, prefetch=10) for queue in ("a", "b")]
    for message in messages:
        broker.publish(message)
        for consumer in consumers:
            if (delivery := consumer.receive()) is not None:
                broker.reject(delivery, requeue=False)


def _give_back(broker: Broker, messages: list[Message]) -> None:
    consumer = broker.consume("a", prefetch=1)
    for message in messages:
        broker.publish(message)
        while (delivery := consumer.receive()) is not None:
            broker.reject(delivery)
