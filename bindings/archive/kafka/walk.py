"""Walk over the batches of a segment: those that are whole and in order, and what is damaged between them.

A batch is whole if its CRC is right. A damaged batch is reported and passed over by its length; if the length is wrong,
too, the walk goes on at the next bytes that are a whole batch. Offsets must rise from batch to batch: a batch whose
offset does not is reported and left out. If a file ends in the middle of a batch, its broker was killed, or still
writes to it. Compaction leaves gaps between offsets, which are no errors. Zeros up to the end of the file are space
that the broker allocated in advance. Messages of the formats 0 and 1 that are not compressed come many at a time
(`bindings.archive.kafka.messages`), as each of them is a batch of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from bindings.archive.kafka.header import LEAST_BYTES, Header, find_sound_header, has_header, is_whole, read_header
from bindings.archive.kafka.messages import Run, take_plain_messages
from bindings.archive.mapped import Bytes, Effort, is_zero
from bindings.archive.places import Place, open_file, to_path
from bindings.archive.reading import Bad, Split, take_sample

SEGMENT: Final = re.compile(r"[0-9]{20}\.log(?:\.gz)?")
"""Names of segments: the offset of the first record."""
UNSOUND: Final = "not a record batch, or a damaged one"
TORN: Final = "the file ends in the middle of a record batch"
DAMAGED: Final = "a record batch whose checksum is wrong"
ENTRY_BYTES: Final = 8
"""Size of an index entry: last offset of a batch, relative to the base offset, and the byte where it begins."""
OFFSET_BYTES: Final = 8
PREFIX_BYTES: Final = 12
"""Size of offset and length, which begin a batch."""
NOTHING: Final = ""
"""Used as a reason where only zeros follow up to the end of the file: nothing is reported."""
NOT_ABOVE: Final = (
    "a record batch whose offset is not above those before it: it is there twice, or its offset is damaged"
)
NOT_BELOW: Final = (
    "a record batch whose offset is not below that behind it: it is there twice, or its offset is damaged"
)


class WholeBatch(NamedTuple):
    """A batch that is whole and in order, or a single message of format 0 or 1."""

    header: Header
    place: int
    """The byte at which it begins."""
    end: int

    @property
    def noun(self) -> str:
        """What it is, for people."""
        return f"message of Kafka's format {self.header.magic}" if self.header.is_old else "record batch"


Step: TypeAlias = WholeBatch | Run | Bad


class SegmentWalk:
    """Walks over a stretch of a segment, whose batches begin before ``stop`` and have offsets above ``floor``."""

    def __init__(self, path: str, data: Bytes, start: int, stop: int, floor: int) -> None:
        self._path, self._data = path, data
        self._start, self._stop = start, stop
        self._order = _OffsetCheck(floor)

    def steps(self) -> Iterator[Step]:
        """Yield the batches, runs of messages and damage in the order of the file.

        Call `accept` for each `WholeBatch` that could be read, before the next step.
        """
        data, place, effort = self._data, self._start, Effort(self._start)
        while place < self._stop:
            run = take_plain_messages(data, place, self._stop, self._order.last, effort)
            if run is not None:
                for offset in run.records.offsets[-2:].tolist():
                    self._order.accept(offset, offset)
                yield run
                place = run.end
                continue
            header, behind, trouble = _check_batch(data, place, self._stop, effort)
            if header is not None:
                trouble = self._order.trouble_of(header, data, behind)
            if header is not None and trouble is None:
                yield WholeBatch(header, place, behind)
            elif trouble != NOTHING:
                yield Bad(self._path, place, trouble or "", take_sample(data[place : place + 100]), None)
            place = behind

    def accept(self, first: int, last: int) -> None:
        """Accept the last batch, whose records were read from offset ``first`` to ``last``.

        Never call it for a batch that cannot be read: its offsets may be wrong, and then good ones behind it would be
        refused.
        """
        self._order.accept(first, last)

    def is_above(self, offset: int) -> bool:
        """Return whether an offset is above those of all batches that were accepted."""
        return offset > self._order.last


class _OffsetCheck:
    """Checks that offsets rise from batch to batch, since the CRC of a batch does not cover its offset."""

    def __init__(self, floor: int) -> None:
        self._before = floor
        """Last offset of the batch before the last accepted one."""
        self._base = self.last = floor
        """First and last offset of the last accepted batch."""

    def trouble_of(self, header: Header, data: Bytes, behind: int) -> str | None:
        """Return what is wrong with the offset of the next batch, whose end is ``behind``; None if it is in order."""
        base, last = header.base_offset, header.last_offset
        if base <= self.last:
            # The offset of the previous batch may be the damaged one: then this batch fits between the two before it.
            return None if self._before < base < self._base and last < self._base else NOT_ABOVE
        if (
            base > self.last + 1
            and is_plausible_at(data, behind)
            and self.last < read_header(data, behind).base_offset <= last
        ):
            return NOT_BELOW
        return None

    def accept(self, base: int, last: int) -> None:
        """Accept a batch that is in order."""
        if base > self.last:
            self._before = self.last
        self._base, self.last = base, last


def _check_batch(data: Bytes, place: int, end: int, effort: Effort) -> tuple[Header | None, int, str | None]:
    """Return the header of the whole batch at ``place`` or None, where to read on, and why there is no batch."""
    if is_zero(data, place):  # few zeros may be the beginning of a batch, whose offset is 0 only in the first one
        return None, len(data), NOTHING if len(data) - place >= (OFFSET_BYTES if place else PREFIX_BYTES) else TORN
    if not has_header(data, place):
        return None, len(data), TORN
    header = read_header(data, place)
    behind = place + header.size
    if header.seems_sound and behind <= len(data):
        if _is_whole_at(data, place, header, effort):
            return header, behind, None
        if behind == len(data) or is_plausible_at(data, behind):
            return None, behind, DAMAGED
    following = find_whole(data, place + 1, end, effort)
    if following is not None:
        return None, following, UNSOUND
    return None, end, TORN if header.seems_sound else UNSOUND


def parse_floor(path: object) -> int:
    """Return an offset below all offsets of a segment: its base offset, which is its name, minus 1; -1 if unknown."""
    name = PurePath(str(path)).name
    return int(name[:20]) - 1 if SEGMENT.fullmatch(name) else -1


def split_stretches(split: Split, data: Bytes, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the stretches of a split that are read independently: start, end, and an offset below all of its offsets.

    A stretch begins at each batch in the index, regardless of damage before it. Splits begin at such batches, too, so
    a damaged file gives the same records whether it is read whole or in splits.
    """
    start, floor = split.start, max(split.floor, parse_floor(split.path))
    for place, below in read_index(split.path, data, start + 1):
        if place >= end:
            break
        yield start, place, floor
        start, floor = place, below
    yield start, end, floor


def read_index(path: Place, data: Bytes, least: int) -> Iterator[tuple[int, int]]:
    """Yield the batches in a segment's index from byte ``least`` on: the position of each, and an offset below its own.

    The index may be missing, stale or damaged: it is used as long as its offsets and positions rise, and only where the
    header of a batch agrees with it.
    """
    base = parse_floor(path) + 1
    try:
        with open_file(to_path(path).with_suffix(".index")) as file:
            index = file.read(len(data) // LEAST_BYTES * ENTRY_BYTES)
    except OSError:
        return
    entries = np.frombuffer(index, ">i4", len(index) // ENTRY_BYTES * 2).astype(np.int64)
    offsets, places = entries[::2], entries[1::2]
    rising = (np.diff(offsets) > 0) & (np.diff(places) > 0)
    count = len(places) if rising.all() else int(np.argmin(rising)) + 1
    for n in range(int(np.searchsorted(places[:count], least)), count):
        place, floor = int(places[n]), base + int(offsets[n - 1]) if n else base - 1
        if not is_plausible_at(data, place):
            continue
        header = read_header(data, place)
        if floor < header.base_offset and header.last_offset <= base + int(offsets[n]):
            yield place, floor


def follow_headers(data: Bytes, place: int, floor: int, start: int, split_bytes: int) -> list[tuple[int, int]]:
    """Return where further splits begin after the last batch in the index: positions of batches, with offsets below.

    Headers must lead from batch to batch up to the end of the file, and offsets must rise: then all batches are in
    order, wherever reading begins. Otherwise their order depends on earlier batches, and the rest of the file must be
    one split.
    """
    starts: list[tuple[int, int]] = []
    last = place
    while place < len(data):
        if not is_plausible_at(data, place):
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


def is_plausible_at(data: Bytes, place: int) -> bool:
    """Return whether a header begins at ``place`` whose fields are possible."""
    return has_header(data, place) and read_header(data, place).seems_sound


def find_whole(data: Bytes, place: int, end: int, effort: Effort) -> int | None:
    """Return the position of the next whole batch that begins before ``end``; None if there is none."""
    while (place := find_sound_header(data, place)) < end:
        if _is_whole_at(data, place, read_header(data, place), effort):
            return place
        place += 1
    return None
