"""Messages of a RocketMQ store by their key, through its index, and by their id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from bindings.archive.reading import Bad
from bindings.archive.rocketmq.commit import Stored
from bindings.archive.rocketmq.id import OffsetId
from bindings.archive.rocketmq.store import Store
from exchange.errors import InputError

__all__ = ["Matches", "find_by_id", "find_by_key"]

LATEST: Final = (1 << 63) - 1


class Matches(NamedTuple):
    """What was found."""

    messages: tuple[Stored, ...]
    """In the order of the log."""
    others: int = 0
    """Messages that the index names too, for another key of theirs has the same hash."""
    deleted: int = 0
    """Messages that the index names and the log does not hold any more."""
    problems: tuple[Bad, ...] = ()
    """What the index names and is not there, or damaged."""


def find_by_key(
    store: Store, key: str, topics: Iterable[str] | None = None, begin: int = 0, end: int = LATEST
) -> Matches:
    """The messages that have a key, or that unique id, of all topics or of some (`IndexService.queryOffset`).

    ``begin`` and ``end`` are milliseconds since 1970, within which they were stored, both inclusive. As the index holds
    hashes only, each message is looked at: unlike the broker, this gives none that has another key. Messages that the
    broker has not put into the index yet are not found. Raises InputError for a file that cannot be opened.
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
    messages: list[Stored] = []
    others = deleted = 0
    for place in sorted(places):
        if place < store.log.begin:
            deleted += 1
            continue
        found = store.log.at(place)
        if isinstance(found, str):
            problems.append(
                Bad(f"{store.path}/commitlog", place, f"a unit of the index that points at no message: {found}")
            )
        elif found.topic not in places[place] or (key != found.unique_id and key not in found.keys):
            others += 1
        elif begin <= found.stored <= end:
            messages.append(found)
    return Matches(tuple(messages), others, deleted, tuple(problems))


def find_by_id(store: Store, message_id: str, topics: Iterable[str] | None = None) -> Matches:
    """The message with an offset id, or those with a unique id (`MQAdminImpl.viewMessage`). Raises as `find_by_key`."""
    try:
        place = OffsetId.parse(message_id).log_offset
    except InputError:
        return find_by_key(store, message_id, topics)
    found = store.log.at(place)
    if isinstance(found, Stored) and found.message_id == message_id.upper():
        return Matches((found,))
    return find_by_key(store, message_id, topics)
