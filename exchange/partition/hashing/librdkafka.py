"""Murmur2 and FNV-1a of a key, computed by librdkafka where the program has it loaded.

A loop over a key takes microseconds in Python, a tenth of one in librdkafka, which is C. The package
``confluent_kafka`` is never imported here, as `exchange` imports no client. But if the program itself has imported it,
its functions are used, after they were compared with ours once. They return partitions, not hashes. Without it, the
hashes of short keys are kept for when these come again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, NamedTuple

from exchange.partition.hashing.hashes import fnv1a, murmur2, remember

Function = Callable[[bytes, int], int]


class Functions(NamedTuple):
    """Functions from a key and a number of partitions, of 31 bits, to the number of the key's partition."""

    murmur2: Function
    """``toPositive(murmur2(key)) % count``"""
    fnv1a: Function
    """``abs((int) fnv1a(key)) % count``, where the absolute value of the least int is 2147483648."""


murmur2_hash: Final = remember(murmur2)
"""`murmur2`, whose results for short keys are kept."""
_fnv1a_hash: Final = remember(fnv1a)


def _murmur2(data: bytes, count: int) -> int:
    return (murmur2_hash(data) & 0x7FFFFFFF) % count


def _fnv1a(data: bytes, count: int) -> int:
    hashed = _fnv1a_hash(data)
    return (hashed if hashed < 0x8000_0000 else 0x1_0000_0000 - hashed) % count


PYTHON: Final = Functions(_murmur2, _fnv1a)
"""The functions in Python: the fallback, and what others are compared with."""

SAMPLES: Final = (b"", b"a", b"\xff\xfe", b"abc", b"21", b"order-1234", bytes(range(256)), b"a\xa2\xfc\xf2\x90")
"""Keys of all lengths modulo 4, with bytes above 127; `fnv1a` of the last one is the least int."""
MAX_PARTITIONS: Final = 0x7FFF_FFFF
"""Maximum number of partitions: librdkafka's functions take a C int."""
COUNTS: Final = (1, 2, 3, 12, 1000, MAX_PARTITIONS)
AMBIGUOUS: Final = (0, 1, MAX_PARTITIONS, MAX_PARTITIONS + 1)
"""Numbers of 32 bits that share their remainder by ``MAX_PARTITIONS`` with another one."""
PRIME: Final = 0x01000193

_found: Functions | None = None
"""The functions in use; None while ``confluent_kafka`` is not loaded."""


def find_functions() -> Functions:
    """Return librdkafka's functions if they are loaded and right, else those in Python."""
    global _found  # noqa: PLW0603  it is set once
    if _found is not None:
        return _found
    module = sys.modules.get("confluent_kafka")
    found = Functions(getattr(module, "murmur2", None), getattr(module, "fnv1a", None))  # type: ignore[arg-type]
    if None in found:  # not loaded, older than 2.13, or just being imported
        return PYTHON
    _found = found if _agree(found) else PYTHON
    return _found


def _agree(found: Functions) -> bool:
    """Return whether functions have our results for all samples."""
    try:
        return all(
            theirs(data, count) == ours(data, count)
            for theirs, ours in zip(found, PYTHON, strict=True)
            for data in SAMPLES
            for count in COUNTS
        )
    except Exception:  # noqa: BLE001  whatever they raise, they are not what we know
        return False


def murmur2_partition(data: bytes, count: int) -> int:
    """Return ``toPositive(murmur2(data)) % count``: the partition of a key in Kafka's Java producer."""
    return (_found or find_functions()).murmur2(data, count)


def fnv1a_partition(data: bytes, count: int) -> int:
    """Return ``abs((int) fnv1a(data)) % count``: the partition of a key in Sarama, and with librdkafka's fnv1a."""
    return (_found or find_functions()).fnv1a(data, count)


def fnv1a_hash(data: bytes) -> int:
    """Return FNV-1a with 32 bits, as `fnv1a`, but without a loop over the bytes where librdkafka is loaded."""
    function = (_found or find_functions()).fnv1a
    if function is _fnv1a or (size := function(data, MAX_PARTITIONS)) in AMBIGUOUS:
        return _fnv1a_hash(data)
    # The hash is the size or its negative. With one byte more, these two have hashes of different sizes.
    longer = (size ^ 1) * PRIME & 0xFFFFFFFF
    expected = min(longer, 0x1_0000_0000 - longer)
    if expected in AMBIGUOUS:
        return fnv1a(data)
    return size if function(data + b"\1", MAX_PARTITIONS) == expected else 0x1_0000_0000 - size
