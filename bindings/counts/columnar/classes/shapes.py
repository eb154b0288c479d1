"""The shape of a key as a hash: of its words' numbers, so that all words which nobody named are alike in it."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bindings.counts.columnar.arrays.table import IntArray, KeyArray
from bindings.counts.columnar.classes.automaton import Automaton

__all__ = ["hashed", "walked"]

MULTIPLIER: Final = np.uint64(0xD6E8FEB86659FD93)


def walked(
    automaton: Automaton,
    states: IntArray,
    columns: IntArray,
    numbers: IntArray,
    first: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> KeyArray:
    """Lead each state through its key's words, in place; and hash the words' numbers on the way.

    Keys are taken longest first, so that those that have a word at a place are the first ones.
    """
    order = np.argsort(counts.astype(np.min_scalar_type(int(counts.max(initial=0)))), kind="stable")[::-1]
    ascending = counts[order[::-1]]
    places, now = first[order], states[order]
    hashes = np.zeros(len(counts), np.uint64)
    moves = automaton.patterns > 0
    for place in range(int(ascending[-1]) if len(ascending) else 0):
        size = len(counts) - int(np.searchsorted(ascending, place, "right"))
        at = places[:size] + place
        if moves:
            now[:size] = automaton.step(now[:size], columns[at])
        part = hashes[:size]
        part ^= numbers[at].astype(np.uint64)
        part *= MULTIPLIER
        part ^= part >> np.uint64(29)
    states[order] = now
    result = np.empty(len(counts), np.uint64)
    result[order] = hashes
    return _finished(result, counts)


def hashed(numbers: IntArray, first: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> KeyArray:
    """The same hash, of keys that no automaton is led through."""
    hashes = np.zeros(len(counts), np.uint64)
    for place in range(int(counts.max(initial=0))):
        on = np.flatnonzero(counts > place)
        part = hashes[on] ^ numbers[first[on] + place].astype(np.uint64)
        part *= MULTIPLIER
        hashes[on] = part ^ (part >> np.uint64(29))
    return _finished(hashes, counts)


def _finished(hashes: KeyArray, counts: npt.NDArray[np.int64]) -> KeyArray:
    # Words that nobody named are 0, as no word is; the count tells them apart. A table's key is never 0.
    return (hashes ^ (counts.astype(np.uint64) * MULTIPLIER)) | np.uint64(1)
