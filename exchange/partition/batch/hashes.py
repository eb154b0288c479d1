"""The hashes of `exchange.partition.hashing` for all keys of a column at once, with one array operation for each step.

A hash processes a key unit by unit: a word of four bytes, a byte, or a code unit. Keys are grouped in blocks of similar
length, in which the longest key is first. So the keys that have a unit i are the first ones of their block, and step i
is one operation on these. A block of only a few keys, such as a key a thousand times as long as all others, is hashed
by the functions for single keys, which have the same results.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from exchange.arrays.columns import Bytes, Column, Offsets
from exchange.partition.hashing import hashes
from exchange.partition.hashing.java import string_hash

HashArray = npt.NDArray[np.uint32]

U32 = np.uint32

SMALL_BLOCK_KEYS: Final = 16
"""Number of keys of a block below which hashing them one by one is faster."""

LONG_CRC32: Final = 64
"""Mean length of keys, in bytes, above which zlib is faster key by key."""


def murmur2(column: Column) -> HashArray:
    """Hash each key with `exchange.partition.hashing.hashes.murmur2`."""
    return _hash(column.data, column.offsets[:-1], column.lengths, MURMUR2, hashes.murmur2)


def murmur3(column: Column, seed: int) -> HashArray:
    """Hash each key with `exchange.partition.hashing.hashes.murmur3`."""
    steps = MURMUR3._replace(begin=lambda lengths: np.full(len(lengths), seed, U32))
    return _hash(column.data, column.offsets[:-1], column.lengths, steps, lambda key: hashes.murmur3(key, seed))


def fnv1a(column: Column) -> HashArray:
    """Hash each key with `exchange.partition.hashing.hashes.fnv1a`."""
    return _hash(column.data, column.offsets[:-1], column.lengths, FNV1A, hashes.fnv1a)


def crc32(column: Column) -> HashArray:
    """Hash each key with ``zlib.crc32``.

    The array operations look up each byte in a table, which zlib does not: for long keys, zlib, called key by key, is
    faster.
    """
    starts, lengths = column.offsets[:-1], column.lengths
    if column.size and lengths.mean() <= LONG_CRC32:
        return _hash(column.data, starts, lengths, CRC32, zlib.crc32)
    spans = zip(starts.tolist(), column.offsets[1:].tolist(), strict=True)
    data = column.data.data
    return np.fromiter((zlib.crc32(data[start:end]) for start, end in spans), U32, column.size)


def java_string_hash(column: Column) -> HashArray:
    """Hash each key with Java's ``String.hashCode``, unsigned. Raises InputError for keys that are not UTF-8."""
    first, last = column.offsets[0], column.offsets[-1]
    data = column.data[first:last]
    offsets = column.offsets - first
    if not (data & 0x80).any():
        return _hash(data, offsets[:-1], column.lengths, JAVA_ASCII, lambda key: string_hash(key.decode()))
    try:
        units = np.frombuffer(data.tobytes().decode().encode("utf-16-le"), np.uint8)
    except UnicodeDecodeError:  # the invalid bytes may belong to a null, so each key is decoded by itself
        texts = column._replace(text=True).objects()
        return np.array([string_hash(str(text)) & hashes.MASK for text in texts], U32)
    # before[i]: number of code units of the first i bytes. A character has one code unit, which is counted at its first
    # byte, and a second one if it has four bytes.
    before = np.zeros(len(data) + 1, np.int64)
    np.cumsum((data & 0xC0 != 0x80).view(np.int8) + (data >= 0xF0).view(np.int8), out=before[1:])
    offsets = before[offsets]
    lengths = offsets[1:] - offsets[:-1]
    return _hash(units, 2 * offsets[:-1], 2 * lengths, JAVA, lambda key: string_hash(key.decode("utf-16-le")))


class Steps(NamedTuple):
    """The steps of a hash. ``mix``, ``step`` and ``end`` change the arrays that they get in place."""

    unit: int
    """Length of a unit in bytes."""
    begin: Callable[[Offsets], HashArray]
    """Lengths of the keys -> hashes before the first unit."""
    mix: Callable[[HashArray], None]
    """Prepares the units, before they are combined with the hashes."""
    step: Callable[[HashArray, HashArray], None]
    """Combines the hashes with the next unit of each key."""
    end: Callable[[HashArray, HashArray, Offsets], None]
    """Finishes the hashes, given the bytes that fill no unit, as an integer, and the lengths."""


def _hash(data: Bytes, starts: Offsets, lengths: Offsets, steps: Steps, alone: Callable[[bytes], int]) -> HashArray:
    """Hash the keys of these lengths at these offsets; ``alone`` is the same hash for a single key."""
    result = steps.begin(lengths)
    counts = lengths // steps.unit
    few: list[int] = []
    for rows in _blocks(counts):
        if len(rows) < SMALL_BLOCK_KEYS:
            few += rows.tolist()
            continue
        longest = int(counts[rows[0]])
        units = _read(data, starts[rows], longest, steps.unit)
        steps.mix(units)
        part = result[rows]
        # left[i]: number of keys with more than i units; they are the first ones of the block.
        left = np.searchsorted(-counts[rows], -np.arange(longest), "left").tolist()
        for unit, number in zip(units, left, strict=True):
            steps.step(part[:number], unit[:number])
        result[rows] = part
    steps.end(result, _tails(data, starts, lengths, steps.unit), lengths)
    for row in few:
        start = starts[row]
        result[row] = alone(data[start : start + lengths[row]].tobytes()) & hashes.MASK
    return result


def _blocks(counts: Offsets) -> Iterator[npt.NDArray[np.intp]]:
    """Yield blocks of the indexes of keys of at least one unit, longest first.

    The shortest key of a block has more than 3/4 of the units of the longest one.
    """
    small = counts.astype(np.min_scalar_type(counts.max(initial=0)))  # integers of up to 16 bits have a fast sort
    order = np.argsort(small, kind="stable")
    ascending = small[order]
    end = len(counts)
    while end and ascending[end - 1]:
        start = int(np.searchsorted(ascending, int(ascending[end - 1]) * 3 // 4, "right"))
        yield order[start:end][::-1]
        end = start


def _read(data: Bytes, starts: Offsets, units: int, unit: int) -> HashArray:
    """Return the units at each offset and behind it, as ``units`` rows of one unit per key; 0 beyond the data."""
    size = units * unit
    missing = int(starts.max()) + size - len(data)
    if missing > 0:
        first = int(starts.min())
        data, starts = np.pad(data[first:], (0, missing)), starts - first
    # Item i of this array is the ``size`` bytes from byte i on, so that indexing copies each key's bytes at once.
    windows: npt.NDArray[Any] = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
    rows = windows[starts].view(f"<u{unit}").reshape(len(starts), units)
    return np.ascontiguousarray(rows.T).astype(U32, copy=False)


def _tails(data: Bytes, starts: Offsets, lengths: Offsets, unit: int) -> HashArray:
    """Return the 0 to 3 last bytes of each key, which fill no unit of 4, as an integer; smaller units leave none."""
    if unit < 4:
        return np.zeros(0, U32)
    tails: HashArray = _read(data, starts + (lengths & -4), 1, 4)[0]
    tails &= TAIL_MASKS[lengths & 3]
    return tails


TAIL_MASKS: Final = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], U32)

M2: Final = U32(0x5BD1E995)


def _mix_murmur2(k: HashArray) -> None:
    k *= M2
    k ^= k >> U32(24)
    k *= M2


def _step_murmur2(h: HashArray, k: HashArray) -> None:
    h *= M2
    h ^= k


def _end_murmur2(h: HashArray, tails: HashArray, lengths: Offsets) -> None:
    h ^= tails
    np.multiply(h, M2, out=h, where=lengths & 3 != 0)
    h ^= h >> U32(13)
    h *= M2
    h ^= h >> U32(15)


def _rotate(values: HashArray, bits: int) -> None:
    low = values >> U32(32 - bits)
    values <<= U32(bits)
    values |= low


def _mix_murmur3(k: HashArray) -> None:
    k *= U32(0xCC9E2D51)
    _rotate(k, 15)
    k *= U32(0x1B873593)


def _step_murmur3(h: HashArray, k: HashArray) -> None:
    h ^= k
    _rotate(h, 13)
    h *= U32(5)
    h += U32(0xE6546B64)


def _end_murmur3(h: HashArray, tails: HashArray, lengths: Offsets) -> None:
    _mix_murmur3(tails)  # a key without a tail has 0 there, which stays 0
    h ^= tails
    h ^= lengths.astype(U32)
    h ^= h >> U32(16)
    h *= U32(0x85EBCA6B)
    h ^= h >> U32(13)
    h *= U32(0xC2B2AE35)
    h ^= h >> U32(16)


def _step_fnv1a(h: HashArray, k: HashArray) -> None:
    h ^= k
    h *= U32(0x01000193)


def _step_crc32(h: HashArray, k: HashArray) -> None:
    h ^= k
    of_low_byte = CRC32_OF_BYTE[h.astype(np.uint8)]
    h >>= U32(8)
    h ^= of_low_byte


def _end_crc32(h: HashArray, tails: HashArray, lengths: Offsets) -> None:
    np.invert(h, out=h)


def _step_java(h: HashArray, k: HashArray) -> None:
    h *= U32(31)
    h += k


def _as_is(*_: Any) -> None:
    pass


def _crc32_of_bytes() -> HashArray:
    """Return the remainder of each byte divided by the reversed polynomial 0xEDB88320."""
    remainders = np.arange(256, dtype=U32)
    for _ in range(8):
        remainders = remainders >> U32(1) ^ (remainders & U32(1)) * U32(0xEDB88320)
    return remainders


CRC32_OF_BYTE: Final = _crc32_of_bytes()

MURMUR2: Final = Steps(
    4, lambda lengths: U32(0x9747B28C) ^ lengths.astype(U32), _mix_murmur2, _step_murmur2, _end_murmur2
)
MURMUR3: Final = Steps(4, lambda lengths: np.zeros(len(lengths), U32), _mix_murmur3, _step_murmur3, _end_murmur3)
CRC32: Final = Steps(1, lambda lengths: np.full(len(lengths), hashes.MASK, U32), _as_is, _step_crc32, _end_crc32)
FNV1A: Final = Steps(1, lambda lengths: np.full(len(lengths), 0x811C9DC5, U32), _as_is, _step_fnv1a, _as_is)
JAVA_ASCII: Final = Steps(1, lambda lengths: np.zeros(len(lengths), U32), _as_is, _step_java, _as_is)
JAVA: Final = JAVA_ASCII._replace(unit=2)
