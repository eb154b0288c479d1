"""A column of header tables seen with a binding's eyes: for one header, which of the values asked for each row has.

0 stands for no such header, 1 for a value that nobody asked for, and the values asked for follow. Rows that agree in
the codes of all headers that a headers exchange asks for are alike to it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.fields import value_of
from bindings.archive.names import escaped, unescaped
from bindings.batch.table import IntArray
from exchange.conjunctions import PRESENT
from exchange.kinds.headers import comparable, conditions_of
from exchange.parts import Binding
from exchange.profile import Profile

__all__ = ["HeaderCodes"]

ABSENT: Final = 0
PRESENT_ONLY: Final = 1

REMEMBERED: Final = 65_536
"""So many values of a header are looked up once only."""


class HeaderCodes:
    """The codes of one header's values."""

    def __init__(self, name: str, bindings: Iterable[Binding], profile: Profile) -> None:
        self._name: Final = escaped(name)
        self._profile: Final = profile
        wanted: dict[Hashable, int] = {}
        for binding in bindings:
            for asked, value in conditions_of(binding, profile):
                if asked == name and value is not PRESENT:
                    wanted.setdefault(value, PRESENT_ONLY + 1 + len(wanted))
        self._wanted: Final = wanted
        self._known: Final[dict[tuple[str, str | None], int]] = {}

    def of(self, headers: pa.MapArray) -> IntArray:
        """The code of each row. Raises InputError for a field that is none."""
        result = np.zeros(len(headers), np.int32)
        if not len(headers):
            return result
        offsets = np.asarray(headers.offsets)  # from the beginning of the column that the rows are cut from
        first, last = int(offsets[0]), int(offsets[-1])
        names = headers.keys.slice(first, last - first)
        places = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(names, self._name), False)))
        if not len(places):
            return result
        fields = headers.items.slice(first, last - first).take(pa.array(places))
        types, values = fields.field(0).dictionary_encode(), fields.field(1).dictionary_encode("encode")
        pairs = np.asarray(types.indices).astype(np.int64) * max(len(values.dictionary), 1) + np.asarray(values.indices)
        distinct, which = np.unique(pairs, return_inverse=True)
        all_types, all_values = types.dictionary.to_pylist(), values.dictionary.to_pylist()
        kinds, texts = np.divmod(distinct, max(len(all_values), 1))
        codes = [self._code(all_types[kind], all_values[text]) for kind, text in zip(kinds, texts, strict=True)]
        rows = np.searchsorted(offsets - first, places, "right") - 1
        result[rows] = np.array(codes, np.int32)[which]  # of a name given twice, the last one stands
        return result

    def _code(self, kind: str, text: str | None) -> int:
        code = self._known.get((kind, text))
        if code is None:
            value: Any = value_of(kind, unescaped(text) if kind == "longstr" and text is not None else text)
            code = self._wanted.get(comparable(value, self._profile, from_message=True), PRESENT_ONLY)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[kind, text] = code
        return code
