"""Decode messages of RocketMQ, as brokers store them in logs and send them to consumers (`MessageDecoder`).

The response to a pull contains records copied from the commit log, so file readers and the client share this module. It
needs only Python; pyarrow, which unpacks LZ4 and Zstandard, is imported on demand.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

from exchange.errors import InputError
from exchange.limits import BODY_BYTES

V1: Final = 0xDAA320A7
V2: Final = 0xDAA320AB
"""Magic since 5.0 of records with two bytes, not one, for the length of the topic."""
MAGICS: Final = (V1, V2)

START: Final = struct.Struct(">iIiiiqqiq")
"""Size, magic, CRC of the body, queue, flag, offset in the queue, place in the log, system flag, born timestamp."""
LEAST: Final = 91
"""Minimum size of a record, in bytes."""
HOST_V6: Final = (0x10, 0x20)
"""System flags for an IPv6 address of the producer's host, and of the broker's host."""
PACKED: Final = 0x1
BATCH: Final = 0xC0
"""System flags of a batch in one record, which consumers unwrap (`MessageSysFlag`)."""
PACKING: Final = 0x7
PACKING_SHIFT: Final = 8

BATCH_HEAD: Final = struct.Struct(">iIIii")
"""The head of a message in a batch: size, magic, checksum, flag, size of the body."""
BREAK: Final = "a batch whose messages do not fit in it"


class BatchMessage(NamedTuple):
    """A message of a batch."""

    body: bytes
    properties: bytes
    flag: int


def count_host_bytes(system_flag: int) -> tuple[int, int]:
    """Return the sizes, in bytes, of producer's and broker's host in a record, ports included."""
    return 20 if system_flag & HOST_V6[0] else 8, 20 if system_flag & HOST_V6[1] else 8


def split_record(
    data: bytes | mmap.mmap, place: int, size: int, magic: int, system_flag: int
) -> tuple[bytes, bytes, bytes] | None:
    """Return body, topic and properties of the record at a byte; None if they do not fit exactly in its size.

    All of the record must be in the data, and its ``size`` at least `LEAST`.
    """
    born, stored = count_host_bytes(system_flag)
    at, end = place + START.size + born + 8 + stored + 12, place + size
    parts: list[bytes] = []
    for width in (4, 1 if magic == V1 else 2, 2):
        if at + width > end:
            return None
        length = int.from_bytes(data[at : at + width], "big")
        at += width
        if at + length > end:
            return None
        parts.append(data[at : at + length])
        at += length
    return (parts[0], parts[1], parts[2]) if at == end else None


def parse_properties(data: bytes) -> dict[str, str]:
    """Return the properties in these bytes, without empty ones (`MessageDecoder.string2messageProperties`)."""
    text = data.decode("utf-8", "surrogateescape")
    return {
        name: value
        for entry in text.split("\x02")
        for name, _, value in [entry.partition("\x01")]
        if name and value
    }  # fmt: skip


def split_batch(data: bytes, most: int | None = None) -> list[BatchMessage]:
    """Return the messages of a batch (`MessageDecoder.decodeMessages`).

    Raises InputError if they do not fit in it, or are more than ``most``.
    """
    messages: list[BatchMessage] = []
    place = 0
    while place < len(data):
        if len(messages) == most:
            raise InputError(f"a batch of more than {most:,} messages")
        if place + BATCH_HEAD.size > len(data):
            raise InputError(BREAK)
        size, _, _, flag, length = BATCH_HEAD.unpack_from(data, place)
        at = place + BATCH_HEAD.size + length
        names = int.from_bytes(data[at : at + 2], "big")
        if length < 0 or at + 2 + names != place + size or place + size > len(data):
            raise InputError(BREAK)
        messages.append(BatchMessage(data[place + BATCH_HEAD.size : at], data[at + 2 : at + 2 + names], flag))
        place += size
    return messages


def unpack_body(body: bytes, system_flag: int) -> bytes:
    """Return a body, unpacked if the system flag has `PACKED`.

    Raises InputError for a body that cannot be unpacked, or unpacks to more than `BODY_BYTES` bytes.
    """
    if not system_flag & PACKED:
        return body
    unpack = UNPACKERS.get(system_flag >> PACKING_SHIFT & PACKING)
    if unpack is None:
        raise InputError("a body that is packed in an unknown way")
    unpacked = unpack(body)
    if len(unpacked) > BODY_BYTES:
        raise InputError(f"a body that unpacks to more than {BODY_BYTES:,} bytes")
    return unpacked


def _inflate(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        unpacked = stream.decompress(data, BODY_BYTES + 1)
    except zlib.error as error:
        raise InputError(f"a body that cannot be unpacked: {error}") from None
    if len(unpacked) <= BODY_BYTES and not stream.eof:
        raise InputError("a body that cannot be unpacked: it is incomplete")
    return unpacked


def _make_stream_unpacker(name: str) -> Callable[[bytes], bytes]:
    def unpack(data: bytes) -> bytes:
        try:  # the bridge's client runs without pyarrow: few producers use these compressions
            import pyarrow as pa
        except ImportError as error:
            raise InputError(f"a body that is packed with {name} needs {error.name}: pip install pyarrow") from None
        unpacked = bytearray()
        try:
            with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
                # Read in pieces: pyarrow allocates the whole size that a call asks for, even if less is available.
                while len(unpacked) <= BODY_BYTES and (piece := stream.read(PIECE_BYTES)):
                    unpacked += piece
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"a body that cannot be unpacked: {str(error).partition(chr(10))[0]}") from None
        return bytes(unpacked)

    return unpack


PIECE_BYTES: Final = 1 << 18
"""Number of bytes that are unpacked at once."""

UNPACKERS: Final = {0: _inflate, 1: _make_stream_unpacker("lz4"), 2: _make_stream_unpacker("zstd"), 3: _inflate}
"""System flag >> 8 & 7 -> the function that unpacks the body (`CompressionType.findByValue`)."""
