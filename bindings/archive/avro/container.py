"""Walk Avro's container files: a header with the schema, then blocks of records, each ended by the file's own marker.

A damaged block costs that block: the next one begins behind the next marker. Blocks are unpacked here, so that no block
takes more memory than `BATCH_BYTES`, whatever it would unpack to.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from bindings.archive.kafka.packing import SNAPPY, ZSTD, unpack
from bindings.archive.mapped import Bytes
from bindings.archive.nesting import parse_json
from exchange.errors import InputError
from exchange.limits import BATCH_BYTES

MAGIC: Final = b"Obj\x01"
MARKER: Final = 16
"""Number of bytes of the marker that ends the header and each block."""
NUMBER: Final = 10
"""Maximum number of bytes of a number."""
CHECKSUM: Final = 4
"""Number of bytes that follow a block of snappy."""


class Header(NamedTuple):
    """What the header of a file has about its blocks."""

    schema: Any
    """The schema, parsed as JSON only."""
    codec: str
    marker: bytes
    end: int
    """The byte at which the first block begins."""


class Block(NamedTuple):
    """A block of a file, or the bytes up to the next one that are none."""

    start: int
    end: int
    """Exclusive, with the marker."""
    rows: int
    """Number of records; 1 for what is no block, as it is one bad record."""
    data: tuple[int, int] = (0, 0)
    """First byte, and that behind the last one, of the records as they are packed."""
    problem: str = ""
    """Why it is no block; empty if it is one."""


class _Torn(Exception):
    """The bytes end before the value does, or are none."""


def read_header(data: Bytes) -> Header:
    """Return the header of a file. Raises InputError if it is damaged."""
    fields: dict[bytes, bytes] = {}
    place = len(MAGIC)
    try:
        while True:
            count, place = _read_number(data, place)
            if not count:
                break
            if count < 0:  # followed by the size of the entries
                count, (_, place) = -count, _read_number(data, place)
            for _ in range(count):
                name, place = _read_bytes(data, place)
                fields[name], place = _read_bytes(data, place)
        marker, place = _take(data, place, MARKER)
    except _Torn:
        raise InputError("damaged Avro file: its header is not whole") from None
    schema = parse_json(fields.get(b"avro.schema", b""))
    return Header(schema, fields.get(b"avro.codec", b"null").decode("utf-8", "replace"), marker, place)


def walk_blocks(data: Bytes, place: int, end: int, marker: bytes) -> Iterator[Block]:
    """Yield the blocks between two bytes, and what is none."""
    while place < end:
        block = _read_block(data, place, marker)
        if block is None:
            found = data.find(marker, place)
            after = len(data) if found < 0 else found + MARKER
            reason = "a damaged block of Avro" if found >= 0 else "the file ends in the middle of a block of Avro"
            block = Block(place, after, 1, problem=reason)
        yield block
        place = block.end


def _read_block(data: Bytes, place: int, marker: bytes) -> Block | None:
    try:
        rows, start = _read_number(data, place)
        size, start = _read_number(data, start)
    except _Torn:
        return None
    end = start + size
    if rows < 0 or size < 0 or rows > BATCH_BYTES or data[end : end + MARKER] != marker:
        return None
    return Block(place, end + MARKER, rows, (start, end))


def _read_number(data: Bytes, place: int) -> tuple[int, int]:
    """Return a number in zigzag and the place behind it."""
    number = 0
    for shift, byte in enumerate(data[place : place + NUMBER]):
        number |= (byte & 127) << 7 * shift
        if byte < 128:
            return number >> 1 ^ -(number & 1), place + shift + 1
    raise _Torn


def _read_bytes(data: Bytes, place: int) -> tuple[bytes, int]:
    size, place = _read_number(data, place)
    return _take(data, place, size)


def _take(data: Bytes, place: int, size: int) -> tuple[bytes, int]:
    if not 0 <= size <= len(data) - place:
        raise _Torn
    return bytes(data[place : place + size]), place + size


def unpack_block(codec: str, data: bytes) -> bytes:
    """Return the records of a block. Raises InputError if they cannot be unpacked, or are more than `BATCH_BYTES`."""
    if codec not in UNPACKERS:
        known = ", ".join(UNPACKERS)
        raise InputError(f"its blocks are compressed by {codec!r:.60}, which is not read; those of {known} are")
    try:
        unpacked = UNPACKERS[codec](data)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        raise InputError(f"a block of Avro that cannot be unpacked: {error}") from None
    if len(unpacked) > BATCH_BYTES:
        raise InputError(f"a block of Avro that unpacks to more than {BATCH_BYTES >> 20} MiB")
    return unpacked


UNPACKERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": lambda data: zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, BATCH_BYTES + 1),
    "snappy": lambda data: unpack(SNAPPY, data[:-CHECKSUM]),
    "zstandard": lambda data: unpack(ZSTD, data),
    "bzip2": lambda data: bz2.BZ2Decompressor().decompress(data, BATCH_BYTES + 1),
    "xz": lambda data: lzma.LZMADecompressor().decompress(data, BATCH_BYTES + 1),
}
"""Name of a compression in Avro -> function that unpacks a block."""


def encode_container(schema: bytes, rows: int, data: bytes) -> bytes:
    """Return a file with one block that is not compressed."""
    fields = b"".join(map(_encode_bytes, (b"avro.schema", schema, b"avro.codec", b"null")))
    marker = bytes(MARKER)
    head = (MAGIC, _encode_number(2), fields, _encode_number(0), marker)
    return b"".join((*head, _encode_number(rows), _encode_number(len(data)), data, marker))


def _encode_number(number: int) -> bytes:
    number <<= 1  # in zigzag; none is negative
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _encode_bytes(data: bytes) -> bytes:
    return _encode_number(len(data)) + data
