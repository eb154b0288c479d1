"""The hashes of bytes that partitioners use, as unsigned 32-bit integers, and how Java turns one into an index.

Hashes of other values are in the modules of their systems: Java's hashCode in ``java``, Erlang's phash2 in ``erlang``.
Results of slow ones are kept (`remember`), as most streams have far fewer keys than messages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from struct import unpack
from typing import Final, TypeVar

MASK: Final = 0xFFFFFFFF

STREAM_SEED: Final = 104729
"""Seed of murmur3 in RabbitMQ's Java stream client and those that follow it (`HashUtils.MURMUR3`)."""


def murmur2(data: bytes) -> int:
    """Return MurmurHash2 with Kafka's seed (`org.apache.kafka.common.utils.Utils.murmur2`)."""
    length = len(data)
    h = 0x9747B28C ^ length
    body = length & ~3
    for word in unpack(f"<{length >> 2}I", data[:body]):
        k = word * 0x5BD1E995 & MASK
        h = (h * 0x5BD1E995 ^ (k ^ k >> 24) * 0x5BD1E995) & MASK  # one mask: bits above 32 never affect lower ones
    if length > body:
        h = (h ^ int.from_bytes(data[body:], "little")) * 0x5BD1E995 & MASK
    h = (h ^ h >> 13) * 0x5BD1E995 & MASK
    return h ^ h >> 15


def murmur3(data: bytes, seed: int) -> int:
    """Return MurmurHash3, the x86 variant with 32 bits."""
    length = len(data)
    h = seed
    body = length & ~3
    for word in unpack(f"<{length >> 2}I", data[:body]):
        k = word * 0xCC9E2D51 & MASK
        h ^= (k << 15 | k >> 17) * 0x1B873593 & MASK
        h = (h << 13 | h >> 19) * 5 + 0xE6546B64 & MASK
    if length > body:
        k = int.from_bytes(data[body:], "little") * 0xCC9E2D51 & MASK
        h ^= (k << 15 | k >> 17) * 0x1B873593 & MASK
    h ^= length
    h = (h ^ h >> 16) * 0x85EBCA6B & MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & MASK
    return h ^ h >> 16


def fnv1a(data: bytes) -> int:
    """Return FNV-1a with 32 bits."""
    h = 0x811C9DC5
    for byte in data:
        h = (h ^ byte) * 0x01000193 & MASK
    return h


def to_signed(value: int) -> int:
    """Return the 32 bits as a signed integer, Java's int."""
    value &= MASK
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def to_positive(value: int) -> int:
    """Clear the sign bit, as Kafka's ``Utils.toPositive``: -1 becomes 2147483647."""
    return value & 0x7FFFFFFF


def to_absolute(value: int) -> int:
    """Return the absolute value as Java's ``Math.abs``: Integer.MIN_VALUE stays itself, and so negative."""
    return value if value == -0x8000_0000 else abs(value)


KEYS: Final = 16_384
"""Maximum number of keys whose hash is kept; the one that was not used for longest is forgotten first."""
KEY_SIZE: Final = 128
"""Maximum number of bytes or characters of a key whose hash is kept, so that the keys of a hash take a few MiB."""


Data = TypeVar("Data", str, bytes)


def remember(function: Callable[[Data], int]) -> Callable[[Data], int]:
    """Return the function with its results for short keys kept."""
    kept = lru_cache(KEYS)(function)

    @wraps(function)
    def call(data: Data) -> int:
        return kept(data) if len(data) <= KEY_SIZE else function(data)

    return call
