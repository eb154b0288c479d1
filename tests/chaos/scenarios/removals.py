"""A queue or an exchange of RabbitMQ is deleted under a bridge, and declared again later.

What is in a queue when an operator deletes it is gone by the operator's hand. So all of the first half has arrived and
was taken out before, and the second half comes while nothing is there to take it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tests.chaos.places import Queue, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

__all__ = ["SCENARIOS"]

HALF: Final = 1_000
GONE: Final = 20.0
"""Seconds until it is declared again; in CI, until that is visible."""


def _queues(trial: Trial) -> tuple[Queue, Queue]:
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder, heartbeat=None))
    return source, trial.use(Queue("quorum", trial.brokers, "target", trial.folder, heartbeat=None))


def _gone(trial: Trial) -> float:
    return 0.0 if trial.short else GONE


def _source_queue(trial: Trial) -> Sequence[Writable]:
    source, target = _queues(trial)
    trial.put(source, HALF)
    trial.bridge(source, target)
    trial.wait_for_written(HALF)
    trial.drain(source)

    def remake() -> None:
        source.make()
        trial.put(source, HALF)

    trial.suffer(source.delete_queue, remake, seconds=_gone(trial))
    trial.drain(source)
    return [target]


def _target(trial: Trial, delete: Callable[[Queue], None], *, through_exchange: bool) -> Sequence[Writable]:
    source, target = _queues(trial)
    target.through_exchange = through_exchange
    trial.put(source, HALF)
    trial.bridge(source, target, dead_letters=True)
    trial.wait_for_written(HALF)
    trial.drain(source)
    trial.collect(target)

    def begin() -> None:
        delete(target)
        trial.put(source, HALF)

    trial.suffer(begin, target.make, seconds=_gone(trial))
    trial.drain(source)
    return [target]


def _target_queue(trial: Trial) -> Sequence[Writable]:
    """Delete a queue whose exchange stays without a binding, so that the broker returns every message."""
    return _target(trial, Queue.delete_queue, through_exchange=True)


def _target_queue_itself(trial: Trial) -> Sequence[Writable]:
    """Delete a queue that is published to by its name, which is then the routing key of all that arrives."""
    trial.key_of = lambda _: "key.0"
    trial.keys = 1
    return _target(trial, Queue.delete_queue, through_exchange=False)


def _target_exchange(trial: Trial) -> Sequence[Writable]:
    return _target(trial, Queue.delete_exchange, through_exchange=True)


SCENARIOS: Final = [
    Scenario("delete", "source queue", ["rabbitmq"], _source_queue, short=True),
    Scenario("delete", "target queue behind an exchange", ["rabbitmq"], _target_queue, short=True),
    Scenario("delete", "target queue by its name", ["rabbitmq"], _target_queue_itself, short=True),
    Scenario("delete", "target exchange", ["rabbitmq"], _target_exchange, short=True),
]
