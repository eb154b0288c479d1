"""A hash table from 64-bit integers to 32-bit ones that is searched for whole arrays of keys at once.

Open addressing with linear probing: one gather finds nearly every key, and the few that collided go on by themselves.
It is what the kernel is made of: words, transitions of the automaton, literal keys and classes are all found in one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["IntArray", "IntTable", "KeyArray", "pairs"]

IntArray = npt.NDArray[np.int32]
KeyArray = npt.NDArray[np.uint64]

MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
"""2 to the 64th over the golden ratio, as in Fibonacci hashing; the slot is the product's high bits."""

SMALLEST: Final = 10
"""Bits of a slot's number, at first."""

ROOMY: Final = 18
"""Up to so many bits there are eight slots for each key and more, which fit a cache; beyond, two."""


class IntTable:
    """From keys, which are not 0, to values, which are not 0 either; grows, and forgets nothing."""

    def __init__(self) -> None:
        self._keys: KeyArray = np.zeros(1 << SMALLEST, np.uint64)
        self._values: IntArray = np.zeros(1 << SMALLEST, np.int32)
        self._shift = np.uint64(64 - SMALLEST)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def find(self, keys: KeyArray) -> IntArray:
        """The value of each key, 0 where there is none."""
        slots = ((keys * MULTIPLIER) >> self._shift).view(np.int64)
        found = self._keys.take(slots)
        result: IntArray = self._values.take(slots)
        rows = np.flatnonzero((found != keys) & (found != 0))  # at a free slot, the value is 0 already
        if len(rows):
            slots, keys = slots[rows], keys[rows]
            result[rows] = 0
        while len(rows):
            slots = (slots + 1) & (len(self._keys) - 1)
            found = self._keys[slots]
            there = found == keys
            result[rows[there]] = self._values[slots[there]]
            on = (found != 0) & ~there
            rows, slots, keys = rows[on], slots[on], keys[on]
        return result

    def put(self, keys: KeyArray, values: IntArray) -> None:
        """Add keys that are not there yet, each once."""
        self._count += len(keys)
        bits = max(min((self._count * 8).bit_length(), ROOMY), (self._count * 2).bit_length(), SMALLEST)
        if 1 << bits > len(self._keys):
            there = self._keys != 0
            old_keys, old_values = self._keys[there], self._values[there]
            self._keys, self._values = np.zeros(1 << bits, np.uint64), np.zeros(1 << bits, np.int32)
            self._shift = np.uint64(64 - bits)
            self._place(old_keys, old_values)
        self._place(keys, values)

    def _place(self, keys: KeyArray, values: IntArray) -> None:
        slots = ((keys * MULTIPLIER) >> self._shift).view(np.int64)
        while len(keys):
            # Of those that want the same free slot the last one writes there, and it alone reads itself back.
            free = self._keys[slots] == 0
            self._keys[slots[free]] = keys[free]
            placed = free & (self._keys[slots] == keys)
            self._values[slots[placed]] = values[placed]
            left = ~placed
            keys, values, slots = keys[left], values[left], (slots[left] + 1) & (len(self._keys) - 1)


def pairs(high: npt.NDArray[np.integer], low: npt.NDArray[np.integer]) -> KeyArray:
    """Two non-negative integers of up to 32 bits as one key; not both 0."""
    return (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
