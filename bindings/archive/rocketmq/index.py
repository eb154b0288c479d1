"""Read RocketMQ's index files, which map keys to positions in the commit log (`IndexFile`, `IndexService`).

A file is a header, slots and units. The hash of ``topic#key`` gives a slot, which holds the number of the last unit of
its chain; each unit holds the number of the previous unit. A unit holds the hash, not the key, so the keys of the
message that it points at must be compared: another key may have the same hash. Each key in KEYS and the unique id are
indexed; the offset id needs no index.

The file does not state its number of slots, which every lookup needs. The number follows from the size of the file if
slots and units have the default ratio, else from the positions in the first and the last unit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bindings.archive.mapped import Bytes, Mapped
from bindings.archive.reading import Bad, take_sample
from exchange.errors import InputError
from exchange.partition.hashing.java import string_hash

HEADER: Final = struct.Struct(">qqqqii")
UNIT: Final = struct.Struct(">iqii")
COLUMNS: Final = np.dtype([("hash", ">i4"), ("place", ">i8"), ("seconds", ">i4"), ("before", ">i4")])
SLOT_BYTES: Final = 4
CHECKED: Final = 1000
"""Maximum number of units, from the first on, whose chains are checked."""
LAYOUTS: Final = 16
"""Maximum number of layouts whose slots and chains are checked. Only a forged file has as many that fit its ends."""
USUAL_UNITS: Final = 4
"""Number of units for each slot by default (``maxHashSlotNum``, ``maxIndexNum``)."""


class IndexHeader(NamedTuple):
    """The header of a file (`IndexHeader`); times are of storing, in milliseconds since 1970."""

    first_stored: int
    last_stored: int
    first_place: int
    last_place: int
    used_slots: int
    next_unit: int
    """The number of the next unit; the first unit has the number 1."""


class IndexUnit(NamedTuple):
    """A key of a message."""

    hash: int
    place: int
    """Position of the message in the commit log, in bytes."""
    seconds: int
    """Seconds from the file's first message to this one; in the first unit, from the last one of the file before."""
    before: int
    """Number of the previous unit with the same slot; 0 if there is none."""


@dataclass(frozen=True)
class IndexFile:
    """A file of an index."""

    path: str
    size: int
    header: IndexHeader
    slots: int

    @property
    def units(self) -> int:
        """Number of units."""
        return self.header.next_unit - 1

    def places(self, topic: str, key: str) -> Iterator[int | Bad]:
        """Yield the positions of messages that may have the key, latest first, and `Bad` for damage.

        Mirrors `IndexFile.selectPhyOffset`, but does not compare times, which the messages themselves have.
        Raises InputError if the file cannot be opened.
        """
        hashed = hash_key(topic, key)
        with Mapped(self.path) as data:
            (number,) = struct.unpack_from(">i", data, HEADER.size + hashed % self.slots * SLOT_BYTES)
            above = (self.size - _place_of(self.slots, 0)) // UNIT.size
            while number > 0:
                at = _place_of(self.slots, number)
                # Numbers must decrease along a chain, so that a damaged chain cannot loop forever.
                if number >= above or at + UNIT.size > len(data):
                    yield Bad(self.path, at, "a unit of the index that is not there")
                    return
                unit = IndexUnit(*UNIT.unpack_from(data, at))
                if not any(unit) or unit.hash < 0 or unit.place < 0:
                    yield Bad(self.path, at, "no unit of an index", take_sample(data[at : at + UNIT.size]))
                    return
                if unit.hash == hashed:
                    yield unit.place
                above, number = number, unit.before

    def units_of(self) -> npt.NDArray[np.void]:
        """Return all units in order, from number 1, as an array with the columns of `COLUMNS`.

        Raises InputError if the file cannot be opened, or is shorter than its header states.
        """
        with Mapped(self.path) as data:
            if _place_of(self.slots, self.units) + UNIT.size > len(data):
                raise InputError(f"{self.path}: shorter than its header states")
            return np.frombuffer(data, COLUMNS, self.units, _place_of(self.slots, 1)).copy()


def hash_key(topic: str, key: str) -> int:
    """Return the hash of a key (`IndexFile.indexKeyHashMethod`), which is at least 0."""
    text = f"{topic}#{key}".encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    hashed = abs(string_hash(text))
    return hashed if hashed < 1 << 31 else 0


def open_index(path: str) -> IndexFile:
    """Open the index file at a path. Raises InputError if it cannot be read, or is no index file."""
    with Mapped(path) as data:
        if len(data) < HEADER.size:
            raise InputError(f"{path}: no file of an index: it is too short")
        header = IndexHeader(*HEADER.unpack_from(data))
        header = header._replace(next_unit=max(header.next_unit, 1))
        slots = _find_slots(data, header)
        if slots is None:
            raise InputError(f"{path}: no file of an index, or not all of one: its units are not where it states")
        return IndexFile(path, len(data), header, slots)


def _find_slots(data: Bytes, header: IndexHeader) -> int | None:
    """Return the number of slots; None if no number fits the units. An empty index fits any number."""
    rest = len(data) - HEADER.size
    usual = rest // (SLOT_BYTES + USUAL_UNITS * UNIT.size)
    if header.next_unit == 1:
        return max(usual, 1) if rest >= SLOT_BYTES else None
    # After the slots (4 bytes each) come whole units of 20 bytes, so every fifth number of slots is a candidate. One
    # strided view reads the field `place` of the last unit for all candidates.
    step, width = UNIT.size // SLOT_BYTES, UNIT.size
    first = rest // SLOT_BYTES % step or step
    count = (rest - header.next_unit * width - first * SLOT_BYTES) // width + 1
    if count <= 0:
        return None
    last_place: npt.NDArray[np.int64] = np.ndarray(
        count, ">i8", data, _place_of(first, header.next_unit - 1) + 4, (width,)
    )
    is_usual = rest == usual * (SLOT_BYTES + USUAL_UNITS * UNIT.size)
    candidates = (first + step * np.flatnonzero(last_place == header.last_place)).tolist()
    del last_place  # the view keeps the mapped file open
    looked_at = 0
    for slots in [usual, *candidates] if is_usual and usual in candidates else candidates:
        if not _fits_ends(data, header, slots):
            continue
        if _fits_chains(data, header, slots):
            return int(slots)
        looked_at += 1
        if looked_at == LAYOUTS:
            break
    return None


def _fits_ends(data: Bytes, header: IndexHeader, slots: int) -> bool:
    """Return whether the first and the last unit agree with the header, and the slot of the last leads to it."""
    last = header.next_unit - 1
    ends = [IndexUnit(*UNIT.unpack_from(data, _place_of(slots, number))) for number in (1, last)]
    if [unit.place for unit in ends] != [header.first_place, header.last_place]:
        return False
    if not all(any(unit) for unit in ends) or min(unit.hash for unit in ends) < 0:
        return False
    (newest,) = struct.unpack_from(">i", data, HEADER.size + ends[1].hash % slots * SLOT_BYTES)
    return bool(newest >= last)


def _fits_chains(data: Bytes, header: IndexHeader, slots: int) -> bool:
    """Return whether the slots and the chains of the first units are as `IndexFile.putKey` writes them.

    While a broker writes, more slots may be in use than the header states, and slots may hold later units, because the
    header was read first.
    """
    last = header.next_unit - 1
    if np.count_nonzero(np.frombuffer(data, ">i4", slots, HEADER.size)) < header.used_slots:
        return False
    units = np.frombuffer(data, COLUMNS, min(last, CHECKED), _place_of(slots, 1)).copy()
    before: dict[int, int] = {}
    for number, (hashed, each) in enumerate(zip(units["hash"].tolist(), units["before"].tolist(), strict=True), 1):
        if hashed < 0 or each != before.get(hashed % slots, 0):
            return False
        before[hashed % slots] = number
    return True


def _place_of(slots: int, number: int) -> int:
    """Return the byte at which a unit begins; the space of number 0 is unused."""
    return HEADER.size + slots * SLOT_BYTES + number * UNIT.size
