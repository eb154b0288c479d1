"""The store of a RocketMQ broker, and messages that were found in it, as JSON: ``hashstar archive inspect --json``.

Most of it are the values of `bindings.archive.rocketmq`. Times are ISO 8601 in UTC, and what is not known is null.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from bindings.archive.figures import Milliseconds
from bindings.archive.reading import Bad
from bindings.archive.rocketmq.commit import CommitRecord
from bindings.archive.rocketmq.find import FoundMessages
from bindings.archive.rocketmq.inspection import (
    GroupQueue,
    Level,
    StoredQueueFacts,
    StoredTopicFacts,
    StoreInspection,
    Wheel,
)
from bindings.archive.rocketmq.store import Checkpoint, Store, StoredTopic
from bindings.archive.rocketmq.timer import Timer
from bindings.report.inspection import BadJson, encode_bad
from bindings.report.store import find_code, list_bodies
from exchange.values.documents import document, encode_as

__all__ = ["MatchesJson", "StoreJson", "TopicKindKey", "encode_matches", "store_json"]

TopicKindKey = Literal["user", "retry", "dead", "delay", "wheel", "transaction", "system"]


class LogJson(TypedDict):
    """The commit log."""

    files: int
    begin: int
    """Byte at which it begins."""
    end: int
    """Byte at which it ends."""
    records: int
    first_stored: Milliseconds | None
    last_stored: Milliseconds | None


class IndexJson(TypedDict):
    """The index of keys."""

    files: int
    keys: int
    messages_behind: int
    """Messages with keys that are not in it yet."""


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
    queues: tuple[StoredQueueFacts, ...]
    tags: list[TagJson]


class DelayedJson(TypedDict):
    """Delayed messages."""

    levels: tuple[Level, ...]
    by_time: Wheel
    """Messages with a time of their own, as the commit log has them."""
    timer: Timer | None
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
    checkpoint: Checkpoint | None
    topics: list[TopicJson]
    groups: tuple[GroupQueue, ...]
    delayed: DelayedJson
    bad: list[BadJson]


class BodyJson(TypedDict):
    """The body of a message, or of one in a batch."""

    size: int | None
    """Null where it cannot be read."""
    begins: str
    """How it begins, or why it cannot be read."""


def _bodies_json(message: CommitRecord) -> list[BodyJson]:
    """The body, or that of each message in a batch."""  # noqa: D401  it describes a field
    return [{"size": size, "begins": text} for size, text in list_bodies(message)]


document(
    "StoredMessageJson",
    "topic, queue, offset, message_id, unique_id, place, size, stored or null, stored_at = stored_host, born or null, "
    "born_at = born_host, reconsumed, tag, keys, properties, bodies",
    bodies=_bodies_json,
)(CommitRecord)


class MatchesJson(TypedDict):
    """Messages of a store by key or id: `hashstar archive inspect --json` with `--key` or `--message-id`."""

    version: Literal[1]
    path: str
    key: str | None
    topic: str | None
    message_id: str | None
    messages: tuple[CommitRecord, ...]
    deleted: int
    """Messages deleted since the index was written."""
    others: int
    """Messages that have another key of the same hash."""
    bad: tuple[Bad, ...]


def store_json(store: Store, inspection: StoreInspection) -> Any:
    """Return the JSON of a store."""
    value: StoreJson = {
        "version": 1,
        "path": store.path,
        "format": "RocketMQ store",
        "abort": store.has_abort,
        "in_database": list(store.in_database),
        "log": {
            "files": len(store.log.files),
            "begin": store.log.begin,
            "end": inspection.log_end,
            "records": inspection.records,
            "first_stored": inspection.first_stored or None,
            "last_stored": inspection.last_stored or None,
        },
        "index": {"files": len(store.index), "keys": inspection.keys, "messages_behind": inspection.behind_index},
        "checkpoint": store.checkpoint,
        "topics": [_topic_json(topic, store.topics.get(topic.name)) for topic in inspection.topics],
        "groups": inspection.groups,
        "delayed": {"levels": inspection.levels, "by_time": inspection.wheel, "timer": store.timer},
        "bad": encode_bad(inspection.problems),
    }
    return encode_as(StoreJson, value)


def _topic_json(topic: StoredTopicFacts, config: StoredTopic | None) -> TopicJson:
    return {
        "topic": topic.name,
        "kind": topic.kind.name.lower(),  # type: ignore[typeddict-item]  # a test compares the names
        "read_queues": None if config is None else config.read_queues,
        "write_queues": None if config is None else config.write_queues,
        "messages": topic.messages,
        "bytes": topic.size,
        "queues": topic.queues,
        "tags": [{"tag": tag, "code": find_code(tag), "messages": count} for tag, count in topic.tags.items()],
    }


def encode_matches(
    matches: FoundMessages, path: str, key: str | None, topic: str | None, message_id: str | None
) -> Any:
    """Return the JSON of the messages that were found."""
    value: MatchesJson = {
        "version": 1,
        "path": path,
        "key": key,
        "topic": topic,
        "message_id": message_id,
        "messages": matches.messages,
        "deleted": matches.deleted,
        "others": matches.others,
        "bad": matches.problems,
    }
    return encode_as(MatchesJson, value)
