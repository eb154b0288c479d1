"""A queue or an exchange of RabbitMQ is deleted under a bridge, and declared again later.

What is in a queue when an operator deletes it is gone by the operator's hand. So all of the first half has arrived and
was taken out before, and the second half comes while nothing is there to take it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tests.chaos.places import Queue, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial

HALF: Final = 1_000
LARGE: Final = "key.0"
PADDING: Final = b" " * 3_000
GONE: Final = 20.0
"""Seconds until it is declared again; in CI, until that is visible."""


def _queues(trial: Trial) -> tuple[Queue, Queue]:
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    return source, trial.use(Queue("quorum", trial.brokers, "target", trial.folder))


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


def _target(
    trial: Trial,
    delete: Callable[[Queue], None],
    again: Callable[[Queue], object] = Queue.make,
    *,
    through_exchange: bool,
) -> Sequence[Writable]:
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

    trial.suffer(begin, lambda: again(target), seconds=_gone(trial))
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


def _internal_exchange(trial: Trial) -> Sequence[Writable]:
    """Declare the exchange anew as an internal one, to which no client may publish, until it is as it was."""

    def make_internal(target: Queue) -> None:
        target.delete_exchange()
        target.open_channel().exchange_declare(target.name, "fanout", durable=True, internal=True)

    def make_again(target: Queue) -> None:
        target.delete_exchange()
        target.make()

    return _target(trial, make_internal, make_again, through_exchange=True)


def _dead_letters(trial: Trial) -> Sequence[Writable]:
    """Delete the queue of dead letters while all messages of a key become such: they wait, and the others pass."""
    trial.body_of = bytes.strip
    limit = {"max.message.bytes": str(len(PADDING))}
    source = trial.use(Queue("quorum", trial.brokers, "source", trial.folder))
    dead = trial.use(Queue("classic", trial.brokers, "source", trial.folder))
    target = trial.use(Topic(False, trial.brokers, "target", trial.folder, config=limit))

    def put() -> None:
        source.put([(key, body + PADDING if key == LARGE else body) for key, body in trial.numbers(HALF)])

    def take_dead() -> None:
        trial.arrived += [(LARGE, body.strip()) for _, body in dead.arrivals()]

    def begin() -> None:
        dead.delete_queue()
        put()

    def end() -> None:
        dead.make()
        put()

    put()
    trial.bridge(source, target, dead_letters=False, rest=f"[dead_letters]\n{dead.table()}")
    trial.drain(source)
    take_dead()
    trial.suffer(begin, end, seconds=_gone(trial))
    trial.drain(source)
    trial.stop()
    take_dead()
    return [target]


SCENARIOS: Final = [
    Scenario("delete", "source queue", ["rabbitmq"], _source_queue, short=True),
    Scenario("delete", "target queue behind an exchange", ["rabbitmq"], _target_queue, short=True),
    Scenario("delete", "target queue by its name", ["rabbitmq"], _target_queue_itself, short=True),
    Scenario("delete", "target exchange", ["rabbitmq"], _target_exchange, short=True),
    Scenario("delete", "target exchange, declared anew as internal", ["rabbitmq"], _internal_exchange, short=True),
    Scenario("delete", "queue of dead letters", ["rabbitmq", "kafka"], _dead_letters, short=True),
]
