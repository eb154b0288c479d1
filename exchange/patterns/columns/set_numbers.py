"""Number distinct sets of small numbers. A set is kept as bytes, so a new one costs a slice and a look-up in a dict."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

import numpy as np
import numpy.typing as npt

from exchange.arrays.table import IntArray

__all__ = ["UNKNOWN", "SetNumbers"]

UNKNOWN: Final = 0
"""Number of a set that is not kept: there are too many already, so the key must be matched by itself."""

ELEMENT: Final = np.dtype("<i4")


class SetNumbers:
    """The sets so far, numbered from 1 in the order in which they first came; at most ``limit`` by `number`."""

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._numbers: Final[dict[bytes, int]] = {}
        self._sets: Final[list[bytes]] = [b""]  # the first stands for UNKNOWN

    def __len__(self) -> int:
        """Return the number of sets so far."""
        return len(self._numbers)

    def elements(self, number: int) -> IntArray:
        """Return the elements of a set, ascending."""
        return np.frombuffer(self._sets[number], ELEMENT)

    def number(self, size: int, which: npt.NDArray[np.int64], elements: npt.NDArray[np.int64]) -> IntArray:
        """Return the numbers of ``size`` sets; ``UNKNOWN`` for new ones above the limit.

        The sets are given as pairs of an index below ``size`` and an element, in any order, with any repeats.
        """
        pairs = (which << 32) | elements
        pairs.sort()
        if len(pairs):
            pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])]
        data = pairs.astype(ELEMENT).tobytes()  # the low half of a pair is its element
        ends = (np.cumsum(np.bincount(pairs >> 32, minlength=size)) * ELEMENT.itemsize).tolist()
        sets = [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        numbers = list(map(self._numbers.get, sets))
        if None in numbers:
            self._add([one for one, number in zip(sets, numbers, strict=True) if number is None], self._limit)
            return np.array([self._numbers.get(one, UNKNOWN) for one in sets], np.int32)
        return np.array(numbers, np.int32)

    def number_of(self, elements: list[int]) -> int:
        """Return the number of the set of these elements, ascending and distinct, whatever the limit."""
        one = np.array(elements, ELEMENT).tobytes()
        if one not in self._numbers:
            self._add([one], len(self._sets))
        return self._numbers[one]

    def _add(self, sets: Sequence[bytes], limit: int) -> None:
        """Add sets that are new, and may be repeated, as long as there are less than ``limit``."""
        new = list(dict.fromkeys(sets))[: max(limit - len(self._numbers), 0)]
        self._numbers.update(zip(new, count(len(self._sets)), strict=False))
        self._sets.extend(new)
