"""Read segment files of Kafka's log: consecutive record batches, in a folder called ``<topic>-<partition>``.

A record of an aborted transaction is skipped, and so is a record of a transaction whose end is not in the archive. The
rest is what a consumer with the isolation level ``read_committed`` gets. The ends of transactions are found by
`bindings.archive.kafka.transactions`.

A batch is read if its CRC-32C is right. A damaged batch is reported and skipped by its length; if the length is wrong,
too, reading continues at the next bytes that are a whole batch. If a file ends in the middle of a batch, its broker was
killed, or still writes to it. Compaction leaves gaps between offsets, which are no errors. Messages of the formats 0
and 1, which brokers before 0.11 wrote, are reported and not read. Zeros up to the end of the file are space that the
broker allocated in advance.

A `bindings.archive.mapping.FieldMapping` names the fields of a record that become its exchange and routing key. Headers
of Kafka are bytes without a type: they are read as longstr, and null as void; of headers with the same name, the last
one counts.

AMQP has no null bodies, and no keys besides the routing key. So a record without a value (a tombstone), and every
record whose key becomes neither exchange nor routing key, gets the headers that a bridge gives it: ``x-kafka-topic``,
``x-kafka-key`` (void if it has no key) and ``x-kafka-tombstone``. A bridge that replays such a message to Kafka
restores the same record. A header of the record itself whose name begins with ``x-kafka-`` is prefixed with
``x-kafka-header-``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from bindings.archive.effort import Effort
from bindings.archive.kafka.batches import (
    HEADER_BYTES,
    Header,
    find_sound_header,
    is_whole,
    read_header,
    read_records,
)
from bindings.archive.kafka.rows import build_items
from bindings.archive.kafka.transactions import SEGMENT, TransactionEnd, TransactionEnds
from bindings.archive.mapped import Bytes, Mapped, is_zero
from bindings.archive.mapping import USUAL, FieldMapping
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
from exchange.limits import BATCH_BYTES

__all__ = ["KafkaSegment", "topic_of"]

COMPANIONS: Final = (
    ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint", ".deleted", ".cleaned", ".swap",
)  # fmt: skip
"""Suffixes of files beside segments; the last three mark segments before or after replacement (`LogFileUtils`)."""
DOUBLES: Final = re.compile(r".+-\d+\.[0-9a-f]{32}-(?:delete|future|stray)")
"""Names of folders of partitions that will be deleted, or are not active yet."""
COMPANION_NAMES: Final = frozenset({
    "leader-epoch-checkpoint", "partition.metadata", "meta.properties", "bootstrap.checkpoint", "quorum-state",
    "cleaner-offset-checkpoint", "log-start-offset-checkpoint", "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
})  # fmt: skip
FOLDER: Final = re.compile(r"(.+)-(\d+)")
UNSOUND: Final = "not a record batch, or a damaged one"
TORN: Final = "the file ends in the middle of a record batch"
ENTRY_BYTES: Final = 8
"""Size of an index entry: last offset of a batch, relative to the base offset, and the byte where it begins."""
NOTHING: Final = ""
"""Used as a reason where only zeros follow up to the end of the file: nothing is reported."""
OLD_LEAST: Final = 14
"""Minimum length of a message of format 0, in bytes after the length field."""
MARKER: Final = "a marker of a transaction"
ABORTED: Final = "a record of a transaction that was aborted"
NOT_ENDED: Final = "a record of a transaction whose end is not in the archive"
UNCERTAIN: Final = "a record of a transaction whose marker is damaged: it may have been aborted"
NOT_ABOVE: Final = (
    "a record batch whose offset is not above those before it: it is there twice, or its offset is damaged"
)
NOT_BELOW: Final = (
    "a record batch whose offset is not below that behind it: it is there twice, or its offset is damaged"
)


@dataclass(frozen=True)
class KafkaSegment(Format):
    """The format of Kafka's segment files."""

    mapping: FieldMapping = USUAL

    name: ClassVar[str] = "Kafka segment"
    grows: ClassVar[bool] = True
    bias: ClassVar[Bias] = Bias.SURVIVORS
    note: ClassVar[str] = "exchange and routing key of records are where --exchange and --routing-key say"

    def recognises(self, head: bytes, path: Path) -> bool:
        """Return whether the file begins with a batch, whose CRC is checked if ``head`` holds it all, or is empty."""
        if SEGMENT.fullmatch(path.name) and not any(head):
            return True
        if len(head) < HEADER_BYTES:
            return False
        header = read_header(head)
        if header.magic in OLD:
            return _is_old(head, 0)
        return header.seems_sound and (header.size > len(head) or is_whole(head, header))

    def expects(self, path: Path) -> bool:
        return SEGMENT.fullmatch(path.name) is not None

    def resembles(self, head: bytes, path: Path) -> bool:
        return _find_whole(head, 0, len(head), Effort(0)) is not None

    def is_companion(self, path: Path) -> bool:
        if path.suffix in COMPANIONS or path.name in COMPANION_NAMES:
            return True
        return path.suffix == ".log" and DOUBLES.fullmatch(path.parent.name) is not None

    def plan(self, path: str, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        """Return splits that begin at batches: at those in the index, else at those found from header to header."""
        if len(plan_ranges(path, split_bytes)) == 1:
            return [Split(path)]
        with Mapped(path) as data:
            place, floor = 0, _floor_of(path)
            starts = [(place, floor)]
            for place, floor in _read_index(path, data, 1):
                if place - starts[-1][0] >= split_bytes:
                    starts.append((place, floor))
            starts += _follow_headers(data, place, floor, starts[-1][0], split_bytes)
            ends = [start for start, _ in starts[1:]]
            return [
                Split(path, start, end, floor=floor)
                for (start, floor), end in zip(starts, [*ends, len(data)], strict=True)
            ]

    def plan_complete(self, path: str, start: int = 0, split_bytes: int = SPLIT_BYTES) -> CompletePart:
        """Return all batches up to the last whole one.

        They end before the first transaction that is still open, as for a consumer with ``read_committed``.
        """
        with Mapped(path) as data:
            starts, last, place, floor = [start], start, start, -1
            ends, is_regular = TransactionEnds(path, data), True
            while place + HEADER_BYTES <= len(data):
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
        topic = topic_of(split.path)
        mapped = Mapped(split.path)
        with mapped as data:
            end = len(data) if split.end is None else split.end
            ends = TransactionEnds(split.path, data)
            for start, stop, floor in _split_stretches(split, data, end):
                effort, order, place = Effort(start), Order(floor), start
                while place < stop:
                    header, behind, trouble = _check_batch(data, place, stop, effort)
                    if header is not None:
                        trouble = order.trouble_of(header, data, behind)
                    if header is None or trouble is not None:
                        if trouble != NOTHING:
                            yield Bad(split.path, place, trouble or "", take_sample(data[place : place + 100]))
                    elif (skipped := _find_skip(header, place, ends)) is not None:
                        # The last offset in the header is not checked here, as skipped batches are not unpacked.
                        order.accept(header.base_offset, header.base_offset)
                        yield skipped
                    else:
                        items, last = self._batch(data[place:behind], split.path, place, topic, columns)
                        if last is not None:
                            order.accept(header.base_offset, last)
                        yield from items
                    place = behind
            if mapped.problem:
                yield Bad(split.path, len(data), mapped.problem)

    def _batch(
        self, data: bytes, path: str, place: int, topic: str, columns: Sequence[str] | None
    ) -> tuple[list[Item], int | None]:
        """Return the items of a whole batch, and the offset of its last record; None if the batch cannot be read."""
        header = read_header(data)
        if not header.records:  # compaction may keep a producer's last batch without records
            return [], header.base_offset
        try:
            records = read_records(data, header)
            items = list(build_items(records, path, topic, self.mapping, SCHEMA.names if columns is None else columns))
        except (InputError, MemoryError) as error:
            reason = "needs more memory than there is" if isinstance(error, MemoryError) else error
            return [Bad(path, place, f"a record batch that {reason}", take_sample(data))], None
        return items, int(records.offsets.max())


def _find_skip(header: Header, place: int, ends: TransactionEnds) -> Skipped | None:
    """Return the reason to skip the records of a batch, which are no publishings; None if they are publishings."""
    if header.is_control:
        return Skipped(MARKER, header.records)
    if not header.is_transactional or not header.records:
        return None
    end = ends.end_of(header, place)
    return None if end is TransactionEnd.COMMIT else Skipped(ENDS[end], header.records)


ENDS: Final = {TransactionEnd.ABORT: ABORTED, TransactionEnd.DAMAGED: UNCERTAIN, None: NOT_ENDED}


class Order:
    """Checks that offsets rise from batch to batch, since the CRC of a batch does not cover its offset."""

    def __init__(self, floor: int) -> None:
        self._before = floor
        """Last offset of the batch before the last accepted one."""
        self._base = self._last = floor
        """First and last offset of the last accepted batch."""

    def trouble_of(self, header: Header, data: Bytes, behind: int) -> str | None:
        """Return what is wrong with the offset of the next batch, whose end is ``behind``; None if it is in order."""
        base, last = header.base_offset, header.last_offset
        if base <= self._last:
            # The offset of the previous batch may be the damaged one: then this batch fits between the two before it.
            return None if self._before < base < self._base and last < self._base else NOT_ABOVE
        if (
            base > self._last + 1
            and _seems_sound_at(data, behind)
            and self._last < read_header(data, behind).base_offset <= last
        ):
            return NOT_BELOW
        return None

    def accept(self, base: int, last: int) -> None:
        """Accept a batch that is in order; its records were read up to offset ``last``.

        Never call it for a refused batch: its offsets may be wrong, and then good batches after it would be refused.
        """
        if base > self._last:
            self._before = self._last
        self._base, self._last = base, last


def topic_of(path: str) -> str:
    """Return the topic of a segment file: the name of its folder without the partition."""
    folder = Path(path).resolve().parent.name
    name = FOLDER.fullmatch(folder)
    return name[1] if name else folder


OLD: Final = (0, 1)
"""Message formats before record batches."""


def _is_old(data: Bytes, place: int) -> bool:
    """Return whether a message of format 0 or 1 begins at ``place``: its length, CRC-32 and format are right."""
    header = read_header(data, place)
    if header.magic not in OLD or header.base_offset < 0 or not OLD_LEAST <= header.length <= BATCH_BYTES:
        return False
    message = data[place + 12 : place + header.size]
    return len(message) == header.length and zlib.crc32(message[4:]) == int.from_bytes(message[:4], "big")


def _check_batch(data: Bytes, place: int, end: int, effort: Effort) -> tuple[Header | None, int, str | None]:
    """Return the header of the whole batch at ``place`` or None, where to read on, and why there is no batch."""
    if is_zero(data, place):
        return None, len(data), NOTHING
    if place + HEADER_BYTES > len(data):
        return None, len(data), TORN
    header = read_header(data, place)
    behind = place + header.size
    if behind <= len(data) and effort.allows(behind, header.size) and _is_old(data, place):
        return None, min(behind, end), f"a message of Kafka's old format {header.magic}, which is not read"
    if header.seems_sound and behind <= len(data):
        if _is_whole_at(data, place, header, effort):
            return header, behind, None
        if behind == len(data) or _seems_sound_at(data, behind):
            return None, behind, "a record batch whose checksum is wrong"
    following = _find_whole(data, place + 1, end, effort)
    if following is not None:
        return None, following, UNSOUND
    return None, end, TORN if header.seems_sound else UNSOUND


def _floor_of(path: str) -> int:
    """Return an offset below all offsets of a segment: its base offset, which is its name, minus 1; -1 if unknown."""
    name = Path(path).name
    return int(name[:20]) - 1 if SEGMENT.fullmatch(name) else -1


def _split_stretches(split: Split, data: Bytes, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the stretches of a split that are read independently: start, end, and an offset below all of its offsets.

    A stretch begins at each batch in the index, regardless of damage before it. Splits begin at such batches, too, so
    a damaged file gives the same records whether it is read whole or in splits.
    """
    start, floor = split.start, max(split.floor, _floor_of(split.path))
    for place, below in _read_index(split.path, data, start + 1):
        if place >= end:
            break
        yield start, place, floor
        start, floor = place, below
    yield start, end, floor


def _read_index(path: str, data: Bytes, least: int) -> Iterator[tuple[int, int]]:
    """Yield the batches in a segment's index from byte ``least`` on: the position of each, and an offset below its own.

    The index may be missing, stale or damaged: it is used as long as its offsets and positions rise, and only where the
    header of a batch agrees with it.
    """
    base = _floor_of(path) + 1
    try:
        with Path(path).with_suffix(".index").open("rb") as file:
            index = file.read(len(data) // HEADER_BYTES * ENTRY_BYTES)
    except OSError:
        return
    entries = np.frombuffer(index, ">i4", len(index) // ENTRY_BYTES * 2).astype(np.int64)
    offsets, places = entries[::2], entries[1::2]
    rising = (np.diff(offsets) > 0) & (np.diff(places) > 0)
    count = len(places) if rising.all() else int(np.argmin(rising)) + 1
    for n in range(int(np.searchsorted(places[:count], least)), count):
        place, floor = int(places[n]), base + int(offsets[n - 1]) if n else base - 1
        if not _seems_sound_at(data, place):
            continue
        header = read_header(data, place)
        if floor < header.base_offset and header.last_offset <= base + int(offsets[n]):
            yield place, floor


def _follow_headers(data: Bytes, place: int, floor: int, start: int, split_bytes: int) -> list[tuple[int, int]]:
    """Return where further splits begin after the last batch in the index: positions of batches, with offsets below.

    Headers must lead from batch to batch up to the end of the file, and offsets must rise: then all batches are in
    order, wherever reading begins. Otherwise their order depends on earlier batches, and the rest of the file must be
    one split.
    """
    starts: list[tuple[int, int]] = []
    last = place
    while place < len(data):
        if not _seems_sound_at(data, place):
            is_whole_before = last < place and is_whole(data[last:place], read_header(data, last))
            return starts if is_whole_before and is_zero(data, place) else []
        header = read_header(data, place)
        if header.base_offset <= floor or place + header.size > len(data):
            return []
        if place - start >= split_bytes:
            starts.append((place, floor))
            start = place
        last, place, floor = place, place + header.size, header.last_offset
    return starts


def _is_whole_at(data: Bytes, place: int, header: Header, effort: Effort) -> bool:
    behind = place + header.size
    return (
        header.seems_sound
        and behind <= len(data)
        and effort.allows(behind, header.size)
        and is_whole(data[place:behind], header)
    )


def _seems_sound_at(data: Bytes, place: int) -> bool:
    return place + HEADER_BYTES <= len(data) and read_header(data, place).seems_sound


def _find_whole(data: Bytes, place: int, end: int, effort: Effort) -> int | None:
    """Return the position of the next whole batch that begins before ``end``; None if there is none."""
    while (place := find_sound_header(data, place)) < end:
        if _is_whole_at(data, place, read_header(data, place), effort):
            return place
        place += 1
    return None
