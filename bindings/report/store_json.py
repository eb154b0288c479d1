"""The store of a RocketMQ broker, and messages that were found in it, as JSON: ``hashstar archive inspect --json``.

Most of it are the values of `bindings.archive.rocketmq`. Times are ISO 8601 in UTC, and what is not known is null.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypedDict

from bindings.archive.rocketmq.commit import CommitRecord
from bindings.archive.rocketmq.find import FoundMessages
from bindings.archive.rocketmq.inspection import StoredTopicFacts, StoreInspection, TopicKind
from bindings.archive.rocketmq.store import Store, StoredTopic
from bindings.report.inspection import BadJson, encode_bad
from bindings.report.store import find_code, list_bodies
from exchange.values.documents import by_name, document, write_as

KIND: Final = by_name(TopicKind)
write_as(TopicKind, KIND.encode, KIND.kind)


class TagJson(TypedDict):
    """Messages with a tag."""

    tag: str | None
    """Null for messages without one."""
    code: int
    """What stands for the tag in the queues."""
    messages: int


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


class MatchedMessages(NamedTuple):
    """Messages of a store by key or id: `hashstar archive inspect --json` with `--key` or `--message-id`."""

    found: FoundMessages
    path: str
    key: str | None
    topic: str | None
    message_id: str | None


document(
    "MatchesJson",
    "version = 1, path, key, topic, message_id, found.messages, found.deleted, found.others, bad = found.problems",
)(MatchedMessages)


class ConfiguredTopic(NamedTuple):
    """A topic."""

    facts: StoredTopicFacts
    config: StoredTopic | None
    """As the broker is configured; None if it keeps its topics elsewhere."""


def _tags(topic: ConfiguredTopic) -> list[TagJson]:
    return [{"tag": tag, "code": find_code(tag), "messages": count} for tag, count in topic.facts.tags.items()]


document(
    "TopicJson",
    "topic = facts.name, facts.kind, config?.read_queues, config?.write_queues, facts.messages, bytes = facts.size, "
    "facts.queues, tags",
    tags=_tags,
)(ConfiguredTopic)


class InspectedStore(NamedTuple):
    """What the store of a RocketMQ broker holds: `hashstar archive inspect --json`."""

    store: Store
    inspection: StoreInspection


def _topics(inspected: InspectedStore) -> list[ConfiguredTopic]:
    return [ConfiguredTopic(topic, inspected.store.topics.get(topic.name)) for topic in inspected.inspection.topics]


def _bad(inspected: InspectedStore) -> list[BadJson]:
    return encode_bad(inspected.inspection.problems)


document(
    "StoreJson",
    "version = 1, store.path, format = 'RocketMQ store', abort = store.has_abort, store.in_database, "
    "log = LogJson(files = #store.log.files, store.log.begin, end = inspection.log_end, inspection.records, "
    "inspection.first_stored or null, inspection.last_stored or null), "
    "index = IndexJson(files = #store.index, inspection.keys, messages_behind = inspection.behind_index), "
    "store.checkpoint, topics, inspection.groups, "
    "delayed = DelayedJson(inspection.levels, by_time = inspection.wheel, store.timer), bad",
    topics=_topics,
    bad=_bad,
)(InspectedStore)
