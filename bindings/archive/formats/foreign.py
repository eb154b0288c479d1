"""Convert columns of Parquet of other programs to columns of records: `bindings.archive.columns` says which they are.

Texts may be of any type of texts, bytes or numbers, and dictionary-encoded. Headers and properties are converted column
by column where they are maps of texts; else each distinct JSON text, or each row, is converted by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.columns import (
    TAKEN,
    describe_places,
    find_first_name,
    find_value,
    is_text,
    is_view,
    name_within,
    to_name,
    to_table,
)
from bindings.archive.fields import TABLE, TableBuilder, restore_table
from bindings.archive.formats.row_lines import DOUBT, has_marks
from bindings.archive.names import decode_bytes_array, escape
from bindings.archive.reading import TEXTS_ONLY, Bad
from bindings.archive.record import SCHEMA, UNHELD, make_empty_column, sift_rows
from bindings.archive.routing_keys import HEADERS, fill_keys, find_keys
from bindings.archive.times import parse_time
from exchange.errors import HashstarError, InputError
from exchange.limits import SHORTSTR_BYTES
from exchange.text.display import escape_line
from exchange.values.field_json import decode_message
from exchange.values.field_values import TYPES

FIELD_OF: Final = {"time": "timestamp", "body_size": "size"}
"""Column of a record -> its field in a mapping; all others have one name."""

LISTS: Final = (*HEADERS, "routed_queues")
"""Columns that are taken only if they have these names, and lists of texts."""


TABLES: Final = ("headers", "properties")


class WrongColumn(pa.ArrowInvalid):  # type: ignore[misc]
    """A column has another type than its field needs."""


def select_columns(names: Sequence[str], places: Mapping[str, str], wanted: Sequence[str]) -> list[str]:
    """Return the names of the columns to read for these columns of records."""
    fields = {FIELD_OF.get(name, name) for name in wanted} | {"exchange", "routing_key"}
    if HEADERS.keys() & fields:
        fields.add("headers")
    if "size" in fields and "size" not in places:
        fields.add("body")
    at = [places[field] for field in fields if field in places]
    tops = [found[0] for place in at if not place.startswith("=") and (found := find_first_name(names, place))]
    return sorted({*tops, *[name for name in LISTS if name in wanted and name in names]})


def describe_columns(schema: pa.Schema, places: Mapping[str, str]) -> str:
    """Return the note of a file of another program: which columns are which fields, and whether headers lost types."""
    plain = all(field == place for field, place in places.items())
    notes = [] if plain else [TAKEN + describe_places(places)]
    if _has_texts_only(schema, places):
        notes.append(TEXTS_ONLY)
    if not has_marks(schema.names) and _has_encoded_fields(schema, places):
        notes.append(DOUBT)
    return "; ".join(notes)


def _has_texts_only(schema: pa.Schema, places: Mapping[str, str]) -> bool:
    """Return whether the column of headers is a map of texts, in which all values have lost their types.

    A list of names and texts, in pairs or in turn, is one as well.
    """
    found = find_first_name(schema.names, places.get("headers", "="))
    kind = schema.field(found[0]).type if found else None
    words = found[1] if found else []
    while words and kind is not None and pa.types.is_struct(kind):
        name, words = find_first_name([each.name for each in kind], ".".join(words)) or ("", [])
        kind = kind.field(name).type if name else None
    if kind is None or words:
        return False
    if pa.types.is_map(kind):
        return is_text(kind.item_type)
    items = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else None
    if items is not None and pa.types.is_struct(items) and items.get_field_index("value") >= 0:
        items = items.field("value").type
    return items is not None and is_text(items)


def _has_encoded_fields(schema: pa.Schema, places: Mapping[str, str]) -> bool:
    """Return whether headers or properties are a struct of structs of a type and a value."""
    kinds = [schema.field(place).type for field in TABLES if (place := places.get(field)) in schema.names]
    structs = [[part.type for part in kind] for kind in kinds if pa.types.is_struct(kind)]
    named = [[pa.types.is_struct(part) and [each.name for each in part] for part in parts] for parts in structs]
    return any(parts and all(names == ["type", "value"] for names in parts) for parts in named)


def read_foreign(
    batch: pa.RecordBatch, path: str, row: int, wanted: Sequence[str], places: Mapping[str, str], *, own: bool = False
) -> Iterator[pa.RecordBatch | Bad]:
    """Yield the records of rows, and `Bad` for each row that is none; ``row`` is the number of the first one.

    ``own`` is whether they are rows of our schema, of which headers may be objects of types and texts: by the columns
    of the file, `bindings.archive.formats.row_lines.has_marks` says so.
    Raises WrongColumn, or another ArrowException, for a column of another type than its field needs.
    """
    if (held := _without_views(batch.schema)) != batch.schema:  # most functions of Arrow know no views
        batch = batch.cast(held)
    numbers = pa.array(np.arange(row, row + batch.num_rows, dtype=np.int64))
    texts = {name: _convert(batch, places[name], name, _texts) for name in ("exchange", "routing_key")}
    can_route = pc.and_(texts["exchange"].is_valid(), texts["routing_key"].is_valid())
    for number in numbers.filter(pc.invert(can_route)).to_pylist():
        yield Bad(path, number, "no exchange or no routing key")
    batch, numbers = batch.filter(can_route), numbers.filter(can_route)
    wrong: dict[int, str] = {}
    built: dict[str, pa.Array] = {name: array.filter(can_route) for name, array in texts.items()}
    built["source"] = pa.array([escape(path)] * batch.num_rows, pa.string())
    built["offset"] = numbers
    for name in TABLES:
        if name in places and (name in wanted or (name == "headers" and HEADERS.keys() & {*wanted})):
            built[name] = _convert(batch, places[name], name, partial(_tables, wrong=wrong, own=own))
            if name == "headers":
                keys = find_keys(built[name])
                built |= keys.columns
                wrong |= keys.wrong
    for name in wanted:
        field = FIELD_OF.get(name, name)
        if name in LISTS and name in batch.schema.names and _is_texts(batch.schema.field(name).type):
            column = batch.column(name)
            column.validate(full=True)
            column = column.cast(SCHEMA.field(name).type)
            if name in HEADERS:
                others = built[name] if name in built else make_empty_column(name, batch.num_rows)
                column = fill_keys(column, others)
            built[name] = column
        elif name not in built and field in places:
            built[name] = _convert(batch, places[field], field, partial(CONVERSIONS[name], wrong=wrong))
    if "body_size" in wanted and "size" not in places and "body" in places:
        body = built["body"] if "body" in built else _convert(batch, places["body"], "body", _bodies)
        built["body_size"] = pc.binary_length(body).cast(pa.int64())
    columns = [built[name] if name in built else make_empty_column(name, batch.num_rows) for name in wanted]
    read = pa.RecordBatch.from_arrays(columns, schema=pa.schema([SCHEMA.field(name) for name in wanted]))
    for place, reason in sorted(wrong.items()):
        yield Bad(path, numbers[place].as_py(), reason)
    if wrong:
        right = np.ones(batch.num_rows, np.bool_)
        right[list(wrong)] = False
        read, numbers = read.filter(pa.array(right)), numbers.filter(pa.array(right))
    for item in sift_rows(read, path, 0):
        yield item._replace(offset=numbers[item.offset].as_py()) if isinstance(item, Bad) else item


T = TypeVar("T")


def _convert(batch: pa.RecordBatch, place: str, field: str, convert: Callable[[pa.Array, str], T]) -> T:
    """Return a field of rows. Raises WrongColumn, with the column's name, if it cannot be one."""
    array = _column_at(batch, place, field)
    try:
        return convert(array, field)
    except WrongColumn as error:
        raise WrongColumn(f"{error}{name_within(place, array.type)}") from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise WrongColumn(
            f"column {escape_line(place)} is of type {array.type}, and cannot be {field}: {shorten_error(error)}"
        ) from None


def shorten_error(error: Exception) -> str:
    """Return the first line of an error of Arrow."""
    return str(error).partition("\n")[0] or type(error).__name__


def _column_at(batch: pa.RecordBatch, place: str, field: str) -> pa.Array:
    """Return the column at a place, decoded. Raises WrongColumn if there is none."""
    if place.startswith("="):
        return pa.array([place[1:]], pa.string()).take(pa.array(np.zeros(batch.num_rows, np.int32)))
    found = find_first_name(batch.schema.names, place)
    if found is None or batch.schema.names.count(found[0]) > 1:
        raise WrongColumn(f"there is no column {escape_line(place)}, or there are several")
    name, words = found
    array = batch.column(name)
    if not is_text(array.type):  # texts of other programs need not be UTF-8
        array.validate(full=True)
    while words:
        inner = [each.name for each in array.type] if pa.types.is_struct(array.type) else []
        if found := find_first_name(inner, ".".join(words)):
            array, words = pc.struct_field(array, [inner.index(found[0])]), found[1]
        elif pa.types.is_map(array.type) and is_text(array.type.key_type):
            array, words = _lookup(array, words)
        elif is_text(array.type):
            return _from_json(_decode(array), ".".join(words), field)
        else:
            text = f"column {escape_line(name)} is of type {array.type}, and has no {'.'.join(words)}"
            raise WrongColumn(f"{text}{name_within(name, array.type)}")
        name = place[: -len(".".join(words)) - 1] if words else place
    return _decode(array)


def _lookup(array: pa.Array, words: list[str]) -> tuple[pa.Array, list[str]]:
    """Return the values of a map under the longest name that some row has, and the names below it."""
    names = {
        key.decode("utf-8", "replace") if isinstance(key, bytes) else key
        for key in _decode(array.keys).unique().to_pylist()
    }
    name, below = find_first_name(names, ".".join(words)) or (words[0], words[1:])
    kind = array.type.key_type
    key = pa.scalar(name.encode() if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else name, kind)
    return pc.map_lookup(array, key, "first"), below


def _from_json(texts: pa.Array, place: str, field: str) -> pa.Array:
    """Return the values at a place in JSON texts; null where the text has none."""

    def value(text: str | bytes | None) -> str | None:
        try:
            found = None if text is None else find_value(text, place)
            if found is not None and field in ("exchange", "routing_key", "vhost"):
                found = to_name(found, field)
        except InputError:
            return None
        if found is None:
            return None
        return escape(found if isinstance(found, str) else json.dumps(found, ensure_ascii=False))

    return _by_distinct(texts, value)


def _by_distinct(texts: pa.Array, convert: Callable[[Any], str | None]) -> pa.Array:
    coded = texts.dictionary_encode()
    values = pa.array([convert(text) for text in coded.dictionary.to_pylist()], pa.string())
    return values.take(coded.indices)


def _is_texts(kind: pa.DataType) -> bool:
    """Return whether a column has lists of texts."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return is_list and is_text(kind.value_type)


def _without_views(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(_held(field.type)) for field in schema])


def _held(kind: pa.DataType) -> pa.DataType:
    """Return a type with large texts and bytes in place of views, at any depth."""
    kinds = pa.types
    if is_view(kind):
        return pa.large_string() if kinds.is_string_view(kind) else pa.large_binary()
    if kinds.is_map(kind):
        key, item = (field.with_type(_held(field.type)) for field in (kind.key_field, kind.item_field))
        return pa.map_(key, item)
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(_held(field.type)) for field in kind])
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        build = pa.list_ if kinds.is_list(kind) else pa.large_list
        return build(kind.value_field.with_type(_held(kind.value_type)))
    return kind


def _decode(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _texts(array: pa.Array, name: str) -> pa.Array:
    """Return a column of names: texts and bytes are escaped, numbers are written out."""
    if pa.types.is_nested(array.type):
        raise WrongColumn(f"column {name} is of type {array.type}, not a text")
    kinds = pa.types
    if not (kinds.is_binary(array.type) or kinds.is_large_binary(array.type) or kinds.is_fixed_size_binary(array.type)):
        array = array.cast(pa.string())
    return decode_bytes_array(array.cast(pa.binary()))


def _times(array: pa.Array, name: str, *, wrong: dict[int, str]) -> pa.Array:
    """Return times; numbers and texts are as in JSON lines (`bindings.archive.times`)."""
    wanted = SCHEMA.field("time").type
    kinds = pa.types
    if kinds.is_temporal(array.type) or kinds.is_null(array.type):
        return array.cast(wanted, safe=False)  # digits beyond microseconds are cut off, as in texts
    if kinds.is_nested(array.type):
        raise WrongColumn(f"column {name} is of type {array.type}, not a time")

    def time(value: Any) -> int | None:
        found = parse_time(value.decode("utf-8", "replace") if isinstance(value, bytes) else value)
        return None if found is None or not -(2**63) <= found < 2**63 else found

    return pa.array(_by_row(array, time, wrong), pa.int64()).view(wanted)


def _sizes(array: pa.Array, name: str, *, wrong: dict[int, str]) -> pa.Array:
    """Return numbers of bytes."""

    def size(value: Any) -> int | None:
        number = None if value is None else Decimal(str(value))
        if number is not None and not (0 <= number < 2**63 and number == int(number)):
            raise InputError("size is not a number of bytes")
        return None if number is None else int(number)

    if pa.types.is_integer(array.type) and not pc.any(pc.less(array, 0)).as_py():
        return array.cast(pa.int64())
    return pa.array(_by_row(array, size, wrong), pa.int64())


def _by_row(array: pa.Array, convert: Callable[[Any], int | None], wrong: dict[int, str]) -> list[int | None]:
    found: list[int | None] = []
    for row, value in enumerate(array.to_pylist()):
        try:
            found.append(convert(value))
        except (InputError, ArithmeticError) as error:
            wrong[row] = str(error) if isinstance(error, InputError) else "size is not a number of bytes"
            found.append(None)
    return found


def _bodies(array: pa.Array, _: str, **__: Any) -> pa.Array:
    """Return bodies: texts and bytes as they are, anything else as JSON."""
    kinds = pa.types
    if kinds.is_nested(array.type):
        return pa.array(
            [
                None if value is None else json.dumps(value, ensure_ascii=False, default=str).encode()
                for value in array.to_pylist()
            ],
            pa.binary(),
        )
    if kinds.is_binary(array.type) or kinds.is_large_binary(array.type):
        return array.cast(pa.binary())
    return array.cast(pa.string()).cast(pa.binary())


CONVERSIONS: Final[Mapping[str, Callable[..., pa.Array]]] = {
    "time": _times,
    "body": _bodies,
    "vhost": lambda array, name, **_: _texts(array, name),
    "body_size": _sizes,
}


def _tables(array: pa.Array, name: str, *, wrong: dict[int, str], own: bool) -> pa.MapArray:
    if (tables := _find_own_tables(array)) is not None:
        return tables
    if pa.types.is_map(array.type):
        keys, values = _decode(array.keys), _decode(array.items)
        if pa.types.is_string(keys.type) and pa.types.is_string(values.type):
            kinds = pa.array(["longstr"] * len(values), pa.string())
            fields = pa.StructArray.from_arrays([kinds, values], fields=list(TABLE.item_type))
            keys = decode_bytes_array(keys.cast(pa.binary()))
            # A null value is no text, and a name has at most 255 bytes: by row.
            if not (array.null_count or values.null_count or _is_long(keys)):
                return pa.MapArray.from_arrays(array.offsets, keys, fields, TABLE)
    if is_text(array.type):
        coded = array.dictionary_encode()
        reasons: dict[int, str] = {}
        tables = _each(coded.dictionary, name, reasons, own=own)
        rows = pc.fill_null(coded.indices, len(coded.dictionary))
        if reasons:
            wrong |= {row: reasons[code] for row, code in enumerate(rows.to_pylist()) if code in reasons}
        return pa.concat_arrays([tables, make_empty_column("headers", 1)]).take(rows)
    return _each(array, name, wrong, own=own)


def _find_own_tables(array: pa.Array) -> pa.Array | None:
    """Return tables of `TABLE`, also of those who write that every field may be null, as Spark; None for others."""
    if array.type == TABLE:
        return array
    kind = array.type
    if not pa.types.is_map(kind) or not pa.types.is_struct(kind.item_type):
        return None
    if [field.name for field in kind.item_type] != [field.name for field in TABLE.item_type]:
        return None
    if array.null_count:
        rows = np.where(np.asarray(array.is_valid()), np.arange(len(array)), len(array))
        array = pa.concat_arrays([array, pa.array([[]], kind)]).take(pa.array(rows))
    keys, (types, values) = _decode(array.keys), map(_decode, array.items.flatten())
    are_texts = all(pa.types.is_string(each.type) for each in (keys, types, values))
    if not are_texts or not TYPES.issuperset(types.unique().to_pylist()):  # objects of another program
        return None
    fields = pa.StructArray.from_arrays([types, values], fields=list(TABLE.item_type))
    return pa.MapArray.from_arrays(array.offsets, keys, fields, TABLE)


def _is_long(names: pa.StringArray) -> bool:
    return (pc.max(pc.binary_length(names)).as_py() or 0) > SHORTSTR_BYTES


def _each(array: pa.Array, name: str, wrong: dict[int, str], *, own: bool) -> pa.MapArray:
    """Convert row by row."""
    drop_nulls = pa.types.is_struct(array.type)  # a struct has all its fields in each row
    builder = TableBuilder()
    for row, value in enumerate(array.to_pylist()):
        try:
            table = to_table(value, name)
            if drop_nulls:
                table = {key: each for key, each in table.items() if each is not None}
            if own and (restored := restore_table(table)) is not None:
                table = restored
            elif isinstance(value, str | bytes):
                table = dict(getattr(decode_message({name: table}), name))
            if any(
                isinstance(key, str) and len(key.encode("utf-8", "surrogateescape")) > SHORTSTR_BYTES for key in table
            ):
                raise InputError(f"{name}: a field's name has more than {SHORTSTR_BYTES} bytes")
            builder.add(table)
        except (HashstarError, *UNHELD) as error:
            wrong[row] = str(error)
            builder.add(None)
    return builder.array()
