"""Decode the values that Kafka's coordinators and controllers keep in records, by tables of their fields.

Each kind of value has versions; a field is in the versions from ``since`` to ``until``. Since some version a kind is
flexible: lengths are varints, and fields may follow that have numbers (KIP-482), which are passed over. The tables are
those of Kafka's generated classes, such as `OffsetCommitValue`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from exchange.errors import InputError

__all__ = [
    "BYTES", "INT16", "INT32", "INT64", "INT8", "NEVER", "STRING", "UUID_FIELD", "Array", "Field", "FieldReader",
    "ValueSchema",
]  # fmt: skip

NEVER: Final = 1 << 15
"""A version that no kind of value has."""
ENDS_EARLY: Final = "it ends in the middle of a field"


class FieldReader:
    """Reads fields from bytes, in order. Each method raises InputError if they are not there."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def rest(self) -> int:
        """Number of bytes that are not read yet."""
        return len(self._data) - self._place

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if not 0 <= size <= self.rest:
            raise InputError(ENDS_EARLY)
        self._place += size
        return self._data[self._place - size : self._place]

    def number(self, layout: str) -> int:
        """Return the next number; ``layout`` is as in `struct`."""
        return int(struct.unpack(layout, self.take(struct.calcsize(layout)))[0])

    def varint(self) -> int:
        """Return the next unsigned varint, of at most five bytes."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise InputError("a number in it does not end")

    def length(self, layout: str, *, flexible: bool) -> int | None:
        """Return the next length or count, None for null; ``layout`` is that of lengths in other than flexible
        values.
        """
        value = self.varint() - 1 if flexible else self.number(layout)
        if value > self.rest:  # an item of an array has at least one byte
            raise InputError(ENDS_EARLY)
        return None if value < 0 else value

    def pass_tagged_fields(self) -> None:
        """Pass over the fields with numbers."""
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())


Type = Callable[[FieldReader, int, bool], Any]
"""Reads a field of a value of some version, which is flexible or not."""


def _number(layout: str) -> Type:
    return lambda reader, version, flexible: reader.number(layout)


def _read_string(reader: FieldReader, version: int, flexible: bool) -> str | None:
    size = reader.length(">h", flexible=flexible)
    return None if size is None else reader.take(size).decode("utf-8", "surrogateescape")


def _read_bytes(reader: FieldReader, version: int, flexible: bool) -> bytes | None:
    size = reader.length(">i", flexible=flexible)
    return None if size is None else reader.take(size)


def _read_uuid(reader: FieldReader, version: int, flexible: bool) -> UUID:
    return UUID(bytes=reader.take(16))


INT8, INT16, INT32, INT64 = map(_number, (">b", ">h", ">i", ">q"))
STRING: Final[Type] = _read_string
BYTES: Final[Type] = _read_bytes
UUID_FIELD: Final[Type] = _read_uuid


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a kind of value."""

    name: str
    read: Type
    since: int = 0
    until: int = NEVER


@dataclass(frozen=True, slots=True)
class Array:
    """A type: items of another type, or structures of these fields; null is read as no items."""

    item: Type | tuple[Field, ...]

    def __call__(self, reader: FieldReader, version: int, flexible: bool) -> list[Any]:
        count = reader.length(">i", flexible=flexible) or 0
        if isinstance(self.item, tuple):
            return [_read_fields(self.item, reader, version, flexible) for _ in range(count)]
        return [self.item(reader, version, flexible) for _ in range(count)]


@dataclass(frozen=True, slots=True)
class ValueSchema:
    """A kind of value."""

    newest: int
    """The newest version that is known."""
    flexible: int
    """The first version that is flexible; `NEVER` if none is."""
    fields: tuple[Field, ...]

    def read(self, reader: FieldReader, version: int) -> Mapping[str, Any]:
        """Return the fields of a value: name -> value. Raises InputError if it is not of that kind and version."""
        if not 0 <= version <= self.newest:
            raise InputError(f"its version {version} is not known")
        return _read_fields(self.fields, reader, version, version >= self.flexible)

    def read_versioned(self, data: bytes) -> Mapping[str, Any]:
        """Return the fields of a value that begins with its version, 2 bytes. Raises as `read`."""
        reader = FieldReader(data)
        return self.read(reader, reader.number(">h"))


def _read_fields(fields: tuple[Field, ...], reader: FieldReader, version: int, flexible: bool) -> dict[str, Any]:
    values = {each.name: each.read(reader, version, flexible) for each in fields if each.since <= version <= each.until}
    if flexible:
        reader.pass_tagged_fields()
    return values
