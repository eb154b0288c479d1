"""Read RocketMQ's consume queues, which map offsets of a queue to records of the commit log (`ConsumeQueue`).

A queue is a series of files of units of equal size, so the position of a unit gives its offset. Files are allocated at
full length, so the queue ends at the first unit of zeros. A queue that does not begin at offset 0 has blank units up to
the offset at which it begins. The code of a unit is the hashCode of the message's tag; for a delayed message, the time
when it is due. The code may instead be a position in the queue's extension, which has the code, the time of storing and
the bits of a filter (`ConsumeQueueExt`).

Topics of the type BatchCQ have units of batches, which state the offset at which they begin (`BatchConsumeQueue`).
Queues in RocksDB have no such files; `bindings.archive.rocketmq.store` reports that they are there.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from bindings.archive.reading import Bad, take_sample
from bindings.archive.rocketmq.commit import NumberedFile
from bindings.sources.files import open_file
from exchange.errors import name_os_errors
from exchange.partition.hashing.java import string_hash

UNIT: Final = np.dtype([("place", ">i8"), ("size", ">i4"), ("code", ">i8")])
"""20 bytes (`ConsumeQueue.CQ_STORE_UNIT_SIZE`)."""
BATCH: Final = np.dtype([
    ("place", ">i8"), ("size", ">i4"), ("code", ">i8"), ("stored", ">i8"), ("offset", ">i8"), ("count", ">i2"),
    ("compacted", ">i4"), ("reserved", ">i4"),
])  # fmt: skip
"""46 bytes (`BatchConsumeQueue.CQ_STORE_UNIT_SIZE`)."""
BLANK_SIZE: Final = 0x7FFFFFFF
"""Size in a blank unit, whose position is 0 (`ConsumeQueue.fillPreBlank`)."""
LAST_ADDRESS: Final = -0x80000001
"""Codes up to this one are positions in the extension, counted from the least long (`ConsumeQueueExt.isExtAddr`)."""
EXTENSION: Final = struct.Struct(">hqqh")
"""Size of the unit, code, time of storing in milliseconds since 1970, number of bytes of the filter."""
Column: TypeAlias = npt.NDArray[np.int64]


class Units(NamedTuple):
    """Consecutive units as parallel columns."""

    offset: Column
    """Offset in the queue of the unit's first message."""
    place: Column
    """Position of the record in the commit log, in bytes."""
    size: Column
    """Size of the record, in bytes."""
    code: Column
    messages: Column
    """Number of messages in the record."""


@dataclass(frozen=True)
class ConsumeQueue:
    """The files of one queue of a topic, in order."""

    topic: str
    queue: int
    files: tuple[NumberedFile, ...]
    extension: tuple[NumberedFile, ...] = ()
    batches: bool = False

    def read(self) -> Iterator[Units | Bad]:
        """Yield the units of each file without blanks, and `Bad` for damage.

        Raises InputError if a file cannot be opened.
        """
        expected = self.files[0].base if self.files else 0
        for file in self.files:
            if file.base != expected:
                yield Bad(file.path, 0, "a file of the queue is missing before it", records=None)
            expected = file.end
            data = _read_bytes(file.path)
            kind = BATCH if self.batches else UNIT
            units = np.frombuffer(data, kind, len(data) // kind.itemsize)
            is_unit = (units["place"] >= 0) & (units["size"] > 0)
            if self.batches:
                is_unit &= (units["offset"] >= 0) & (units["count"] > 0)
            yield from _find_broken(file.path, data, is_unit, kind.itemsize)
            if self.batches:
                kept = np.flatnonzero(is_unit)
                offsets, counts = units["offset"][kept], units["count"][kept]
            else:
                is_unit &= (units["place"] != 0) | (units["size"] != BLANK_SIZE)
                kept = np.flatnonzero(is_unit)
                offsets, counts = kept + file.base // kind.itemsize, np.ones(len(kept))
            codes = units["code"][kept].astype(np.int64)
            yield from self._replace_codes(file.path, codes, kept * kind.itemsize)
            places, sizes = units["place"][kept], units["size"][kept]
            yield Units(*[column.astype(np.int64) for column in (offsets, places, sizes, codes, counts)])

    def _replace_codes(self, path: str, codes: Column, at: Column) -> Iterator[Bad]:
        """Replace, in place, the codes that are positions in the extension by the codes stored there."""
        pointing = np.flatnonzero(codes <= LAST_ADDRESS)
        if not len(pointing):
            return
        held = [(file.base, _read_bytes(file.path)) for file in self.extension]
        for n in pointing:
            code = _read_extension(held, int(codes[n]) + (1 << 63))
            if code is None:
                yield Bad(path, int(at[n]), "a unit whose extension is missing")
            else:
                codes[n] = code


def encode_tag(tag: str | None) -> int:
    """Return the code of a tag, 0 without a tag (`MessageExtBrokerInner.tagsString2tagsCode`)."""
    if not tag:
        return 0
    return string_hash(tag.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _find_broken(path: str, data: bytes, is_unit: npt.NDArray[np.bool_], width: int) -> Iterator[Bad]:
    """Yield `Bad` for each stretch of bytes that is neither units nor the zeros after the last unit."""
    count = len(is_unit)
    ends: list[int] = np.flatnonzero(np.diff(np.concatenate(([True], is_unit, [True])).astype(np.int8))).tolist()
    for first, last in zip(ends[::2], ends[1::2], strict=True):
        stretch = data[first * width : last * width]
        if last < count:
            yield Bad(path, first * width, "no unit, with units behind it", take_sample(stretch))
        elif stretch.strip(b"\0"):
            yield Bad(path, first * width, "a unit that is not whole", take_sample(stretch))
    rest = data[count * width :]
    # The zeros after a unit may be the beginning of the next one, whose first bytes are zeros; behind other zeros not.
    if rest.strip(b"\0") or (rest and (not count or is_unit[-1])):
        yield Bad(path, count * width, "a unit that is not whole", take_sample(rest))


def _read_extension(held: list[tuple[int, bytes]], place: int) -> int | None:
    which = bisect_right(held, place, key=lambda each: each[0]) - 1
    if which < 0:
        return None
    base, data = held[which]
    at = place - base
    if at + EXTENSION.size > len(data):
        return None
    size, code, _, _ = EXTENSION.unpack_from(data, at)
    return int(code) if size >= EXTENSION.size else None


def _read_bytes(path: str) -> Any:
    with name_os_errors(path), open_file(path) as file:
        return file.read()
