"""A queue behind an exchange is away while the exchange routes other keys, for longer than ``unrouted_after``.

Its messages come slowly, one of a key in some seconds, so that each is tried alone. What was routed before waits until
the queue is back, whatever else is routed meanwhile; only a key that never was becomes a dead letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from tests.chaos.places import Queue, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

KEYS: Final = 10
ROUNDS: Final = 20
"""Number of messages of each key while the queue is away."""
EVERY: Final = 2.5
EVERY_SHORT: Final = 0.2
"""Seconds between messages of one key. 20 take longer than ``unrouted_after``, 30 s by default and 1 s in CI."""


def _queue_away(gone: int, trial: Trial, *, reloads: bool = False) -> Sequence[Writable]:
    """Delete the queue of the first ``gone`` keys, and declare it again; the bridge may reload after each message."""
    trial.keys = KEYS
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder, exchange_type="topic"))
    others = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    target.more = 'unrouted_after = "1 s"\n' if trial.short else ""

    def bind(queue: Queue, first: int, stop: int) -> None:
        channel = target.open_channel()
        for key in range(first, stop):
            channel.queue_bind(queue.name, target.name, f"key.{key}")
        channel.queue_unbind(queue.name, target.name, "key.#")

    bind(target, 0, gone)
    bind(others, gone, KEYS)
    daemon = trial.bridge(source, target)
    trial.put(source, 2 * KEYS)
    trial.wait_for_written(2 * KEYS)
    trial.drain(source)
    trial.collect(target)

    def delete() -> None:
        target.delete_queue()
        source.put([("nowhere", b"wrong")])
        for _ in range(ROUNDS):
            trial.put(source, KEYS)
            if reloads:
                daemon.reload()
            trial.let_pass(EVERY_SHORT if trial.short else EVERY)

    def make() -> None:
        target.make()
        bind(target, 0, gone)

    trial.suffer(delete, make)
    trial.drain(source)
    trial.bound = None if reloads else 0  # no connection was lost
    trial.faults += ROUNDS if reloads else 0
    trial.expected_dead = lambda dead: dead == [b"wrong"]
    return [target, others]


SCENARIOS: Final = [
    Scenario("unrouted", "one key, 20 messages in 50 s", ["rabbitmq"], partial(_queue_away, 1)),
    Scenario("unrouted", "one key, reloads meanwhile", ["rabbitmq"], partial(_queue_away, 1, reloads=True)),
    Scenario("unrouted", "five keys behind a shared exchange", ["rabbitmq"], partial(_queue_away, 5), short=True),
]
