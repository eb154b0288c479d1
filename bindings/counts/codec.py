"""Encode tallies, comparisons and verifications as Arrow tables, by the annotations of their fields.

A value is a `typing.NamedTuple`. `build_column` encodes it as one struct column; `spread` gives each of its fields a
column. Texts are encoded with `escape`, as in archives. An integer is an ``int64`` unless it is annotated with another
Arrow type, as `bindings.counts.sketch.Hash` is. A table has rows of several kinds; each kind stands for one mapping,
and has columns for its keys and its values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.figures import Time
from bindings.archive.names import escape, unescape
from bindings.archive.sums import Span
from bindings.counts.sketch import FREQUENT, REGISTERS, SAMPLE
from bindings.counts.witness import MAX_WITNESSES
from exchange.errors import InputError
from exchange.values.field_json import decode_message_line, encode_message
from exchange.values.message import Message


class Codec(NamedTuple):
    """The Arrow type of a Python type, and the conversions. ``decode`` raises for what ``encode`` never returns."""

    type: pa.DataType
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


class FieldCodec(NamedTuple):
    """Columns of a table, with the conversions of a value to these fields of a row and back."""

    fields: tuple[pa.Field, ...]
    encode: Callable[[Any], dict[str, Any]]
    decode: Callable[[Mapping[str, Any]], Any]


def _required(value: Any) -> Any:
    if value is None:
        raise TypeError
    return value


def _natural(value: Any) -> Any:
    """Return a number, as counts, indexes, offsets and hashes are: none is below zero."""
    if value < 0:
        raise ValueError
    return value


SIMPLE: Final[Mapping[Any, Codec]] = {
    str: Codec(pa.string(), escape, unescape),
    int: Codec(pa.int64(), _required, _natural),
    bool: Codec(pa.bool_(), _required, _required),
    bytes: Codec(pa.binary(), _required, _required),
    Message: Codec(
        pa.string(),
        lambda message: json.dumps(encode_message(message)),  # as `hashstar explain` reads it
        lambda text: decode_message_line(text.encode(), any_length=True),
    ),
}


@cache
def build_codec(annotation: Any) -> Codec:
    """Return the codec for a field with this annotation."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in SIMPLE:
        return SIMPLE[annotation]
    if origin is Annotated:
        simple = SIMPLE[arguments[0]]._replace(type=pa.type_for_alias(arguments[1]))
        return simple._replace(decode=_required) if annotation == Time else simple
    if origin is Literal:
        return SIMPLE[str]
    if origin in (UnionType, Union):
        (inner,) = [build_codec(each) for each in arguments if each is not NoneType]
        return Codec(inner.type, _or_none(inner.encode), _or_none(inner.decode))
    if origin is tuple:
        item = build_codec(arguments[0])  # tuple[X, ...]
        return Codec(
            pa.list_(item.type),
            lambda values: [item.encode(value) for value in values],
            lambda values: tuple([item.decode(value) for value in values]),
        )
    columns = spread(annotation)
    return Codec(pa.struct(columns.fields), columns.encode, columns.decode)


MAX_ITEMS: Final[Mapping[tuple[str, ...], int]] = {
    ("keys",): REGISTERS, ("sample",): SAMPLE, ("witnesses",): MAX_WITNESSES,
    **{(name, "items"): FREQUENT for name in ("hot", "shapes", "strangers")},
}  # fmt: skip
"""Column, or field of one -> maximum number of its items, or bytes; looked at before rows are read, which takes time.
"""


def _longest(table: pa.Table, path: tuple[str, ...]) -> int:
    """Return the greatest number of items, or bytes, that a column or a field of it has in one row."""
    column = table.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    lengths = pc.binary_length(column) if pa.types.is_binary(column.type) else pc.list_value_length(column)
    return pc.max(lengths).as_py() or 0


def _or_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def build_column(name: str, annotation: Any) -> FieldCodec:
    """Return the single column of this name for values with this annotation."""
    codec = build_codec(annotation)
    return FieldCodec(
        (pa.field(name, codec.type),), lambda value: {name: codec.encode(value)}, lambda row: codec.decode(row[name])
    )


@cache
def spread(kind: type[Any]) -> FieldCodec:
    """Return the columns of a named tuple type, one per field; a field of type `Span` has three columns."""
    hints = get_type_hints(kind, include_extras=True)
    parts = [spread(hints[name]) if hints[name] is Span else build_column(name, hints[name]) for name in kind._fields]

    def encode(value: Any) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for part, field in zip(parts, value, strict=True):
            row.update(part.encode(field))
        return row

    fields = tuple([field for part in parts for field in part.fields])
    zero = kind() if hasattr(kind, "is_sound") else None

    def decode(row: Mapping[str, Any]) -> Any:
        value = kind(*[part.decode(row) for part in parts])
        # What is kept of many messages is a sum, which does not change when nothing is added: it is sorted and bounded.
        if zero is not None and not (value.is_sound() and zero + value == value):
            raise ValueError
        return value

    return FieldCodec(fields, encode, decode)


KIND: Final = build_column("kind", str)


def build_schema(*columns: FieldCodec) -> pa.Schema:
    """Return the schema of a table with a column ``kind`` and these columns."""
    return pa.schema([field for each in (KIND, *columns) for field in each.fields])


class TableFormat(NamedTuple):
    """The file format of a table: its metadata and the kinds of its rows."""

    what: str
    """Name of the contents in error texts and in the metadata, such as ``tally``."""
    version: bytes
    schema: pa.Schema
    kinds: Mapping[str, tuple[FieldCodec, FieldCodec]]
    """Kind of row -> columns of the key, columns of the value."""

    @property
    def version_key(self) -> bytes:
        """Metadata key of the version."""
        return f"hashstar.{self.what}".encode()

    def table(self, counts: Mapping[str, Mapping[Any, Any]], metadata: Mapping[str, str]) -> pa.Table:
        """Return a table with one row per item of each kind, and each entry of ``metadata`` under ``hashstar.NAME``."""
        rows = [
            {"kind": kind, **key.encode(each), **value.encode(count)}
            for kind, (key, value) in self.kinds.items()
            for each, count in counts[kind].items()
        ]
        names = {f"hashstar.{name}".encode(): text.encode() for name, text in metadata.items()}
        return pa.Table.from_pylist(rows, self.schema.with_metadata({self.version_key: self.version, **names}))

    def metadata(self, table: pa.Table, required: Sequence[str], source: str) -> dict[str, str]:
        """Return the metadata of a table, without ``hashstar.``. Raises InputError for a table of another form."""
        names = table.schema.metadata or {}
        texts = {name.decode(errors="replace"): text.decode(errors="replace") for name, text in names.items()}
        version = texts.get(self.version_key.decode())
        if version is None or any(f"hashstar.{name}" not in texts for name in required):
            raise InputError(f"{source}: not a {self.what} of hashstar")
        if version != self.version.decode():
            raise InputError(
                f"{source}: a {self.what} of version {version}; this hashstar reads version {self.version.decode()}"
            )
        if not table.schema.equals(self.schema):
            raise self.damage(source, f"its columns are not those of version {version}")
        return {name.removeprefix("hashstar."): text for name, text in texts.items()}

    def counts(self, table: pa.Table, source: str) -> dict[str, dict[Any, Any]]:
        """Return kind -> its items, read from a table.

        Raises InputError for rows that ``TableFormat.table`` never writes.
        """
        counts: dict[str, dict[Any, Any]] = {kind: {} for kind in self.kinds}
        for path, most in MAX_ITEMS.items():
            if path[0] in table.column_names and _longest(table, path) > most:
                raise self.damage(source, f"more in {'.'.join(path)} than is ever kept")
        try:
            for row in table.to_pylist():
                if row["kind"] not in self.kinds:
                    raise self.damage(source, f"a row of kind {row['kind']!r}")
                key, value = self.kinds[row["kind"]]
                each = key.decode(row)
                if each in counts[row["kind"]]:
                    raise self.damage(source, "two rows for one thing")
                counts[row["kind"]][each] = value.decode(row)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self.damage(source) from None
        return counts

    def damage(self, source: str, what: str = "") -> InputError:
        """Return the InputError for a damaged table."""
        return InputError(f"{source}: a damaged {self.what}{': ' if what else ''}{what}")
