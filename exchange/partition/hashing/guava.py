"""Two hashes of Guava that RocketMQ's gRPC side uses: the jump consistent hash, and SipHash."""

from __future__ import annotations

from struct import unpack
from typing import Final

from exchange.partition.hashing.hashes import to_signed

MASK: Final = 0xFFFF_FFFF_FFFF_FFFF


def consistent_hash(value: int, buckets: int) -> int:
    """Return ``Hashing.consistentHash(value, buckets)`` of a 64-bit integer: a new bucket moves 1/n of the values.

    The jump consistent hash of Lamping and Veach, with Guava's own generator: other libraries have other results.
    """
    state = value & MASK
    candidate = 0
    while True:
        state = state * 2862933555777941757 + 1 & MASK
        # The sum is a Java int: after the greatest int it wraps to the least, the quotient is negative, the loop ends.
        following = int((candidate + 1) / (to_signed((state >> 33) + 1) / (1 << 31)))
        if not 0 <= following < buckets:
            return candidate
        candidate = following


def sip_hash_24(data: bytes) -> int:
    """Return ``Hashing.sipHash24().hashBytes(data).asLong()``: signed, 64 bits, with Guava's key, the bytes 0 to 15."""
    k0, k1 = 0x0706050403020100, 0x0F0E0D0C0B0A0908
    v = (k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573)
    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 0xFF])
    for word in unpack(f"<{len(padded) >> 3}Q", padded):
        v0, v1, v2, v3 = _round(_round((v[0], v[1], v[2], v[3] ^ word)))
        v = (v0 ^ word, v1, v2, v3)
    v = _round(_round(_round(_round((v[0], v[1], v[2] ^ 0xFF, v[3])))))
    hashed = v[0] ^ v[1] ^ v[2] ^ v[3]
    return hashed - (1 << 64) if hashed >> 63 else hashed


def _round(v: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    v0, v1, v2, v3 = v
    v0 = v0 + v1 & MASK
    v2 = v2 + v3 & MASK
    v1 = _rotate(v1, 13) ^ v0
    v3 = _rotate(v3, 16) ^ v2
    v0 = _rotate(v0, 32)
    v2 = v2 + v1 & MASK
    v0 = v0 + v3 & MASK
    v1 = _rotate(v1, 17) ^ v2
    v3 = _rotate(v3, 21) ^ v0
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & MASK
