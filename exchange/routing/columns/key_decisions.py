"""Decide about key classes: one key of each new class is shown to a function, and the answer holds for the class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from exchange.arrays.columns import Column
from exchange.arrays.table import IntArray, IntTable, KeyArray
from exchange.routing.columns.key_classes import NO_CLASS, KeyClasses

__all__ = ["Decide", "KeyDecisions"]

Decide = Callable[[int, Column, int], int]
"""Function from a key class, and a column and row with a key of this class, to the answer for the whole class."""


class KeyDecisions:
    """The answers for the key classes of a topology, kept from batch to batch.

    ``unknown`` is the answer where the key class is unknown.
    """

    def __init__(self, key_classes: KeyClasses, decide: Decide, unknown: int) -> None:
        self._key_classes: Final = key_classes
        self._decide: Final = decide
        self._numbers: Final = IntTable()
        """Key class -> its number, from 1; 0 stands for ``NO_CLASS``, which is in no table."""
        self.answers: IntArray = np.full(1, unknown, np.int32)
        """Number of a key class -> answer."""

    def number(self, column: Column, entries: npt.NDArray[np.int64]) -> tuple[IntArray, KeyArray]:
        """Return the number of each key's class, and the hash of its shape; no hashes if they are not needed.

        ``entries`` are as for `KeyClasses.of`.
        """
        key_classes, shapes = self._key_classes.of(column, entries)
        return self.number_classes(key_classes, column), shapes

    def number_classes(self, key_classes: KeyArray, column: Column) -> IntArray:
        """Return the number of the class of each key of a column."""
        numbers = self._numbers.find(key_classes)
        missing = np.flatnonzero((numbers == 0) & (key_classes != NO_CLASS))
        if len(missing):
            new, first, which = np.unique(key_classes[missing], return_index=True, return_inverse=True)
            rows = missing[first].tolist()
            pairs = zip(new.tolist(), rows, strict=True)
            answers = [self._decide(key_class, column, row) for key_class, row in pairs]
            begin = len(self.answers)
            self.answers = np.append(self.answers, np.array(answers, np.int32))
            self._numbers.put(new, np.arange(begin, begin + len(new), dtype=np.int32))
            numbers[missing] = begin + which
        return numbers
