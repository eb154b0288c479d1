"""A hash table from 64-bit to 32-bit integers that looks up whole arrays of keys at once.

Open addressing with linear probing: one gather finds nearly every key, and only the few that collided probe on. The
whole kernel is built on this table: it looks up words, transitions of the automaton, literal keys and classes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
KeyArray = npt.NDArray[np.uint64]

MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
"""2**64 over the golden ratio, as in Fibonacci hashing; the slot is the product's high bits."""

SMALLEST: Final = 10
"""Number of bits of a slot index in a new table: it has 2**10 slots."""

ROOMY: Final = 18
"""Number of bits of a slot index up to which a table has at least eight slots per key; it still fits a CPU cache.

A larger table has at least two slots per key.
"""


class IntTable:
    """A table from keys to values that only grows.

    No key may be 0, which marks a free slot, and no value may be 0, which stands for a missing key.
    """

    def __init__(self) -> None:
        self._keys: KeyArray = np.zeros(1 << SMALLEST, np.uint64)
        self._values: IntArray = np.zeros(1 << SMALLEST, np.int32)
        self._shift = np.uint64(64 - SMALLEST)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def find(self, keys: KeyArray) -> IntArray:
        """Return the value of each key, 0 for a key that is not in the table."""
        slots = ((keys * MULTIPLIER) >> self._shift).view(np.int64)
        found = self._keys.take(slots)
        result: IntArray = self._values.take(slots)
        # At a free slot the value is already 0. Only rows whose slot has another key probe the next slot.
        rows = np.flatnonzero(found != keys)
        rows = rows[found[rows] != 0]
        if len(rows):
            slots, keys = slots[rows], keys[rows]
            result[rows] = 0
        while len(rows):
            slots = (slots + 1) & (len(self._keys) - 1)
            found = self._keys[slots]
            hit = found == keys
            result[rows[hit]] = self._values[slots[hit]]
            collided = (found != 0) & ~hit
            rows, slots, keys = rows[collided], slots[collided], keys[collided]
        return result

    def put(self, keys: KeyArray, values: IntArray) -> None:
        """Add keys with their values. The keys must be distinct, and none may be in the table already."""
        self._count += len(keys)
        bits = max(min((self._count * 8).bit_length(), ROOMY), (self._count * 2).bit_length(), SMALLEST)
        if 1 << bits > len(self._keys):
            taken = self._keys != 0
            old_keys, old_values = self._keys[taken], self._values[taken]
            self._keys, self._values = np.zeros(1 << bits, np.uint64), np.zeros(1 << bits, np.int32)
            self._shift = np.uint64(64 - bits)
            self._place(old_keys, old_values)
        self._place(keys, values)

    def _place(self, keys: KeyArray, values: IntArray) -> None:
        slots = ((keys * MULTIPLIER) >> self._shift).view(np.int64)
        while len(keys):
            # If several keys are written to one free slot, the last write wins; only that key reads itself back and is
            # placed. The other keys, and those whose slot was taken before, go on to the next slot.
            free = self._keys[slots] == 0
            self._keys[slots[free]] = keys[free]
            placed = free & (self._keys[slots] == keys)
            self._values[slots[placed]] = values[placed]
            left = ~placed
            keys, values, slots = keys[left], values[left], (slots[left] + 1) & (len(self._keys) - 1)


class DirectTable:
    """A table as `IntTable`, for keys below a small bound, which may be 0: an array with a place for each."""

    def __init__(self, bound: int) -> None:
        self._values: IntArray = np.zeros(bound, np.int32)

    def find(self, keys: KeyArray) -> IntArray:
        """Return the value of each key, 0 for a key that is not in the table."""
        return self._values.take(keys.view(np.int64))

    def put(self, keys: KeyArray, values: IntArray) -> None:
        """Add keys with their values, as `IntTable.put`."""
        self._values[keys.view(np.int64)] = values


Table = IntTable | DirectTable


def pack_pairs(high: npt.NDArray[np.integer], low: npt.NDArray[np.integer]) -> KeyArray:
    """Pack two non-negative 32-bit integers into one key; at least one must not be 0, since no key of a table is 0."""
    return (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
