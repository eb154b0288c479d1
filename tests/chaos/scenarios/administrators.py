"""What administrators of Kafka change beside a bridge: rights, partitions of its source, what is kept.

Each was thought of by someone who had read the guide only, and is in no list of faults that were found.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined]

from tests.chaos.places import PARTITIONS, Queue, Topic, Writable
from tests.chaos.scenarios.pauses import let_flow, place
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import Trial
from tests.support.waiting import find_limit

COUNT: Final = 1_000
WITHOUT: Final = 30.0
"""Seconds without a right; in CI, until that is visible."""


def _right(side: str, operation: AclOperation, what: ResourceType, trial: Trial) -> Sequence[Writable]:
    """Take away a right to the topic, or to the group of its name, and give it back."""
    source_kind, target_kind = ("kafka", "rabbitmq") if side == "source" else ("rabbitmq", "kafka")
    source, target = place(trial, source_kind, "source"), place(trial, target_kind, "target")
    topic = source if side == "source" else target
    assert isinstance(topic, Topic)
    let_flow(trial, source, target)
    taken = ExitStack()
    trial.at_end(taken.close)
    trial.suffer(
        lambda: taken.enter_context(topic.topics.not_allowed(topic.name, operation, what)), taken.close,
        seconds=0.0 if trial.short else WITHOUT, meanwhile=partial(trial.wait_for_reason, "by an ACL"),
    )  # fmt: skip
    trial.drain(source)
    return [target]


def _more_partitions(trial: Trial) -> Sequence[Writable]:
    """Add partitions to the source: what producers write there at once is read from its beginning."""
    source = trial.use(Topic(False, trial.brokers, "source", trial.folder))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    trial.put(source, COUNT)
    trial.bridge(source, target)
    trial.wait_for_written(COUNT)
    trial.drain(source)
    source.add_partitions(2 * PARTITIONS)
    trial.put(source, COUNT)
    trial.faults += 1
    trial.wait_for_written(2 * COUNT)
    trial.drain(source)
    return [target]


def _deleted_records(trial: Trial) -> Sequence[Writable]:
    """Delete records that wait while there is no bridge: they are counted, and the others are read."""
    source = trial.use(Topic(False, trial.brokers, "source", trial.folder))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    daemon = trial.bridge(source, target)
    trial.put(source, COUNT)
    trial.wait_for_written(COUNT)
    trial.drain(source)
    trial.stop()
    trial.put(source, COUNT)
    trial.collect(target)
    records = source.topics.read(source.name, 2 * COUNT)
    deleted = [each for each in records if int(each.value()) < COUNT + COUNT // 2]
    ends = dict.fromkeys(range(PARTITIONS), 0)
    for each in deleted:
        ends[each.partition()] = max(ends[each.partition()], each.offset() + 1)
    asked = [TopicPartition(source.name, number, end) for number, end in ends.items() if end]
    for future in source.topics.admin.delete_records(asked).values():
        future.result(find_limit())
    gone = [each for each in deleted if int(each.value()) >= COUNT]
    trial.arrived += [(each.key().decode(), each.value()) for each in gone]  # by the administrator's hand
    trial.start(daemon)
    trial.wait_for_written(COUNT - len(gone))
    trial.drain(source)
    counted = sum(trial.metric("hashstar_vanished_messages_total"))
    trial.require(counted == len(gone), f"{counted:.0f} records count as removed unread, {len(gone)} were")
    trial.bound = 0
    return [target]


RIGHTS: Final = (
    ("target", AclOperation.WRITE, ResourceType.TOPIC, True), ("source", AclOperation.READ, ResourceType.TOPIC, False),
    ("source", AclOperation.READ, ResourceType.GROUP, True),
)  # fmt: skip
SCENARIOS: Final = [
    *[
        Scenario(
            "revoke", f"{operation.name.lower()} right to Kafka's {what.name.lower()}, {side}", ["rabbitmq", "kafka"],
            partial(_right, side, operation, what), short,
        )
        for side, operation, what, short in RIGHTS
    ],
    Scenario("add-partition", "to the source", ["kafka", "rabbitmq"], _more_partitions, short=True),
    Scenario("delete-records", "without a bridge", ["kafka", "rabbitmq"], _deleted_records, short=True),
]  # fmt: skip
