"""Which of several topics that had the same name an offset is of.

A topic that is deleted and made anew has another id, and its offsets count from 0 again. Offsets of the old one mean
nothing there: a new topic that is longer would be read from its middle on, and what comes before would never be read.
Offsets alone cannot show that, so the id is committed beside each, in its metadata, and topics are asked for theirs
from time to time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from bridge.endpoints.kafka.addresses import QUIET
from bridge.endpoints.kafka.errors import RIGHTS

__all__ = ["Asker", "Ids", "committed", "make_asking", "mark_of"]

MARK: Final = "hashstar topic="
"""What the metadata of an offset begins with that we committed; the topic's id follows."""

NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of topics whose brokers know none, as before Kafka 2.8."""

FINAL: Final = RIGHTS | {KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE}
"""Errors with which brokers say that they will not tell. All others pass."""

ANSWER: Final = 5.0
"""Seconds that brokers may take to answer."""

ASKING: Final[Mapping[str, Any]] = {
    "log_level": 0, "statistics.interval.ms": 0, "metadata.recovery.strategy": "none",
}  # fmt: skip
"""Settings of a client that only asks."""

HEARD: Final = 1_000
"""Maximum number of a client's errors that are dropped at once."""


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


def make_asking(settings: Mapping[str, Any], isolation: str = "read_uncommitted") -> Consumer:
    """Make a consumer that only asks what the group of another with these settings has committed; it joins no group.

    With ``read_committed`` there is no answer while a transaction is open that may move an offset. Raises
    KafkaException.

    An AdminClient must not be asked: librdkafka 2.16 follows a null pointer when the coordinator answers it that it is
    none (`rd_kafka_handle_OffsetFetch`), and uses memory that it has freed when none was found in time (its pull
    request 5397). Whenever a broker is restarted at the wrong moment, that kills the process or blocks the thread.
    """
    return Consumer({**settings, **ASKING, "isolation.level": isolation}, logger=QUIET)


def committed(consumer: Consumer, partitions: Collection[tuple[str, int]]) -> list[TopicPartition]:
    """Return what the group has committed, of the partitions that it may see; wait for the answer.

    Raises KafkaException, also where it is a single partition that has no answer now.
    """
    found = consumer.committed([TopicPartition(*each) for each in partitions], ANSWER)
    for each in found:
        if each.error is not None and each.error.code() not in FINAL:
            raise KafkaException(each.error)
    return [each for each in found if each.error is None]


class Asker:
    """Asks for ids, with clients of its own that have a consumer's settings. To be used, and ended, on one thread.

    librdkafka 2.16 was seen never to answer again what is asked of a broker that was restarted, so clients that have
    failed once are given up.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._clients: tuple[AdminClient, Consumer] | None = None

    def connect(self) -> tuple[AdminClient, Consumer]:
        """Make the clients, unless there are some. Raises KafkaException for settings that they do not know."""
        if self._clients is None:
            self._clients = AdminClient({**self._settings, **ASKING}), make_asking(self._settings)
        return self._clients

    def ask(self, topics: Collection[str], partitions: Collection[tuple[str, int]]) -> Ids:
        """Return the ids of topics, and those that the group's offsets for partitions are of; waits for the answers.

        Raises KafkaException or TimeoutError where the brokers may answer another time.
        """
        admin, consumer = self.connect()
        try:
            consumer.consume(HEARD, 0)  # errors of its connections, which it would keep for ever
            now = _ids(admin, topics)
            return Ids(now, _marks(consumer, partitions) if partitions else {})
        except (KafkaException, TimeoutError):
            self.end()
            raise

    def end(self) -> None:
        """Drop the clients."""
        clients, self._clients = self._clients, None
        if clients is not None:
            clients[1].close()


def _marks(consumer: Consumer, partitions: Collection[tuple[str, int]]) -> dict[tuple[str, int], str]:
    try:
        offsets = committed(consumer, partitions)
    except KafkaException as error:
        if error.args[0].code() not in FINAL:
            raise
        return {}
    marks = {(each.topic, each.partition): each.metadata or "" for each in offsets}
    return {place: mark.removeprefix(MARK) for place, mark in marks.items() if mark.startswith(MARK)}


def _ids(admin: AdminClient, topics: Collection[str]) -> dict[str, str]:
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
    return now
