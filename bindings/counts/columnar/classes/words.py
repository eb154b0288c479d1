"""The words of a column of keys as integers: equal for equal words, 0 for a word that nobody named.

A word is read in units, seven bytes at first and then three at a time, and each unit leads from a node to a node of a
tree that holds all named words. So the numbers are exact, without a look at any bytes but a word's own, and most words
that nobody named are done with after one unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bindings.counts.columnar.arrays.keys import column_of_bytes
from bindings.counts.columnar.arrays.table import IntArray, IntTable, KeyArray
from exchange.partition.batch.columns import Bytes, Column, Offsets

__all__ = ["NO_WORD", "Vocabulary", "Words", "split"]

NO_WORD: Final = 0
"""In the place of a word's number: nobody named it."""

DOT: Final = 46

PAD: Final = 16
"""Bytes that may be read behind the last key."""

FIRST: Final = 7
"""Bytes of a word's first unit, whose eighth is taken by its length."""

NEXT: Final = 3
"""Bytes of each other unit, behind which stand its length and the node before, and a bit that no first unit has."""

LATER: Final = np.uint64(1 << 63)

LOW_BYTES: Final = np.array([(1 << 8 * size) - 1 for size in range(FIRST + 1)] + [(1 << 8 * FIRST) - 1], np.uint64)
FIRST_MARKS: Final = np.array([(size + 1) << 56 for size in range(FIRST + 2)], np.uint64)
"""By length, the last one for all words that go on."""


class Words(NamedTuple):
    """The words of keys, one after another."""

    data: Bytes
    """With ``PAD`` bytes behind the last word."""
    starts: Offsets
    lengths: Offsets
    first: Offsets
    """For each key, the place of its first word among all."""
    counts: Offsets
    """For each key, how many words it has; the empty key has none."""


def split(column: Column) -> Words:
    """The words of each key."""
    begin, end = int(column.offsets[0]), int(column.offsets[-1])
    data = np.zeros(end - begin + PAD, np.uint8)
    data[: end - begin] = column.data[begin:end]
    offsets = column.offsets - begin
    empty = offsets[1:] == offsets[:-1]
    some_empty = bool(empty.any())
    heads, tails = offsets[:-1], offsets[1:] - 1
    if some_empty:
        heads, tails = heads[~empty], tails[~empty]
    marks = np.empty(end - begin + 1, np.uint8)  # where a word begins: 1, where its key does: 2
    np.equal(data[: end - begin], DOT, out=marks[1:].view(np.bool_))
    open_end = marks[tails + 1]  # a dot at the end of a key, and so an empty word where the next key begins
    marks[heads] = 2
    starts = np.flatnonzero(marks[: end - begin].view(np.bool_))
    first = np.flatnonzero(marks[starts] == 2)
    counts = np.diff(first, append=len(starts))
    lengths = np.diff(starts, append=end - begin + 1) - 1
    lengths[first[1:] - 1] += 1  # no dot lies between two keys
    if len(lengths):
        lengths[-1] = end - begin - starts[-1]
    if open_end.any():
        at = (first + counts)[open_end != 0]
        lengths[at - 1] -= 1
        starts, lengths = np.insert(starts, at, 0), np.insert(lengths, at, 0)
        first[1:] += np.cumsum(open_end[:-1], dtype=np.int64)
        counts += open_end
    if some_empty:
        all_first, all_counts = np.zeros(column.size, np.int64), np.zeros(column.size, np.int64)
        all_first[~empty], all_counts[~empty] = first, counts
        first, counts = all_first, all_counts
    return Words(data, starts, lengths, first, counts)


class Vocabulary:
    """Named words and their numbers, from 1 on and with gaps; equal for all that are made of the same words."""

    def __init__(self) -> None:
        self._units = IntTable()
        self._nodes = 0

    def add(self, words: Words) -> None:
        """Name words."""
        self._look(words.data, words.starts, words.lengths, add=True)

    def add_each(self, words: Sequence[bytes]) -> None:
        """Name some words that stand alone."""
        self._look_alone(words, add=True)

    def __len__(self) -> int:
        """One more than the greatest number."""
        return self._nodes + 1

    def numbers(self, words: Words) -> IntArray:
        """The number of each word."""
        return self._look(words.data, words.starts, words.lengths, add=False)

    def numbers_of(self, words: Sequence[bytes]) -> IntArray:
        """The number of each of some words that stand alone."""
        return self._look_alone(words, add=False)

    def _look_alone(self, words: Sequence[bytes], *, add: bool) -> IntArray:
        column = column_of_bytes(words)
        data = np.concatenate([column.data, np.zeros(PAD, np.uint8)])
        return self._look(data, column.offsets[:-1], column.lengths, add=add)

    def _look(self, data: Bytes, starts: Offsets, lengths: Offsets, *, add: bool) -> IntArray:
        sizes = np.minimum(lengths, FIRST + 1)
        keys = (_read(data, starts, "<u8") & LOW_BYTES[sizes]) | FIRST_MARKS[sizes]
        nodes = self._find(keys, add=add)
        rows = np.flatnonzero((lengths > FIRST) & (nodes > 0))
        done = FIRST
        while len(rows):
            left = lengths[rows] - done
            sizes = np.minimum(left, NEXT + 1)
            units = _read(data, starts[rows] + done, "<u4")
            units &= LOW_BYTES[np.minimum(sizes, NEXT)]
            units <<= np.uint64(8)
            units |= sizes.astype(np.uint64)
            units |= (nodes[rows].astype(np.uint64) << np.uint64(32)) | LATER
            found = self._find(units, add=add)
            nodes[rows] = found
            rows = rows[(left > NEXT) & (found > 0)]
            done += NEXT
        return nodes

    def _find(self, keys: KeyArray, *, add: bool) -> IntArray:
        found = self._units.find(keys)
        if add and not found.all():
            new = np.unique(keys[found == 0])
            self._units.put(new, np.arange(self._nodes + 1, self._nodes + 1 + len(new), dtype=np.int32))
            self._nodes += len(new)
            found = self._units.find(keys)
        return found


def _read(data: Bytes, starts: Offsets, unit: str) -> KeyArray:
    """The integers that lie at these places, aligned or not."""
    size = np.dtype(unit).itemsize
    windows: npt.NDArray[Any] = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
    return windows[starts].view(unit).astype(np.uint64, copy=False)
