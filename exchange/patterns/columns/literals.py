"""Look up keys among the literal keys of bindings: by a hash of the words' numbers, then word by word."""

from __future__ import annotations

import numpy as np

from exchange.arrays.table import IntArray, IntTable, KeyArray
from exchange.patterns.columns.shapes import hash_words
from exchange.patterns.columns.words import Words

__all__ = ["Literals"]


class Literals:
    """A set of literal keys, given as words and the words' numbers; all of these words must be in the vocabulary."""

    def __init__(self, words: Words, numbers: IntArray) -> None:
        self._numbers = numbers
        self._first = np.append(0, words.first)
        self._counts = np.append(0, words.counts)
        hashes = hash_words(numbers, words.first, words.counts)
        distinct, first = np.unique(hashes, return_index=True)
        self._table = IntTable()
        self._table.put(distinct, (first + 1).astype(np.int32))
        repeated = np.ones(len(hashes), np.bool_)
        repeated[first] = False
        self._ambiguous = np.unique(hashes[repeated])  # hashes of several literals; only one of these is in the table

    def find(self, hashes: KeyArray, words: Words, numbers: IntArray) -> IntArray:
        """Return for each key the number, from 1, of the literal that equals it; 0 if none does.

        -1 if several literals have the key's hash, so that the table cannot decide. ``hashes`` are the hashes of
        `exchange.patterns.columns.shapes`.
        """
        literals = self._table.find(hashes)
        rows = np.flatnonzero(literals)
        if not len(rows):
            return literals
        which = literals[rows]
        counts = self._counts[which]
        same = counts == words.counts[rows]
        for position in range(int(counts.max(initial=0))):
            left = np.flatnonzero(same & (counts > position))
            given = numbers[words.first[rows[left]] + position]
            same[left] = given == self._numbers[self._first[which[left]] + position]
        literals[rows[~same]] = 0
        if len(self._ambiguous):
            literals[np.isin(hashes, self._ambiguous)] = -1
        return literals
