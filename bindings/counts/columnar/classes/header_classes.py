"""Divide key classes by headers: one number, from 1, for messages that neither keys nor headers tell apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from bindings.counts.columnar.classes.header_codes import HeaderCodes, HeaderFields
from exchange.arrays.table import IntArray, IntTable, KeyArray, pack_pairs
from exchange.entities.entities import Binding
from exchange.entities.profile import Profile

__all__ = ["HeaderClasses"]


class HeaderClasses:
    """The header classes of a topology, for the headers that bindings ask for; kept from batch to batch."""

    def __init__(self, headers: Iterable[str], bindings: Iterable[Binding], profile: Profile) -> None:
        asking = list(bindings)
        self._codes: Final = {name: HeaderCodes(name, asking, profile) for name in headers}
        self._numbers: Final = IntTable()
        """Key class -> number; pair of such a number and the code of the next header -> next number.

        A pair has the number in its high half, so it is never equal to a key class, which is less than 2**32.
        """

    @property
    def headers(self) -> tuple[str, ...]:
        """Names of the headers that bindings ask for."""
        return tuple(self._codes)

    def __len__(self) -> int:
        """Return the greatest number so far, plus 1."""
        return len(self._numbers) + 1

    def of(self, key_classes: IntArray, headers: pa.MapArray | None) -> IntArray:
        """Return the number of each row, by its key class, which must not be 0, and its headers.

        ``headers`` is None if the batch has no column of headers.
        """
        numbers = self._find(key_classes.astype(np.uint64))
        if headers is not None:
            fields = HeaderFields(headers)
            for codes in self._codes.values():
                numbers = self._find(pack_pairs(numbers, codes.of(fields)))
        return numbers

    def _find(self, keys: KeyArray) -> IntArray:
        numbers = self._numbers.find(keys)
        if not numbers.all():
            new = np.unique(keys[numbers == 0])
            begin = len(self)
            self._numbers.put(new, np.arange(begin, begin + len(new), dtype=np.int32))
            numbers = self._numbers.find(keys)
        return numbers
