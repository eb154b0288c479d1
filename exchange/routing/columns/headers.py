"""Columns of headers or properties: which rows have equal values of certain ones, and the tables of single rows.

A column is of one of these types:

* struct: each field is a header; a null is a header that is absent;
* map of names to values, or a list of structs of a key and a value, as Polars and DuckDB write maps;
* text: a JSON object, in the notation of `exchange.values.field_json`.

In a map, values may be structs of a type and a text, as archives hold headers (`bindings.archive.fields`). Else values
are of Arrow's types for texts, bytes, integers, floats, booleans, timestamps, lists and structs. In maps and JSON, a
null is AMQP's void; a row that is null as a whole has no headers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from json import JSONDecodeError
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from exchange.amqp.content import check_properties
from exchange.arrays.table import IntArray
from exchange.errors import InputError
from exchange.values.field_json import decode_table
from exchange.values.field_text import decode_field
from exchange.values.field_values import check_fields, resolve_type
from exchange.values.json_text import JsonFault, parse

ARCHIVED: Final = [
    pa.struct([pa.field("type", text, nullable=nullable), pa.field("value", text)])
    for text in (pa.string(), pa.large_string())
    for nullable in (False, True)
]
"""Types of the values of headers in archives, as Arrow and other libraries read them."""

ABSENT: Final = 0
"""Code of a header that a row does not have."""
VOID: Final = 1
"""Code of a header of a map that is null."""


class HeaderColumn:
    """A column of headers, or of properties, one table for each message; errors call it ``what``.

    Raises InputError for a column of another type.
    """

    def __init__(self, column: pa.Array, what: str = "headers") -> None:
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.dictionary_decode()
            kind = column.type
        without_views = _without_views(kind)
        if without_views != kind:  # few functions of Arrow take views
            column, kind = column.cast(without_views), without_views
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            column = _to_maps(column, what)
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            column = column.dictionary_encode()
        elif not (pa.types.is_struct(kind) or pa.types.is_map(kind) or pa.types.is_null(kind)):
            raise InputError(f"{what} are structs, maps or JSON, not Arrow's {kind}")
        self._what: Final = what
        self._column: Final = column
        self._parsed: list[dict[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self._column)

    def groups(self, names: Iterable[str]) -> IntArray:
        """Return a number for each row, equal for rows in which these headers have equal types and values."""
        result = np.zeros(len(self._column), np.int64)
        for name in names:
            codes = self._codes(name)
            if codes.any():
                _, numbers = np.unique(result * (int(codes.max()) + 1) + codes, return_inverse=True)
                result = numbers.astype(np.int64)
        return result.astype(np.int32)

    def has(self, name: str) -> npt.NDArray[np.bool_]:
        """Return whether each row has a header."""
        present: npt.NDArray[np.bool_] = self._codes(name) != ABSENT
        return present

    def table(self, row: int) -> dict[str, Any]:
        """Return all headers of a row. Raises InputError for a value that AMQP does not have."""
        kind = self._column.type
        if pa.types.is_dictionary(kind):
            number = self._column.indices[row].as_py()
            return {} if number is None else self._tables()[number]
        value = self._column[row].as_py()
        if value is None:
            return {}
        if isinstance(value, Mapping):  # a struct: a null is a header that is absent
            headers = {name: each for name, each in value.items() if each is not None}
        elif kind.item_type in ARCHIVED:
            headers = {name: decode_field(each["type"], each["value"]) for name, each in value}
        else:
            headers = dict(value)
        return _check_headers(headers, self._what, row)

    def _codes(self, name: str) -> npt.NDArray[np.int64]:
        """Return for each row a code of the value that the header has, ``ABSENT`` if the row lacks it."""
        column, kind = self._column, self._column.type
        result = np.zeros(len(column), np.int64)
        if pa.types.is_struct(kind):
            if kind.get_field_index(name) >= 0:
                # `flatten` adds the nulls of the whole rows to those of the fields.
                result = _encode(column.flatten()[kind.get_field_index(name)], null=ABSENT)
        elif pa.types.is_map(kind):
            offsets = np.asarray(column.offsets).astype(np.int64)
            first, last = int(offsets[0]), int(offsets[-1])
            names = column.keys.slice(first, last - first)
            at = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(names, name), False)))
            if len(at):
                rows = np.repeat(np.arange(len(column)), np.diff(offsets))
                values = column.items.slice(first, last - first).take(pa.array(at))
                result[rows[at]] = _encode(values, null=VOID)
        elif pa.types.is_dictionary(kind):
            found: dict[str, int] = {}
            codes = [
                found.setdefault(repr(resolve_type(table[name])), len(found) + 1) if name in table else ABSENT
                for table in self._tables()
            ]
            indices = np.asarray(column.indices.fill_null(len(codes)))
            result = np.array([*codes, ABSENT], np.int64).take(indices)
        return result

    def _tables(self) -> list[dict[str, Any]]:
        """Return the headers of each distinct JSON text."""
        if self._parsed is None:
            self._parsed = [
                self._parse(number, text) for number, text in enumerate(self._column.dictionary.to_pylist())
            ]
        return self._parsed

    def _parse(self, number: int, text: str) -> dict[str, Any]:
        """Return the table in a text of the dictionary. Raises InputError naming the first row that has it."""
        try:
            table = decode_table(parse(text), self._what)
            if self._what == "properties":
                check_properties(table)
        except JSONDecodeError as error:
            reason = f"{self._what}: {error.msg} at column {error.colno} of {text!r:.60}"
        except JsonFault as error:
            reason = f"{self._what}: {error}"
        except InputError as error:
            reason = str(error)
        else:
            return table
        row = pc.index(self._column.indices, number).as_py()
        raise InputError(f"row {row}: {reason}")


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return the type with large strings and binaries in place of views, at any depth."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_without_views(kind.key_type), _without_views(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_without_views(kind.value_type))
    return pa.large_list(_without_views(kind.value_type)) if pa.types.is_large_list(kind) else kind


def _to_maps(column: pa.Array, what: str) -> pa.Array:
    """Return a column of lists of keys and values as one of maps. Raises InputError for other lists."""
    inner = column.type.value_type
    if not (pa.types.is_struct(inner) and inner.num_fields == 2):
        raise InputError(f"{what} are structs, maps or JSON, not Arrow's {column.type}")
    if pa.types.is_large_list(column.type):
        column = column.cast(pa.list_(inner))
    return pa.MapArray.from_arrays(column.offsets, column.values.field(0), column.values.field(1))


def _encode(values: pa.Array, null: int) -> npt.NDArray[np.int64]:
    """Return a code for each value, 2 or greater, equal for equal values; ``null`` for nulls, 0 or 1."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_floating(values.type):  # by their bits: 0.0 and -0.0 are two values
        values = values.view(pa.type_for_alias(f"int{values.type.bit_width}"))
    if pa.types.is_nested(values.type):
        found: dict[str, int] = {}
        listed = values.to_pylist()
        return np.array([null if v is None else found.setdefault(repr(v), len(found) + 2) for v in listed], np.int64)
    codes = values.dictionary_encode().indices
    filled: npt.NDArray[np.int64] = np.asarray(codes.cast(pa.int64()).fill_null(null - 2)) + 2
    return filled


def _check_headers(headers: dict[str, Any], what: str, row: int) -> dict[str, Any]:
    try:
        check_fields(headers, what)
        if what == "properties":
            check_properties(headers)
    except (TypeError, ValueError, InputError) as error:
        raise InputError(f"row {row}: {error}") from None
    return headers
