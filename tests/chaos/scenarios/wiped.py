"""Brokers of Kafka that lose all their data: a new cluster answers at the same address, with topics of the same names.

What was in the topics is gone, and so is where the group was; all that is put from then on must arrive, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaException

from tests.chaos.places import Queue, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scenarios.topics import read_epoch, require_lower_epoch
from tests.chaos.trial import Trial

HALF: Final = 1_200
RESTARTS: Final = 2
"""Number of restarts before, each of which raises the epochs of leaders; a new cluster counts them from 0 again."""


def _source_wiped(
    make: Callable[[Trial, Topic], None], trial: Trial, *, restarts: int = 0, **settings: int | str
) -> Sequence[Writable]:
    source = trial.use(Topic(False, trial.brokers, "source", trial.folder))
    source.settings |= {name.replace("_", "."): value for name, value in settings.items()}
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    broker = trial.brokers["kafka"]
    daemon = trial.bridge(source, target)
    trial.wait_until(lambda: daemon.is_ready, "the bridge reads")
    trial.let_pass(3.0)  # it has partitions
    trial.put(source, HALF)
    trial.wait_for_written(HALF)
    trial.drain(source)
    for _ in range(restarts):
        broker.restart()
    trial.wait_until_ready()
    old = read_epoch(source)
    trial.faults += 1
    broker.wipe()
    source.forget()
    make(trial, source)
    trial.put(source, HALF)
    if restarts:
        require_lower_epoch(trial, source, old)
    trial.wait_for_written(2 * HALF)
    trial.wait_until_ready()
    trial.drain(source)
    return [target]


def _at_once(_: Trial, source: Topic) -> None:
    """Make the topic before any client asks for it."""
    source.make()


def _when_group_has_nothing(trial: Trial, source: Topic) -> None:
    """Make the topic as soon as the bridge is alone in a group that was assigned nothing: nobody asks for it again."""

    def has_nothing() -> bool:
        if any(
            answer is not None and "no topic" in answer[1] for answer in [each.get("/ready") for each in trial.running]
        ):
            return True
        try:
            groups: list[Any] = source.topics.admin.list_groups(source.name, 5)
        except KafkaException:
            return False
        return any(each.id == source.name and each.state == "Stable" for each in groups)

    trial.wait_until(has_nothing, "the bridge is in its group again")
    source.make()


def _when_noticed(trial: Trial, source: Topic) -> None:
    """Make the topic when the bridge has noticed that it is not there."""
    trial.wait_for_reason("there is no topic")
    source.make()


KINDS: Final = ("rabbitmq", "kafka")
SCENARIOS: Final = [
    Scenario("wiped-kafka", "source, made anew at once", KINDS, partial(_source_wiped, _at_once)),
    Scenario("wiped-kafka", "source, of high epochs", KINDS, partial(_source_wiped, _at_once, restarts=RESTARTS)),
    Scenario(
        "wiped-kafka",
        "source, while its group is assigned",
        KINDS,
        partial(_source_wiped, _when_group_has_nothing, topic_metadata_refresh_interval_ms=600_000),
    ),
    Scenario("wiped-kafka", "source, when that was noticed", KINDS, partial(_source_wiped, _when_noticed)),
    Scenario(
        "wiped-kafka",
        "source, read from the latest on",
        KINDS,
        partial(_source_wiped, _at_once, auto_offset_reset="latest"),
    ),
]
