"""The words of a column of keys as integers: equal for equal words, 0 for a word that no binding names.

A word is read in units: seven bytes first, then three at a time. Each unit leads from a node to a node of a tree that
holds all named words. So the numbers are exact, not hashes, and most words that no binding names end after one unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bindings.counts.columnar.arrays.keys import column_of_bytes
from bindings.counts.columnar.arrays.table import IntArray, IntTable, KeyArray
from exchange.partition.batch.columns import Bytes, Column, Offsets

__all__ = ["NO_WORD", "Vocabulary", "Words", "split_words"]

NO_WORD: Final = 0
"""Number of every word that no binding names."""

DOT: Final = 46

PAD: Final = 16
"""Number of bytes behind the last key that may be read."""

FIRST: Final = 7
"""Number of bytes in the first unit of a word; its eighth byte holds the length."""

NEXT: Final = 3
"""Number of bytes in each other unit; behind them are the length, the node before, and the bit ``LATER``."""

LATER: Final = np.uint64(1 << 63)
"""The bit that only later units have, so that no first unit equals one of them."""

LOW_BYTES: Final = np.array([(1 << 8 * size) - 1 for size in range(FIRST + 1)] + [(1 << 8 * FIRST) - 1], np.uint64)
FIRST_MARKS: Final = np.array([(size + 1) << 56 for size in range(FIRST + 2)], np.uint64)
"""Mask of a unit's bytes, and mark of its length, by length; the last ones are for words with more units.

A mark is the length plus 1, so that the unit of an empty word is not 0, which is no key of a table.
"""


class Words(NamedTuple):
    """The words of a column of keys, all in a row."""

    data: Bytes
    """With ``PAD`` bytes behind the last word."""
    starts: Offsets
    lengths: Offsets
    first: Offsets
    """Key -> index of its first word among all words."""
    counts: Offsets
    """Key -> number of its words; the empty key has none."""


def split_words(column: Column) -> Words:
    """Split the keys of a column at dots.

    All keys are one stretch of bytes. A word begins where a key does, and behind each dot but one at the very end of a
    key; such a word is empty and is inserted at the end. Empty keys have no words and are left out meanwhile.
    """
    begin, end = int(column.offsets[0]), int(column.offsets[-1])
    data = np.zeros(end - begin + PAD, np.uint8)
    data[: end - begin] = column.data[begin:end]
    offsets = column.offsets - begin
    empty = offsets[1:] == offsets[:-1]
    some_empty = bool(empty.any())
    heads, tails = offsets[:-1], offsets[1:] - 1
    if some_empty:
        heads, tails = heads[~empty], tails[~empty]
    marks = np.empty(end - begin + 1, np.uint8)  # 1 where a word begins, 2 where a key does
    np.equal(data[: end - begin], DOT, out=marks[1:].view(np.bool_))
    open_end = marks[tails + 1]  # 1 for a key that ends with a dot, until the mark of the next key replaces it
    marks[heads] = 2
    starts = np.flatnonzero(marks[: end - begin].view(np.bool_))
    first = np.flatnonzero(marks[starts] == 2)
    counts = np.diff(first, append=len(starts))
    lengths = np.diff(starts, append=end - begin + 1) - 1
    lengths[first[1:] - 1] += 1  # between two keys is no dot to subtract
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
    """Named words and their numbers, from 1 and with gaps: the nodes of the tree at which the words end."""

    def __init__(self) -> None:
        self._units = IntTable()
        self._nodes = 0

    def add(self, words: Words) -> None:
        """Give numbers to words."""
        self._numbers(words.data, words.starts, words.lengths, add=True)

    def add_each(self, words: Sequence[bytes]) -> None:
        """Give numbers to separate words."""
        self._numbers_alone(words, add=True)

    def __len__(self) -> int:
        """Return the greatest number, plus 1."""
        return self._nodes + 1

    def numbers(self, words: Words) -> IntArray:
        """Return the number of each word."""
        return self._numbers(words.data, words.starts, words.lengths, add=False)

    def numbers_of(self, words: Sequence[bytes]) -> IntArray:
        """Return the numbers of separate words."""
        return self._numbers_alone(words, add=False)

    def _numbers_alone(self, words: Sequence[bytes], *, add: bool) -> IntArray:
        column = column_of_bytes(words)
        data = np.concatenate([column.data, np.zeros(PAD, np.uint8)])
        return self._numbers(data, column.offsets[:-1], column.lengths, add=add)

    def _numbers(self, data: Bytes, starts: Offsets, lengths: Offsets, *, add: bool) -> IntArray:
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
            following = self._find(units, add=add)
            nodes[rows] = following
            rows = rows[(left > NEXT) & (following > 0)]
            done += NEXT
        return nodes

    def _find(self, keys: KeyArray, *, add: bool) -> IntArray:
        nodes = self._units.find(keys)
        if add and not nodes.all():
            new = np.unique(keys[nodes == 0])
            self._units.put(new, np.arange(self._nodes + 1, self._nodes + 1 + len(new), dtype=np.int32))
            self._nodes += len(new)
            nodes = self._units.find(keys)
        return nodes


def _read(data: Bytes, starts: Offsets, unit: str) -> KeyArray:
    """Return the integers at these offsets, aligned or not."""
    size = np.dtype(unit).itemsize
    windows: npt.NDArray[Any] = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
    return windows[starts].view(unit).astype(np.uint64, copy=False)
