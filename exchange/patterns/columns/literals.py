"""Look up keys among the literal keys of bindings: by a hash of the words' numbers, then word by word.

The hash is that of the key's shape, in which every word that no binding names has the number 0.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from exchange.arrays.table import IntArray, IntTable, KeyArray
from exchange.patterns.columns.words import Words

MULTIPLIER: Final = np.uint64(0xD6E8FEB86659FD93)


def hash_words(numbers: IntArray, first: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> KeyArray:
    """Return the hash of the words' numbers of each key; no hash is 0.

    ``first`` is the index of each key's first word, ``counts`` its number of words. The keys are sorted by their number
    of words, most first: the keys with a word at ``position`` are then the first ``size`` keys, a slice.
    """
    order = np.argsort(counts.astype(np.min_scalar_type(int(counts.max(initial=0)))), kind="stable")[::-1]
    ascending = counts[order[::-1]]
    starts = first[order]
    hashes = np.zeros(len(counts), np.uint64)
    for position in range(int(ascending[-1]) if len(ascending) else 0):
        size = len(counts) - int(np.searchsorted(ascending, position, "right"))
        part = hashes[:size]
        part ^= numbers[starts[:size] + position].astype(np.uint64)
        part *= MULTIPLIER
        part ^= part >> np.uint64(29)
    result = np.empty(len(counts), np.uint64)
    result[order] = hashes
    # Leading words that no binding names have the number 0 and leave the hash 0, so the number of words is mixed in,
    # too. The last bit is set because a key of a table must not be 0.
    return (result ^ (counts.astype(np.uint64) * MULTIPLIER)) | np.uint64(1)


class Literals:
    """A set of literal keys, given as words and the words' numbers; all of these words must be in the vocabulary."""

    def __init__(self, words: Words, numbers: IntArray) -> None:
        self._numbers = numbers
        self._first = np.append(0, words.first)
        self._counts = np.append(0, words.counts)
        hashes = hash_words(numbers, words.first, words.counts)
        distinct, kept = np.unique(hashes, return_index=True)
        self._table = IntTable()
        self._table.put(distinct, (kept + 1).astype(np.int32))
        repeated = np.ones(len(hashes), np.bool_)
        repeated[kept] = False
        self._ambiguous = np.unique(hashes[repeated])  # hashes of several literals; only one of these is in the table

    def find(self, hashes: KeyArray, words: Words, numbers: IntArray) -> IntArray:
        """Return for each key the number, from 1, of the literal that equals it; 0 if none does.

        -1 if several literals have the key's hash, so that the table cannot decide. ``hashes`` are those of
        `hash_words`.
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
