"""The content header of a message: bytes that travel as they came, and are decoded when somebody asks.

A header frame's payload is class, weight and body size in twelve bytes, then two bytes of flags and the properties
that they tell of, in a fixed order. `ContentHeader` is what is behind the twelve. The table of headers is the third
property, behind two short strings, so it is found at once; one header in it is found by stepping over fields, or known
to be absent by a search for its name in the bytes. So a header is read, added, replaced or removed, and the other
bytes stay what they are.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from exchange.amqp.fields import (
    SIZE,
    MalformedHeader,
    decode_table,
    decode_value,
    encode_table,
    encode_value,
    short_string,
)
from exchange.field_values import Typed, type_and_value
from exchange.message import BASIC_PROPERTIES

__all__ = ["PROPERTIES", "WIDTHS", "ContentHeader"]

_OTHER_TYPES: Final = {"headers": "table", "delivery_mode": "octet", "priority": "octet", "timestamp": "timestamp"}
PROPERTIES: Final[Mapping[str, str]] = {
    name: _OTHER_TYPES.get(name, "shortstr") for name in (*BASIC_PROPERTIES[:2], "headers", *BASIC_PROPERTIES[2:])
}
"""Properties of class basic -> their types, in their order: from flag 15 down to flag 2."""

BITS: Final = {name: 1 << bit for name, bit in zip(PROPERTIES, range(15, 1, -1), strict=True)}
HEADERS: Final = BITS.pop("headers")
IN_FRONT: Final = BITS["content_type"] | BITS["content_encoding"]
BEHIND: Final = HEADERS - 1
TOP: Final = 1 << 16
NONE: Final[Mapping[str, Any]] = {}
WIDTHS: Final = {name: {"octet": 1, "timestamp": 8}.get(kind, 0) for name, kind in PROPERTIES.items()}
"""The bytes of a property; 0 where its first byte, or its first four, say how many."""
UNUSED: Final = 3
"""The flags that stand for no property. RabbitMQ ignores them, and 4.x clears them."""

CLASS: Final = 60
PREFIX: Final = struct.Struct(">HHQ")
FRAME_BYTES: Final = 8
"""What a frame has around its payload."""

_flags: Final = struct.Struct(">H").unpack_from
_size: Final = SIZE.unpack_from

FIXED: Final[Mapping[int, int]] = {
    ord(tag): width
    for tags, width in (("V", 1), ("tbB", 2), ("su", 3), ("Iif", 5), ("D", 6), ("lLdT", 9))
    for tag in tags
}
"""Tag -> the bytes of a value with its tag, where they are always as many."""


class ContentHeader:
    """Flags and properties of a message as bytes; a value, so an edit gives another one.

    Nothing is checked until it is looked at; then what is wrong raises MalformedHeader.
    """

    __slots__ = ("_flags", "_table", "raw")

    def __init__(self, raw: bytes) -> None:
        self.raw: Final = raw
        if len(raw) < 2:
            raise MalformedHeader("there are no property flags", len(raw))
        self._flags: Final[int] = _flags(raw)[0]
        self._table: tuple[int, int] | None = None

    @classmethod
    def parse(cls, payload: bytes) -> tuple[ContentHeader, int]:
        """The header and the size of the body, from the payload of a header frame. Raises MalformedHeader."""
        if len(payload) < PREFIX.size:
            raise MalformedHeader("it ends before its body's size", len(payload))
        kind, _, size = PREFIX.unpack_from(payload)
        if kind != CLASS:
            raise MalformedHeader(f"of class {kind}, where basic is {CLASS}", 0)
        return cls(payload[PREFIX.size :]), size

    @classmethod
    def of(cls, headers: Mapping[str, Any] | None = None, properties: Mapping[str, Any] = NONE) -> ContentHeader:
        """The header of a message with these headers and other properties; None is no table of headers, {} an empty.

        Raises ValueError naming the header or property that AMQP cannot hold.
        """
        parts = {name: _part(name, value) for name, value in properties.items() if value is not None}
        return cls.of_parts(parts, None if headers is None else encode_table(headers))

    @classmethod
    def of_parts(cls, parts: Mapping[str, bytes], table: bytes | None, unused: int = 0) -> ContentHeader:
        """The header of properties as they are on the wire, and of the fields of the table of headers, if there is one.

        ``unused`` are the two flags without a property.
        """
        flags = unused
        front = behind = b""
        last = TOP
        for name, part in parts.items():
            bit = BITS[name]
            if bit > last:
                ordered = sorted(parts, key=BITS.__getitem__, reverse=True)
                return cls.of_parts({one: parts[one] for one in ordered}, table, unused)
            last = bit
            flags |= bit
            if bit > HEADERS:
                front += part
            else:
                behind += part
        if table is None:
            return cls(flags.to_bytes(2) + front + behind)
        return cls((flags | HEADERS).to_bytes(2) + front + SIZE.pack(len(table)) + table + behind)

    def payload(self, body_size: int) -> bytes:
        """The payload of the header frame."""
        return PREFIX.pack(CLASS, 0, body_size) + self.raw

    def fits(self, frame_max: int) -> bool:
        """Whether it goes into a frame of so many bytes at most; a header cannot be split. 0 is no limit."""
        return not frame_max or PREFIX.size + len(self.raw) + FRAME_BYTES <= frame_max

    @property
    def has_table(self) -> bool:
        """Whether there is a table of headers, be it empty."""
        return bool(self._flags & HEADERS)

    @property
    def unused_flags(self) -> int:
        """The two flags that stand for no property."""
        return self._flags & UNUSED

    @property
    def table(self) -> tuple[int, int]:
        """Where the fields of the table of headers begin and end in ``raw``; an empty place where there is none."""
        if self._table is None:
            raw, at = self.raw, 2
            try:
                for bit in (0x8000, 0x4000):
                    if self._flags & bit:
                        at += 1 + raw[at]
                if not self._flags & HEADERS:
                    self._table = at, at
                else:
                    self._table = at + 4, at + 4 + _size(raw, at)[0]
            except (IndexError, struct.error):
                raise _cut(raw) from None
            if self._table[1] > len(raw):
                raise _cut(raw)
        return self._table

    def headers(self) -> Mapping[str, Any]:
        """All headers, decoded."""
        start, end = self.table
        return decode_table(self.raw, start, end) if start < end else {}

    def parts(self) -> list[tuple[str, bytes]]:
        """The other properties as bytes: text without its length, numbers big-endian. Raises MalformedHeader."""
        raw = self.raw
        found = []
        at = 2
        try:
            for name, width in _present(self._flags):
                if width:
                    first = at
                    at += width
                elif name == "headers":
                    at = (self._table or self.table)[1]
                    continue
                else:
                    first = at + 1
                    at = first + raw[at]
                found.append((name, raw[first:at]))
        except IndexError:
            raise _cut(raw) from None
        if at != len(raw):
            raise MalformedHeader("more bytes than properties", at) if at < len(raw) else _cut(raw)
        return found

    def properties(self) -> dict[str, Any]:
        """The other properties: strings as str, octets as int, the timestamp as Typed. Raises MalformedHeader."""
        found: dict[str, Any] = {}
        for name, raw in self.parts():
            width = WIDTHS[name]
            if width:
                found[name] = raw[0] if width == 1 else Typed("timestamp", int.from_bytes(raw))
            else:
                try:
                    found[name] = raw.decode()
                except UnicodeDecodeError:
                    found[name] = raw.decode("utf-8", "surrogateescape")
        return found

    def property(self, name: str) -> Any:
        """One of the other properties, or None; the table of headers is stepped over."""
        if not self._flags & BITS[name]:
            return None
        start, end = self._place(name)
        width = WIDTHS[name]
        if not width:
            return self.raw[start + 1 : end].decode("utf-8", "surrogateescape")
        number = int.from_bytes(self.raw[start:end])
        return number if width == 1 else Typed("timestamp", number)

    def with_property(self, name: str, value: Any) -> ContentHeader:
        """With one of the other properties set, or without it if the value is None. Raises as `of`."""
        part = b"" if value is None else _part(name, value)
        start, end = self._place(name)
        flags = self._flags | BITS[name] if part else self._flags & ~BITS[name]
        return ContentHeader(flags.to_bytes(2) + self.raw[2:start] + part + self.raw[end:])

    def _place(self, name: str) -> tuple[int, int]:
        """Where a property is, or would be."""
        raw, bit = self.raw, BITS[name]
        at = 2 if bit > HEADERS else self.table[1]
        try:
            for other, width in _present(self._flags & (BEHIND if bit < HEADERS else IN_FRONT)):
                if BITS[other] <= bit:
                    break
                at += width or 1 + raw[at]
            if not self._flags & bit:
                return at, at
            end = at + (WIDTHS[name] or 1 + raw[at])
        except IndexError:
            raise _cut(raw) from None
        if end > len(raw):
            raise _cut(raw)
        return at, end

    def find(self, name: str) -> tuple[int, int, int] | None:
        """Where the first header of this name begins, its value begins, and it ends; None if there is none."""
        wanted = _wanted(name)
        if self.raw.find(wanted) < 0:  # which needs no look for the table
            return None
        start, end = self.table
        for field, value, behind in self._steps(start, end):
            if value - field == len(wanted) and self.raw.startswith(wanted, field):
                return field, value, behind
        return None

    def _steps(self, at: int, end: int) -> list[tuple[int, int, int]]:
        """Where fields begin, their values begin, and end."""
        raw = self.raw
        steps = []
        try:
            while at < end:
                value = at + 1 + raw[at]
                tag = raw[value]
                if tag == 83:  # S, which most are
                    behind = value + 5 + _size(raw, value + 1)[0]
                elif tag in FIXED:
                    behind = value + FIXED[tag]
                elif tag in b"xAF":
                    behind = value + 5 + _size(raw, value + 1)[0]
                else:
                    raise MalformedHeader(f"there is no field type {bytes([tag])!r}", value)
                if behind > end:
                    raise MalformedHeader("a field reaches behind the end of its table", value)
                steps.append((at, value, behind))
                at = behind
        except (IndexError, struct.error):
            raise _cut(raw) from None
        return steps

    def fields(self) -> list[tuple[bytes, bytes]]:
        """The name of each header and its value as bytes, tag first, undecoded."""
        raw = self.raw
        return [(raw[field + 1 : value], raw[value:end]) for field, value, end in self._steps(*self.table)]

    def header(self, name: str, default: Any = None) -> Any:
        """The first header of this name; no other is decoded."""
        found = self.find(name)
        return default if found is None else decode_value(self.raw, found[1])[0]

    def with_header(self, name: str, value: Any) -> ContentHeader:
        """With a header set: in its place if it is there, else behind the others. Raises as `of`."""
        found = self.find(name)
        start, end = (self.table[1],) * 2 if found is None else (found[0], found[2])
        try:
            field = short_string(name) + encode_value(value)
        except (TypeError, ValueError, struct.error) as error:
            raise ValueError(f"header {name!r}: {error}") from None
        return self._spliced(start, end, field)

    def with_table(self, fields: bytes) -> ContentHeader:
        """With these headers, as `encode_table` writes them, in place of all it has."""
        raw = self.raw
        start, end = self.table
        front = start - 4 if self._flags & HEADERS else start
        flags = (self._flags | HEADERS).to_bytes(2)
        return ContentHeader(flags + raw[2:front] + SIZE.pack(len(fields)) + fields + raw[end:])

    def without_header(self, name: str) -> ContentHeader:
        """Without the headers of this name; an empty table stays where there was one."""
        content = self
        while (found := content.find(name)) is not None:
            content = content._spliced(found[0], found[2], b"")
        return content

    def _spliced(self, start: int, end: int, field: bytes) -> ContentHeader:
        if not self._flags & HEADERS:
            return self.with_table(field)
        raw, (first, last) = self.raw, self.table
        size = SIZE.pack(last - first + len(field) - (end - start))
        return ContentHeader(b"".join((raw[: first - 4], size, raw[first:start], field, raw[end:])))

    def __eq__(self, other: object) -> bool:
        return self.raw == other.raw if isinstance(other, ContentHeader) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"ContentHeader({self.raw!r})"


@lru_cache(1024)
def _present(flags: int) -> tuple[tuple[str, int], ...]:
    return tuple((name, width) for name, width in WIDTHS.items() if flags & BITS.get(name, HEADERS))


@lru_cache(1024)
def _wanted(name: str) -> bytes:
    """A name as it is in a table; what is too long for one is in none."""
    text = name.encode("utf-8", "surrogateescape")
    return bytes((min(len(text), 255),)) + text


def _cut(raw: bytes) -> MalformedHeader:
    return MalformedHeader("it ends in the middle of a property", len(raw))


def _part(name: str, value: Any) -> bytes:
    """A property on the wire."""
    width = WIDTHS.get(name)
    if width is None or name == "headers":
        raise ValueError(f"AMQP has no property {name!r}")
    if not width:
        if isinstance(value, str):
            return short_string(value)
    else:
        number = value if type(value) is int else type_and_value(value)[1]
        if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 8 * width:
            return number.to_bytes(width)
    raise ValueError(f"{value!r} is no {PROPERTIES[name]}, as the property {name} is")
