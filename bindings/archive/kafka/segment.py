"""Read segment files of Kafka's log: consecutive record batches, in a folder called ``<topic>-<partition>``.

A record of an aborted transaction is skipped, and so is a record of a transaction whose end is not in the archive. The
rest is what a consumer with the isolation level ``read_committed`` gets. The ends of transactions are found by
`bindings.archive.kafka.transactions`.

`bindings.archive.kafka.walk` finds the batches that are whole and in order, and reports damage. Brokers before 0.11
wrote messages of the formats 0 and 1 in place of batches (`bindings.archive.kafka.messages`); a segment may hold both.

A `bindings.archive.mapping.FieldMapping` names the fields of a record that become its exchange and routing key. Headers
of Kafka are bytes without a type: they are read as longstr, and null as void; of headers with the same name, the last
one counts.

AMQP has no null bodies, and no keys besides the routing key, which is empty for a record without a key. So a record
without a value (a tombstone), whose body is null in the row, and every record whose key is null, or becomes neither
exchange nor routing key, gets the headers that a bridge gives it: ``x-kafka-topic``, ``x-kafka-key`` (void if it has no
key) and ``x-kafka-tombstone``. A bridge that replays such a message to Kafka restores the same record. A header of the
record itself whose name begins with ``x-kafka-`` is prefixed with ``x-kafka-header-``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final

from bindings.archive.kafka.batches import RecordColumns, read_records
from bindings.archive.kafka.header import Header, find_sound_header, has_header, is_whole, read_header
from bindings.archive.kafka.messages import Run, read_message
from bindings.archive.kafka.rows import build_items
from bindings.archive.kafka.transactions import TransactionEnd, TransactionEnds
from bindings.archive.kafka.walk import (
    NOT_ABOVE,
    SEGMENT,
    SegmentWalk,
    WholeBatch,
    find_whole,
    follow_headers,
    parse_floor,
    read_index,
    split_stretches,
)
from bindings.archive.mapped import Effort, Mapped, is_copied
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.places import AnyPath, Place
from bindings.archive.reading import (
    SPLIT_BYTES,
    Bad,
    Bias,
    CompletePart,
    Format,
    Item,
    Skipped,
    Split,
    plan_ranges,
    take_sample,
)
from bindings.archive.record import SCHEMA
from exchange.errors import InputError

COMPANIONS: Final = (
    ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint", ".deleted", ".cleaned", ".swap",
)  # fmt: skip
"""Suffixes of files beside segments; the last three mark segments before or after replacement (`LogFileUtils`)."""
DOUBLES: Final = re.compile(r".+-[0-9]+\.[0-9a-f]{32}-(?:delete|future|stray)")
"""Names of folders of partitions that will be deleted, or are not active yet."""
COMPANION_NAMES: Final = frozenset({
    "leader-epoch-checkpoint", "partition.metadata", "meta.properties", "bootstrap.checkpoint", "quorum-state",
    "cleaner-offset-checkpoint", "log-start-offset-checkpoint", "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
})  # fmt: skip
FOLDER: Final = re.compile(r"(.+)-([0-9]+)")
MARKER: Final = "a marker of a transaction"
ABORTED: Final = "a record of a transaction that was aborted"
NOT_ENDED: Final = "a record of a transaction whose end is not in the archive"
UNCERTAIN: Final = "a record of a transaction whose marker is damaged: it may have been aborted"


@dataclass(frozen=True)
class KafkaSegment(Format):
    """The format of Kafka's segment files."""

    mapping: FieldMapping = USUAL

    name: ClassVar[str] = "Kafka segment"
    grows: ClassVar[bool] = True
    bias: ClassVar[Bias] = Bias.SURVIVORS
    note: ClassVar[str] = "exchange and routing key of records are read from where --exchange and --routing-key point"

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether the file begins with a batch, whose CRC is checked if ``head`` holds it all, or is empty."""
        if SEGMENT.fullmatch(path.name) and not any(head):
            return True
        if not has_header(head, 0):
            return False
        header = read_header(head)
        if not header.seems_sound:
            return False
        if header.size > len(head):
            return not header.is_old  # fewer of its fields have only a few values
        return is_whole(head, header)

    def expects(self, path: AnyPath) -> bool:
        return SEGMENT.fullmatch(path.name) is not None

    def resembles(self, head: bytes, path: AnyPath) -> bool:
        return find_whole(head, 0, len(head), Effort(0)) is not None

    def is_companion(self, name: str, folder: str, is_beside: Callable[[str], bool]) -> bool:
        if name.endswith(COMPANIONS) or name in COMPANION_NAMES:
            return True
        return name.endswith(".log") and DOUBLES.fullmatch(folder) is not None

    def plan(self, path: Place, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        """Return splits that begin at batches: at those in the index, else at those found from header to header."""
        if is_copied(path) or len(plan_ranges(path, split_bytes)) == 1:
            return [Split(path)]
        with Mapped(path) as data:
            place, floor = 0, parse_floor(path)
            starts = [(place, floor)]
            for place, floor in read_index(path, data, 1):
                if place - starts[-1][0] >= split_bytes:
                    starts.append((place, floor))
            starts += follow_headers(data, place, floor, starts[-1][0], split_bytes)
            ends = [start for start, _ in starts[1:]]
            return [
                Split(path, start, end, floor=floor)
                for (start, floor), end in zip(starts, [*ends, len(data)], strict=True)
            ]

    def plan_complete(self, path: Place, start: int = 0, split_bytes: int = SPLIT_BYTES) -> CompletePart:
        """Return all batches up to the last whole one.

        They end before the first transaction that is still open, as for a consumer with ``read_committed``.
        """
        with Mapped(path) as data:
            starts, last, place, floor = [start], start, start, -1
            ends, is_regular = TransactionEnds(path, data), True
            while has_header(data, place):
                header = read_header(data, place)
                if header.seems_sound and _find_skip(header, place, ends) == Skipped(NOT_ENDED, header.records):
                    break
                behind = place + header.size if header.seems_sound else find_sound_header(data, place + 1)
                if behind > len(data) or (behind == len(data) and not header.seems_sound):
                    break
                if place - starts[-1] >= split_bytes:
                    starts.append(place)
                is_regular = is_regular and header.seems_sound and header.base_offset > floor
                floor = header.last_offset
                last, place = place, behind
            if not is_regular:  # which batches are in order depends on earlier ones, so all must be one split
                del starts[1:]
            if place > last and not is_whole(data[last:place], read_header(data, last)):
                place = last  # it may be incomplete; once another batch follows, it is reported as damaged
            splits = [Split(path, *pair, exact=True) for pair in pairwise([*starts, place]) if pair[0] < pair[1]]
            return CompletePart(splits, place, is_open=place < len(data))

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        names = SCHEMA.names if columns is None else columns
        mapped = Mapped(split.path)
        with mapped as data:
            end = len(data) if split.end is None else split.end
            ends = TransactionEnds(split.path, data)
            for start, stop, floor in split_stretches(split, data, end):
                walk = SegmentWalk(split.source, data, start, stop, floor)
                for step in walk.steps():
                    if isinstance(step, Bad):
                        yield step
                    elif isinstance(step, Run):
                        yield from self._build_items(step.records, split.source, names)
                    elif (skipped := _find_skip(step.header, step.place, ends)) is not None:
                        # The last offset in the header is not checked here, as skipped batches are not unpacked.
                        walk.accept(step.header.base_offset, step.header.base_offset)
                        yield skipped
                    else:
                        yield from self._read_batch(walk, step, data[step.place : step.end], split.source, names)
            if mapped.problem:
                yield Bad(split.source, len(data), mapped.problem, records=None)

    def _read_batch(
        self, walk: SegmentWalk, batch: WholeBatch, data: bytes, path: str, columns: Sequence[str]
    ) -> list[Item]:
        """Return the items of a whole batch, and accept the batch unless it cannot be read."""
        header = batch.header
        if not header.records:  # compaction may keep a producer's last batch without records
            walk.accept(header.base_offset, header.base_offset)
            return []
        try:
            records = read_message(data, header) if header.is_old else read_records(data, header)
            items = list(self._build_items(records, path, columns))
        except (InputError, MemoryError) as error:
            reason = "needs more memory than there is" if isinstance(error, MemoryError) else error
            return [Bad(path, batch.place, f"a {batch.noun} that {reason}", take_sample(data), None)]
        first, last = int(records.offsets.min()), int(records.offsets.max())
        if header.is_old and not walk.is_above(first):  # the offset of a wrapper has no CRC, and decides those in it
            return [Bad(path, batch.place, NOT_ABOVE, take_sample(data), None)]
        walk.accept(first if header.is_old else header.base_offset, last)
        return items

    def _build_items(self, records: RecordColumns, path: str, columns: Sequence[str]) -> Iterator[Item]:
        return build_items(records, path, parse_topic(path), self.mapping, columns)


def _find_skip(header: Header, place: int, ends: TransactionEnds) -> Skipped | None:
    """Return the reason to skip the records of a batch, which are no publishings; None if they are publishings."""
    if header.is_control:
        return Skipped(MARKER, header.records)
    if not header.is_transactional or not header.records:
        return None
    end = ends.end_of(header, place)
    return None if end is TransactionEnd.COMMIT else Skipped(ENDS[end], header.records)


ENDS: Final = {TransactionEnd.ABORT: ABORTED, TransactionEnd.DAMAGED: UNCERTAIN, None: NOT_ENDED}


def parse_topic(path: str) -> str:
    """Return the topic of a segment file: the name of its folder without the partition."""
    folder = Path(path).resolve().parent.name
    name = FOLDER.fullmatch(folder)
    return name[1] if name else folder
