"""Field values and tables of AMQP 0-9-1: bytes <-> the values of `exchange.values.field_values`, without loss.

The types are those of `rabbit_binary_parser.erl`, also where the specification differs:

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

Invariant: `encode_table` encodes a result of `decode_table` to exactly the bytes that were decoded. Two classes keep
what plain values cannot express: `Spelled` is a value that was encoded in an unusual way, `Repeated` a table that has a
name twice. Names that are not UTF-8 get lone surrogates (PEP 383), as everywhere in this project.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from exchange.errors import HashstarError
from exchange.limits import NESTING
from exchange.values.field_values import Typed, resolve_type

TAGS: Final[Mapping[str, bytes]] = {
    "bool": b"t", "byte": b"b", "unsignedbyte": b"B", "short": b"s", "unsignedshort": b"u", "signedint": b"I",
    "unsignedint": b"i", "long": b"l", "float": b"f", "double": b"d", "decimal": b"D", "longstr": b"S",
    "binary": b"x", "array": b"A", "table": b"F", "timestamp": b"T", "void": b"V",
}  # fmt: skip
"""RabbitMQ's name of a type -> the tag that it writes."""

KINDS: Final[Mapping[int, str]] = {tag[0]: kind for kind, tag in TAGS.items()} | {ord("L"): "long"}
"""Tag -> RabbitMQ's name of the type."""


class MalformedHeader(HashstarError):
    """Bytes that are no content header or table; ``position`` is the index of the byte where that is noticed."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"malformed AMQP header at byte {position}: {reason}")
        self.reason = reason
        self.position = position


@dataclass(frozen=True, slots=True)
class Spelled(Typed):
    """A value that was decoded from other bytes than `encode_value` writes; ``raw`` are those bytes, tag first."""

    raw: bytes = b""


class Repeated(Mapping[str, Any]):
    """A table in which a name occurs more than once: a mapping of each name to the first of its values.

    RabbitMQ 4 keeps the first value, too, where it drops the others: in headers, but not in tables nested in them.
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


def _make_typed(kind: str, value: Any) -> Typed:
    # A number read from a field of the type's width fits the type, so the checks of the constructor are skipped.
    typed = _new(Typed)
    _set_type(typed, kind)
    _set_value(typed, value)
    return typed


TYPED: Final[Mapping[int, tuple[str, int, Callable[[bytes, int], tuple[Any, ...]]]]] = {
    ord(tag): (kind, 1 + struct.calcsize(form), struct.Struct(form).unpack_from)
    for tag, kind, form in (
        ("I", "signedint", ">i"), ("i", "unsignedint", ">I"), ("T", "timestamp", ">Q"), ("s", "short", ">h"),
        ("u", "unsignedshort", ">H"), ("b", "byte", ">b"), ("B", "unsignedbyte", ">B"),
    )
}  # fmt: skip
"""Tag -> type, length of tag and value in bytes, function that unpacks the value."""


def decode_table(data: bytes, start: int = 0, end: int | None = None) -> Mapping[str, Any]:
    """Decode the table whose fields are ``data[start:end]``, after the four bytes with its length.

    Returns a dict, or a `Repeated` if a name occurs twice. Raises MalformedHeader.
    """
    end = len(data) if end is None else end
    try:
        return _read_table(data, start, end, NESTING)
    except (IndexError, struct.error):
        raise MalformedHeader("it ends in the middle of a field", len(data)) from None


def decode_value(data: bytes, start: int = 0) -> tuple[Any, int]:
    """Decode the value whose tag is at ``start``; return it and the position of its end. Raises MalformedHeader."""
    try:
        value, behind = _read_value(data, start, len(data), NESTING)
    except (IndexError, struct.error):
        raise MalformedHeader("it ends in the middle of a field", len(data)) from None
    if behind > len(data):
        raise _overrun(data, start, len(data))
    return value, behind


def _read_table(data: bytes, at: int, end: int, depth: int) -> Mapping[str, Any]:
    # After a name or value that reaches beyond ``end``, ``at`` is beyond it, too: one comparison checks all bounds.
    fields: dict[str, Any] = {}
    while at < end:
        first = at + 1
        tag_at = first + data[at]
        try:
            name = data[first:tag_at].decode()
        except UnicodeDecodeError:
            name = data[first:tag_at].decode("utf-8", "surrogateescape")
        value: Any
        if data[tag_at] == 83:  # S, the most frequent type, decoded here to save a call of `_read_value`
            at = tag_at + 5 + _size(data, tag_at + 1)[0]
            raw = data[tag_at + 5 : at]
            try:
                value = raw.decode()
            except UnicodeDecodeError:
                value = _make_typed("longstr", raw)
        else:
            value, at = _read_value(data, tag_at, end, depth)
        if at > end:
            raise _overrun(data, tag_at, end)
        if name in fields:
            return Repeated((*fields.items(), (name, value), *_read_pairs(data, at, end, depth)))
        fields[name] = value
    return fields


def _read_pairs(data: bytes, at: int, end: int, depth: int) -> Iterator[tuple[str, Any]]:
    """Decode the fields one by one, for a table with repeated names."""
    while at < end:
        tag_at = at + 1 + data[at]
        name = data[at + 1 : tag_at].decode("utf-8", "surrogateescape")
        value, at = _read_value(data, tag_at, end, depth)
        if at > end:
            raise _overrun(data, tag_at, end)
        yield name, value


def _read_value(data: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    tag = data[at]
    row = TYPED.get(tag)
    if row is not None:
        kind, width, read = row
        return _make_typed(kind, read(data, at + 1)[0]), at + width
    if tag == 83:  # S
        behind = at + 5 + _size(data, at + 1)[0]
        raw = data[at + 5 : behind]
        try:
            return raw.decode(), behind
        except UnicodeDecodeError:
            return _make_typed("longstr", raw), behind
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
    return _read_rare_value(data, at, end, depth)


def _read_rare_value(data: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    tag = data[at]
    if tag in {65, 70}:  # A, F
        behind = at + 5 + _size(data, at + 1)[0]
        if behind > end:
            raise _overrun(data, at, end)
        if not depth:
            raise MalformedHeader(f"more than {NESTING} tables and arrays in one another", at)
        read = _read_array if tag == 65 else _read_table
        return read(data, at + 5, behind, depth - 1), behind
    if tag == 102:  # f
        value = _float(data, at + 1)[0]
        if value != value:  # noqa: PLR0124  a NaN, whose bits would be lost in a double
            return Spelled("float", value, data[at : at + 5]), at + 5
        return _make_typed("float", value), at + 5
    if tag == 68:  # D
        scale, digits = _decimal(data, at + 1)
        return Decimal((0, tuple(map(int, str(digits))), -scale)), at + 6
    if tag == 76:  # L
        return Spelled("long", _long(data, at + 1)[0], data[at : at + 9]), at + 9
    raise MalformedHeader(f"there is no field type {bytes([tag])!r}", at)


def _read_array(data: bytes, at: int, end: int, depth: int) -> list[Any]:
    items = []
    while at < end:
        value, behind = _read_value(data, at, end, depth)
        if behind > end:
            raise _overrun(data, at, end)
        items.append(value)
        at = behind
    return items


def _overrun(data: bytes, at: int, end: int) -> MalformedHeader:
    # ``at`` is the position of the tag, which may itself be beyond the end of the table.
    if at >= end:
        return MalformedHeader(f"the name of a field reaches behind byte {end}, where its table ends", at)
    kind = KINDS.get(data[at])
    return MalformedHeader(f"a {kind} reaches behind byte {end}, where what it is in ends", at)


def encode_table(table: Mapping[str, Any]) -> bytes:
    """Encode the fields of a table, without the four bytes with their length: what `decode_table` reads.

    Raises ValueError or TypeError naming the field that AMQP cannot hold.
    """
    pieces: list[bytes] = []
    for name, value in table.pairs if type(table) is Repeated else table.items():
        pieces.append(_encode_name(name))
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
    """Encode a field value, tag first. Raises ValueError, TypeError or struct.error for what AMQP cannot hold."""
    write = WRITERS.get(type(value))
    if write is not None:
        return write(value)
    if isinstance(value, Mapping):
        return _add_size(b"F", encode_table(value))

    return _encode_canonical(*resolve_type(value))


def encode_short_string(text: str) -> bytes:
    """Encode a name: its length in one byte, then its bytes. Raises ValueError if there are more than 255."""
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > 255:
        raise ValueError(f"{text[:40]!r}... has {len(raw)} bytes; AMQP allows 255 for names, keys and properties")
    return bytes((len(raw),)) + raw


_encode_name: Final = lru_cache(4096)(encode_short_string)  # names recur


def _add_size(tag: bytes, raw: bytes) -> bytes:
    return tag + SIZE.pack(len(raw)) + raw


def _encode_str(text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raw = resolve_type(text)[1]  # lone surrogates, which only JSON can bring
    return b"S" + SIZE.pack(len(raw)) + raw


PACK: Final = {
    kind: struct.Struct(">c" + form).pack
    for kind, form in (
        ("bool", "?"), ("byte", "b"), ("unsignedbyte", "B"), ("short", "h"), ("unsignedshort", "H"), ("signedint", "i"),
        ("unsignedint", "I"), ("long", "q"), ("float", "f"), ("double", "d"), ("timestamp", "Q"),
    )
}  # fmt: skip


def _encode_int(value: int) -> bytes:
    try:
        return PACK["long"](b"l", value)
    except struct.error:
        raise ValueError(f"{value} does not fit in a long: 64 bits, signed") from None


def _encode_typed(value: Typed) -> bytes:
    kind = value.type
    pack = PACK.get(kind)
    if pack is not None and not isinstance(value.value, Typed):
        return pack(TAGS[kind], value.value)
    return _encode_canonical(*resolve_type(value)) if kind not in {"array", "table"} else encode_value(value.value)


def _encode_canonical(kind: str, value: Any) -> bytes:
    """Encode a value given as `resolve_type` returns it."""
    tag = TAGS[kind]
    if kind == "void":
        return tag
    if kind == "decimal":
        return tag + struct.pack(">BI", *value)
    if kind in PACK:
        return PACK[kind](tag, value)
    if kind == "array":
        value = b"".join([_encode_canonical(*item) for item in value])
    elif kind == "table":
        value = b"".join([encode_short_string(name) + _encode_canonical(inner, item) for name, inner, item in value])
    return _add_size(tag, bytes(value))


WRITERS: Final[Mapping[type, Callable[[Any], bytes]]] = {
    str: _encode_str,
    int: _encode_int,
    bool: lambda value: b"t\x01" if value else b"t\x00",
    type(None): lambda value: b"V",
    float: lambda value: PACK["double"](b"d", value),
    bytes: lambda value: _add_size(b"x", value),
    Typed: _encode_typed,
    Spelled: lambda value: value.raw,
    dict: lambda value: _add_size(b"F", encode_table(value)),
    list: lambda value: _add_size(b"A", b"".join([encode_value(item) for item in value])),
    tuple: lambda value: _add_size(b"A", b"".join([encode_value(item) for item in value])),
}
"""Python type -> function that encodes its values, for the types that determine the AMQP type."""
