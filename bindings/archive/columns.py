"""Which columns of a table, or fields of a JSON object, are the fields of a message: as the user says, else by name.

A place is a column (``exch``), a path in nested columns, objects or JSON texts (``payload.exch``), or a constant
(``=orders``). At each step the longest name that is there wins, as names may have dots in them. Headers and properties
may be maps, structs, JSON texts, lists of ``{"key": ..., "value": ...}`` and lists of names and values in turn, as kcat
writes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from bindings.archive.mapping import FieldMapping
from bindings.archive.nesting import parse_json
from exchange.errors import InputError
from exchange.text.display import count_rest, escape_line

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "exchange": ("exchange", "exch", "exchange_name", "exchangename"),
    "routing_key": ("routing_key", "routingkey", "routing-key", "rkey", "rk"),
    "headers": ("headers", "hdrs", "header", "message_headers"),
    "properties": ("properties", "props", "basic_properties"),
    "timestamp": ("time", "timestamp", "ts", "event_time", "published_at"),
    "body": ("body", "payload", "value"),
    "vhost": ("vhost", "virtual_host"),
    "size": ("body_size", "size"),
}
"""Field of a message -> names that are taken for it, in order of preference, in any case."""
NEEDED: Final = ("exchange", "routing_key")
"""Fields without which a row is no message."""


MAX_LISTED_COLUMNS: Final = 100
"""Maximum number of columns that an error lists."""
MAX_LISTED_DEPTH: Final = 4
"""Maximum number of names of a path that an error lists."""
UNSET: Final = "__HIVE_DEFAULT_PARTITION__"
"""The value of a folder whose rows have no value for its name, as Hive and Spark write it."""
TAKEN: Final = "columns taken: "
"""Begins the note of an archive of another program: which columns are which fields."""


def find_first_name(names: Collection[str], place: str) -> tuple[str, list[str]] | None:
    """Return the column that a place begins with, the longest one, and the names below it; None if there is none."""
    words = place.split(".")
    for count in range(len(words), 0, -1):
        name = ".".join(words[:count])
        if name in names:
            return name, words[count:]
    return None


def find_places(
    names: Collection[str],
    given: Mapping[str, str],
    source: str = "",
    fits: Callable[[str, str], bool] = lambda field, name: True,
    paths: Callable[[], Iterable[str]] = tuple,
) -> dict[str, str]:
    """Return field -> its place in rows with columns of these names: that ``given``, else a plain name if it is there.

    The names of folders of ``source`` such as ``exchange=orders`` are columns, too. ``fits`` returns whether a column
    may be taken for a field unasked. A given column that is not there is left out, so that files of a folder may
    differ; for exchange and routing key it raises InputError, with the columns that are there, and what ``paths``
    returns.
    """
    folders = _folders(source)
    there = {*names, *folders}
    by_name = {name.lower(): name for name in reversed([*names, *(name for name in folders if name not in names)])}
    places: dict[str, str] = {}
    for field, place in given.items():
        if is_there(place, there):
            places[field] = place
        elif field in NEEDED:
            raise InputError(explain_absent(source, place, {*there, *paths()}))
    for field, plain in FIELDS.items():
        taken = (by_name[each] for each in plain if each in by_name)
        usable = (name for name in taken if (fits(field, name) if name in names else field in NEEDED))
        name = None if field in given else next(usable, None)
        if name is not None:
            places[field] = name
    return {field: place for field, place in places.items() if place != "=" or field in NEEDED}


def resolve_folders(places: Mapping[str, str], names: Collection[str], source: str) -> dict[str, str]:
    """Return places with those that are names of folders as constants."""
    folders = _folders(source)
    constants = {name: f"={value}" for name, value in folders.items() if name not in names and value != UNSET}
    return {field: constants.get(place, place) for field, place in places.items()}


def _folders(source: str) -> dict[str, str]:
    parts = (part.partition("=") for part in PurePath(source).parts[:-1])
    return {name: unquote(value) for name, equals, value in parts if equals and name}


def is_there(place: str, names: Collection[str]) -> bool:
    """Return whether rows with columns of these names may have something at a place."""
    return place.startswith("=") or find_first_name(names, place) is not None


def explain_absent(source: str, place: str, names: Iterable[str]) -> str:
    """Return the error for a place that is not there."""
    text = f"the text {place!r} for all rows is written ={escape_line(place)}"
    return f"{source}: there is no column {place!r}; there are: {_listed(sorted(names))}; {text}"


def explain_missing(names: Iterable[str], given: Mapping[str, str], source: str = "") -> str:
    """Return what would be taken of columns without exchange or routing key, and how to say the rest."""
    listed = list(names)
    places = find_places(listed, given, source)
    missing = [field for field in NEEDED if field not in places]
    ways = " ".join(f"--column {field}={_find_nested(field, listed) or 'NAME'}" for field in missing)
    taken = f" (taken: {describe_places(places)})" if places else ""
    elsewhere = "in Python: FieldMapping, in a bridge: columns"
    return f"its columns are {_listed(listed)}{taken}; name them with {ways} ({elsewhere})"


def _find_nested(field: str, names: Iterable[str]) -> str | None:
    """Return the path within a column that has a plain name of the field; None if no path has one."""
    within = [(name, name.rpartition(".")[2].lower()) for name in names if "." in name]
    return next((escape_line(name) for plain in FIELDS[field] for name, last in within if last == plain), None)


def _listed(names: Iterable[str]) -> str:
    """Return columns as a text: of nested ones, the paths within."""
    every = list(names)
    nested = {
        ".".join(words[:count]) for name in every for words in [name.split(".")] for count in range(1, len(words))
    }
    shown = [escape_line(name) for name in every if name not in nested]
    return ", ".join([*shown[:MAX_LISTED_COLUMNS], *count_rest(len(shown), MAX_LISTED_COLUMNS, indent="")]) or "none"


def _describe_within(place: str, names: Iterable[str]) -> str:
    paths = [f"{place}.{name}" for name in names]
    return f"; within {escape_line(place)}: {_listed(paths)}" if paths else ""


def list_paths(names: Iterable[tuple[str, Any]], below: Callable[[Any], Iterable[tuple[str, Any]]]) -> Iterator[str]:
    """Yield the columns, and behind each the paths within it; ``below`` returns what a column consists of."""
    todo = [(name, part, 1) for name, part in names][::-1]
    while todo:
        path, part, depth = todo.pop()
        yield path
        if depth < MAX_LISTED_DEPTH:
            todo += [(f"{path}.{name}", inner, depth + 1) for name, inner in below(part)][::-1]


def list_schema(schema: pa.Schema | pa.StructType) -> list[str]:
    """Return the names of columns or of fields, and the paths within those that are structs."""

    def fields(nested: pa.Schema | pa.StructType) -> list[tuple[str, pa.DataType]]:
        return [(field.name, field.type) for field in nested]

    return [*list_paths(fields(schema), lambda kind: fields(kind) if pa.types.is_struct(kind) else ())]


def find_schema_places(schema: pa.Schema, mapping: FieldMapping, source: object) -> dict[str, str]:
    """Return field -> its place among the columns of a schema. Raises InputError as `find_places`."""
    fits, paths = partial(_may_hold, schema), partial(list_schema, schema)
    return find_places(schema.names, dict(mapping.columns), str(source), fits, paths)


def _may_hold(schema: pa.Schema, field: str, name: str) -> bool:
    """Return whether a column may be taken for a field unasked: of its type, some value can be one."""
    kind, kinds = schema.field(schema.names.index(name)).type, pa.types
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    if field in ("exchange", "routing_key", "body") or kinds.is_null(kind):
        return True
    is_number = bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))
    has_texts = is_text(kind) or is_view(kind)
    if field == "timestamp":
        return is_number or has_texts or bool(kinds.is_timestamp(kind) or kinds.is_date(kind))
    if field == "size":
        return is_number
    return has_texts or (field != "vhost" and bool(kinds.is_nested(kind)))


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column has texts or bytes."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    kinds = pa.types
    tests = (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary, kinds.is_fixed_size_binary)
    return any(is_kind(kind) for is_kind in tests)


def is_view(kind: pa.DataType) -> bool:
    """Return whether a column has texts or bytes as views."""
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def name_within(place: str, kind: pa.DataType) -> str:
    """Return what an error about a column adds if it is a struct: the paths within it, as a user writes them."""
    return _describe_within(place, list_schema(kind) if pa.types.is_struct(kind) else ())


def describe_places(places: Mapping[str, str]) -> str:
    """Return places as a text: ``exchange = exch, headers = hdrs``."""
    return ", ".join(f"{field} = {places[field].removeprefix('=')!r}" if places[field].startswith("=") else
                     f"{field} = {escape_line(places[field])}" for field in FIELDS if field in places)  # fmt: skip


def find_value(row: Any, place: str) -> Any:
    """Return the value at a place in an object, or in a JSON text; None if there is none."""
    if place.startswith("="):
        return place[1:]
    if isinstance(row, Mapping) and place in row:
        return row[place]
    value, words = row, place.split(".")
    while words:
        if isinstance(value, str | bytes):
            try:
                value = parse_json(value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value)
            except InputError:
                return None
        found = find_first_name(value, ".".join(words)) if isinstance(value, Mapping) else None
        if found is None:
            return None
        value, words = value[found[0]], found[1]
    return value


def to_name(value: Any, field: str) -> str:
    """Return an exchange, a routing key or a virtual host as a text. Raises InputError for a list or an object."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise InputError(f"{field} is not a text")


def to_line(row: Mapping[str, Any], places: Mapping[str, str]) -> dict[str, Any]:
    """Return a row as `exchange.values.field_json.decode_message` takes it. Raises InputError for wrong headers."""
    line: dict[str, Any] = {}
    for field, place in places.items():
        value = find_value(row, place)
        if value is None:
            if field in NEEDED and place not in row:
                raise InputError(_explain_nothing_at(row, field, place))
            continue
        if field in ("headers", "properties"):
            value = to_table(value, field)
        elif field == "body":
            value = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        elif field not in {"timestamp", "size"}:
            if isinstance(value, Mapping):
                within = _describe_within(place, list_paths(value.items(), _list_members))
                raise InputError(f"{field} is an object, not a text{within}")
            value = to_name(value, field)
        line[field] = value
    return line


def _list_members(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, Mapping) else ()


def _explain_nothing_at(row: Mapping[str, Any], field: str, place: str) -> str:
    """Return the error for a path that leads to nothing in a row: what is within its column."""
    name, _ = find_first_name(row, place) or ("", [])
    within = _describe_within(name, list_paths(_list_members(row.get(name)), _list_members))
    return f"no {field}: there is no {escape_line(place)}{within}"


def to_table(value: Any, field: str) -> dict[str, Any]:
    """Return headers or properties, in whatever form they are, as a table. Raises InputError if they are none."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if isinstance(value, str):
        if not value.strip():
            return {}
        try:
            value = parse_json(value.encode("utf-8", "surrogateescape"))
        except InputError as error:
            raise InputError(f"{field} are a text, but {error}") from None
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        if all(isinstance(each, tuple) and len(each) == 2 for each in value):
            return dict(value)
        if all(isinstance(each, Mapping) and isinstance(each.get("key"), str | bytes) for each in value):
            return {_text(each["key"]): _text(each.get("value")) for each in value}
        if len(value) % 2 == 0 and all(isinstance(name, str) for name in value[::2]):
            return dict(zip(value[::2], value[1::2], strict=True))
    raise InputError(f"{field} are no table: a map, a struct, an object as JSON, or a list of key and value")


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
