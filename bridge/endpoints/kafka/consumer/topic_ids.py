"""The id of the topic that an offset belongs to, where several topics have had the same name.

A topic that is deleted and created again has another id, and its offsets count from 0 again. Offsets of the old topic
mean nothing in the new one: if that is longer, it would be read from its middle on, and the messages before would never
be read. Offsets alone cannot show this, so the topic's id is committed beside each offset, in its metadata, and brokers
are asked for the topics' ids from time to time. They are asked, too, of which topics a group's members have partitions.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from bridge.endpoints.kafka.cluster.addresses import QUIET
from bridge.endpoints.kafka.cluster.asking import ASKING, fetch_committed, make_asking_consumer
from bridge.endpoints.kafka.cluster.errors import WITHHELD

MARK: Final = "hashstar topic="
"""Beginning of the metadata of offsets that a bridge committed; the topic's id follows."""

EARLIEST_OFFSET: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST_OFFSET: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]

NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""Id of topics whose brokers know none, as before Kafka 2.8."""

ANSWER: Final = 5.0
"""Seconds that brokers may take to answer."""

STABLE: Final = "Stable"
"""State of a group of the classic protocol whose members all have what they were given."""

ERRORS_AT_ONCE: Final = 1_000
"""Maximum number of a client's errors that are dropped at once."""


def mark_of(topic_id: str) -> str:
    """Return the metadata of offsets of this topic; "" where there is no id."""
    return MARK + topic_id if topic_id else ""


class Ids:
    """What is known of the ids of topics at a moment."""

    def __init__(
        self,
        now: Mapping[str, str],
        committed: Mapping[tuple[str, int], str],
        offsets: Mapping[tuple[str, int], int],
        ends: Mapping[tuple[str, int], int],
        given: Collection[str] | None = None,
        epochs: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        self.now = now
        """Topic -> its id, "" where it has none; a topic that is missing, or cannot be seen, is not in it."""
        self.committed = committed
        """Topic and partition -> the id of the topic that the group's offset belongs to, where that is known."""
        self.offsets = offsets
        """Topic and partition -> the group's offset, where there is one."""
        self.ends = ends
        """Topic and partition -> its end, where that was asked for."""
        self.given = given
        """Topics of which members of the group have partitions; None: it was not asked for, or is not settled now."""
        self.epochs = epochs or {}
        """Topic and partition -> epoch of the leader that wrote the record before the offset, where that is known."""


class Asker:
    """Asks for ids, with clients of its own that have a consumer's settings. To be used on one thread.

    librdkafka 2.16 was seen to leave requests to a restarted broker without an answer for ever, so clients that have
    failed once are dropped.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._clients: tuple[AdminClient, Consumer] | None = None

    def connect(self) -> tuple[AdminClient, Consumer]:
        """Return the clients, made anew if there are none. Raises KafkaException for settings that are wrong."""
        if self._clients is None:
            admin = AdminClient({**self._settings, **ASKING}, logger=QUIET)
            self._clients = admin, make_asking_consumer(self._settings)
        return self._clients

    def fetch_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the ids of topics, as in `Ids.now`. Raises as `ask` does."""
        return _fetch_ids(self.connect()[0], topics)

    def ask(
        self,
        topics: Collection[str],
        partitions: Collection[tuple[str, int]],
        paused: Collection[tuple[str, int]] = (),
        *,
        with_given: bool = False,
    ) -> Ids:
        """Return the ids of topics, the group's offsets for partitions with the ids of their topics, the ends of the
        partitions that are ``paused``, and perhaps what the group's members were given; wait for the answers.

        Raises KafkaException or TimeoutError where the brokers may answer another time.
        """
        admin, consumer = self.connect()
        try:
            consumer.consume(ERRORS_AT_ONCE, 0)  # errors of its connections, which it would keep for ever
            now = _fetch_ids(admin, topics)
            offsets = _fetch_offsets(consumer, partitions) if partitions else []
            ends = fetch_bounds(admin, paused, LATEST_OFFSET) if paused else {}
            given = _fetch_given(admin, str(self._settings["group.id"])) if with_given else None
        except (KafkaException, TimeoutError):
            self.end()
            raise
        marks = {(each.topic, each.partition): each.metadata or "" for each in offsets}
        return Ids(
            now,
            {key: mark.removeprefix(MARK) for key, mark in marks.items() if mark.startswith(MARK)},
            {(each.topic, each.partition): each.offset for each in offsets if each.offset >= 0},
            ends,
            given,
            {(each.topic, each.partition): each.leader_epoch for each in offsets if each.leader_epoch is not None},
        )

    def end(self) -> None:
        """Drop the clients."""
        clients, self._clients = self._clients, None
        if clients is not None:
            clients[1].close()


def _fetch_offsets(consumer: Consumer, partitions: Collection[tuple[str, int]]) -> list[TopicPartition]:
    try:
        return fetch_committed(consumer, partitions)
    except KafkaException as error:
        if error.args[0].code() not in WITHHELD:
            raise
        return []


def fetch_bounds(
    admin: AdminClient, partitions: Collection[tuple[str, int]], bound: OffsetSpec
) -> dict[tuple[str, int], int]:
    """Return the starts or ends of partitions, of those with a leader: librdkafka learns of them by fetching alone."""
    asked = admin.list_offsets({TopicPartition(*each): bound for each in partitions}, request_timeout=ANSWER)
    found = {}
    for each, answer in asked.items():
        with suppress(KafkaException):  # the statistics show what is wrong
            found[each.topic, each.partition] = int(answer.result(ANSWER + 1).offset)
    return found


def _fetch_ids(admin: AdminClient, topics: Collection[str]) -> dict[str, str]:
    now: dict[str, str] = {}
    if not topics:  # librdkafka takes no empty list
        return now
    asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=ANSWER)
    for topic, answer in asked.items():
        try:
            topic_id = str(answer.result(ANSWER + 1).topic_id)
        except KafkaException as error:
            code = error.args[0].code()
            if code not in WITHHELD and code != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            if code in WITHHELD:
                now[topic] = ""  # it may be read and not be seen: offsets are all that there is to go by
        else:
            now[topic] = "" if topic_id == NO_ID else topic_id
    return now


def _fetch_given(admin: AdminClient, group: str) -> frozenset[str] | None:
    """Return the topics of which members of a group have partitions; None while that changes, or is not known.

    This request goes to all brokers, and looks for no coordinator: see `make_asking_consumer`.
    """
    try:
        listed: list[Any] = admin.list_groups(group, ANSWER)
    except KafkaException:  # the bridge can do without an answer
        return None
    for each in listed:
        if each.id == group and each.error is None and each.state == STABLE:
            try:
                return frozenset([topic for member in each.members for topic in _topics_of(member.assignment)])
            except (struct.error, UnicodeDecodeError):  # of no consumer
                return None
    return None


def _topics_of(assignment: bytes) -> Iterator[str]:
    """Yield the topics of a member's assignment, as consumers write it: a version, then topics with partitions."""
    if not assignment:
        return
    (count,), at = struct.unpack_from(">i", assignment, 2), 6
    for _ in range(count):
        (length,) = struct.unpack_from(">h", assignment, at)
        name, (partitions,) = (
            assignment[at + 2 : at + 2 + length],
            struct.unpack_from(">i", assignment, at + 2 + length),
        )
        at += 6 + length + 4 * partitions
        if partitions > 0:
            yield name.decode()
