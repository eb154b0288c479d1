"""Sorts of keys divided by headers: what headers exchanges see of messages, in one number from 1 on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from bindings.counts.columnar.arrays.table import IntArray, IntTable, KeyArray, pairs
from bindings.counts.columnar.classes.header_codes import HeaderCodes, HeaderFields
from exchange.entities.entities import Binding
from exchange.entities.profile import Profile

__all__ = ["HeaderSorts"]


class HeaderSorts:
    """For the headers that bindings ask for; it keeps what it has learned."""

    def __init__(self, headers: Iterable[str], bindings: Iterable[Binding], profile: Profile) -> None:
        asking = list(bindings)
        self._codes: Final = {name: HeaderCodes(name, asking, profile) for name in headers}
        self._numbers: Final = IntTable()
        """Of a sort of keys; and of such a number, in the high half, with a header's code beside it."""

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers that bindings ask for."""
        return tuple(self._codes)

    def __len__(self) -> int:
        """One more than the greatest number until now."""
        return len(self._numbers) + 1

    def of(self, sorts: IntArray, headers: pa.MapArray | None) -> IntArray:
        """The number of each row, which has a sort, greater than 0, and its headers; None if nobody has any."""
        found = self._find(sorts.astype(np.uint64))
        if headers is not None:
            fields = HeaderFields(headers)
            for codes in self._codes.values():
                found = self._find(pairs(found, codes.of(fields)))
        return found

    def _find(self, keys: KeyArray) -> IntArray:
        found = self._numbers.find(keys)
        if not found.all():
            new = np.unique(keys[found == 0])
            begin = len(self)
            self._numbers.put(new, np.arange(begin, begin + len(new), dtype=np.int32))
            found = self._numbers.find(keys)
        return found
