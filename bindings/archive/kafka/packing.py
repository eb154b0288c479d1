"""Unpack what Kafka's clients and brokers compress: the records of a batch, or the messages in a message.

The result is bounded by `BATCH_BYTES`, however much the bytes would unpack to.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from exchange.errors import InputError
from exchange.limits import BATCH_BYTES

__all__ = ["LZ4", "mend_lz4", "unpack"]

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
"""Compressions in the attributes of batches and messages (`CompressionType.java`)."""
PIECE_BYTES: Final = 1 << 18
"""Maximum number of bytes that are unpacked in one call."""
XERIAL: Final = b"\x82SNAPPY\0"
"""The first bytes of a snappy-java stream."""


def _unpack_snappy(data: bytes) -> bytes:
    """Unpack snappy: the stream of snappy-java that Java clients write, or a single block as librdkafka writes it."""
    if not data.startswith(XERIAL):
        return _unpack_raw_snappy(data)
    pieces: list[bytes] = []
    place = len(XERIAL) + 8  # after the magic, two versions of 4 bytes
    size = 0
    while place < len(data):
        (length,) = struct.unpack_from(">i", data, place)
        if not 0 <= length <= len(data) - place - 4:
            raise InputError("cannot be unpacked: a block of snappy that is not whole")
        pieces.append(_unpack_raw_snappy(data[place + 4 : place + 4 + length]))
        size += len(pieces[-1])
        if size > BATCH_BYTES:
            break
        place += 4 + length
    return b"".join(pieces)


def _unpack_raw_snappy(data: bytes) -> bytes:
    size = shift = 0  # a block begins with its unpacked size as a varint, which Arrow must be given
    for byte in data[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size > BATCH_BYTES:
        raise InputError("cannot be unpacked: the stated size of a snappy block is too large")
    return bytes(pa.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True))


def _make_stream_unpacker(name: str) -> Callable[[bytes], bytes]:
    """Return a function that unpacks a stream; ``name`` is Arrow's name of the compression."""

    def unpack(data: bytes) -> bytes:
        pieces: list[bytes] = []
        size = 0
        with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
            # Read in pieces: Arrow allocates the whole size that a call asks for, even if less is available.
            while size <= BATCH_BYTES and (piece := stream.read(PIECE_BYTES)):
                pieces.append(piece)
                size += len(piece)
        return b"".join(pieces)

    return unpack


def _unpack_gzip(data: bytes) -> bytes:
    return zlib.decompressobj(31).decompress(data, BATCH_BYTES + 1)


UNPACKERS: Final[dict[int, Callable[[bytes], bytes]]] = {
    NONE: lambda data: data,
    GZIP: _unpack_gzip,
    SNAPPY: _unpack_snappy,
    LZ4: _make_stream_unpacker("lz4"),
    ZSTD: _make_stream_unpacker("zstd"),
}
"""Compression -> function that unpacks it."""


def unpack(codec: int, data: bytes) -> bytes:
    """Return the unpacked bytes. Raises InputError if they cannot be unpacked, or are more than `BATCH_BYTES`."""
    try:
        unpacked = UNPACKERS[codec](data)
    except (pa.ArrowException, OSError, zlib.error, struct.error, EOFError) as error:
        raise InputError(f"cannot be unpacked: {str(error).partition(chr(10))[0]}") from None
    if len(unpacked) > BATCH_BYTES:
        raise InputError(f"cannot be unpacked: it has more than {BATCH_BYTES >> 20} MiB")
    return unpacked


def mend_lz4(data: bytes) -> bytes:
    """Return a frame of LZ4 with the right checksum of its header.

    Messages of format 0 have a checksum over the magic number, too, which is wrong (KAFKA-3160). Brokers and clients
    do not look at it in that format.
    """
    end = LZ4_CHECKED + (10 if data[4:5] and data[4] & LZ4_HAS_SIZE else 2)
    if len(data) <= end:
        return data
    return data[:end] + bytes([_hash_short(data[LZ4_CHECKED:end]) >> 8 & 0xFF]) + data[end + 1 :]


LZ4_CHECKED: Final = 4
"""Number of bytes of a frame before those that its header's checksum covers: the magic number."""
LZ4_HAS_SIZE: Final = 0x08
"""Flag of a frame whose header has the size of its content, 8 bytes more."""
PRIMES: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def _hash_short(data: bytes) -> int:
    """Return the xxHash of fewer than 16 bytes, 32 bits with seed 0."""
    state = PRIMES[4] + len(data)
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        state = _rotate(state + word * PRIMES[2], 17) * PRIMES[3]
    for byte in data[whole:]:
        state = _rotate(state + byte * PRIMES[4], 11) * PRIMES[0]
    state &= 0xFFFFFFFF
    for shift, prime in ((15, PRIMES[1]), (13, PRIMES[2])):
        state = (state ^ state >> shift) * prime & 0xFFFFFFFF
    return state ^ state >> 16


def _rotate(value: int, count: int) -> int:
    value &= 0xFFFFFFFF
    return (value << count | value >> 32 - count) & 0xFFFFFFFF
