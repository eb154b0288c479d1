"""Kafka to Kafka in transactions: whatever is killed, frozen or taken over, nothing arrives twice.

A bridge is killed or frozen in a transaction: at another moment all that it has read may be committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from tests.chaos.daemon import Daemon
from tests.chaos.places import Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scenarios.takeovers import count_readers
from tests.chaos.trial import Trial
from tests.support.waiting import find_limit

FROZEN: Final = 30.0
ARRIVING: Final = 1.0
"""Seconds after which a commit that was under way when the bridge was frozen has arrived."""
KAFKA: Final = "kafka for transactions"


def _flow(trial: Trial, *, alone: bool = True) -> tuple[Daemon, Topic, Topic]:
    source = trial.use(Topic(True, trial.brokers, "source", trial.folder))
    target = trial.use(Topic(True, trial.brokers, "target", trial.folder))
    target.own_id = alone
    trial.put(source, 6_000)
    daemon = trial.bridge(source, target, policy="rate = 300")
    trial.wait_until_flowing(source)
    return daemon, source, target


def _has_open_transaction(topic: Topic) -> bool:
    """Return whether a topic has records of a transaction that has not ended, at which readers of the others wait."""
    end = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    ends = {TopicPartition(topic.name, n): end for n in range(topic.partitions)}
    committed, all_of = (
        [
            answer.result(find_limit()).offset
            for answer in topic.topics.admin.list_offsets(ends, isolation_level=each).values()
        ]
        for each in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    )
    return committed != all_of


def _freeze(trial: Trial, daemon: Daemon, target: Topic) -> None:
    """Freeze a bridge in a transaction."""

    def is_in_transaction() -> bool:
        daemon.suspend()
        trial.let_pass(ARRIVING)
        if not _has_open_transaction(target):
            daemon.resume()
        return daemon.is_frozen

    trial.wait_until(is_in_transaction, "the bridge is frozen in a transaction")


def _kill_bridge(trial: Trial) -> Sequence[Writable]:
    daemon, source, target = _flow(trial)

    def kill() -> None:
        _freeze(trial, daemon, target)
        trial.kill(daemon)
        trial.start(daemon)

    for _ in range(3):
        trial.suffer(kill, lambda: None, shows=False)
    trial.drain(source)
    return [target]


def _pause_kafka(trial: Trial) -> Sequence[Writable]:
    _, source, target = _flow(trial)
    broker = trial.brokers[KAFKA]
    trial.suffer(broker.pause, broker.unpause, seconds=FROZEN)
    trial.drain(source)
    return [target]


def _frozen(trial: Trial) -> Sequence[Writable]:
    daemon, source, target = _flow(trial)

    def freeze() -> None:
        _freeze(trial, daemon, target)
        time.sleep(FROZEN)
        trial.wait_until(lambda: count_readers(source) == 0, "the group has removed its member")

    trial.suffer(freeze, daemon.resume, shows=False)
    trial.drain(source)
    return [target]


def _taken_over(trial: Trial) -> Sequence[Writable]:
    """Freeze the first bridge in its transaction, let a second one do the work, and then let the first continue."""
    daemon, source, target = _flow(trial, alone=False)
    _freeze(trial, daemon, target)
    trial.running.remove(daemon)
    trial.bridge(source, target, policy="rate = 300", name="bridge-2")
    written = trial.count_written()
    began = time.monotonic()
    trial.wait_until(lambda: trial.count_written() > written + 300, "the second bridge does the work")
    trial.result.recovered = time.monotonic() - began
    daemon.resume()
    trial.running.append(daemon)
    trial.drain(source)
    return [target]


def _scenario(variant: str, act: Callable[[Trial], Sequence[Writable]]) -> Scenario:
    return Scenario("exactly-once", variant, [KAFKA], act)


SCENARIOS: Final = [
    _scenario("bridge killed three times", _kill_bridge),
    _scenario("Kafka paused for 30 s", _pause_kafka),
    _scenario("bridge frozen for 30 s", _frozen),
    _scenario("frozen, taken over, and back", _taken_over),
]
