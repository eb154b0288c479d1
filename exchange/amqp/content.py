"""The content header of a message: kept as the bytes that were received, and decoded only where it is read.

The payload of a header frame is class, weight and body size in twelve bytes, two bytes of flags, and the properties
whose flags are set, in a fixed order. A `ContentHeader` has the bytes after the first twelve. The table of headers is
the third property, after two short strings, so its position is computed at once. A single header in it is found by
stepping over the fields before it; if its name does not occur in the bytes at all, it is absent. So a header can be
read, added, replaced or removed while all other bytes stay as they are.
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
    encode_short_string,
    encode_table,
    encode_value,
)
from exchange.errors import InputError
from exchange.values.field_values import Typed, resolve_type
from exchange.values.message import BASIC_PROPERTIES

_OTHER_TYPES: Final = {"headers": "table", "delivery_mode": "octet", "priority": "octet", "timestamp": "timestamp"}
PROPERTIES: Final[Mapping[str, str]] = {
    name: _OTHER_TYPES.get(name, "shortstr") for name in (*BASIC_PROPERTIES[:2], "headers", *BASIC_PROPERTIES[2:])
}
"""Properties of class basic -> their types, in their order: from flag 15 down to flag 2."""

RAW_HEADER: Final = "hashstar-content-header"
"""Name of the field that keeps a content header as bytes, where its properties and headers cannot be read."""

BITS: Final = {name: 1 << bit for name, bit in zip(PROPERTIES, range(15, 1, -1), strict=True)}
HEADERS: Final = BITS.pop("headers")
IN_FRONT: Final = BITS["content_type"] | BITS["content_encoding"]
BEHIND: Final = HEADERS - 1
TOP: Final = 1 << 16
NONE: Final[Mapping[str, Any]] = {}
WIDTHS: Final = {name: {"octet": 1, "timestamp": 8}.get(kind, 0) for name, kind in PROPERTIES.items()}
"""Length of a property in bytes; 0 if it varies: then its first byte (of the headers, the first four) is the length."""
UNUSED: Final = 3
"""Mask of the two flags that stand for no property. RabbitMQ ignores them, and 4.x clears them."""

CLASS: Final = 60
PREFIX: Final = struct.Struct(">HHQ")

_flags: Final = struct.Struct(">H").unpack_from
_size: Final = SIZE.unpack_from

FIXED: Final[Mapping[int, int]] = {
    ord(tag): width
    for tags, width in (("V", 1), ("tbB", 2), ("su", 3), ("Iif", 5), ("D", 6), ("lLdT", 9))
    for tag in tags
}
"""Tag -> length in bytes of tag and value, for the types of fixed length."""


class ContentHeader:
    """Flags and properties of a message as bytes. Immutable: an edit returns another header.

    Bytes are not checked before they are read; reading a malformed part raises MalformedHeader.
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
        """Return the header in the payload of a header frame, and the size of the body. Raises MalformedHeader."""
        if len(payload) < PREFIX.size:
            raise MalformedHeader("it ends before its body's size", len(payload))
        kind, _, size = PREFIX.unpack_from(payload)
        if kind != CLASS:
            raise MalformedHeader(f"of class {kind}, where basic is {CLASS}", 0)
        return cls(payload[PREFIX.size :]), size

    @classmethod
    def encode(cls, headers: Mapping[str, Any] | None = None, properties: Mapping[str, Any] = NONE) -> ContentHeader:
        """Build the header of a message with these headers (None: no table, {}: an empty table) and other properties.

        Raises ValueError naming the header or property that AMQP cannot hold.
        """
        parts = {name: encode_property(name, value) for name, value in properties.items() if value is not None}
        return cls.from_parts(parts, None if headers is None else encode_table(headers))

    @classmethod
    def from_parts(cls, parts: Mapping[str, bytes], table: bytes | None, unused: int = 0) -> ContentHeader:
        """Build the header of properties as encoded for the wire, and of the encoded fields of a table of headers.

        ``unused`` are the two flags without a property.
        """
        flags = unused
        front = behind = b""
        last = TOP
        for name, part in parts.items():
            bit = BITS[name]
            if bit > last:  # out of order: start again with the properties sorted
                ordered = sorted(parts, key=BITS.__getitem__, reverse=True)
                return cls.from_parts({one: parts[one] for one in ordered}, table, unused)
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
        """Return the payload of the header frame."""
        return PREFIX.pack(CLASS, 0, body_size) + self.raw

    @property
    def has_table(self) -> bool:
        """Whether there is a table of headers, possibly an empty one."""
        return bool(self._flags & HEADERS)

    @property
    def unused_flags(self) -> int:
        """The two flags that stand for no property."""
        return self._flags & UNUSED

    @property
    def table(self) -> tuple[int, int]:
        """Start and end of the fields of the table of headers in ``raw``; equal where there is no table."""
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
                raise _truncation(raw) from None
            if self._table[1] > len(raw):
                raise _truncation(raw)
        return self._table

    def headers(self) -> Mapping[str, Any]:
        """Decode all headers."""
        start, end = self.table
        return decode_table(self.raw, start, end) if start < end else {}

    def parts(self) -> list[tuple[str, bytes]]:
        """Return the other properties as bytes: text without its length, numbers big-endian. Raises MalformedHeader."""
        raw = self.raw
        parts = []
        at = 2
        try:
            for name, width in _list_present(self._flags):
                if width:
                    first = at
                    at += width
                elif name == "headers":
                    at = (self._table or self.table)[1]
                    continue
                else:
                    first = at + 1
                    at = first + raw[at]
                parts.append((name, raw[first:at]))
        except IndexError:
            raise _truncation(raw) from None
        if at != len(raw):
            raise MalformedHeader("more bytes than properties", at) if at < len(raw) else _truncation(raw)
        return parts

    def properties(self) -> dict[str, Any]:
        """Decode the other properties: strings as str, octets as int, the timestamp as Typed.

        Raises MalformedHeader.
        """
        properties: dict[str, Any] = {}
        for name, raw in self.parts():
            width = WIDTHS[name]
            if width:
                properties[name] = raw[0] if width == 1 else Typed("timestamp", int.from_bytes(raw))
            else:
                try:
                    properties[name] = raw.decode()
                except UnicodeDecodeError:
                    properties[name] = raw.decode("utf-8", "surrogateescape")
        return properties

    def property(self, name: str) -> Any:
        """Decode one of the other properties, without decoding the table of headers; return None if it is absent."""
        if not self._flags & BITS[name]:
            return None
        start, end = self._locate(name)
        width = WIDTHS[name]
        if not width:
            return self.raw[start + 1 : end].decode("utf-8", "surrogateescape")
        number = int.from_bytes(self.raw[start:end])
        return number if width == 1 else Typed("timestamp", number)

    def with_property(self, name: str, value: Any) -> ContentHeader:
        """Return the header with one of the other properties set, removed if the value is None. Raises as `encode`."""
        part = b"" if value is None else encode_property(name, value)
        start, end = self._locate(name)
        flags = self._flags | BITS[name] if part else self._flags & ~BITS[name]
        return ContentHeader(flags.to_bytes(2) + self.raw[2:start] + part + self.raw[end:])

    def _locate(self, name: str) -> tuple[int, int]:
        """Return start and end of a property in ``raw``; if it is absent, both are the position where it would be."""
        raw, bit = self.raw, BITS[name]
        at = 2 if bit > HEADERS else self.table[1]
        try:
            for other, width in _list_present(self._flags & (BEHIND if bit < HEADERS else IN_FRONT)):
                if BITS[other] <= bit:
                    break
                at += width or 1 + raw[at]
            if not self._flags & bit:
                return at, at
            end = at + (WIDTHS[name] or 1 + raw[at])
        except IndexError:
            raise _truncation(raw) from None
        if end > len(raw):
            raise _truncation(raw)
        return at, end

    def find(self, name: str) -> tuple[int, int, int] | None:
        """Return the positions where the first header of this name begins, where its value begins, and where it ends.

        None if there is no such header.
        """
        wanted = _encode_name(name)
        if self.raw.find(wanted) < 0:  # absent for sure, without looking for the table
            return None
        start, end = self.table
        for field, value, behind in self._steps(start, end):
            if value - field == len(wanted) and self.raw.startswith(wanted, field):
                return field, value, behind
        return None

    def _steps(self, at: int, end: int) -> list[tuple[int, int, int]]:
        """Return for each field the positions where it begins, where its value begins, and where it ends."""
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
            raise _truncation(raw) from None
        return steps

    def fields(self) -> list[tuple[bytes, bytes]]:
        """Return name and value of each header as bytes; a value begins with its tag."""
        raw = self.raw
        return [(raw[field + 1 : value], raw[value:end]) for field, value, end in self._steps(*self.table)]

    def header(self, name: str, default: Any = None) -> Any:
        """Decode the first header of this name, and no other one."""
        found = self.find(name)
        return default if found is None else decode_value(self.raw, found[1])[0]

    def with_header(self, name: str, value: Any) -> ContentHeader:
        """Return the header with a field set: replaced if it is there, else added behind the others.

        Raises as `encode`.
        """
        found = self.find(name)
        start, end = (self.table[1],) * 2 if found is None else (found[0], found[2])
        try:
            field = encode_short_string(name) + encode_value(value)
        except (TypeError, ValueError, struct.error) as error:
            raise ValueError(f"header {name!r}: {error}") from None
        return self._splice(start, end, field)

    def with_table(self, fields: bytes) -> ContentHeader:
        """Return the header with all its fields replaced by these, encoded as by `encode_table`."""
        raw = self.raw
        start, end = self.table
        front = start - 4 if self._flags & HEADERS else start
        flags = (self._flags | HEADERS).to_bytes(2)
        return ContentHeader(flags + raw[2:front] + SIZE.pack(len(fields)) + fields + raw[end:])

    def without_header(self, name: str) -> ContentHeader:
        """Return the header without all fields of this name; the table stays, empty if there was no other field."""
        content = self
        while (found := content.find(name)) is not None:
            content = content._splice(found[0], found[2], b"")
        return content

    def _splice(self, start: int, end: int, field: bytes) -> ContentHeader:
        """Replace ``raw[start:end]``, which is in the table of headers, and correct the length of the table."""
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
def _list_present(flags: int) -> tuple[tuple[str, int], ...]:
    """Return names and widths of the properties whose flags are set, in the order of the wire."""
    return tuple((name, width) for name, width in WIDTHS.items() if flags & BITS.get(name, HEADERS))


@lru_cache(1024)
def _encode_name(name: str) -> bytes:
    """Encode a name as in a table; the result for one of more than 255 bytes occurs in no table."""
    text = name.encode("utf-8", "surrogateescape")
    return bytes((min(len(text), 255),)) + text


def _truncation(raw: bytes) -> MalformedHeader:
    return MalformedHeader("it ends in the middle of a property", len(raw))


def encode_property(name: str, value: Any) -> bytes:
    """Encode a property other than the headers. Raises ValueError for one that AMQP does not have, or a wrong value."""
    width = WIDTHS.get(name)
    if width is None or name == "headers":
        raise ValueError(f"AMQP has no property {name!r}")
    if not width:
        if isinstance(value, str):
            return encode_short_string(value)
    else:
        number = value if type(value) is int else resolve_type(value)[1]
        if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << 8 * width:
            return number.to_bytes(width)
    raise ValueError(f"{value!r} is no {PROPERTIES[name]}, as the property {name} is")


def check_properties(properties: Mapping[str, Any]) -> None:
    """Raise InputError naming the property that AMQP does not have, or whose value it cannot carry."""
    for name, value in properties.items():
        if value is None or (name == RAW_HEADER and type(value) is bytes):
            continue
        is_raw = type(value) is Typed and type(value.value) is bytes  # a text that is not UTF-8
        try:
            encode_property(name, value.value.decode("utf-8", "surrogateescape") if is_raw else value)
        except (TypeError, ValueError) as error:
            raise InputError(f"properties: {error}") from None
