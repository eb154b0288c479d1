"""Rows of `bindings.archive.record.SCHEMA` as JSON objects, as Spark writes a DataFrame of them with ``write.json``.

Nulls are left out, bytes are base64, times are ISO 8601, of milliseconds as Spark writes them by default, and a header
is an object of its type and its text. A record is known as such a row by its columns alone: `has_marks`.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeGuard

from bindings.archive.fields import is_encoded, restore_table
from bindings.archive.names import unescape
from bindings.archive.record import Record
from bindings.archive.times import parse_time
from exchange.errors import InputError
from exchange.values.field_json import encode_table
from exchange.values.message import Message

MARKS: Final[Mapping[str, type]] = {"cc": list, "bcc": list, "body_size": int, "source": str}
"""Column that other programs hardly have -> its type in JSON. All but ``body_size`` are never null."""
MIN_MARKS: Final = 2
DOUBT: Final = (
    "headers or properties are objects of a type and a value each, and are read as tables, and bodies as they are; if "
    "Spark wrote hashstar's columns, keep two of cc, bcc, body_size, source, or write Parquet"
)
"""Note for a file of what may be rows with too few columns to be known."""


class Origin(NamedTuple):
    """Where a record is read."""

    source: str
    offset: int


def has_marks(names: Collection[str]) -> bool:
    """Return whether records with these columns are rows of our schema: two of `MARKS` are among them."""
    return len(MARKS.keys() & names) >= MIN_MARKS


def is_row(line: Mapping[str, Any]) -> bool:
    """Return whether a parsed line is a row of our schema, and not a record as `encode_line` writes it."""
    return "origin" not in line and has_marks([name for name, kind in MARKS.items() if type(line.get(name)) is kind])


def is_doubtful(line: Mapping[str, Any]) -> bool:
    """Return whether a parsed line may be a row that is not known as one, as its headers or properties look so."""
    tables = (line.get(name) for name in ("headers", "properties"))
    return "origin" not in line and not is_row(line) and any(type(each) is dict and is_encoded(each) for each in tables)


def read_row(line: Mapping[str, Any], otherwise: Origin) -> Record:
    """Return the record of a row; ``otherwise`` is where it is read, of which a row without a source is.

    Raises InputError for a row that has something else in a column.
    """
    headers, properties = (_read_table(line.get(name) or {}, name) for name in ("headers", "properties"))
    body, size, queues = line.get("body"), line.get("body_size"), line.get("routed_queues")
    if size is not None and (type(size) is not int or not 0 <= size < 2**63):
        raise InputError("body_size is not a number of bytes")
    if not (queues is None or _are_texts(queues)):
        raise InputError("routed_queues is not a list of names")
    for name in ("exchange", "routing_key", "vhost", "source"):
        if line.get(name) is not None and type(line[name]) is not str:
            raise InputError(f"{name} is not a string")
    vhost, exchange, key = line.get("vhost"), unescape(line["exchange"]), unescape(line["routing_key"])
    source = otherwise.source if line.get("source") is None else unescape(line["source"])
    return Record(
        Message(exchange, key, headers, properties, b"" if body is None else _read_bytes(body)),
        parse_time(line.get("time")),
        None if vhost is None else unescape(vhost),
        size,
        body is not None,
        None if queues is None else tuple(map(unescape, queues)),
        source,
        otherwise.offset if line.get("source") is None else _read_offset(line.get("offset")),
    )


def restore_row(line: dict[str, Any]) -> dict[str, Any]:
    """Return a row with headers, properties and body as other lines have them. Raises InputError as `read_row`."""
    restored: dict[str, Any] = {
        name: encode_table(_read_table(line[name], name)) for name in ("headers", "properties") if line.get(name)
    }
    if line.get("body") is not None:
        restored["body"] = {"!bytes": b64encode(_read_bytes(line["body"])).decode()}
    return {**line, **restored}


def _read_offset(value: Any) -> int | None:
    if value is not None and (type(value) is not int or not -(2**63) <= value < 2**63):
        raise InputError("offset is not a number")
    return value


def _read_table(value: Any, name: str) -> dict[str, Any]:
    table = restore_table(value) if type(value) is dict else None
    if table is None and value:
        raise InputError(f"{name}: in a row of columns, each field is an object of its type and its value, as text")
    return table or {}


def _read_bytes(text: Any) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (TypeError, binascii.Error, ValueError):
        raise InputError("body: in a row of columns, it is written in base64") from None


def _are_texts(value: Any) -> TypeGuard[Sequence[str]]:
    return type(value) is list and all(type(each) is str for each in value)
