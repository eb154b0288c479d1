"""The partition of a key in Kafka's clients: a hash, and how its 32 bits become an index."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

from exchange.partition.hashing.hashes import to_positive, to_signed
from exchange.partition.hashing.librdkafka import fnv1a_hash, fnv1a_partition, murmur2_hash, murmur2_partition
from exchange.partition.partitioner import Choice


class KeyHash(NamedTuple):
    """A hash of keys: the partition is to_index(hash(key)) % number of partitions."""

    hash: Callable[[bytes], int]
    to_index: Callable[[int], int]
    rule: str
    """The partition as an expression of C or Go; ``{}`` stands for the number of partitions."""
    partition_of: Callable[[bytes, int], int]
    """Function from a key and a number of partitions to the partition, the same as that of `choose`."""

    def choose(self, key: bytes, count: int) -> Choice:
        """Return the choice among ``count`` partitions."""
        hashed = self.hash(key)
        return Choice(self.to_index(hashed) % count, hashed, self.rule.format(count))


def _signed_fnv1a(key: bytes) -> int:
    return to_signed(fnv1a_hash(key))


def _crc32_partition(key: bytes, count: int) -> int:
    return zlib.crc32(key) % count


def _positive_fnv1a_partition(key: bytes, count: int) -> int:
    return (fnv1a_hash(key) & 0x7FFFFFFF) % count


def _unsigned_fnv1a_partition(key: bytes, count: int) -> int:
    return fnv1a_hash(key) % count


CRC32: Final = KeyHash(zlib.crc32, abs, "hash % {}", _crc32_partition)
MURMUR2: Final = KeyHash(murmur2_hash, to_positive, "(hash & 0x7fffffff) % {}", murmur2_partition)
"""The hash of Kafka's Java producer."""
# abs(-2**31) is 2**31 here, as in both clients. librdkafka negates the hash: for -2**31 that is undefined in C, but
# compilers return 2**31. Sarama negates the remainder.
ABSOLUTE_FNV1A: Final = KeyHash(_signed_fnv1a, abs, "abs(hash) % {}", fnv1a_partition)
POSITIVE_FNV1A: Final = KeyHash(_signed_fnv1a, to_positive, "(hash & 0x7fffffff) % {}", _positive_fnv1a_partition)
UNSIGNED_FNV1A: Final = KeyHash(fnv1a_hash, abs, "hash % {}", _unsigned_fnv1a_partition)
