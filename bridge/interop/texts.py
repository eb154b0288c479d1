"""A field value of AMQP as text that people and Kafka's consumers can read, and back to exactly the same bytes.

A field is seen in two ways. Its *wire* is its bytes in AMQP, tag first. Its *type* is RabbitMQ's name for the type, and
its *text* is what the head of this package describes; longstr and void have the type None, and void has null as text.
Where type and text alone would not give the same wire again, the wire is added to the type in base64: ``bool=dAI=``.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from exchange.amqp.fields import KINDS, PACK, SIZE, TAGS, MalformedHeader, Repeated, Spelled, decode_value, encode_value
from exchange.errors import InputError
from exchange.limits import NESTING
from exchange.text.numbers import read_float, read_integer
from exchange.values.field_json import decode, encode
from exchange.values.field_values import RANGES, Typed
from exchange.values.json_text import parse_leniently

INTEGERS: Final = {TAGS[kind][0]: (kind, low < 0) for kind, (low, _) in RANGES.items()}
"""Tag -> the type, and whether it is signed."""


def format_wire(wire: bytes) -> tuple[str | None, bytes | None]:
    """Return the type and the text of a field. Raises MalformedHeader."""
    tag = wire[0]
    if tag == 83:  # S
        return None, wire[5:]
    if tag == 86:  # V
        return None, None
    row = INTEGERS.get(tag)
    if row is not None:
        return row[0], b"%d" % int.from_bytes(wire[1:], signed=row[1])
    kind = KINDS[tag]
    if tag == 120:  # x
        return kind, wire[5:]
    value = decode_value(wire)[0]
    text = _text(kind, value)
    if not _is_canonical(value):
        return f"{kind}={b64encode(wire).decode()}", text
    return kind, text


def parse_wire(kind: str | None, text: bytes | None) -> bytes:
    """Return the field of a type and a text. Raises ValueError where the text is no value of the type."""
    if kind is None or kind in {"longstr", "void"}:
        return b"V" if text is None else b"S" + SIZE.pack(len(text)) + text
    if text is None:
        raise ValueError(f"null is not a {kind}")
    name, has_wire, raw = kind.partition("=")
    if has_wire:
        wire = b64decode(raw, validate=True)
        try:
            end = decode_value(wire)[1]
        except MalformedHeader as error:
            raise ValueError(f"{kind[:40]!r} is not a field: {error}") from None
        # More bytes than this field, or another field, would put fields that nobody sent, or a broken table, into AMQP.
        if end != len(wire) or format_wire(wire) != (kind, text):
            raise ValueError(f"{_show(text)} is not the value in {kind[:40]!r}")
        return wire
    read = READERS.get(name)
    if read is None:
        raise ValueError(f"there is no type {name[:40]!r}; there are {', '.join(sorted(TAGS))}")
    try:
        return read(text)
    except (ValueError, TypeError, ArithmeticError, KeyError, struct.error, InputError, RecursionError):
        raise ValueError(f"{_show(text)} is not a {name}") from None


def _text(kind: str, value: Any) -> bytes:
    if kind in {"array", "table"}:
        try:
            return JSON.encode(encode(value)).encode()
        except UnicodeEncodeError:  # of names that are not UTF-8
            return json.dumps(encode(value)).encode()
    if isinstance(value, Typed):
        value = value.value
    if kind == "bool":
        return b"true" if value else b"false"
    return repr(value).encode() if kind in {"float", "double"} else str(value).encode()


def _is_canonical(value: Any) -> bool:
    """Return whether encoding a decoded value gives the same wire again. False for NaN, which has many wires."""
    kind = type(value)
    if kind is float:
        return bool(value == value)  # noqa: PLR0124  only a NaN is not
    if kind is list:
        return all(map(_is_canonical, value))
    if kind is dict:
        return all(map(_is_canonical, value.values()))
    return kind is not Spelled and kind is not Repeated


JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def _nested(kind: type) -> Callable[[bytes], bytes]:
    def read(text: bytes) -> bytes:
        value = decode(parse_leniently(text, 2 * NESTING))
        if not isinstance(value, kind):
            raise TypeError(text)
        return encode_value(value)

    return read


def _number(kind: str, parse: Callable[[bytes], Any]) -> Callable[[bytes], bytes]:
    pack, tag = PACK[kind], TAGS[kind]
    return lambda text: pack(tag, parse(text))


READERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    **{kind: _number(kind, lambda text: read_integer(text.decode())) for kind in RANGES},
    "float": _number("float", lambda text: read_float(text.decode())),
    "double": _number("double", lambda text: read_float(text.decode())),
    "bool": lambda text: {b"true": b"t\x01", b"false": b"t\x00"}[text],
    "decimal": lambda text: encode_value(Decimal(text.decode("ascii"))),
    "binary": lambda text: b"x" + SIZE.pack(len(text)) + text,
    "array": _nested(list),
    "table": _nested(dict),
}
"""Type -> the function that makes a field of a text."""


def _show(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace"))
