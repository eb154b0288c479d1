"""Divide key classes by headers: one number, from 1, for messages that neither keys nor headers distinguish.

The code of a header is 0 if the row lacks it, 1 for a value that no binding asks for, and from 2 on for the values that
bindings ask for. A headers exchange routes rows alike that have equal codes for all headers it asks for.
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
from exchange.arrays.table import IntArray, IntTable, KeyArray, pack_pairs
from exchange.entities.entities import Binding
from exchange.entities.profile import Profile
from exchange.kinds.headers import list_conditions, normalise_value
from exchange.patterns.conjunctions import PRESENT

ABSENT: Final = 0
PRESENT_ONLY: Final = 1

REMEMBERED: Final = 65_536
"""Maximum number of values in the cache of codes, per header."""


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

    def number_rows(self, key_classes: IntArray, headers: pa.MapArray | None) -> IntArray:
        """Return the number of each row, by its key class, which must not be 0, and its headers.

        ``headers`` is None if the batch has no column of headers.
        """
        numbers = self._find(key_classes.astype(np.uint64))
        if headers is not None:
            fields = HeaderFields(headers)
            for codes in self._codes.values():
                numbers = self._find(pack_pairs(numbers, codes.encode(fields)))
        return numbers

    def _find(self, keys: KeyArray) -> IntArray:
        numbers = self._numbers.find(keys)
        if not numbers.all():
            new = np.unique(keys[numbers == 0])
            begin = len(self)
            self._numbers.put(new, np.arange(begin, begin + len(new), dtype=np.int32))
            numbers = self._numbers.find(keys)
        return numbers


class HeaderFields:
    """The fields of all tables of a column, one after another."""

    def __init__(self, headers: pa.MapArray) -> None:
        offsets = np.asarray(headers.offsets)  # if the array is a slice, these offsets index the whole column
        first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
        self.count: Final = len(headers)
        """Number of tables."""
        self._rows: Final = np.repeat(np.arange(len(headers), dtype=np.int32), np.diff(offsets))
        self._names: Final = headers.keys.slice(first, last - first)
        fields = headers.items.slice(first, last - first)
        self._types, self._values = fields.field(0), fields.field(1)

    def fields_named(self, name: str) -> tuple[IntArray, IntArray, list[tuple[str, str | None]]]:
        """Return the fields with this name as three columns.

        These are the row of each field, the index of its type and value, and the list of distinct types and values.
        """
        indices = self._indices(name)
        types, kinds = _encode(self._types, indices)
        values, texts = _encode(self._values, indices)
        codes = types.astype(np.int64) * len(texts) + values
        size = len(kinds) * len(texts)
        if size <= max(len(indices), 1) * 4:  # few possible codes: mark them in an array instead of sorting
            occurs = np.zeros(size, np.bool_)
            occurs[codes] = True
            distinct = np.flatnonzero(occurs)
            numbers = np.zeros(size, np.int32)
            numbers[distinct] = np.arange(len(distinct), dtype=np.int32)
            which = numbers[codes]
        else:
            distinct, inverse = np.unique(codes, return_inverse=True)
            which = inverse.astype(np.int32)
        listed = [(kinds[code // len(texts)], texts[code % len(texts)]) for code in distinct.tolist()]
        return self._rows[indices], which, listed

    def _indices(self, name: str) -> npt.NDArray[np.intp]:
        names = self._names
        if not isinstance(names, pa.DictionaryArray):
            return np.flatnonzero(np.asarray(pc.fill_null(pc.equal(names, name), False)))
        matches = np.asarray(pc.fill_null(pc.equal(names.dictionary, name), False))
        codes = np.asarray(names.indices)
        numbers = np.flatnonzero(matches).tolist()
        return np.flatnonzero(codes == numbers[0] if len(numbers) == 1 else np.isin(codes, numbers))


def _encode(column: pa.Array, indices: npt.NDArray[np.intp]) -> tuple[IntArray, list[Any]]:
    """Return for each of these indices the number of its text, and the texts; the last text is None, for nulls."""
    if not isinstance(column, pa.DictionaryArray):
        column, indices = column.take(pa.array(indices)).dictionary_encode(), np.arange(len(indices))
    texts = column.dictionary.to_pylist()
    codes = column.indices.fill_null(len(texts)) if column.null_count else column.indices
    return np.asarray(codes).astype(np.int32, copy=False).take(indices), [*texts, None]


class HeaderCodes:
    """Encodes the values of one header."""

    def __init__(self, name: str, bindings: Iterable[Binding], profile: Profile) -> None:
        self._name: Final = escape(name)
        self._profile: Final = profile
        wanted: dict[Hashable, int] = {}
        for binding in bindings:
            for asked, value in list_conditions(binding, profile):
                if asked == name and value is not PRESENT:
                    wanted.setdefault(value, PRESENT_ONLY + 1 + len(wanted))
        self._wanted: Final = wanted
        self._known: Final[dict[tuple[str, str | None], int]] = {}

    def encode(self, fields: HeaderFields) -> IntArray:
        """Return the code of each row. Raises InputError for a broken field."""
        result = np.zeros(fields.count, np.int32)
        rows, which, values = fields.fields_named(self._name)
        codes = np.array([self._code(*value) for value in values], np.int32)
        result[rows] = codes[which]  # if a table has the name twice, the last field counts
        return result

    def _code(self, kind: str, text: str | None) -> int:
        code = self._known.get((kind, text))
        if code is None:
            value: Any = decode_field(kind, unescape(text) if kind == "longstr" and text is not None else text)
            code = self._wanted.get(normalise_value(value, self._profile, from_message=True), PRESENT_ONLY)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[kind, text] = code
        return code
