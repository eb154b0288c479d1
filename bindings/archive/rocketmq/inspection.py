"""Inspect a RocketMQ broker's store: read its log and queues once, and compare them.

A message is counted if it is in the log and a unit of its queue points at it (`bindings.archive.rocketmq.fit`). While a
broker runs, or after it was killed, its queues may be behind the log or ahead of it: messages that are in no queue, and
units that point at no message, are reported and not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from bindings.archive.figures import Milliseconds
from bindings.archive.reading import Bad
from bindings.archive.rocketmq.database import DatabaseQueue
from bindings.archive.rocketmq.fit import EMPTY, LIGHT, SCHEDULE, WHEEL, Fit, LogColumns, add_problems, fit_queue
from bindings.archive.rocketmq.log import OWN_TOPICS
from bindings.archive.rocketmq.queue import ConsumeQueue
from bindings.archive.rocketmq.store import QUEUES_IN_DATABASE, Store
from bindings.archive.sums import Unread
from exchange.errors import InputError
from exchange.values.documents import document

NOT_YET: Final = "a message that is in no queue yet"
QUEUELESS: Final = "a message whose queue has no unit for it"
DELETED: Final = "a message whose queue has no files: its topic was deleted, or they are missing"
LOST_KEY: Final = "a unit of the index that points at no message"


class TopicKind(Enum):
    """The purpose of a topic."""

    USER = "messages"
    RETRY = "retries of a consumer group"
    DEAD = "dead letters of a consumer group"
    DELAY = "delayed messages, by level"
    WHEEL = "delayed messages, by time"
    TRANSACTION = "transactions"
    LITE = "a lite topic, whose messages are those of its topic, too"
    SYSTEM = "RocketMQ's own"

    @classmethod
    def from_name(cls, topic: str) -> TopicKind:
        """Return the kind of a topic by its name."""
        return next((kind for start, kind in STARTS if topic.startswith(start)), cls.USER)


STARTS: Final = (
    ("%RETRY%", TopicKind.RETRY),
    ("%DLQ%", TopicKind.DEAD),
    (SCHEDULE, TopicKind.DELAY),
    (WHEEL, TopicKind.WHEEL),
    ("RMQ_SYS_TRANS_", TopicKind.TRANSACTION),
    ("RMQ_SYS_ROCKSDB_TRANS_", TopicKind.TRANSACTION),
    (LIGHT, TopicKind.LITE),
    *[(start, TopicKind.SYSTEM) for start in OWN_TOPICS],
)
"""Pairs of the prefix of a name and its kind; the first pair that fits counts."""


@document(
    "QueueJson",
    "queue, min_offset, max_offset, messages, bytes = size, first_stored or null, last_stored or null, "
    "in_batches = batches, files, deleted",
)
class StoredQueueFacts(NamedTuple):
    """A queue of a topic; offsets as the broker returns them (`MQAdminImpl.minOffset`, ``maxOffset``)."""

    queue: int
    batches: bool
    files: int
    min_offset: int
    """Offset of the first message."""
    max_offset: int
    """Offset behind the last message."""
    messages: int
    """Number of whole messages in the log to which units of the queue point."""
    size: int
    """Size of their records, in bytes."""
    first_stored: Milliseconds | None
    last_stored: Milliseconds | None
    deleted: int
    """Number of units whose messages were deleted from the log."""


class StoredTopicFacts(NamedTuple):
    """The facts of a topic that has queues."""

    name: str
    kind: TopicKind
    queues: tuple[StoredQueueFacts, ...]
    tags: Mapping[str | None, int]
    """Tag (None: without a tag) -> number of messages."""

    @property
    def messages(self) -> int:
        """Number of messages in all queues."""
        return sum(queue.messages for queue in self.queues)

    @property
    def size(self) -> int:
        """Size of the records in all queues, in bytes."""
        return sum(queue.size for queue in self.queues)


@document("GroupJson")
class GroupQueue(NamedTuple):
    """The position of a consumer group in a queue, as the broker saved it last."""

    group: str
    topic: str
    queue: int
    offset: int
    lag: int
    """Number of messages from the offset to the end of the queue."""


@document("LevelJson", "level, delay, next_offset, waiting, first_due or null, last_due or null")
class Level(NamedTuple):
    """Messages of a level of delay."""

    level: int
    delay: int | None
    """The delay in milliseconds; None if no message shows it."""
    next_offset: int
    """Offset of the next message to deliver."""
    waiting: int
    first_due: Milliseconds | None
    last_due: Milliseconds | None


@document("WaitingJson", "waiting, first_due or null, last_due or null")
class Wheel(NamedTuple):
    """The messages that wait in the timer wheel, each for its own delivery time."""

    waiting: int
    first_due: Milliseconds | None
    last_due: Milliseconds | None


NONE_WAIT: Final = Wheel(0, None, None)


@dataclass(slots=True)
class StoreInspection:
    """The counts of a store."""

    topics: tuple[StoredTopicFacts, ...] = ()
    groups: tuple[GroupQueue, ...] = ()
    levels: tuple[Level, ...] = ()
    wheel: Wheel = NONE_WAIT
    """Messages with a time of their own, as the commit log has them."""
    records: int = 0
    """Number of records in the log, of all topics."""
    log_end: int = 0
    """Position in the log at which the last message ends."""
    first_stored: Milliseconds | None = None
    last_stored: Milliseconds | None = None
    keys: int = 0
    """Number of units in the index."""
    indexed_to: int | None = None
    """Position in the log of the last message in the index."""
    behind_index: int = 0
    """Number of messages with keys after ``indexed_to``, which are not in the index."""
    problems: Unread = field(default_factory=Unread)
    """Records, units and files that do not fit or cannot be read."""

    @property
    def messages(self) -> int:
        """Number of messages in all queues of all topics; those of lite topics are counted once, for their topic."""
        return sum(topic.messages for topic in self.topics if topic.kind is not TopicKind.LITE)


def inspect_store(store: Store) -> StoreInspection:
    """Inspect a store. Raises InputError for a file that cannot be opened."""
    found = StoreInspection()
    for problem in store.problems:
        found.problems.add_bad(problem)
    ends = [file.header.last_place for file in store.index if file.units]
    found.indexed_to = max(ends, default=None)
    log = LogColumns(store.log, max(ends, default=-1), found.problems)
    found.records, found.log_end = len(log.places), log.end
    found.first_stored, found.last_stored = log.first_stored, log.last_stored
    found.behind_index = log.behind_index
    fits: list[tuple[ConsumeQueue | DatabaseQueue, Fit]] = [
        (queue, fit_queue(log, queue, found.problems)) for queue in store.queues
    ]
    if store.has_database_queues:
        _add_unsaved(log, fits)
    _add_unpointed(store, log, fits, found.problems)
    if QUEUES_IN_DATABASE in store.in_database:
        fits = [(ConsumeQueue(*where, ()), Fit.of_log(log, where)) for where in log.held]
    topics: dict[str, list[StoredQueueFacts]] = {}
    tags: dict[str, Counter[str | None]] = {}
    for queue, each in fits:
        topics.setdefault(queue.topic, []).append(_build_facts(queue, each))
        tags.setdefault(queue.topic, Counter()).update(each.tags())
    found.topics = tuple(
        StoredTopicFacts(name, TopicKind.from_name(name), tuple(sorted(queues)), dict(tags[name].most_common()))
        for name, queues in sorted(topics.items())
    )
    found.groups = tuple(sorted(_list_groups(store, topics)))
    levels = [(queue.queue + 1, each) for queue, each in fits if queue.topic == SCHEDULE]
    found.levels = tuple(sorted(_build_level(level, each, store.delay_offsets.get(level, 0)) for level, each in levels))
    due = sorted(time for time in log.waiting.values() if store.timer_read is None or time > store.timer_read)
    found.wheel = Wheel(len(due), due[0] if due else None, due[-1] if due else None)
    _inspect_index(store, log, found)
    return found


def _add_unsaved(log: LogColumns, fits: list[tuple[ConsumeQueue | DatabaseQueue, Fit]]) -> None:
    """Add the messages behind the last one whose unit is in the database; the broker has their units in memory only."""
    last = _find_last_pointed(fits)
    known = {(queue.topic, queue.queue) for queue, _ in fits}
    missing = [ConsumeQueue(*where, ()) for where in log.held.keys() - known]
    fits += [(queue, fit) for queue in missing if (fit := Fit(log, queue, Unread())).held.places.max() > last]
    for _, each in fits:
        each.add_unsaved(last)


def _find_last_pointed(fits: list[tuple[ConsumeQueue | DatabaseQueue, Fit]]) -> int:
    """Return the position in the log of the last message that is in a queue; -1 if none is."""
    return max([int(each.held.places[each.pointed].max()) for _, each in fits if each.pointed.any()], default=-1)


def _build_facts(queue: ConsumeQueue | DatabaseQueue, found: Fit) -> StoredQueueFacts:
    held, pointed = found.held, found.pointed
    stored = held.stored[pointed]
    return StoredQueueFacts(
        queue=queue.queue,
        batches=queue.batches,
        files=len(queue.files),
        min_offset=found.max_offset if found.min_offset is None else found.min_offset,
        max_offset=found.max_offset,
        messages=int(held.messages[pointed].sum()),
        size=int(held.sizes[pointed].sum()),
        first_stored=int(stored.min()) if len(stored) else None,
        last_stored=int(stored.max()) if len(stored) else None,
        deleted=found.deleted,
    )


def _build_level(level: int, found: Fit, next_offset: int) -> Level:
    """Return the facts of a delay level. The code of a delayed message's unit is the time when the message is due."""
    offsets = np.concatenate([EMPTY, *[units.offset for units in found.delayed]])
    dues = np.concatenate([EMPTY, *[units.code for units in found.delayed]])
    waiting = dues[offsets >= next_offset]
    unsaved = int((found.unsaved >= next_offset).sum())  # when they are due is not known
    _, of_units, of_records = np.intersect1d(offsets, found.held.offsets, return_indices=True)
    delays = dues[of_units] - found.held.stored[of_records]
    return Level(
        level, int(delays[-1]) if len(delays) else None, next_offset, len(waiting) + unsaved,
        int(waiting.min()) if len(waiting) else None, int(waiting.max()) if len(waiting) else None,
    )  # fmt: skip


def _add_unpointed(
    store: Store, log: LogColumns, fits: list[tuple[ConsumeQueue | DatabaseQueue, Fit]], problems: Unread
) -> None:
    """Report the messages at which no unit points.

    Brokers fill all queues in the order of the log. So a message after the last message that is in a queue is not
    missing: it is not in its queue yet. While a broker runs, files are read at different moments; then a message after
    the end of its own queue is not missing, either.
    """
    if QUEUES_IN_DATABASE in store.in_database:
        return
    queues = {(queue.topic, queue.queue): each for queue, each in fits}
    last = _find_last_pointed(fits)
    for where, held in log.held.items():
        source = f"{where[0]}/{where[1]}"
        queue = queues.get(where)
        behind = held.places > last
        if queue is not None and store.has_abort:
            behind |= held.offsets >= queue.max_offset
        unpointed = np.ones(len(behind), bool) if queue is None else ~queue.pointed
        add_problems(problems, NOT_YET, source, held.places[unpointed & behind])
        add_problems(problems, DELETED if queue is None else QUEUELESS, source, held.places[unpointed & ~behind])


def _list_groups(store: Store, topics: Mapping[str, list[StoredQueueFacts]]) -> Iterator[GroupQueue]:
    for (group, topic), offsets in store.offsets.items():
        ends = {facts.queue: facts.max_offset for facts in topics.get(topic, ())}
        for queue, offset in offsets.items():
            yield GroupQueue(group, topic, queue, offset, max(ends.get(queue, 0) - offset, 0))


def _inspect_index(store: Store, log: LogColumns, found: StoreInspection) -> None:
    for file in store.index:
        try:
            places = file.units_of()["place"].astype(np.int64)
        except InputError as error:
            found.problems.add_bad(Bad(file.path, 0, str(error).partition(": ")[2]))
            continue
        found.keys += len(places)
        lost = (places >= log.begin) & ~log.has(places)
        add_problems(found.problems, LOST_KEY, file.path, np.flatnonzero(lost) + 1)
