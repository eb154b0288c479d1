"""The hashes of `exchange.partition.hashing.compiled` as numba compiles them: the same steps, in 64-bit words.

Numba has no integers that grow, so each result is cut to its width as C does. An unsigned and a signed integer would
become a float, therefore all numbers here are unsigned, and indexes apart from them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

U: type[np.uint64] = np.uint64
Quad = tuple[np.uint64, np.uint64, np.uint64, np.uint64]
LOW = U(0xFFFFFFFF)
GOLDEN = U(0x9E3779B9)
BINARY = U(13 * 0x9E3779B9 & 0xFFFFFFFF)
"""What ERTS begins the hash of a binary with."""
RANGE = U((1 << 27) - 1)
"""Mask of the default range of ``erlang:phash2``."""


@njit(cache=True)
def _read(data: bytes, start: int, size: int) -> np.uint64:
    """Return ``size`` bytes, at most eight, as a little-endian integer."""
    result = U(0)
    for at in range(size):
        result |= U(data[start + at]) << U(8 * at)
    return result


@njit(cache=True)
def murmur3(data: bytes, seed: int) -> int:
    """Return `exchange.partition.hashing.hashes.murmur3`."""
    h = U(seed)
    size = len(data)
    for start in range(0, size, 4):
        rest = min(size - start, 4)
        k = _read(data, start, rest) * U(0xCC9E2D51) & LOW
        h ^= (k << U(15) | k >> U(17)) * U(0x1B873593) & LOW
        if rest == 4:
            h = (h << U(13) | h >> U(19)) & LOW
            h = h * U(5) + U(0xE6546B64) & LOW
    h ^= U(size)
    h = (h ^ h >> U(16)) * U(0x85EBCA6B) & LOW
    h = (h ^ h >> U(13)) * U(0xC2B2AE35) & LOW
    return int(np.int64(h ^ h >> U(16)))


@njit(cache=True)
def string_hash(data: bytes, size: int) -> int:
    """Return `exchange.partition.hashing.java.string_hash` of code units of one or two bytes, little-endian."""
    h = U(0)
    for at in range(0, len(data), size):
        unit = U(data[at]) if size == 1 else U(data[at]) | U(data[at + 1]) << U(8)
        h = h * U(31) + unit
    return int(np.int64(((h & LOW) ^ U(0x80000000)) - U(0x80000000)))


@njit(cache=True)
def _mix(a: np.uint64, b: np.uint64, c: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64]:
    a = (a - b - c & LOW) ^ c >> U(13)
    b = (b - c - a & LOW) ^ (a << U(8) & LOW)
    c = (c - a - b & LOW) ^ b >> U(13)
    a = (a - b - c & LOW) ^ c >> U(12)
    b = (b - c - a & LOW) ^ (a << U(16) & LOW)
    c = (c - a - b & LOW) ^ b >> U(5)
    a = (a - b - c & LOW) ^ c >> U(3)
    b = (b - c - a & LOW) ^ (a << U(10) & LOW)
    c = (c - a - b & LOW) ^ b >> U(15)
    return a, b, c


@njit(cache=True)
def _block(data: bytes) -> np.uint64:
    """Return the hash of a binary with 32 bits: Bob Jenkins's lookup2."""
    size = len(data)
    a, b, c = GOLDEN, GOLDEN, BINARY
    if size == 0:
        return c
    start = 0
    while size - start >= 12:
        a, b, c = a + _read(data, start, 4), b + _read(data, start + 4, 4), c + _read(data, start + 8, 4)
        a, b, c = _mix(a & LOW, b & LOW, c & LOW)
        start += 12
    rest = size - start
    x, y, z = _read(data, start, min(rest, 4)), U(0), U(0)
    if rest > 4:
        y = _read(data, start + 4, min(rest - 4, 4))
    if rest > 8:
        z = _read(data, start + 8, rest - 8) << U(8)
    return _mix(a + x & LOW, b + y & LOW, c + z + U(size) & LOW)[2]


@njit(cache=True)
def phash2(data: bytes) -> int:
    """Return `exchange.partition.hashing.erlang.phash2` of a binary."""
    return int(np.int64(_block(data) & RANGE))


@njit(cache=True)
def phash2_of_list(data: bytes) -> int:
    """Return `exchange.partition.hashing.erlang.phash2` of a list with one binary."""
    h = _block(data)
    if h == U(0):
        return 3468870702 & 0x7FFFFFF
    base = U(2) * GOLDEN & LOW
    return int(np.int64(_mix(base + U(2) & LOW, base, h)[2] & RANGE))


@njit(cache=True)
def jump(key: int, buckets: int) -> int:
    """Return `exchange.partition.hashing.erlang.jump` of an integer of 64 bits."""
    seed = U(key) + U(1)
    mask = U(0x1FFFFF)
    high, middle, low = seed * U(2097131) & mask, seed * U(2097133) & mask, seed * U(2097143) & mask
    x = high << U(43) | middle << U(22) | low << U(1) | U(1)
    state = np.empty(16, np.uint64)
    for at in range(16):  # xorshift64*
        x ^= x >> U(12)
        x ^= x << U(25)
        x ^= x >> U(27)
        state[15 - at] = x * U(0x2545F4914F6CDD1D)
    bucket, index = 0, 0
    while True:  # xorshift1024*
        following = (index + 1) % 16
        s0, s1 = state[index], state[following]
        s1 ^= s1 << U(31)
        s1 ^= s1 >> U(11) ^ s0 ^ s0 >> U(30)
        state[following] = s1
        index = following
        draw = np.float64(s1 * U(0x106689D45497FDB5)) / 18446744073709551616.0
        after = np.float64(bucket + 1) / draw
        if not after < buckets:
            return bucket
        bucket = int(after)


@njit(cache=True)
def consistent_hash(value: int, buckets: int) -> int:
    """Return `exchange.partition.hashing.guava.consistent_hash`."""
    state = U(value)
    candidate = 0
    while True:
        state = state * U(2862933555777941757) + U(1)
        divisor = np.float64(np.int64(state >> U(33)) + 1) / 2147483648.0
        following = np.float64(candidate + 1) / divisor
        if not following < buckets:
            return candidate
        candidate = int(following)


@njit(cache=True)
def _round(v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64) -> Quad:
    v0 += v1
    v2 += v3
    v1 = (v1 << U(13) | v1 >> U(51)) ^ v0
    v3 = (v3 << U(16) | v3 >> U(48)) ^ v2
    v0 = v0 << U(32) | v0 >> U(32)
    v2 += v1
    v0 += v3
    v1 = (v1 << U(17) | v1 >> U(47)) ^ v2
    v3 = (v3 << U(21) | v3 >> U(43)) ^ v0
    v2 = v2 << U(32) | v2 >> U(32)
    return v0, v1, v2, v3


@njit(cache=True)
def sip_hash_24(data: bytes) -> int:
    """Return `exchange.partition.hashing.guava.sip_hash_24`."""
    k0, k1 = U(0x0706050403020100), U(0x0F0E0D0C0B0A0908)
    v0, v1 = k0 ^ U(0x736F6D6570736575), k1 ^ U(0x646F72616E646F6D)
    v2, v3 = k0 ^ U(0x6C7967656E657261), k1 ^ U(0x7465646279746573)
    size = len(data)
    for start in range(0, size + 1, 8):
        rest = min(size - start, 8)
        word = _read(data, start, rest)
        if rest < 8:
            word |= U(size & 0xFF) << U(56)
        v3 ^= word
        for _ in range(2):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
    v2 ^= U(0xFF)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return int(np.int64(v0 ^ v1 ^ v2 ^ v3))
