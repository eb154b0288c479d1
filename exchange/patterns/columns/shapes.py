"""Hash the shapes of keys: the numbers of their words, in which every word that no binding names has the number 0."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from exchange.arrays.table import IntArray, KeyArray
from exchange.patterns.columns.automaton import Automaton

__all__ = ["hash_words", "walk_keys"]

MULTIPLIER: Final = np.uint64(0xD6E8FEB86659FD93)


def walk_keys(
    automaton: Automaton,
    states: IntArray,
    columns: IntArray,
    numbers: IntArray,
    first: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> KeyArray:
    """Move ``states``, in place, through the words of the keys, and return the hashes of the words' numbers.

    The keys are sorted by their number of words, most first: the keys with a word at ``position`` are then the first
    ``size`` keys, a slice.
    """
    order = np.argsort(counts.astype(np.min_scalar_type(int(counts.max(initial=0)))), kind="stable")[::-1]
    ascending = counts[order[::-1]]
    starts, now = first[order], states[order]
    hashes = np.zeros(len(counts), np.uint64)
    moves = automaton.patterns > 0
    for position in range(int(ascending[-1]) if len(ascending) else 0):
        size = len(counts) - int(np.searchsorted(ascending, position, "right"))
        at = starts[:size] + position
        if moves:
            now[:size] = automaton.step(now[:size], columns[at])
        part = hashes[:size]
        part ^= numbers[at].astype(np.uint64)
        part *= MULTIPLIER
        part ^= part >> np.uint64(29)
    states[order] = now
    result = np.empty(len(counts), np.uint64)
    result[order] = hashes
    return _finish_hashes(result, counts)


def hash_words(numbers: IntArray, first: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> KeyArray:
    """Return the hashes of the words' numbers, as ``walk_keys`` does, without an automaton."""
    hashes = np.zeros(len(counts), np.uint64)
    for position in range(int(counts.max(initial=0))):
        left = np.flatnonzero(counts > position)
        part = hashes[left] ^ numbers[first[left] + position].astype(np.uint64)
        part *= MULTIPLIER
        hashes[left] = part ^ (part >> np.uint64(29))
    return _finish_hashes(hashes, counts)


def _finish_hashes(hashes: KeyArray, counts: npt.NDArray[np.int64]) -> KeyArray:
    # Leading words that no binding names have the number 0 and leave the hash 0, so the number of words is mixed in,
    # too. The last bit is set because a key of a table must not be 0.
    return (hashes ^ (counts.astype(np.uint64) * MULTIPLIER)) | np.uint64(1)
