"""Hash the shapes of keys: the numbers of their words, in which every word that no binding names has the number 0."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from exchange.arrays.table import IntArray, KeyArray

__all__ = ["hash_words"]

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
