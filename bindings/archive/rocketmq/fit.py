"""Whether the units of a queue fit to the records of the log: both as columns, compared at once.

The log is the truth. A unit fits if it points at a record that says that it is of this queue, at this offset and of
this size; what does not fit is told with its reason and counted nowhere else. A unit that points before the log begins
is of a message that was deleted with its file, as is usual.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bindings.archive.inspection import SAMPLES, Inspection
from bindings.archive.reading import Bad
from bindings.archive.rocketmq.commit import CommitLog, Stored, parse_number
from bindings.archive.rocketmq.log import COMMITTED, TRANSACTION
from bindings.archive.rocketmq.queue import Column, ConsumeQueue, Units, encode_tag

__all__ = ["SCHEDULE", "WHEEL", "Fit", "QueueRecords", "LogColumns", "fit_queue", "add_problems"]

SCHEDULE: Final = "SCHEDULE_TOPIC_XXXX"
"""Delayed messages wait here, those of a level in the queue of that number less one (`ScheduleMessageService`)."""
WHEEL: Final = "rmq_sys_wheel_timer"
"""Messages with a time of their own wait here (`TimerMessageStore`), since 5.0."""
LIGHT: Final = "%LMQ%"
BEHIND: Final = "a unit of a queue that points behind the end of the log"
NOWHERE: Final = "a unit of a queue that points at no message"
ANOTHER: Final = "a unit of a queue that points at another queue's message"
MISPLACED: Final = "a unit of a queue that is not at its message's offset"
MISSIZED: Final = "a unit of a queue that tells another size than its message"
MISTAGGED: Final = "a unit of a queue that has another code than its message's tag"
EMPTY: Final = np.zeros(0, np.int64)


class QueueRecords(NamedTuple):
    """The records of one queue in the log, column by column, in the order of the log."""

    places: Column
    sizes: Column
    offsets: Column
    stored: Column
    codes: Column
    messages: Column
    """In the record."""
    tags: Column
    """Which of the topic's tags: a place in `LogColumns.tags`."""


NOTHING: Final = QueueRecords(*[EMPTY] * 7)


class LogColumns:
    """A log, read: the records of each queue, and what of the log itself is to be told."""

    def __init__(self, log: CommitLog, indexed_to: int, problems: Inspection) -> None:
        self.begin, self.end = log.begin, 0
        """Where the first file begins, where the last message ends."""
        self.first_stored: int | None = None
        self.last_stored: int | None = None
        self.behind_index = 0
        """Messages with keys that stand behind the last one that the index has."""
        self.tags: dict[str, list[str | None]] = {}
        """Topic -> the tags of its messages."""
        self.waiting: dict[object, int] = {}
        """What identifies a message in the wheel -> when it is due, in milliseconds since 1970."""
        places = array("q")
        held: dict[tuple[str, int], list[array[int]]] = {}
        numbers: dict[tuple[str, str | None], int] = {}
        codes: dict[str | None, int] = {}
        for record in log.records():
            if isinstance(record, Bad):
                problems.add(record)
                continue
            places.append(record.place)
            self.end = record.place + record.size
            self.first_stored = min(record.stored, self.first_stored or record.stored)
            self.last_stored = max(record.stored, self.last_stored or record.stored)
            self.behind_index += record.place > indexed_to and bool(record.keys or record.unique_id)
            if record.topic == WHEEL:
                self._in_wheel(record)
            if record.system_flag & TRANSACTION not in COMMITTED:
                continue  # half a transaction, or one rolled back: it is in no queue
            tag = record.tag
            if tag not in codes:
                codes[tag] = encode_tag(tag)
            for topic, queue, offset in _find_queues(record):
                if (topic, tag) not in numbers:
                    told = self.tags.setdefault(topic, [])
                    numbers[topic, tag] = len(told)
                    told.append(tag)
                columns = held.setdefault((topic, queue), [array("q") for _ in QueueRecords._fields])
                number = numbers[topic, tag]
                row = (record.place, record.size, offset, record.stored, codes[tag], record.messages, number)
                for column, value in zip(columns, row, strict=True):
                    column.append(value)
        self.places = np.array(places, np.int64)
        """Of all records, in order."""
        self.held = {
            where: QueueRecords(*[np.array(column, np.int64) for column in columns]) for where, columns in held.items()
        }
        """Topic and queue -> its records."""

    def has(self, places: Column) -> npt.NDArray[np.bool_]:
        """Whether a record stands at each of these bytes."""
        if not len(self.places):
            return np.zeros(len(places), bool)
        at = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        return np.asarray(self.places[at] == places)

    def _in_wheel(self, record: Stored) -> None:
        due = parse_number(record.properties.get("TIMER_OUT_MS", ""), -1)
        if due >= 0:  # what waits for long is put in again and again
            self.waiting[record.properties.get("REAL_TOPIC"), record.unique_id or record.place] = due


class Fit:
    """What of a queue fits to the log, in the making."""

    def __init__(self, log: LogColumns, queue: ConsumeQueue, problems: Inspection) -> None:
        self.held = log.held.get((queue.topic, queue.queue), NOTHING)
        self.pointed = np.zeros(len(self.held.places), bool)
        """Of each record, whether a unit points at it."""
        self.min_offset: int | None = None
        """Of the first unit whose message the log did not lose to age."""
        self.max_offset = queue.files[0].base // 20 if queue.files and not queue.batches else 0
        """Behind the last unit."""
        self.deleted = 0
        """Units that point before the log begins."""
        self.delayed: list[Units] = []
        """Of delayed messages, the units that do not."""
        self._log, self._problems = log, problems
        self._queue = queue

    @classmethod
    def of_log(cls, log: LogColumns, where: tuple[str, int]) -> Fit:
        """What the log alone tells of a topic's queue."""
        found = cls(log, ConsumeQueue(*where, ()), Inspection())
        found.pointed[:] = True
        found.min_offset = int(found.held.offsets.min())
        found.max_offset = int((found.held.offsets + found.held.messages).max())
        return found

    def add(self, units: Units) -> None:
        """Compare the next units of the queue."""
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
        self._tell(units, own & ~same_offset, MISPLACED)
        self._tell(units, own & same_offset & ~same_size, MISSIZED)
        if self._queue.topic != SCHEDULE:
            self._tell(units, fits & ~same_code, MISTAGGED)
        self._tell(units, behind, BEHIND)
        self._tell(units, somewhere, ANOTHER)
        self._tell(units, ~own & ~behind & ~somewhere, NOWHERE)
        self.pointed[at[fits]] = True

    def tags(self) -> Counter[str | None]:
        """Tag -> messages that fit."""
        names = self._log.tags.get(self._queue.topic, [])
        which, counts = self.held.tags[self.pointed], self.held.messages[self.pointed]
        sums = np.bincount(which, counts, len(names)).astype(np.int64).tolist()
        return Counter({name: count for name, count in zip(names, sums, strict=True) if count})

    def _tell(self, units: Units, which: npt.NDArray[np.bool_], reason: str) -> None:
        add_problems(self._problems, reason, f"{self._queue.topic}/{self._queue.queue}", units.offset[which])


def fit_queue(log: LogColumns, queue: ConsumeQueue, problems: Inspection) -> Fit:
    """What of a queue fits to the log. Raises InputError for a file that cannot be opened."""
    found = Fit(log, queue, problems)
    for item in queue.read():
        if isinstance(item, Bad):
            problems.add(item)
        elif len(item.offset):
            found.add(item)
    return found


def add_problems(problems: Inspection, reason: str, source: str, offsets: Column) -> None:
    """Count what does not fit, some of it with its place."""
    for offset in offsets[:SAMPLES].tolist():
        problems.add(Bad(source, offset, reason))
    if len(offsets) > SAMPLES:
        problems.bad[reason] += len(offsets) - SAMPLES


def _find_queues(record: Stored) -> Iterator[tuple[str, int, int]]:
    """The queues that have a record, and its offsets there; light queues share one record (`MultiDispatchUtils`)."""
    yield record.topic, record.queue, record.offset
    if "INNER_MULTI_DISPATCH" not in record.properties:
        return
    names = record.properties["INNER_MULTI_DISPATCH"].split(",")
    offsets = record.properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
    if len(names) == len(offsets):
        for name, offset in zip(names, offsets, strict=True):
            if name and (number := parse_number(offset, -1)) >= 0:
                yield name, 0 if name.startswith(LIGHT) else record.queue, number
