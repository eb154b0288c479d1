"""Topics of Kafka as they are written to by a replay: each record as it was, to the partition where it was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from confluent_kafka import KafkaException

from bridge.aside import call_aside
from bridge.dead.logs.origins import Goal
from bridge.endpoint import Outgoing
from bridge.endpoints.kafka.cluster.addresses import Settings, read_current_settings
from bridge.endpoints.kafka.cluster.asking import look_at_topics
from bridge.endpoints.kafka.cluster.errors import CONNECTING, Reasons
from bridge.endpoints.kafka.cluster.tokens import prepare_login
from bridge.endpoints.kafka.cluster.topics import KafkaTopic
from bridge.endpoints.kafka.producer.plain import KafkaTarget
from bridge.endpoints.kafka.producer.writer import RecordWriter
from bridge.endpoints.topics import TopicDestination
from bridge.interop import Record


class GoalTarget(KafkaTarget):
    """Topics of Kafka, to which goals are written as they are; ``goals`` maps their digests to them."""

    def __init__(self, settings: Settings, topics: Iterable[str], goals: Mapping[str, Goal]) -> None:
        super().__init__("the cluster", settings, {topic: TopicDestination(topic) for topic in topics})
        self._goals: Final = goals

    def make_writer(self, topics: Mapping[str, KafkaTopic]) -> RecordWriter:
        return _GoalRecords(self._goals, self._destinations, topics, self._turns)


class _GoalRecords(RecordWriter):
    def __init__(self, goals: Mapping[str, Goal], *others: Any) -> None:
        super().__init__(*others)
        self._goals: Final = goals

    def make_record(self, outgoing: Outgoing) -> tuple[Record, int]:
        stored, partition = self._goals[outgoing.delivery.identity or ""]
        record = cast("Record", stored)
        for name, _ in record.headers:
            name.encode()  # the client ends the process over a name that is not UTF-8
        spread = self.spreads[record.topic]
        if partition is None or partition >= spread.count:
            partition = spread.partition_of(record.key, outgoing, record)
        return record, partition


async def find_missing(given: Settings, topics: Sequence[str]) -> list[str]:
    """Return which of these topics are not there. Raises InputError, Disconnected."""
    login = await call_aside(prepare_login, read_current_settings(given))
    settings = {**CONNECTING, **login, "group.id": "hashstar-dead"}
    reasons = Reasons(settings)
    try:
        metadata = await look_at_topics(settings, reasons)
    except KafkaException as error:
        raise await call_aside(reasons.explain, error) from None
    return [topic for topic in topics if topic not in metadata.topics]
