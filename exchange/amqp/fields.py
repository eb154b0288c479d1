"""Field values and tables of AMQP 0-9-1: bytes <-> the values of `exchange.field_values`, without loss.

The types are those of `rabbit_binary_parser.erl`, whatever the specification says of them:

===  ==============  =================  =================================================================
tag  RabbitMQ        Python             bytes behind the tag
===  ==============  =================  =================================================================
t    bool            bool               1
b    byte            Typed              1, signed
B    unsignedbyte    Typed              1
s    short           Typed              2, signed; the specification's U is unknown to RabbitMQ
u    unsignedshort   Typed              2
I    signedint       Typed              4, signed
i    unsignedint     Typed              4
l    long            int                8, signed, and so is L, which is read but never written
f    float           Typed              4; RabbitMQ refuses infinities and NaN, here and in a double
d    double          float              8
D    decimal         Decimal            scale in 1, digits in 4, unsigned
S    longstr         str; Typed if not  length in 4, then any bytes
                     UTF-8
x    binary          bytes              length in 4, then the bytes
A    array           list               length in 4, then values, each with its tag
F    table           dict               length in 4, then names and values
T    timestamp       Typed              8, unsigned: seconds
V    void            None               none
===  ==============  =================  =================================================================

Invariant: what `decode_table` returns, `encode_table` turns into the bytes it came from. What plain values cannot say
is kept beside: `Spelled` is a value in an unusual spelling, `Repeated` a table with a name in it twice. Names that are
not UTF-8 have lone surrogates (PEP 383), as everywhere in this project.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from exchange.errors import HashstarError
from exchange.field_values import Typed, type_and_value

__all__ = [
    "DEPTH",
    "KINDS",
    "TAGS",
    "MalformedHeader",
    "Repeated",
    "Spelled",
    "decode_table",
    "decode_value",
    "encode_table",
    "encode_value",
    "short_string",
]

DEPTH: Final = 100
"""Tables and arrays in one another, at most. RabbitMQ has no limit; Python's stack does."""

TAGS: Final[Mapping[str, bytes]] = {
    "bool": b"t", "byte": b"b", "unsignedbyte": b"B", "short": b"s", "unsignedshort": b"u", "signedint": b"I",
    "unsignedint": b"i", "long": b"l", "float": b"f", "double": b"d", "decimal": b"D", "longstr": b"S",
    "binary": b"x", "array": b"A", "table": b"F", "timestamp": b"T", "void": b"V",
}  # fmt: skip
"""RabbitMQ's name of a type -> the tag that it writes."""

KINDS: Final[Mapping[int, str]] = {tag[0]: kind for kind, tag in TAGS.items()} | {ord("L"): "long"}
"""Tag -> RabbitMQ's name of the type."""


class MalformedHeader(HashstarError):
    """Bytes that are no content header or table; ``position`` is the byte at which that shows, from the first on."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"malformed AMQP header at byte {position}: {reason}")
        self.reason = reason
        self.position = position


@dataclass(frozen=True, slots=True)
class Spelled(Typed):
    """A value whose bytes, tag first, are not those that its type and value would be written as."""

    raw: bytes = b""


class Repeated(Mapping[str, Any]):
    """A table in which a name occurs more than once: a mapping of each name to the first of its values.

    RabbitMQ 4 keeps the first too when it drops the others, which it does in headers, not in tables in them.
    """

    __slots__ = ("_first", "pairs")

    def __init__(self, pairs: tuple[tuple[str, Any], ...]) -> None:
        self.pairs: Final = pairs
        self._first: Final = dict(reversed(pairs))

    def __getitem__(self, key: str) -> Any:
        return self._first[key]

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self.pairs))  # in the order of the table

    def __len__(self) -> int:
        return len(self._first)

    def __eq__(self, other: object) -> bool:
        return self.pairs == other.pairs if isinstance(other, Repeated) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a dict

    def __repr__(self) -> str:
        return f"Repeated({self.pairs!r})"


SIZE: Final = struct.Struct(">I")
_size: Final = SIZE.unpack_from
_double: Final = struct.Struct(">d").unpack_from
_float: Final = struct.Struct(">f").unpack_from
_long: Final = struct.Struct(">q").unpack_from
_decimal: Final = struct.Struct(">BI").unpack_from

_new: Final = object.__new__
_set_type, _set_value = (getattr(Typed, name).__set__ for name in ("type", "value"))


def _typed(kind: str, value: Any) -> Typed:
    # What a field of that width holds fits its type, so that the checks of the constructor are spared.
    made = _new(Typed)
    _set_type(made, kind)
    _set_value(made, value)
    return made


TYPED: Final[Mapping[int, tuple[str, int, Callable[[bytes, int], tuple[Any, ...]]]]] = {
    ord(tag): (kind, 1 + struct.calcsize(form), struct.Struct(form).unpack_from)
    for tag, kind, form in (
        ("I", "signedint", ">i"), ("i", "unsignedint", ">I"), ("T", "timestamp", ">Q"), ("s", "short", ">h"),
        ("u", "unsignedshort", ">H"), ("b", "byte", ">b"), ("B", "unsignedbyte", ">B"),
    )
}  # fmt: skip
"""Tag -> the type, the bytes with the tag, and what reads the value."""


def decode_table(data: bytes, start: int = 0, end: int | None = None) -> Mapping[str, Any]:
    """The table whose fields are ``data[start:end]``, without the four bytes that tell its length.

    A dict, or a `Repeated` where it must be. Raises MalformedHeader.
    """
    end = len(data) if end is None else end
    try:
        return _table(data, start, end, DEPTH)
    except (IndexError, struct.error):
        raise MalformedHeader("it ends in the middle of a field", len(data)) from None


def decode_value(data: bytes, start: int = 0) -> tuple[Any, int]:
    """The value whose tag is at ``start``, and where it ends. Raises MalformedHeader."""
    try:
        value, behind = _value(data, start, len(data), DEPTH)
    except (IndexError, struct.error):
        raise MalformedHeader("it ends in the middle of a field", len(data)) from None
    if behind > len(data):
        raise _overrun(data, start, len(data))
    return value, behind


def _table(data: bytes, at: int, end: int, depth: int) -> Mapping[str, Any]:
    # Values may reach behind ``end`` only so far that ``at`` shows it: one comparison serves all bounds.
    found: dict[str, Any] = {}
    while at < end:
        first = at + 1
        tag_at = first + data[at]
        try:
            name = data[first:tag_at].decode()
        except UnicodeDecodeError:
            name = data[first:tag_at].decode("utf-8", "surrogateescape")
        value: Any
        if data[tag_at] == 83:  # S: most of what there is; the rest is in _value
            at = tag_at + 5 + _size(data, tag_at + 1)[0]
            raw = data[tag_at + 5 : at]
            try:
                value = raw.decode()
            except UnicodeDecodeError:
                value = _typed("longstr", raw)
        else:
            value, at = _value(data, tag_at, end, depth)
        if at > end:
            raise _overrun(data, tag_at, end)
        if name in found:
            return _repeated(found, name, value, _pairs(data, at, end, depth))
        found[name] = value
    return found


def _pairs(data: bytes, at: int, end: int, depth: int) -> Iterator[tuple[str, Any]]:
    """The fields one by one, for tables that are no dict."""
    while at < end:
        tag_at = at + 1 + data[at]
        name = data[at + 1 : tag_at].decode("utf-8", "surrogateescape")
        value, at = _value(data, tag_at, end, depth)
        if at > end:
            raise _overrun(data, tag_at, end)
        yield name, value


def _repeated(found: dict[str, Any], name: str, value: Any, others: Iterator[tuple[str, Any]]) -> Repeated:
    return Repeated((*found.items(), (name, value), *others))


def _value(data: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    tag = data[at]
    row = TYPED.get(tag)
    if row is not None:
        kind, width, read = row
        return _typed(kind, read(data, at + 1)[0]), at + width
    if tag == 83:  # S
        behind = at + 5 + _size(data, at + 1)[0]
        raw = data[at + 5 : behind]
        try:
            return raw.decode(), behind
        except UnicodeDecodeError:
            return _typed("longstr", raw), behind
    if tag == 108:  # l
        return _long(data, at + 1)[0], at + 9
    if tag == 116:  # t
        flag = data[at + 1]
        return bool(flag) if flag < 2 else Spelled("bool", True, data[at : at + 2]), at + 2
    if tag == 100:  # d
        return _double(data, at + 1)[0], at + 9
    if tag == 86:  # V
        return None, at + 1
    if tag == 120:  # x
        behind = at + 5 + _size(data, at + 1)[0]
        return data[at + 5 : behind], behind
    return _rare_value(data, at, end, depth)


def _rare_value(data: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    tag = data[at]
    if tag in {65, 70}:  # A, F
        behind = at + 5 + _size(data, at + 1)[0]
        if behind > end:
            raise _overrun(data, at, end)
        if not depth:
            raise MalformedHeader(f"more than {DEPTH} tables and arrays in one another", at)
        read = _array if tag == 65 else _table
        return read(data, at + 5, behind, depth - 1), behind
    if tag == 102:  # f
        value = _float(data, at + 1)[0]
        if value != value:  # noqa: PLR0124  only a NaN is; as a double it would lose its bits
            return Spelled("float", value, data[at : at + 5]), at + 5
        return _typed("float", value), at + 5
    if tag == 68:  # D
        scale, digits = _decimal(data, at + 1)
        return Decimal((0, tuple(map(int, str(digits))), -scale)), at + 6
    if tag == 76:  # L
        return Spelled("long", _long(data, at + 1)[0], data[at : at + 9]), at + 9
    raise MalformedHeader(f"there is no field type {bytes([tag])!r}", at)


def _array(data: bytes, at: int, end: int, depth: int) -> list[Any]:
    items = []
    while at < end:
        value, behind = _value(data, at, end, depth)
        if behind > end:
            raise _overrun(data, at, end)
        items.append(value)
        at = behind
    return items


def _overrun(data: bytes, at: int, end: int) -> MalformedHeader:
    # Seen from the tag, which itself may lie behind the end of a table.
    if at >= end:
        return MalformedHeader(f"the name of a field reaches behind byte {end}, where its table ends", at)
    kind = KINDS.get(data[at])
    return MalformedHeader(f"a {kind} reaches behind byte {end}, where what it is in ends", at)


def encode_table(table: Mapping[str, Any]) -> bytes:
    """The fields of a table, without the four bytes that tell their length: what `decode_table` reads.

    Raises ValueError or TypeError, which name the field, for what AMQP cannot hold.
    """
    pieces: list[bytes] = []
    for name, value in table.pairs if type(table) is Repeated else table.items():
        pieces.append(_label(name))
        kind = type(value)
        try:
            if kind is str:
                raw = value.encode()
                pieces.append(b"S" + SIZE.pack(len(raw)) + raw)
            else:
                pieces.append(encode_value(value))
        except (ValueError, TypeError, struct.error, RecursionError) as error:
            raise ValueError(f"header {name!r}: {error}") from None
    return b"".join(pieces)


def encode_value(value: Any) -> bytes:
    """A field value, its tag first. Raises ValueError, TypeError or struct.error for what AMQP cannot hold."""
    write = WRITERS.get(type(value))
    if write is not None:
        return write(value)
    if isinstance(value, Mapping):
        return _sized(b"F", encode_table(value))
    if isinstance(value, datetime):  # its type is `datetime`, a subclass' as well
        return b"T" + struct.pack(">Q", type_and_value(value)[1])
    return _canonical(*type_and_value(value))


def short_string(text: str) -> bytes:
    """A name: its length in one byte, then its bytes. Raises ValueError when there are more than 255."""
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > 255:
        raise ValueError(f"{text[:40]!r}... has {len(raw)} bytes; AMQP allows 255 for names, keys and properties")
    return bytes((len(raw),)) + raw


_label: Final = lru_cache(4096)(short_string)  # names recur


def _sized(tag: bytes, raw: bytes) -> bytes:
    return tag + SIZE.pack(len(raw)) + raw


def _str(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raw = type_and_value(text)[1]  # lone surrogates, which only JSON can bring
    return b"S" + SIZE.pack(len(raw)) + raw


PACK: Final = {
    kind: struct.Struct(">c" + form).pack
    for kind, form in (
        ("bool", "?"), ("byte", "b"), ("unsignedbyte", "B"), ("short", "h"), ("unsignedshort", "H"), ("signedint", "i"),
        ("unsignedint", "I"), ("long", "q"), ("float", "f"), ("double", "d"), ("timestamp", "Q"),
    )
}  # fmt: skip


def _int(value: int) -> bytes:
    try:
        return PACK["long"](b"l", value)
    except struct.error:
        raise ValueError(f"{value} does not fit in a long: 64 bits, signed") from None


def _of_typed(value: Typed) -> bytes:
    kind = value.type
    pack = PACK.get(kind)
    if pack is not None and not isinstance(value.value, Typed):
        return pack(TAGS[kind], value.value)
    return _canonical(*type_and_value(value)) if kind not in {"array", "table"} else encode_value(value.value)


def _canonical(kind: str, value: Any) -> bytes:
    """From RabbitMQ's type and value, as `type_and_value` tells them."""
    tag = TAGS[kind]
    if kind == "void":
        return tag
    if kind == "decimal":
        return tag + struct.pack(">BI", *value)
    if kind in PACK:
        return PACK[kind](tag, value)
    if kind == "array":
        value = b"".join([_canonical(*item) for item in value])
    elif kind == "table":
        value = b"".join([short_string(name) + _canonical(inner, item) for name, inner, item in value])
    return _sized(tag, bytes(value))


WRITERS: Final[Mapping[type, Callable[[Any], bytes]]] = {
    str: _str,
    int: _int,
    bool: lambda value: b"t\x01" if value else b"t\x00",
    type(None): lambda value: b"V",
    float: lambda value: PACK["double"](b"d", value),
    bytes: lambda value: _sized(b"x", value),
    Typed: _of_typed,
    Spelled: lambda value: value.raw,
    dict: lambda value: _sized(b"F", encode_table(value)),
    list: lambda value: _sized(b"A", b"".join([encode_value(item) for item in value])),
    tuple: lambda value: _sized(b"A", b"".join([encode_value(item) for item in value])),
}
"""Python's type -> what writes its values, for those that say their AMQP type themselves."""
