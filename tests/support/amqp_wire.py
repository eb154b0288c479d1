"""AMQP field values of all types as bytes: pika writes integers, floats and strings of one size only."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from exchange.values.field_values import resolve_type

FORMATS = {
    "bool": ">c?", "byte": ">cb", "unsignedbyte": ">cB", "short": ">ch", "unsignedshort": ">cH", "signedint": ">ci",
    "unsignedint": ">cI", "long": ">cq", "float": ">cf", "double": ">cd", "timestamp": ">cQ",
}  # fmt: skip
TAGS = {
    "bool": b"t", "byte": b"b", "unsignedbyte": b"B", "short": b"s", "unsignedshort": b"u", "signedint": b"I",
    "unsignedint": b"i", "long": b"l", "float": b"f", "double": b"d", "timestamp": b"T", "decimal": b"D",
    "longstr": b"S", "binary": b"x", "array": b"A", "table": b"F", "void": b"V",
}  # fmt: skip


def encode_field(value: Any) -> bytes:
    """Encode a field value with its type tag."""
    return _encoded(*resolve_type(value))


def _encoded(kind: str, value: Any) -> bytes:
    tag = TAGS[kind]
    if kind == "void":
        return tag
    if kind in FORMATS:
        return struct.pack(FORMATS[kind], tag, value)
    if kind == "decimal":
        return struct.pack(">cBI", tag, *value)
    if kind == "array":
        value = b"".join(_encoded(*item) for item in value)
    elif kind == "table":
        value = b"".join(_short(name) + _encoded(kind, item) for name, kind, item in value)
    return struct.pack(">cI", tag, len(value)) + bytes(value)


def _short(name: str) -> bytes:
    text = name.encode()
    return bytes([len(text)]) + text


@contextmanager
def all_types_in_pika() -> Iterator[None]:
    """Let pika write every field value the engine knows."""

    def encode_value(pieces: list[bytes], value: Any) -> int:
        pieces.append(encode_field(value))
        return len(pieces[-1])

    with mock.patch("pika.data.encode_value", encode_value):
        yield
