"""The types of the JSON of ``hashstar archive inspect``. ``docs/inspect-json.md`` explains the fields to readers.

Times are ISO 8601 in UTC, and what is not known is null.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from bindings.report.forms.json_types import BadJson
from bindings.report.kafka_types import KafkaJson

__all__ = [
    "BiasKey", "InspectionJson", "LevelJson", "MatchesJson", "StoreJson", "StoredMessageJson", "TopicJson",
    "TopicKindKey",
]  # fmt: skip

BiasKey = Literal["EVERYTHING", "SURVIVORS", "SAMPLE", "UNKNOWN"]
TopicKindKey = Literal["user", "retry", "dead", "delay", "wheel", "transaction", "system"]


class FileJson(TypedDict):
    """A file that is read."""

    path: str
    format: str
    bias: BiasKey


class WindowJson(TypedDict):
    """When the first and the last message were published."""

    first: str | None
    last: str | None
    records_without_time: int


class BodiesJson(TypedDict):
    """The bodies of the messages."""

    bytes: int
    records_without_size: int


class OutcomeJson(TypedDict):
    """What the broker did with the messages."""

    known: int
    """Messages whose routed queues are known."""
    nowhere: int
    """Number of these that went nowhere."""


class ExchangeCountJson(TypedDict):
    """Messages to an exchange."""

    vhost: str | None
    exchange: str
    records: int


class InspectionJson(TypedDict):
    """What an archive holds: `hashstar archive inspect --json`."""

    version: Literal[1]
    path: str
    """What was asked for."""
    formats: list[str]
    files: list[FileJson]
    not_archives: list[str]
    """Files that are no archives; each is also a bad record."""
    bias: list[BiasKey]
    """How the messages were taken, one for each format."""
    notes: list[str]
    """Sentences that a reader must know before the numbers."""
    auditable: bool
    """Whether `hashstar audit` can use it: there are records."""
    records: int
    skipped: dict[str, int]
    """Reason -> records that are no messages, or cannot be audited."""
    window: WindowJson
    bodies: BodiesJson
    outcome: OutcomeJson
    exchanges: list[ExchangeCountJson]
    bad: list[BadJson]
    kafka: NotRequired[KafkaJson]
    """What else is in the data folder of a Kafka broker; absent for other archives."""


class LogJson(TypedDict):
    """The commit log."""

    files: int
    begin: int
    """Byte at which it begins."""
    end: int
    """Byte at which it ends."""
    records: int
    first_stored: str | None
    last_stored: str | None


class IndexJson(TypedDict):
    """The index of keys."""

    files: int
    keys: int
    messages_behind: int
    """Messages with keys that are not in it yet."""


class CheckpointJson(TypedDict):
    """Times up to which these files are certainly on the disk."""

    log: str | None
    queues: str | None
    index: str | None


class QueueJson(TypedDict):
    """A queue of a topic."""

    queue: int
    min_offset: int
    """Offset of the first message."""
    max_offset: int
    """Offset behind the last message."""
    messages: int
    bytes: int
    first_stored: str | None
    last_stored: str | None
    in_batches: bool
    files: int
    deleted: int
    """Number of units whose messages were deleted from the log."""


class TagJson(TypedDict):
    """Messages with a tag."""

    tag: str | None
    """Null for messages without one."""
    code: int
    """What stands for the tag in the queues."""
    messages: int


class TopicJson(TypedDict):
    """A topic."""

    topic: str
    kind: TopicKindKey
    read_queues: int | None
    """As the broker is configured; None if it keeps its topics elsewhere."""
    write_queues: int | None
    messages: int
    bytes: int
    queues: list[QueueJson]
    tags: list[TagJson]


class GroupJson(TypedDict):
    """A consumer group's position in a queue."""

    group: str
    topic: str
    queue: int
    offset: int
    """As the broker saved it last."""
    lag: int
    """Number of messages."""


class WaitingJson(TypedDict):
    """Messages that wait for their time."""

    waiting: int
    first_due: str | None
    last_due: str | None


class LevelJson(WaitingJson):
    """Messages of a level of delay."""

    level: int
    delay: int | None
    """Milliseconds; null if no message shows it."""
    next_offset: int
    """Offset of the next message to deliver."""


class TimerJson(WaitingJson):
    """The timer: its wheel and its log, or its database."""

    kind: Literal["files", "database"]
    entries: int
    """Number of units in its log, or of entries in its database."""
    slots: int
    """Number of slots of the wheel in use, as it was saved last."""
    in_slots: int
    """Number of messages that these slots count, delivered or not."""


class DelayedJson(TypedDict):
    """Delayed messages."""

    levels: list[LevelJson]
    by_time: WaitingJson
    """Messages with a time of their own, as the commit log has them."""
    timer: TimerJson | None
    """The same as the timer has them; null if the store has none."""


class StoreJson(TypedDict):
    """What the store of a RocketMQ broker holds: `hashstar archive inspect --json`."""

    version: Literal[1]
    path: str
    format: Literal["RocketMQ store"]
    abort: bool
    """Whether the file of that name is there: the broker runs, or did not end cleanly."""
    in_database: list[str]
    """What the broker keeps in RocksDB and cannot be read, for example because the library is missing."""
    log: LogJson
    index: IndexJson
    checkpoint: CheckpointJson | None
    topics: list[TopicJson]
    groups: list[GroupJson]
    delayed: DelayedJson
    bad: list[BadJson]


class BodyJson(TypedDict):
    """The body of a message, or of one in a batch."""

    size: int | None
    """Null where it cannot be read."""
    begins: str
    """How it begins, or why it cannot be read."""


class StoredMessageJson(TypedDict):
    """A message of a store."""

    topic: str
    queue: int
    offset: int
    message_id: str
    """The broker's id."""
    unique_id: str | None
    """The producer's id; null if it gave none."""
    place: int
    """Byte of its record in the commit log."""
    size: int
    stored: str | None
    stored_at: str
    """Address of the broker."""
    born: str | None
    born_at: str
    """Address of the producer."""
    reconsumed: int
    """Number of times that consumers sent it back."""
    tag: str | None
    keys: list[str]
    properties: dict[str, str]
    bodies: list[BodyJson]


class BadUnitJson(TypedDict):
    """What could not be read, or does not fit."""

    reason: str
    source: str
    offset: int


class MatchesJson(TypedDict):
    """Messages of a store by key or id: `hashstar archive inspect --json` with `--key` or `--message-id`."""

    version: Literal[1]
    path: str
    key: str | None
    topic: str | None
    message_id: str | None
    messages: list[StoredMessageJson]
    deleted: int
    """Messages deleted since the index was written."""
    others: int
    """Messages that have another key of the same hash."""
    bad: list[BadUnitJson]
