"""How Kafka's clients outside Java make a partition of a key: a hash, and a way to make an index of its 32 bits."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

from exchange.partition.hashing.hashes import fnv1a, murmur2, positive, signed
from exchange.partition.partitioner import Choice

__all__ = ["ABSOLUTE_FNV1A", "CRC32", "MURMUR2", "POSITIVE_FNV1A", "UNSIGNED_FNV1A", "KeyHash"]


class KeyHash(NamedTuple):
    """The partition of a key is to_index(hash(key)) % their number."""

    hash: Callable[[bytes], int]
    to_index: Callable[[int], int]
    rule: str
    """The same in the words of C and Go; ``{}`` is the number."""

    def choose(self, key: bytes, count: int) -> Choice:
        """The partition out of ``count``."""
        hashed = self.hash(key)
        return Choice(self.to_index(hashed) % count, hashed, self.rule.format(count))


def _signed_fnv1a(key: bytes) -> int:
    return signed(fnv1a(key))


CRC32: Final = KeyHash(zlib.crc32, abs, "hash % {}")
MURMUR2: Final = KeyHash(murmur2, positive, "(hash & 0x7fffffff) % {}")
"""What Kafka's Java producer chooses."""
# Of the least integer too: librdkafka negates the hash, where C leaves that one open and compilers make 2^31 of it;
# Sarama negates the remainder.
ABSOLUTE_FNV1A: Final = KeyHash(_signed_fnv1a, abs, "abs(hash) % {}")
POSITIVE_FNV1A: Final = KeyHash(_signed_fnv1a, positive, "(hash & 0x7fffffff) % {}")
UNSIGNED_FNV1A: Final = KeyHash(fnv1a, abs, "hash % {}")
