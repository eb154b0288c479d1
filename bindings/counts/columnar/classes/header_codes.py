"""A column of header tables seen with the bindings' eyes: for each header, which of the values asked for a row has.

0 stands for no such header, 1 for a value that nobody asked for, and the values asked for follow. Rows that agree in
the codes of all headers that a headers exchange asks for are alike to it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.fields import decode_field
from bindings.archive.names import escape, unescape
from bindings.counts.columnar.arrays.table import IntArray
from exchange.entities.entities import Binding
from exchange.entities.profile import Profile
from exchange.kinds.headers import comparable, conditions_of
from exchange.patterns.conjunctions import PRESENT

__all__ = ["HeaderCodes", "HeaderFields"]

ABSENT: Final = 0
PRESENT_ONLY: Final = 1

REMEMBERED: Final = 65_536
"""So many values of a header are looked up once only."""


class HeaderFields:
    """The fields of a column of tables, one after another."""

    def __init__(self, headers: pa.MapArray) -> None:
        offsets = np.asarray(headers.offsets)  # from the beginning of the column that the rows are cut from
        first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
        self.count: Final = len(headers)
        """Of tables."""
        self._rows: Final = np.repeat(np.arange(len(headers), dtype=np.int32), np.diff(offsets))
        self._names: Final = headers.keys.slice(first, last - first)
        fields = headers.items.slice(first, last - first)
        self._types, self._values = fields.field(0), fields.field(1)

    def named(self, name: str) -> tuple[IntArray, IntArray, list[tuple[str, str | None]]]:
        """Of the fields with this name, in order: the row, which type and value it has, and the types and values."""
        places = self._places(name)
        types, kinds = _coded(self._types, places)
        values, texts = _coded(self._values, places)
        codes = types.astype(np.int64) * len(texts) + values
        size = len(kinds) * len(texts)
        if size <= max(len(places), 1) * 4:
            there = np.zeros(size, np.bool_)
            there[codes] = True
            distinct = np.flatnonzero(there)
            numbers = np.zeros(size, np.int32)
            numbers[distinct] = np.arange(len(distinct), dtype=np.int32)
            which = numbers[codes]
        else:
            distinct, inverse = np.unique(codes, return_inverse=True)
            which = inverse.astype(np.int32)
        listed = [(kinds[code // len(texts)], texts[code % len(texts)]) for code in distinct.tolist()]
        return self._rows[places], which, listed

    def _places(self, name: str) -> npt.NDArray[np.intp]:
        names = self._names
        if not isinstance(names, pa.DictionaryArray):
            return np.flatnonzero(np.asarray(pc.fill_null(pc.equal(names, name), False)))
        found = np.asarray(pc.fill_null(pc.equal(names.dictionary, name), False))
        codes = np.asarray(names.indices)
        numbers = np.flatnonzero(found).tolist()
        return np.flatnonzero(codes == numbers[0] if len(numbers) == 1 else np.isin(codes, numbers))


def _coded(column: pa.Array, places: npt.NDArray[np.intp]) -> tuple[IntArray, list[Any]]:
    """For each of these places which text it has, and the texts; None is one, and the last."""
    if not isinstance(column, pa.DictionaryArray):
        column, places = column.take(pa.array(places)).dictionary_encode(), np.arange(len(places))
    texts = column.dictionary.to_pylist()
    codes = column.indices.fill_null(len(texts)) if column.null_count else column.indices
    return np.asarray(codes).astype(np.int32, copy=False).take(places), [*texts, None]


class HeaderCodes:
    """The codes of one header's values."""

    def __init__(self, name: str, bindings: Iterable[Binding], profile: Profile) -> None:
        self._name: Final = escape(name)
        self._profile: Final = profile
        wanted: dict[Hashable, int] = {}
        for binding in bindings:
            for asked, value in conditions_of(binding, profile):
                if asked == name and value is not PRESENT:
                    wanted.setdefault(value, PRESENT_ONLY + 1 + len(wanted))
        self._wanted: Final = wanted
        self._known: Final[dict[tuple[str, str | None], int]] = {}

    def of(self, fields: HeaderFields) -> IntArray:
        """The code of each row. Raises InputError for a field that is none."""
        result = np.zeros(fields.count, np.int32)
        rows, which, values = fields.named(self._name)
        codes = np.array([self._code(*value) for value in values], np.int32)
        result[rows] = codes[which]  # of a name given twice, the last one stands
        return result

    def _code(self, kind: str, text: str | None) -> int:
        code = self._known.get((kind, text))
        if code is None:
            value: Any = decode_field(kind, unescape(text) if kind == "longstr" and text is not None else text)
            code = self._wanted.get(comparable(value, self._profile, from_message=True), PRESENT_ONLY)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[kind, text] = code
        return code
