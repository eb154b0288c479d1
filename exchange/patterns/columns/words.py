"""Number the words of a column of keys: equal words have equal numbers, and a word that no binding names has 0.

A word is read in units: seven bytes first, then three at a time. The named words form a tree, and each unit leads from
one of its nodes to the next. So the numbers are exact, not hashes, and most words that no binding names leave the tree
at their first unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from exchange.arrays.columns import Bytes, Column, Offsets, build_bytes_column
from exchange.arrays.table import IntArray, IntTable, KeyArray

NO_WORD: Final = 0
"""Number of every word that no binding names."""

DOT: Final = 46

PAD: Final = 16
"""Number of zero bytes after the last key, so that reading a whole unit stays inside the array."""

FIRST: Final = 7
"""Number of bytes in the first unit of a word; its lowest byte holds the length."""

NEXT: Final = 3
"""Number of bytes in each later unit.

As a 64-bit key, a later unit has these bits: 0 to 7 its length (``NEXT + 1`` if more units follow), 8 to 31 its bytes,
32 to 63 the node before.
"""

LOW_BYTES: Final = np.array([(1 << 8 * size) - 1 for size in range(NEXT + 1)], np.uint64)
"""Number of bytes in a later unit -> mask of these bytes."""

FIRST_SHIFTS: Final = np.array([8 * (8 - size) for size in range(FIRST + 1)] + [8], np.uint64)
"""Length of a word -> bits by which eight bytes are shifted to the left, so that those of the first unit stay.

The last element is for words of more than one unit.
"""

FIRST_MARK: Final = 16
"""Sum of this and of the length of a word, at most ``FIRST + 1``, is the lowest byte of its first unit.

In later units this byte is less. So no first unit equals a later one, and none is 0, which no key of a table may be.
"""


class Words(NamedTuple):
    """The words of all keys of a column, one after another."""

    data: Bytes
    """The bytes of all keys, then ``PAD`` zero bytes."""
    starts: Offsets
    lengths: Offsets
    first: Offsets
    """Key -> index of its first word among all words."""
    counts: Offsets
    """Key -> number of its words; the empty key has none."""


def split_words(column: Column) -> Words:
    """Split the keys of a column at dots.

    All keys are one stretch of bytes. A word begins at the start of each key and after each dot, except a dot that ends
    its key: the empty word after it has no byte of its own, and is inserted in a last step. Empty keys have no words:
    they are removed first, and put back at the end.
    """
    begin, end = int(column.offsets[0]), int(column.offsets[-1])
    size = end - begin
    data = np.empty(size + PAD, np.uint8)
    data[:size] = column.data[begin:end]
    data[size:] = 0
    offsets = column.offsets - begin if begin else column.offsets
    empty = offsets[1:] == offsets[:-1]
    some_empty = bool(empty.any())
    heads, ends = offsets[:-1], offsets[1:]
    if some_empty:
        heads, ends = heads[~empty], ends[~empty]
    marks = np.empty(size + 1, np.uint8)  # per byte: 1 where a word begins, 2 where a key begins, else 0
    np.equal(data[:size], DOT, out=marks[1:].view(np.bool_))
    open_end = marks.take(ends)  # 1 for a key that ends with a dot; read it before the next key's 2 overwrites it
    marks[heads] = 2
    starts = np.flatnonzero(marks[:size].view(np.bool_))
    first = np.flatnonzero(marks.take(starts) == 2)
    counts = _differences(first, len(starts))
    lengths = _differences(starts, size + 1)
    lengths -= 1
    lengths[first[1:] - 1] += 1  # no dot follows the last word of a key, so nothing was to be subtracted
    if len(lengths):
        lengths[-1] = size - starts[-1]
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


def _differences(ascending: Offsets, end: int) -> Offsets:
    """Return the difference of each number to the next one, of the last to ``end``."""
    result = np.empty(len(ascending), np.int64)
    np.subtract(ascending[1:], ascending[:-1], out=result[:-1])
    if len(result):
        result[-1] = end - ascending[-1]
    return result


class Vocabulary:
    """Named words and their numbers: the tree nodes at which the words end, from 1 and with gaps."""

    def __init__(self) -> None:
        self._units = IntTable()
        self._nodes = 0

    def add(self, words: Words) -> None:
        """Add the words of a column of keys."""
        self._numbers(words.data, words.starts, words.lengths, add=True)

    def add_each(self, words: Sequence[bytes]) -> None:
        """Add separate words."""
        self._numbers_alone(words, add=True)

    def __len__(self) -> int:
        """Return the greatest number, plus 1."""
        return self._nodes + 1

    def numbers(self, words: Words) -> IntArray:
        """Return the number of each word of a column of keys; ``NO_WORD`` for a word that was not added."""
        return self._numbers(words.data, words.starts, words.lengths, add=False)

    def numbers_of(self, words: Sequence[bytes]) -> IntArray:
        """Return the numbers of separate words; ``NO_WORD`` for a word that was not added."""
        return self._numbers_alone(words, add=False)

    def _numbers_alone(self, words: Sequence[bytes], *, add: bool) -> IntArray:
        column = build_bytes_column(words)
        data = np.concatenate([column.data, np.zeros(PAD, np.uint8)])
        return self._numbers(data, column.offsets[:-1], column.lengths, add=add)

    def _numbers(self, data: Bytes, starts: Offsets, lengths: Offsets, *, add: bool) -> IntArray:
        sizes = np.minimum(lengths, FIRST + 1)
        keys = _read(data, starts, "<u8")
        keys <<= FIRST_SHIFTS.take(sizes)
        sizes += FIRST_MARK
        keys |= sizes.view(np.uint64)
        nodes = self._find(keys, add=add)
        # Invariant: ``nodes`` are where the first ``done`` bytes of each word lead; ``rows`` are the longer words among
        # those that have not left the tree.
        rows = np.flatnonzero(lengths > FIRST)
        rows = rows[nodes[rows] > 0]
        done = FIRST
        while len(rows):
            left = lengths[rows] - done
            sizes = np.minimum(left, NEXT + 1)
            units = _read(data, starts[rows] + done, "<u4")
            units &= LOW_BYTES[np.minimum(sizes, NEXT)]
            units <<= np.uint64(8)
            units |= sizes.astype(np.uint64)
            units |= nodes[rows].astype(np.uint64) << np.uint64(32)
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
    """Return the little-endian integers of this type at these byte offsets, aligned or not."""
    size = np.dtype(unit).itemsize
    windows: npt.NDArray[Any] = np.ndarray((len(data) - size + 1,), unit, data, strides=(1,))
    return windows.take(starts).astype(np.uint64, copy=False)
