"""The partition of a key in Kafka's clients outside Java: a hash, and how its 32 bits become an index."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

from exchange.partition.hashing.hashes import fnv1a, murmur2, positive, signed
from exchange.partition.partitioner import Choice

__all__ = ["ABSOLUTE_FNV1A", "CRC32", "MURMUR2", "POSITIVE_FNV1A", "UNSIGNED_FNV1A", "KeyHash"]


class KeyHash(NamedTuple):
    """A hash of keys: the partition is to_index(hash(key)) % number of partitions."""

    hash: Callable[[bytes], int]
    to_index: Callable[[int], int]
    rule: str
    """The partition as an expression of C or Go; ``{}`` stands for the number of partitions."""

    def choose(self, key: bytes, count: int) -> Choice:
        """Return the choice among ``count`` partitions."""
        hashed = self.hash(key)
        return Choice(self.to_index(hashed) % count, hashed, self.rule.format(count))


def _signed_fnv1a(key: bytes) -> int:
    return signed(fnv1a(key))


CRC32: Final = KeyHash(zlib.crc32, abs, "hash % {}")
MURMUR2: Final = KeyHash(murmur2, positive, "(hash & 0x7fffffff) % {}")
"""The hash of Kafka's Java producer."""
# abs(-2**31) is 2**31 here, as in both clients. librdkafka negates the hash: for -2**31 that is undefined in C, but
# compilers return 2**31. Sarama negates the remainder.
ABSOLUTE_FNV1A: Final = KeyHash(_signed_fnv1a, abs, "abs(hash) % {}")
POSITIVE_FNV1A: Final = KeyHash(_signed_fnv1a, positive, "(hash & 0x7fffffff) % {}")
UNSIGNED_FNV1A: Final = KeyHash(fnv1a, abs, "hash % {}")
