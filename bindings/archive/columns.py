"""Which columns of a table, or fields of a JSON object, are the fields of a message: as the user says, else by name.

A place is a column (``exch``), a path in nested columns or objects (``payload.exch``), or a constant (``=orders``). A
column whose whole name has dots in it wins over a path. Headers and properties may be maps, structs, JSON texts, lists
of ``{"key": ..., "value": ...}`` and lists of names and values in turn, as kcat writes them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from bindings.archive.nesting import parse_json
from exchange.errors import InputError

__all__ = ["FIELDS", "TAKEN", "as_line", "as_table", "describe_places", "explain_missing", "find_places", "value_at"]

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


TAKEN: Final = "columns taken: "
"""Begins the note of an archive of another program: which columns are which fields."""


def find_places(names: Collection[str], given: Mapping[str, str], source: str = "") -> dict[str, str]:
    """Return field -> its place in rows with columns of these names: that ``given``, else a plain name if it is there.

    Raises InputError, with the columns that are there, for a given column that is not.
    """
    by_name = {name.lower(): name for name in reversed([*names])}
    places = dict(given)
    for place in given.values():
        if not place.startswith("=") and place not in names and place.partition(".")[0] not in names:
            listed = ", ".join(sorted(names)) or "none"
            raise InputError(f"{source}: there is no column {place!r}; there are: {listed}")
    for field, plain in FIELDS.items():
        name = next((by_name[each] for each in plain if each in by_name), None)
        if field not in places and name is not None:
            places[field] = name
    return places


def explain_missing(names: Iterable[str], given: Mapping[str, str]) -> str:
    """Return what would be taken of columns without exchange or routing key, and how to say the rest."""
    listed = list(names)
    places = find_places(listed, given)
    missing = [field for field in NEEDED if field not in places]
    ways = " ".join(f"--column {field}=NAME" for field in missing)
    taken = f" (taken: {describe_places(places)})" if places else ""
    return f"its columns are {', '.join(listed)}{taken}; say which one is it with {ways}"


def describe_places(places: Mapping[str, str]) -> str:
    """Return places as a text: ``exchange = exch, headers = hdrs``."""
    return ", ".join(f"{field} = {places[field].removeprefix('=')!r}" if places[field].startswith("=") else
                     f"{field} = {places[field]}" for field in FIELDS if field in places)  # fmt: skip


def value_at(row: Mapping[str, Any], place: str) -> Any:
    """Return the value at a place in an object; None if there is none."""
    if place.startswith("="):
        return place[1:]
    if place in row:
        return row[place]
    value: Any = row
    for name in place.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def as_line(row: Mapping[str, Any], places: Mapping[str, str]) -> dict[str, Any]:
    """Return a row as an object of `exchange.field_json.message_from_json`. Raises InputError for wrong headers."""
    line: dict[str, Any] = {}
    for field, place in places.items():
        value = value_at(row, place)
        if value is None:
            continue
        if field in ("headers", "properties"):
            value = as_table(value, field)
        elif field == "body":
            value = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        elif field not in {"timestamp", "size"} and not isinstance(value, str):
            raise InputError(f"{field} is not a string")
        line[field] = value
    return line


def as_table(value: Any, field: str) -> dict[str, Any]:
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
        if all(isinstance(each, Mapping) and isinstance(each.get("key"), str) for each in value):
            return {each["key"]: each.get("value") for each in value}
        if len(value) % 2 == 0 and all(isinstance(name, str) for name in value[::2]):
            return dict(zip(value[::2], value[1::2], strict=True))
    raise InputError(f"{field} are no table: a map, a struct, an object as JSON, or a list of key and value")
