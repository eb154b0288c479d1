"""Encode headers and properties in archives: each AMQP field value as its type and a text.

A column of tables has the type ``map<string, struct<type, value>>``. So Spark and Arrow can query one header of many
rows without reading the others: ``headers['region'].value = 'eu'``. And headers exchanges are decided exactly, since
each value has its type beside it. ``type`` is one of `exchange.values.field_values.TYPES`; ``value`` is

==========================  =================================================================
longstr                     the text, as `bindings.archive.names` writes it
binary                      base64
integers, timestamp         decimal digits; a timestamp is in seconds
float, double               Python's shortest decimal that reads back as it; ``nan``, ``inf``
decimal                     its digits: ``1.25``
bool                        ``true`` or ``false``
void                        null
array, table                the JSON of `exchange.values.field_json`
==========================  =================================================================

`decode_field` undoes `encode_field`: type and value come back as RabbitMQ holds them.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.names import escape, to_text_array, unescape
from exchange.errors import InputError
from exchange.values.field_json import encode
from exchange.values.field_text import decode_field
from exchange.values.field_values import RANGES, TYPES, Typed, resolve_type

__all__ = ["TABLE", "TableBuilder", "decode_tables", "decode_field", "encode_field", "find_wrong_rows", "restore_table"]

LOWEST, HIGHEST = RANGES["long"]
DIGITS: Final = 300
"""Number of digits that no AMQP decimal reaches before or after its point."""
FLAGS: Final = 1 << 24
"""Maximum number of possible pairs of type and value for which an array of flags is used."""
TEXT: Final = r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt])*"'
NUMBER: Final = r"(?:0|[1-9][0-9]{0,17})"
TABLE_FIELD: Final = rf'"[a-z-]+": (?:{TEXT}|{NUMBER}|{{"!timestamp": {NUMBER}}}|\[(?:{TEXT}(?:, {TEXT})*)?\])'
FLAT_ARRAY: Final = rf"^\[{{{TABLE_FIELD}(?:, {TABLE_FIELD})*}}(?:, {{{TABLE_FIELD}(?:, {TABLE_FIELD})*}})*\]$"
"""An array of tables of texts, numbers, times and lists of texts, as x-death is: it needs no decoding to be valid."""
Places = np.ndarray[tuple[int], np.dtype[np.int64]]
FIELD: Final = pa.struct([pa.field("type", pa.string(), nullable=False), pa.field("value", pa.string())])
TABLE: Final = pa.map_(pa.string(), FIELD)
"""The Arrow type of a table."""


def encode_field(value: Any) -> tuple[str, str | None]:
    """Return the type and the text of a field value.

    The text of a longstr is not escaped yet: `TableBuilder` escapes whole columns. Raises TypeError, ValueError
    or OverflowError for a value that AMQP cannot hold.
    """
    kind = type(value)
    if kind is str:
        try:
            value.encode()
        except UnicodeEncodeError:  # ``exchange`` encodes a lone surrogate in a value as three bytes
            return "longstr", value.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
        return "longstr", value
    if kind is bool:
        return "bool", "true" if value else "false"
    name, inner = resolve_type(value)
    if name in RANGES:
        Typed(name, inner)  # raises ValueError when it does not fit
        return name, str(inner)
    if name == "void":
        return name, None
    if name in ("float", "double"):
        return name, repr(inner)
    if name == "longstr":
        return name, inner.decode("utf-8", "surrogateescape")
    if name == "binary":
        return name, b64encode(inner).decode()
    if name == "bool":
        return name, "true" if inner else "false"
    if name == "decimal":
        plain = value.value if isinstance(value, Typed) else value
        return name, str(plain.value if isinstance(plain, Typed) else plain)
    text = json.dumps(encode(value), ensure_ascii=False)
    return name, text if escape(text) == text else json.dumps(encode(value))


class TableBuilder:
    """Builds a column of tables, row by row."""

    def __init__(self) -> None:
        self._ends = [0]
        self._keys: list[str] = []
        self._types: list[str] = []
        self._values: list[str | None] = []

    def add(self, table: Mapping[str, Any] | None) -> None:
        """Add a row. Raises as `encode_field`, and then adds nothing."""
        if table:
            fields = [encode_field(value) for value in table.values()]  # before any change, since it may raise
            self._keys += table
            self._types += [field[0] for field in fields]
            self._values += [field[1] for field in fields]
        self._ends.append(len(self._keys))

    def add_encoded(self, fields: Iterable[tuple[str, str, str | None]]) -> None:
        """Add a row of encoded fields: each is a name, a type and a text."""
        for name, kind, text in fields:
            self._keys.append(name)
            self._types.append(kind)
            self._values.append(text)
        self._ends.append(len(self._keys))

    def undo(self) -> None:
        """Remove the last row."""
        self._ends.pop()
        del self._keys[self._ends[-1] :], self._types[self._ends[-1] :], self._values[self._ends[-1] :]

    def array(self) -> pa.MapArray:
        """Return the column."""
        fields = pa.StructArray.from_arrays(
            [pa.array(self._types, pa.string()), to_text_array(self._values)], fields=list(FIELD)
        )
        ends = pa.array(self._ends, pa.int32())
        return pa.MapArray.from_arrays(ends, to_text_array(self._keys), fields, TABLE)


def find_wrong_rows(array: pa.MapArray) -> dict[int, str]:
    """Return row -> reason for the tables that have a field of an unknown type, or a value that is not of its type.

    All Parquet archives are checked by this function, so common fields are checked by column: a longstr is valid
    whatever its text, and Arrow parses all numbers of a type at once. For all other fields, each distinct pair of type
    and value is decoded once.
    """
    ends = array.offsets.to_numpy(zero_copy_only=False)
    first, last = int(ends[0]), int(ends[-1])
    fields = array.items.slice(first, last - first)
    types, values = fields.field(0), fields.field(1)
    places = np.arange(len(types)) if _has_few_pairs(types, values) else _find_others(types, values)
    if not len(places):
        return {}
    if len(places) < len(types):
        types, values = types.take(places), values.take(places)
    if not pa.types.is_dictionary(values.type):
        doubtful = np.flatnonzero(~_find_sound_fields(_decode_dictionary(types), values))
        if not len(doubtful):
            return {}
        places, types, values = places[doubtful], types.take(doubtful), values.take(doubtful)
    (kinds, kind_codes), (texts, text_codes) = _encode_dictionary(types), _encode_dictionary(values)
    width = np.int32 if len(kinds) * len(texts) < 1 << 31 else np.int64
    codes = kind_codes * width(len(texts)) + text_codes
    pairs = _find_distinct(codes, len(kinds) * len(texts))
    kinds, texts = kinds.take(pairs // len(texts)), texts.take(pairs % len(texts))
    doubtful = _find_others(kinds, texts)
    doubtful = doubtful[~_find_sound_fields(kinds.take(doubtful), texts.take(doubtful))]
    wrong: dict[int, str] = {}
    for kind, text, pair in zip(
        kinds.take(doubtful).to_pylist(), texts.take(doubtful).to_pylist(), pairs[doubtful].tolist(), strict=True
    ):
        try:
            decode_field(kind, text)
        except InputError as error:
            wrong[pair] = str(error)
    if not wrong:
        return {}
    fields_at = np.flatnonzero(np.isin(codes, list(wrong)))
    rows = np.searchsorted(ends, first + places[fields_at], "right") - 1
    return {row: wrong[code] for row, code in zip(rows.tolist(), codes[fields_at].tolist(), strict=True)}


def _has_few_pairs(types: pa.Array, values: pa.Array) -> bool:
    """Return whether both columns are dictionary-encoded, with fewer possible pairs than there are fields."""
    if not (pa.types.is_dictionary(types.type) and pa.types.is_dictionary(values.type)):
        return False
    return len(types.dictionary) > 1 and (len(types.dictionary) + 1) * (len(values.dictionary) + 1) < len(types)


def _find_others(types: pa.Array, values: pa.Array) -> Places:
    """Return the positions of fields that are not longstr, or have no value."""
    if pa.types.is_dictionary(values.type) and values.dictionary.null_count:
        values = _decode_dictionary(values)
    is_sure = not types.null_count and not values.null_count
    if pa.types.is_dictionary(types.type):
        is_longstr = np.asarray([name == "longstr" for name in [*types.dictionary.to_pylist(), None]])
        if is_sure and is_longstr[:-1].all():
            return np.arange(0)
        indices = pc.fill_null(types.indices, len(is_longstr) - 1) if types.null_count else types.indices
        is_text = is_longstr[np.asarray(indices)]
    else:
        equal = pc.equal(types, "longstr")
        if is_sure and equal.true_count == len(equal):
            return np.arange(0)
        is_text = np.asarray(pc.fill_null(equal, fill_value=False) if equal.null_count else equal)
    if values.null_count:
        is_text = is_text & np.asarray(values.is_valid())
    return np.flatnonzero(~is_text)


def _decode_dictionary(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _encode_dictionary(array: pa.Array) -> tuple[pa.Array, Places]:
    """Return the distinct values of a column, then a null, and the index of each row's value among them."""
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    values = pa.concat_arrays([coded.dictionary, pa.nulls(1, coded.dictionary.type)])
    indices = pc.fill_null(coded.indices, len(values) - 1) if coded.null_count else coded.indices
    return values, np.asarray(indices)


def _find_distinct(codes: Places, count: int) -> Places:
    """Return the distinct codes in ascending order; all codes are below ``count``."""
    if count > FLAGS:
        return np.unique(codes)
    is_met = np.zeros(count, bool)
    is_met[codes] = True
    return np.flatnonzero(is_met)


def _find_sound_fields(types: pa.Array, values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return a mask of fields that certainly are valid: 64-bit integers, doubles, and most arrays of dead letters.

    Arrow casts all numbers of a type at once; if one of them is invalid, no field of that type is in the mask.
    """
    sound = np.zeros(len(types), bool)
    left = len(types)
    for kind, column in (("long", pa.int64()), ("timestamp", pa.uint64()), ("double", pa.float64())):
        if not left:
            break
        which = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(types, kind), fill_value=False)))
        texts = values if len(which) == len(values) else values.take(which)
        if not len(which) or texts.null_count:
            continue
        try:
            texts.cast(column)
        except pa.ArrowInvalid:
            continue
        sound[which] = True
        left -= len(which)
    if left:
        arrays = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(types, "array"), fill_value=False)))
        is_flat = pc.match_substring_regex(values.take(arrays), FLAT_ARRAY)
        sound[arrays] = np.asarray(pc.fill_null(is_flat, fill_value=False))
    return sound


def restore_table(table: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the table of an object of encoded fields, as Spark writes a table to JSON; None for any other object.

    Each of its values is an object of a type and a text, of which Spark leaves out a null. A table of AMQP with such
    tables only, of another program, looks the same: ask only of a record that is known to be a row of ours. Raises
    InputError for a text that is not of its type.
    """
    if not is_encoded(table):
        return None
    restored: dict[str, Any] = {}
    for name, each in table.items():
        text, kind = each.get("value"), each["type"]
        restored[unescape(name)] = decode_field(kind, unescape(text) if kind == "longstr" else text)
    return restored


def is_encoded(table: Mapping[str, Any]) -> bool:
    """Return whether an object has fields, each an object of a type of AMQP and a text."""
    return bool(table) and all(isinstance(each, Mapping) and _is_field(each) for each in table.values())


def _is_field(field: Mapping[str, Any]) -> bool:
    kind, text = field.get("type"), field.get("value")
    if not isinstance(kind, str) or kind not in TYPES or not field.keys() <= {"type", "value"}:
        return False
    return text is None if kind == "void" else isinstance(text, str)


def decode_tables(array: pa.MapArray) -> list[dict[str, Any]]:
    """Return the rows of a column of tables; a null is an empty table. Raises InputError as `decode_field`."""
    ends = array.offsets.to_pylist()
    first, last = ends[0], ends[-1]
    fields = array.items.slice(first, last - first)
    keys = array.keys.slice(first, last - first).to_pylist()
    types, values = fields.field(0).to_pylist(), fields.field(1).to_pylist()
    rows: list[dict[str, Any]] = []
    for n, start in enumerate(ends[:-1]):
        row: dict[str, Any] = {}
        for place in range(start - first, ends[n + 1] - first):
            text = values[place]
            name = types[place]
            if text is not None and name == "longstr":
                text = unescape(text)
            row[unescape(keys[place])] = decode_field(name, text)
        rows.append(row)
    return rows
