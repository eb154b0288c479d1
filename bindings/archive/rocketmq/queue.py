"""RocketMQ's consume queues: which record of the commit log is at which offset of a queue (`ConsumeQueue`).

A queue is files of units, all of one size, so that the offset of a unit is where it stands. The files have their length
before they are written, so the queue ends at the first unit that says nothing. A queue that was new where others were
not begins with blank units, which fill its first file up to the offset it begins with. The code of a unit is the
hashCode of the message's tag; of a delayed message, when it is due. It may instead say where in the queue's extension
the code stands (`ConsumeQueueExt`), beside the time and a filter's bits.

Topics of the type BatchCQ have units of their own, of batches, each of which says at which offset it begins
(`BatchConsumeQueue`). Queues in RocksDB are no such files; `bindings.archive.rocketmq.store` says that they are there.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from bindings.archive.reading import Bad, take_sample
from bindings.archive.rocketmq.commit import NumberedFile
from exchange.errors import InputError
from exchange.partition.hashing.java import string_hash

__all__ = ["ConsumeQueue", "Units", "encode_tag"]

UNIT: Final = np.dtype([("place", ">i8"), ("size", ">i4"), ("code", ">i8")])
"""20 bytes (`ConsumeQueue.CQ_STORE_UNIT_SIZE`)."""
BATCH: Final = np.dtype([
    ("place", ">i8"), ("size", ">i4"), ("code", ">i8"), ("stored", ">i8"), ("offset", ">i8"), ("count", ">i2"),
    ("compacted", ">i4"), ("reserved", ">i4"),
])  # fmt: skip
"""46 bytes (`BatchConsumeQueue.CQ_STORE_UNIT_SIZE`)."""
BLANK_SIZE: Final = 0x7FFFFFFF
"""Of the record that a blank unit, at place 0, says there is (`ConsumeQueue.fillPreBlank`)."""
LAST_ADDRESS: Final = -0x80000001
"""Codes up to this one are places in the extension, counted from the least long (`ConsumeQueueExt.isExtAddr`)."""
EXTENSION: Final = struct.Struct(">hqqh")
"""Size of the unit, code, milliseconds since 1970 when the message was stored, bytes of the filter."""
Column: TypeAlias = npt.NDArray[np.int64]


class Units(NamedTuple):
    """Units one after another, column by column."""

    offset: Column
    """In the queue, of the first message of the unit."""
    place: Column
    """In the commit log, in bytes, of the record."""
    size: Column
    """Of the record, in bytes."""
    code: Column
    messages: Column
    """In the record."""


@dataclass(frozen=True)
class ConsumeQueue:
    """The files of one queue of a topic, in order."""

    topic: str
    queue: int
    files: tuple[NumberedFile, ...]
    extension: tuple[NumberedFile, ...] = ()
    batches: bool = False

    def read(self) -> Iterator[Units | Bad]:
        """The units of each file but for blanks, and what is none. Raises InputError if a file cannot be opened."""
        expected = self.files[0].base if self.files else 0
        for file in self.files:
            if file.base != expected:
                yield Bad(file.path, 0, "a file of the queue is missing before it")
            expected = file.end
            data = _read_bytes(file.path)
            kind = BATCH if self.batches else UNIT
            found = np.frombuffer(data, kind, len(data) // kind.itemsize)
            is_unit = (found["place"] >= 0) & (found["size"] > 0)
            if self.batches:
                is_unit &= (found["offset"] >= 0) & (found["count"] > 0)
            yield from _find_broken(file.path, data, is_unit, kind.itemsize)
            if self.batches:
                kept = np.flatnonzero(is_unit)
                offsets, counts = found["offset"][kept], found["count"][kept]
            else:
                is_unit &= (found["place"] != 0) | (found["size"] != BLANK_SIZE)
                kept = np.flatnonzero(is_unit)
                offsets, counts = kept + file.base // kind.itemsize, np.ones(len(kept))
            codes = found["code"][kept].astype(np.int64)
            yield from self._extended(file.path, codes, kept * kind.itemsize)
            places, sizes = found["place"][kept], found["size"][kept]
            yield Units(*[column.astype(np.int64) for column in (offsets, places, sizes, codes, counts)])

    def _extended(self, path: str, codes: Column, at: Column) -> Iterator[Bad]:
        """Put the codes that the extension holds in the place of those that say where."""
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
    """The code of a tag, 0 of none (`MessageExtBrokerInner.tagsString2tagsCode`)."""
    if not tag:
        return 0
    return string_hash(tag.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _find_broken(path: str, data: bytes, is_unit: npt.NDArray[np.bool_], width: int) -> Iterator[Bad]:
    """What is neither a unit nor the zeros that stand where nothing is written."""
    count = len(is_unit)
    ends: list[int] = np.flatnonzero(np.diff(np.concatenate(([True], is_unit, [True])).astype(np.int8))).tolist()
    for first, last in zip(ends[::2], ends[1::2], strict=True):
        stretch = data[first * width : last * width]
        if last < count:
            yield Bad(path, first * width, "no unit, with units behind it", take_sample(stretch))
        elif stretch.strip(b"\0"):
            yield Bad(path, first * width, "a unit that is not whole", take_sample(stretch))
    rest = data[count * width :]
    if rest.strip(b"\0"):
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
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
