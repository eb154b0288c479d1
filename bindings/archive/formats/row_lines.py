"""Rows of `bindings.archive.record.SCHEMA` as JSON objects, as Spark writes a DataFrame of them with ``write.json``.

Nulls are left out, bytes are base64, times are ISO 8601, of milliseconds as Spark writes them by default, and a header
is an object of its type and its text. The columns that are never null tell such a row from other JSON lines.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from bindings.archive.fields import restore_table
from bindings.archive.names import unescape
from bindings.archive.record import Record
from bindings.archive.times import parse_time
from exchange.errors import InputError
from exchange.values.field_json import encode_table
from exchange.values.message import Message

ALWAYS: Final[Mapping[str, type]] = {
    "exchange": str, "routing_key": str, "cc": list, "bcc": list, "headers": dict, "properties": dict, "source": str,
    "offset": int,
}  # fmt: skip
"""Column that is never null -> its type in JSON."""


def is_row(line: Mapping[str, Any]) -> bool:
    """Return whether a parsed line is a row of all columns, and not a record as `encode_line` writes it."""
    return "origin" not in line and all(type(line.get(name)) is kind for name, kind in ALWAYS.items())


def read_row(line: Mapping[str, Any]) -> Record:
    """Return the record of a row. Raises InputError for a row that has something else in a column."""
    headers, properties = (_read_table(line[name], name) for name in ("headers", "properties"))
    body, size, queues = line.get("body"), line.get("body_size"), line.get("routed_queues")
    if size is not None and (type(size) is not int or not 0 <= size < 2**63):
        raise InputError("body_size is not a number of bytes")
    if not (queues is None or _are_texts(queues)):
        raise InputError("routed_queues is not a list of names")
    vhost = line.get("vhost")
    if vhost is not None and type(vhost) is not str:
        raise InputError("vhost is not a string")
    exchange, key, source = (unescape(line[name]) for name in ("exchange", "routing_key", "source"))
    return Record(
        Message(exchange, key, headers, properties, b"" if body is None else _read_bytes(body)),
        parse_time(line.get("time")),
        None if vhost is None else unescape(vhost),
        size,
        body is not None,
        None if queues is None else tuple(map(unescape, queues)),
        source,
        line["offset"],
    )


def restore_line(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line with the headers and properties that objects of types and texts stand for, if it has such."""
    restored = {
        name: encode_table(table)
        for name in ("headers", "properties")
        if type(line.get(name)) is dict and (table := restore_table(line[name])) is not None
    }
    return {**line, **restored} if restored else line


def _read_table(value: dict[str, Any], name: str) -> dict[str, Any]:
    table = restore_table(value)
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
