"""Number distinct sets of small numbers. A set is kept as bytes, so a new one costs a slice and a look-up in a dict."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from exchange.arrays.table import IntArray

UNKNOWN: Final = 0
"""Number of a set that is not kept: there are too many already, so the key must be matched by itself."""

ELEMENT: Final = np.dtype("<i4")


class SetNumbers:
    """The sets so far, numbered from 1 in the order in which they first came; at most ``limit`` by `number`."""

    def __init__(self, limit: int) -> None:
        self._numbers: Final = _Numbers(limit)

    def __len__(self) -> int:
        """Return the number of sets so far."""
        return len(self._numbers)

    def elements(self, number: int) -> IntArray:
        """Return the elements of a set, ascending."""
        return np.frombuffer(self._numbers.sets[number], ELEMENT)

    def list_elements(self, numbers: npt.NDArray[np.integer]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the elements of many sets as pairs of an index of ``numbers``, ascending, and an element."""
        sets = [self._numbers.sets[number] for number in numbers.tolist()]
        sizes = np.fromiter(map(len, sets), np.int64, len(sets)) // ELEMENT.itemsize
        return np.repeat(np.arange(len(sets)), sizes), np.frombuffer(b"".join(sets), ELEMENT).astype(np.int64)

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
        return np.fromiter(map(self._numbers.__getitem__, sets), np.int32, size)

    def number_of(self, elements: list[int]) -> int:
        """Return the number of the set of these elements, ascending and distinct, whatever the limit."""
        one = np.array(elements, ELEMENT).tobytes()
        return self._numbers.get(one) or self._numbers.add(one)


class _Numbers(dict[bytes, int]):
    """Set -> number; one that is asked for and new is added, unless there are ``limit`` already."""

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self.sets: Final[list[bytes]] = [b""]  # the first stands for UNKNOWN

    def __missing__(self, one: bytes) -> int:
        return self.add(one) if len(self) < self._limit else UNKNOWN

    def add(self, one: bytes) -> int:
        number = self[one] = len(self.sets)
        self.sets.append(one)
        return number
