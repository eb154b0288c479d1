"""Compare the units of a consume queue with the records of the commit log, both as columns.

The log is authoritative. A unit fits if it points at a record with the same queue, offset and size. A unit that does
not fit is reported with its reason, and not counted otherwise. A unit that points before the beginning of the log
belongs to a message that was deleted with its file; this is normal.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bindings.archive.reading import Bad
from bindings.archive.rocketmq.commit import CommitLog, CommitRecord, parse_number
from bindings.archive.rocketmq.database import DatabaseQueue
from bindings.archive.rocketmq.log import COMMITTED, TRANSACTION
from bindings.archive.rocketmq.queue import UNIT, Column, ConsumeQueue, Units, encode_tag
from bindings.archive.sums import SAMPLES, Unread

SCHEDULE: Final = "SCHEDULE_TOPIC_XXXX"
"""Topic in which delayed messages wait; level n waits in queue n - 1 (`ScheduleMessageService`)."""
WHEEL: Final = "rmq_sys_wheel_timer"
"""Topic in which messages with an arbitrary delivery time wait, since 5.0 (`TimerMessageStore`)."""
LIGHT: Final = "%LMQ%"
"""Prefix of light queues, which share records with a topic; of a lite topic %LMQ%$TOPIC$LITE_TOPIC (`LiteUtil`)."""
BEHIND: Final = "a unit of a queue that points behind the end of the log"
NOWHERE: Final = "a unit of a queue that points at no message"
ANOTHER: Final = "a unit of a queue that points at another queue's message"
MISPLACED: Final = "a unit of a queue that is not at its message's offset"
MISSIZED: Final = "a unit of a queue that has another size than its message"
MISTAGGED: Final = "a unit of a queue that has another code than its message's tag"
EMPTY: Final = np.zeros(0, np.int64)


class QueueRecords(NamedTuple):
    """The records of one queue as parallel columns, in the order of the log."""

    places: Column
    sizes: Column
    offsets: Column
    stored: Column
    codes: Column
    messages: Column
    """Number of messages in each record."""
    tags: Column
    """Position of each record's tag in `LogColumns.tags`."""


NOTHING: Final = QueueRecords(*[EMPTY] * 7)


class LogColumns:
    """The content of a commit log as columns: the records of each queue, and facts about the log."""

    def __init__(self, log: CommitLog, indexed_to: int, problems: Unread) -> None:
        self.begin, self.end = log.begin, 0
        """The bytes at which the first file begins and the last message ends."""
        self.first_stored: int | None = None
        self.last_stored: int | None = None
        self.behind_index = 0
        """Number of messages with keys after the last message in the index."""
        self.tags: dict[str, list[str | None]] = {}
        """Topic -> the distinct tags of its messages."""
        self.waiting: dict[object, int] = {}
        """Identity of a message in the timer wheel -> when it is due, in milliseconds since 1970."""
        places = array("q")
        held: dict[tuple[str, int], list[array[int]]] = {}
        numbers: dict[tuple[str, str | None], int] = {}
        codes: dict[str | None, int] = {}
        for record in log.records():
            if isinstance(record, Bad):
                problems.add_bad(record)
                continue
            places.append(record.place)
            self.end = record.place + record.size
            self.first_stored = min(record.stored, record.stored if self.first_stored is None else self.first_stored)
            self.last_stored = max(record.stored, record.stored if self.last_stored is None else self.last_stored)
            self.behind_index += record.place > indexed_to and bool(record.keys or record.unique_id)
            if record.topic == WHEEL:
                self._in_wheel(record)
            if record.system_flag & TRANSACTION not in COMMITTED:
                continue  # a half message, or a transaction rolled back: it is in no queue
            tag = record.tag
            if tag not in codes:
                codes[tag] = encode_tag(tag)
            for topic, queue, offset in _find_queues(record):
                if (topic, tag) not in numbers:
                    tags = self.tags.setdefault(topic, [])
                    numbers[topic, tag] = len(tags)
                    tags.append(tag)
                columns = held.setdefault((topic, queue), [array("q") for _ in QueueRecords._fields])
                number = numbers[topic, tag]
                row = (record.place, record.size, offset, record.stored, codes[tag], record.messages, number)
                for column, value in zip(columns, row, strict=True):
                    column.append(value)
        self.places = np.array(places, np.int64)
        """Positions of all records in the log, ascending."""
        self.held = {
            where: QueueRecords(*[np.array(column, np.int64) for column in columns]) for where, columns in held.items()
        }
        """Topic and queue -> its records."""

    def has(self, places: Column) -> npt.NDArray[np.bool_]:
        """Return a mask of the positions at which a record begins."""
        if not len(self.places):
            return np.zeros(len(places), bool)
        at = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        return np.asarray(self.places[at] == places)

    def _in_wheel(self, record: CommitRecord) -> None:
        due = parse_number(record.properties.get("TIMER_OUT_MS", ""), -1)
        if due >= 0:  # a message that waits long is stored in the wheel repeatedly: the last record counts
            self.waiting[record.properties.get("REAL_TOPIC"), record.unique_id or record.place] = due


class Fit:
    """Compares a queue with the log: call ``add`` with the units of the queue, in order."""

    def __init__(self, log: LogColumns, queue: ConsumeQueue | DatabaseQueue, problems: Unread) -> None:
        self.held = log.held.get((queue.topic, queue.queue), NOTHING)
        self.pointed = np.zeros(len(self.held.places), bool)
        """Mask of the records that a unit points at."""
        self.min_offset: int | None = None
        """Offset of the first unit whose message is not deleted."""
        self.max_offset = queue.files[0].base // UNIT.itemsize if queue.files and not queue.batches else 0
        """The offset after the last unit."""
        self.deleted = 0
        """Number of units that point before the beginning of the log."""
        self.delayed: list[Units] = []
        """Units of delayed messages that are not deleted."""
        self.unsaved = EMPTY
        """Offsets of messages whose units are not on the disk, in a store whose queues are in RocksDB."""
        self._log, self._problems = log, problems
        self._queue = queue

    @classmethod
    def of_log(cls, log: LogColumns, where: tuple[str, int]) -> Fit:
        """Return the facts about a queue from its records alone, for a queue whose units cannot be read."""
        fit = cls(log, ConsumeQueue(*where, ()), Unread())
        fit.pointed[:] = True
        fit.min_offset = int(fit.held.offsets.min())
        fit.max_offset = int((fit.held.offsets + fit.held.messages).max())
        return fit

    def add(self, units: Units) -> None:
        """Compare the next units of the queue with the log."""
        self.max_offset = int(units.offset[-1] + units.messages[-1])
        in_log = units.place >= self._log.begin
        self.deleted += int((~in_log).sum())
        units = Units(*[column[in_log] for column in units])
        if not len(units.place):
            return
        if self.min_offset is None:
            self.min_offset = int(units.offset[0])
        if self._queue.topic == SCHEDULE:
            self.delayed.append(units)
        held = self.held
        own = np.zeros(len(units.place), bool)
        same_offset, same_size, same_code = own, own, own
        at = np.searchsorted(held.places, units.place)
        if len(held.places):
            at[at == len(held.places)] = 0
            own = held.places[at] == units.place
            same_offset, same_size = held.offsets[at] == units.offset, held.sizes[at] == units.size
            same_code = held.codes[at] == units.code
        fits = own & same_offset & same_size
        behind = ~own & (units.place >= self._log.end)
        somewhere = ~own & ~behind & self._log.has(units.place)
        self._add_misfits(units, own & ~same_offset, MISPLACED)
        self._add_misfits(units, own & same_offset & ~same_size, MISSIZED)
        if self._queue.topic != SCHEDULE:
            self._add_misfits(units, fits & ~same_code, MISTAGGED)
        self._add_misfits(units, behind, BEHIND)
        self._add_misfits(units, somewhere, ANOTHER)
        self._add_misfits(units, ~own & ~behind & ~somewhere, NOWHERE)
        self.pointed[at[fits]] = True

    def add_unsaved(self, last: int) -> None:
        """Take the records behind byte ``last`` of the log as pointed at: the broker has their units in memory."""
        unsaved = ~self.pointed & (self.held.places > last)
        if not unsaved.any():
            return
        offsets = self.held.offsets[unsaved]
        self.pointed |= unsaved
        self.unsaved = offsets
        self.max_offset = max(self.max_offset, int((offsets + self.held.messages[unsaved]).max()))
        if self.min_offset is None:
            self.min_offset = int(offsets.min())

    def tags(self) -> Counter[str | None]:
        """Return tag -> number of messages of the queue with a fitting unit."""
        names = self._log.tags.get(self._queue.topic, [])
        which, counts = self.held.tags[self.pointed], self.held.messages[self.pointed]
        sums = np.bincount(which, counts, len(names)).astype(np.int64).tolist()
        return Counter({name: count for name, count in zip(names, sums, strict=True) if count})

    def _add_misfits(self, units: Units, which: npt.NDArray[np.bool_], reason: str) -> None:
        add_problems(self._problems, reason, f"{self._queue.topic}/{self._queue.queue}", units.offset[which])


def fit_queue(log: LogColumns, queue: ConsumeQueue | DatabaseQueue, problems: Unread) -> Fit:
    """Compare all units of a queue with the log. Raises InputError for a file that cannot be opened."""
    fit = Fit(log, queue, problems)
    for item in queue.read():
        if isinstance(item, Bad):
            problems.add_bad(item)
        elif len(item.offset):
            fit.add(item)
    return fit


def add_problems(problems: Unread, reason: str, source: str, offsets: Column) -> None:
    """Count a problem once per offset, and keep the first offsets as samples."""
    for offset in offsets[:SAMPLES].tolist():
        problems.add_bad(Bad(source, offset, reason))
    if len(offsets) > SAMPLES:
        problems.add_bad(Bad(source, int(offsets[SAMPLES]), reason), len(offsets) - SAMPLES)


def _find_queues(record: CommitRecord) -> Iterator[tuple[str, int, int]]:
    """Yield topic, queue and offset for each queue of a record; light queues share records (`MultiDispatchUtils`)."""
    yield record.topic, record.queue, record.offset
    if "INNER_MULTI_DISPATCH" not in record.properties:
        return
    names = record.properties["INNER_MULTI_DISPATCH"].split(",")
    offsets = record.properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
    if len(names) == len(offsets):
        for name, offset in zip(names, offsets, strict=True):
            if name and (number := parse_number(offset, -1)) >= 0:
                yield name, 0 if name.startswith(LIGHT) else record.queue, number
