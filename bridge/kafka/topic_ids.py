"""Which of several topics that had the same name an offset is of.

A topic that is deleted and made anew has another id, and its offsets count from 0 again. Offsets of the old one mean
nothing there: a new topic that is longer would be read from its middle on, and what comes before would never be read.
Offsets alone cannot show that, so the id is committed beside each, in its metadata, and topics are asked for theirs
from time to time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from bridge.kafka.errors import RIGHTS

__all__ = ["Asker", "Ids", "mark_of"]

MARK: Final = "hashstar topic="
"""What the metadata of an offset begins with that we committed; the topic's id follows."""

NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of topics whose brokers know none, as before Kafka 2.8."""

FINAL: Final = RIGHTS | {KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE}
"""Errors with which brokers say that they will not tell. All others pass."""

ANSWER: Final = 5.0
"""Seconds that brokers may take to answer."""


def mark_of(topic_id: str) -> str:
    """Return the metadata of offsets of this topic; "" where there is no id."""
    return MARK + topic_id if topic_id else ""


class Ids:
    """What is known of topics at a moment."""

    def __init__(self, now: Mapping[str, str], committed: Mapping[tuple[str, int], str]) -> None:
        self.now = now
        """Topic -> its id, "" where it has none; a topic that is missing, or cannot be seen, is not in it."""
        self.committed = committed
        """Topic and partition -> the id that the group's offset is of, where that is known."""


class Asker:
    """Asks for ids, with a client of its own that has a consumer's settings. To be used, and ended, on one thread.

    librdkafka 2.16 was seen never to answer again what is asked of a coordinator that was restarted, so a client that
    has failed once is given up.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = {**settings, "log_level": 0, "statistics.interval.ms": 0, "metadata.recovery.strategy": "none"}
        self._admin: AdminClient | None = None

    def ask(self, topics: Collection[str], partitions: Collection[tuple[str, int]]) -> Ids:
        """Return the ids of topics, and those that the group's offsets for partitions are of; waits for the answers.

        Raises KafkaException or TimeoutError where the brokers may answer another time.
        """
        if self._admin is None:
            self._admin = AdminClient(self._settings)
        try:
            return _ids(self._admin, str(self._settings["group.id"]), topics, partitions)
        except (KafkaException, TimeoutError):
            self._admin = None
            raise

    def end(self) -> None:
        """Drop the client."""
        self._admin = None


def _ids(admin: AdminClient, group: str, topics: Collection[str], partitions: Collection[tuple[str, int]]) -> Ids:
    now: dict[str, str] = {}
    asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=ANSWER)
    for topic, answer in asked.items():
        try:
            found = str(answer.result(ANSWER + 1).topic_id)
        except KafkaException as error:
            code = error.args[0].code()
            if code not in FINAL and code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            if code in FINAL:
                now[topic] = ""  # it may be read and not be seen: offsets are all that there is to go by
        else:
            now[topic] = "" if found == NO_ID else found
    return Ids(now, _committed(admin, group, partitions) if partitions else {})


def _committed(admin: AdminClient, group: str, partitions: Collection[tuple[str, int]]) -> dict[tuple[str, int], str]:
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*each) for each in partitions])
    answers = admin.list_consumer_group_offsets([asked], request_timeout=ANSWER)
    try:
        offsets: Any = answers[group].result(ANSWER + 1).topic_partitions
    except KafkaException as error:
        if error.args[0].code() not in FINAL:
            raise
        return {}
    marks = {(each.topic, each.partition): each.metadata or "" for each in offsets if each.error is None}
    return {place: mark.removeprefix(MARK) for place, mark in marks.items() if mark.startswith(MARK)}
