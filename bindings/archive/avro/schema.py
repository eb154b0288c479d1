"""Convert schemas of Avro to columns of Arrow, so that files of Avro are read as those of Parquet are.

A union with null is a column with nulls. What no column can hold, a union of several types, is a column of JSON, in
which each value keeps its type. Times are read as numbers, and are times by the types of their columns. A schema that
contains itself is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from exchange.errors import InputError
from exchange.values.field_json import encode

MAX_TYPES: Final = 10_000
"""Maximum number of types of a schema with all names replaced by what they stand for."""

PLAIN: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int64(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(),
}  # fmt: skip
TIMES: Final[Mapping[str, pa.DataType]] = {
    **{
        f"{local}timestamp-{name}": pa.timestamp(unit, None if local else "UTC")
        for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
        for local in ("", "local-")
    },
    "date": pa.date32(), "time-millis": pa.time32("ms"), "time-micros": pa.time64("us"),
}  # fmt: skip
"""Logical type of a number -> type of a column."""
MAX_DECIMAL: Final = 76
"""Maximum number of digits of a decimal of Arrow."""


class _NoColumn(Exception):
    """No type of Arrow holds all values."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a file, and how to read them."""

    schema: pa.Schema
    texts: frozenset[str]
    """Columns whose values become JSON."""
    stored: bytes
    """The schema as JSON with which records are read."""

    def build(self, records: list[dict[str, Any]], name: str) -> pa.Array:
        """Return a column of records. Raises ArrowException, OverflowError or TypeError for a value that is none."""
        values: Iterator[Any] = (record[name] for record in records)
        if name in self.texts:
            values = (None if value is None else json.dumps(encode(value), ensure_ascii=False) for value in values)
        return pa.array(values, self.schema.field(name).type)


def convert_schema(schema: Any) -> Columns:
    """Return the columns of a schema. Raises InputError if it is none of records, or contains itself."""
    from fastavro.schema import parse_schema  # an extra

    try:
        return _convert(schema, parse_schema(schema))
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  the library raises plain exceptions, and takes names that are no texts
        raise InputError(f"its schema is none of Avro: {error!s:.200}") from None


def _convert(schema: Any, parsed: Any) -> Columns:
    if not isinstance(parsed, Mapping) or parsed.get("type") != "record":
        raise InputError("its schema is not one of records")
    types = _Types(parsed)
    fields, texts = [], set()
    for field in parsed["fields"]:
        try:
            kind = types.convert(field["type"], {parsed["name"]})
        except _NoColumn:
            kind = pa.string()
            texts.add(field["name"])
        fields.append(pa.field(field["name"], kind))
    return Columns(pa.schema(fields), frozenset(texts), json.dumps(_read_as_numbers(schema)).encode())


class _Types:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}
        self._count = 0
        self._collect(schema)

    def _collect(self, schema: Any) -> None:
        """Remember the types that have names."""
        if isinstance(schema, list):
            for each in schema:
                self._collect(each)
        if not isinstance(schema, Mapping):
            return
        if schema.get("type") in NAMED:
            self._named[schema["name"]] = schema
        for each in schema.get("fields", ()):
            self._collect(each["type"])
        for name in ("items", "values", "type"):
            self._collect(schema.get(name))

    def convert(self, schema: Any, around: set[str]) -> pa.DataType:
        """Return the type of a column; ``around`` are the names of the records that it is in."""
        self._count += 1
        if self._count > MAX_TYPES:
            raise InputError(f"its schema has more than {MAX_TYPES:,} types")
        if isinstance(schema, list):
            return self._convert_union(schema, around)
        if isinstance(schema, str):
            if schema in PLAIN:
                return PLAIN[schema]
            schema = self._named[schema]
        if isinstance(schema["type"], Mapping | list):
            return self.convert(schema["type"], around)
        logical = schema.get("logicalType")
        if logical == "decimal" and schema.get("precision", MAX_DECIMAL + 1) <= MAX_DECIMAL:
            return pa.decimal256(schema["precision"], schema.get("scale", 0))
        if schema["type"] in ("int", "long") and logical in TIMES:
            return TIMES[logical]
        return CONVERSIONS.get(schema["type"], _Types._convert_plain)(self, schema, around)

    def _convert_union(self, schema: list[Any], around: set[str]) -> pa.DataType:
        kinds = self._convert_all([each for each in schema if each != "null"], around)
        if len({*kinds}) > 1:
            raise _NoColumn
        return kinds[0] if kinds else pa.null()

    def _convert_record(self, schema: Mapping[str, Any], around: set[str]) -> pa.DataType:
        if schema["name"] in around:
            raise InputError(f"its schema is not read, as {schema['name']!r:.60} contains itself")
        kinds = self._convert_all([field["type"] for field in schema["fields"]], {*around, schema["name"]})
        return pa.struct([pa.field(field["name"], kind) for field, kind in zip(schema["fields"], kinds, strict=True)])

    def _convert_all(self, schemas: list[Any], around: set[str]) -> list[pa.DataType]:
        """Convert all of them, so that one that contains itself is found, before saying that one has no column."""
        kinds: list[pa.DataType] = []
        for each in schemas:
            with suppress(_NoColumn):
                kinds.append(self.convert(each, around))
        if len(kinds) < len(schemas):
            raise _NoColumn
        return kinds

    def _convert_array(self, schema: Mapping[str, Any], around: set[str]) -> pa.DataType:
        kind = self.convert(schema["items"], around)
        if self._is_empty(schema["items"]):  # any number of these takes no bytes
            raise InputError("its schema is not read, as it has arrays of nothing")
        return pa.list_(kind)

    def _convert_map(self, schema: Mapping[str, Any], around: set[str]) -> pa.DataType:
        return pa.map_(pa.string(), self.convert(schema["values"], around))

    def _convert_plain(self, schema: Mapping[str, Any], _: set[str]) -> pa.DataType:
        name = schema["type"]
        return PLAIN[name] if name in PLAIN else self.convert(name, _)

    def _is_empty(self, schema: Any) -> bool:
        """Return whether a value has no bytes."""
        self._count += 1
        if self._count > MAX_TYPES:
            raise InputError(f"its schema has more than {MAX_TYPES:,} types")
        if isinstance(schema, str):
            schema = self._named.get(schema, schema)
        if not isinstance(schema, Mapping):
            return bool(schema == "null")
        if schema["type"] == "record":
            return all(self._is_empty(field["type"]) for field in schema["fields"])
        return self._is_empty(schema["type"]) if schema["type"] != "fixed" else not schema["size"]


NAMED: Final = ("record", "error", "enum", "fixed")
CONVERSIONS: Final[Mapping[str, Callable[[_Types, Mapping[str, Any], set[str]], pa.DataType]]] = {
    "record": _Types._convert_record,
    "error": _Types._convert_record,
    "array": _Types._convert_array,
    "map": _Types._convert_map,
    "enum": lambda types, schema, around: pa.string(),
    "fixed": lambda types, schema, around: pa.binary(),
}


def _read_as_numbers(schema: Any) -> Any:
    """Return a schema without logical types, but for decimals: a time that Python cannot hold is a number, too."""
    if isinstance(schema, list):
        return [_read_as_numbers(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {name: value for name, value in schema.items() if name != "logicalType" or value == "decimal"}
    for name in ("type", "items", "values"):
        if name in kept:
            kept[name] = _read_as_numbers(kept[name])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [_read_as_numbers(each) for each in kept["fields"]]
    return kept
