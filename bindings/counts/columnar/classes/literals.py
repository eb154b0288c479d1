"""Literal keys of bindings, however many: found by a hash of their words' numbers, and then compared word by word."""

from __future__ import annotations

import numpy as np

from bindings.counts.columnar.arrays.table import IntArray, IntTable, KeyArray
from bindings.counts.columnar.classes.shapes import hashed
from bindings.counts.columnar.classes.words import Words

__all__ = ["Literals"]


class Literals:
    """Keys, given by their words and these words' numbers, all of which are named."""

    def __init__(self, words: Words, numbers: IntArray) -> None:
        self._numbers = numbers
        self._first = np.append(0, words.first)
        self._counts = np.append(0, words.counts)
        hashes = hashed(numbers, words.first, words.counts)
        distinct, first = np.unique(hashes, return_index=True)
        self._table = IntTable()
        self._table.put(distinct, (first + 1).astype(np.int32))
        twice = np.ones(len(hashes), np.bool_)
        twice[first] = False
        self._ambiguous = np.unique(hashes[twice])

    def find(self, hashes: KeyArray, words: Words, numbers: IntArray) -> IntArray:
        """Which of them each key is, from 1 on, 0 if it is none; -1 where two have its hash, and nobody looks further.

        The hashes are those of `bindings.counts.columnar.classes.shapes`.
        """
        found = self._table.find(hashes)
        rows = np.flatnonzero(found)
        if not len(rows):
            return found
        which = found[rows]
        counts = self._counts[which]
        same = counts == words.counts[rows]
        for place in range(int(counts.max(initial=0))):
            on = np.flatnonzero(same & (counts > place))
            mine = numbers[words.first[rows[on]] + place]
            same[on] = mine == self._numbers[self._first[which[on]] + place]
        found[rows[~same]] = 0
        if len(self._ambiguous):
            found[np.isin(hashes, self._ambiguous)] = -1
        return found
