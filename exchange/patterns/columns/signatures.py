"""Number the signatures of keys, and find the sets of groups that they stand for, many new ones at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from exchange.arrays.table import IntArray, KeyArray, Table
from exchange.patterns.columns.bit_planes import BitPlanes, Grid

NO_SIGNATURE: Final = 0
"""Number of the signature of keys whose set is unknown: a limit was exceeded."""

NumberSets = Callable[[int, npt.NDArray[np.int64], npt.NDArray[np.int64]], IntArray]
"""Function from a number of sets of groups, given as pairs of the index of a set and a group, in any order and with any
repeats, to the numbers of the sets, from 1; or ``UNKNOWN``."""

ROOM: Final = 1_024
"""Number of signatures that there is room for at first."""

BLOCK_SIGNATURES: Final = 4_096
"""Number of signatures whose sets are computed together."""

WAITING: Final = 1 << 16
"""Maximum number of signatures that wait for their sets."""


class Signatures:
    """The signatures of keys so far, numbered from 1, each with its check and its set of groups.

    Signatures wait for their sets until `sets_of` asks for them, as each computation costs much more than a set.
    """

    def __init__(self, number: NumberSets) -> None:
        self._number: Final = number
        self._count = 1
        self._checks = np.zeros(ROOM, np.uint64)
        self._sets = np.zeros(ROOM, np.int32)
        self._waiting: Final[dict[BitPlanes, list[tuple[int, Grid]]]] = {}
        self._waits = 0

    def __len__(self) -> int:
        """Return the number of signatures so far."""
        return self._count - 1

    def find(self, table: Table, planes: BitPlanes, satisfied: Grid) -> IntArray:
        """Return the numbers of the signatures of keys, given by the planes that each satisfies.

        ``table`` has the numbers of the signatures with these planes.
        """
        keys, checks = planes.signatures_of(satisfied)
        result = table.find(keys)
        missing = np.flatnonzero(result == 0)
        if len(missing):
            new, first = np.unique(keys[missing], return_index=True)
            begin = self._add(checks[missing[first]])
            table.put(new, np.arange(begin, begin + len(new), dtype=np.int32))
            result[missing] = table.find(keys[missing])
            self._waiting.setdefault(planes, []).append((begin, satisfied.take(missing[first], axis=0)))
            self._waits += len(new)
            if self._waits >= WAITING:
                self._compute()
        if not planes.exact:
            result[self._checks.take(result) != checks] = NO_SIGNATURE
        return result

    def add(self, sets: IntArray) -> IntArray:
        """Add a signature for each of these sets, and return the numbers."""
        begin = self._add(np.zeros(len(sets), np.uint64))
        self._sets[begin : self._count] = sets
        return np.arange(begin, self._count, dtype=np.int32)

    def sets_of(self, signatures: IntArray) -> IntArray:
        """Return the numbers of the sets of groups that signatures stand for."""
        if self._waits:
            self._compute()
        return self._sets.take(signatures)

    def _add(self, checks: KeyArray) -> int:
        begin = self._count
        self._count += len(checks)
        if self._count > len(self._checks):
            self._checks = np.resize(self._checks, 2 * self._count)
            self._sets = np.resize(self._sets, 2 * self._count)
        self._checks[begin : self._count] = checks
        return begin

    def _compute(self) -> None:
        for planes, waiting in self._waiting.items():
            signatures = np.concatenate([np.arange(begin, begin + len(some)) for begin, some in waiting])
            satisfied = np.concatenate([some for _, some in waiting])
            for low in range(0, len(signatures), BLOCK_SIGNATURES):
                part = satisfied[low : low + BLOCK_SIGNATURES]
                self._sets[signatures[low : low + BLOCK_SIGNATURES]] = self._number(len(part), *planes.members_of(part))
        self._waiting.clear()
        self._waits = 0
