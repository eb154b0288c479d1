"""Find messages of a RocketMQ store: by key, through its index, or by id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bindings.archive.reading import Bad
from bindings.archive.rocketmq.commit import CommitRecord
from bindings.archive.rocketmq.store import Store
from exchange.errors import InputError
from exchange.rocketmq.offset_id import OffsetId


class FoundMessages(NamedTuple):
    """The messages that a search found."""

    messages: tuple[CommitRecord, ...]
    """The messages in the order of the log."""
    others: int = 0
    """Number of messages with another key of the same hash, to which the index led."""
    deleted: int = 0
    """Number of messages to which the index led, but which were deleted from the log."""
    problems: tuple[Bad, ...] = ()
    """Damage of the index, and units of it that point at no message."""


def find_by_key(store: Store, key: str, topics: Iterable[str] | None = None) -> FoundMessages:
    """Return the messages with a key or unique id, of all topics or the given ones (`IndexService.queryOffset`).

    The index holds hashes only, so the keys of each message are compared: unlike the broker, this returns no message
    with another key. Messages that the broker has not indexed yet are not found. Raises InputError for a file that
    cannot be opened.
    """
    wanted = {*store.topics, *[queue.topic for queue in store.queues]} if topics is None else set(topics)
    places: dict[int, set[str]] = {}
    problems: list[Bad] = []
    for file in store.index:
        for topic in wanted:
            for place in file.places(topic, key):
                if isinstance(place, Bad):
                    problems.append(place)
                else:
                    places.setdefault(place, set()).add(topic)
    messages: list[CommitRecord] = []
    others = deleted = 0
    for place in sorted(places):
        if place < store.log.begin:
            deleted += 1
            continue
        message = store.log.at(place)
        if isinstance(message, str):
            problems.append(
                Bad(f"{store.path}/commitlog", place, f"a unit of the index that points at no message: {message}")
            )
        elif message.topic not in places[place] or (key != message.unique_id and key not in message.keys):
            others += 1
        else:
            messages.append(message)
    return FoundMessages(tuple(messages), others, deleted, tuple(problems))


def find_by_id(store: Store, message_id: str, topics: Iterable[str] | None = None) -> FoundMessages:
    """Return the message with this offset id, or the messages with this unique id (`MQAdminImpl.viewMessage`).

    Raises as `find_by_key`.
    """
    try:
        place = OffsetId.parse(message_id).log_offset
    except InputError:
        return find_by_key(store, message_id, topics)
    message = store.log.at(place)
    if isinstance(message, CommitRecord) and message.message_id == message_id.upper():
        return FoundMessages((message,))
    return find_by_key(store, message_id, topics)
