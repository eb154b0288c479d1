"""The partitioners of Kafka's Go clients, Sarama and franz-go: a hash of the key, a random choice without a key.

The partition of a key is one of all partitions; without a key, one with a leader is drawn. The empty key is a key. The
hashes differ: each is a row of a table. (confluent-kafka-go is librdkafka.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from exchange.errors import InputError
from exchange.partition.clients.key_hash import ABSOLUTE_FNV1A, CRC32, MURMUR2, POSITIVE_FNV1A, UNSIGNED_FNV1A, KeyHash
from exchange.partition.hashing.keys import serialize_key
from exchange.partition.partitioner import Choice, Event, Inputs, Key, NewBatch, Partitioner, Strategy
from exchange.partition.partitions import Partitions

SARAMA: Final[Mapping[str, KeyHash]] = MappingProxyType({
    "hash": ABSOLUTE_FNV1A,
    "reference_hash": POSITIVE_FNV1A,
    "crc32": CRC32,
    "murmur2": MURMUR2,
})  # fmt: skip
"""NewHashPartitioner, NewReferenceHashPartitioner, NewConsistentCRCHashPartitioner and NewMurmur2Partitioner."""

FRANZ_GO: Final[Mapping[str, KeyHash]] = MappingProxyType({
    "murmur2": MURMUR2,
    "sarama_compat": ABSOLUTE_FNV1A,
    "sarama_historic": UNSIGNED_FNV1A,
})  # fmt: skip
"""StickyKeyPartitioner(nil), and with SaramaCompatHasher or SaramaHasher of FNV-1a, as Go computes on 64 bits."""


@dataclass(frozen=True, slots=True)
class _Keyed(Partitioner):
    """The choice for a key, which is the same in both clients."""

    key_hash: KeyHash

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        data = serialize_key(key)
        if data is None:
            return Choice(None, None, "a random partition with a leader")
        return self.key_hash.choose(data, partitions.count)

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        data = serialize_key(key)
        return None if data is None else self.key_hash.partition_of(data, partitions.count)


@dataclass(frozen=True, slots=True)
class Sarama(_Keyed):
    """Sarama's `hashPartitioner` and `murmur2Partitioner`.

    Each record without a key goes to a random partition with a leader. If there is none, it raises InputError, as
    Sarama returns ErrLeaderNotAvailable.
    """

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        choice = self.choose(key, partitions)
        if choice.partition is None:
            writable = _ids(partitions.available)
            if not writable:
                raise InputError("Sarama: no partition has a leader (ErrLeaderNotAvailable)")
            choice = choice._replace(partition=writable[inputs.draw(len(writable))])
        return choice, memory


class Stuck(NamedTuple):
    """The partition of records without a key, as a position among the partitions with a leader, by id."""

    at: int | None = None
    """The position; None until one is drawn."""
    before: int | None = None
    """The position before the last `NewBatch`."""


@dataclass(frozen=True, slots=True)
class FranzGo(_Keyed):
    """franz-go's `StickyKeyPartitioner`; its default, UniformBytesPartitioner, treats keys as ``murmur2`` does.

    Records without a key go to one partition until a new batch. Then a partition is drawn; if it is the same again, the
    next one is taken. Partitions without a leader are left out, unless no partition has one.
    """

    def memory(self, inputs: Inputs) -> Stuck:
        return Stuck()

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        choice = self.choose(key, partitions)
        if choice.partition is not None:
            return choice, memory
        writable = _ids(partitions.available or partitions.all)
        at, before = memory
        if at is None or at >= len(writable):
            at = inputs.draw(len(writable))
            if at == before:
                at = (at + 1) % len(writable)
        return choice._replace(partition=writable[at]), Stuck(at, before)

    def after(self, event: Event, partitions: Partitions, memory: Any, inputs: Inputs) -> Any:
        return Stuck(None, memory.at) if isinstance(event, NewBatch) else memory


def _ids(partitions: tuple[Any, ...]) -> list[int]:
    """Return the ids in ascending order: both clients ignore the order of the metadata."""
    return sorted([partition.id for partition in partitions])


KEYED: Final = "a key has one partition as long as their number stays"
AS_JAVA: Final = f"{KEYED}: the one that Kafka's Java producer chooses"
MOVES: Final = "another number of partitions moves nearly all keys"


def _sarama(name: str, mirrors: str, promise: str) -> Strategy:
    return Strategy(f"sarama.{name}", partial(Sarama, SARAMA[name]), f"Sarama {mirrors}", promise, MOVES)


def _franz_go(name: str, mirrors: str, promise: str) -> Strategy:
    return Strategy(f"franz-go.{name}", partial(FranzGo, FRANZ_GO[name]), f"franz-go {mirrors}", promise, MOVES)


STRATEGIES: Final = (
    _sarama("hash", "NewHashPartitioner, its default", f"{KEYED}; not the Java producer's, but librdkafka's fnv1a"),
    _sarama("reference_hash", "NewReferenceHashPartitioner", f"{KEYED}; no other client's"),
    _sarama("crc32", "NewConsistentCRCHashPartitioner", f"{KEYED}: librdkafka's default, consistent_random"),
    _sarama("murmur2", "1.50+ NewMurmur2Partitioner", AS_JAVA),
    _franz_go("murmur2", "StickyKeyPartitioner; the keys of its default, UniformBytesPartitioner", AS_JAVA),
    _franz_go("sarama_compat", "1.16+ SaramaCompatHasher(fnv32a)", f"{KEYED}: the one that Sarama's default chooses"),
    _franz_go("sarama_historic", "SaramaHasher(fnv32a) on 64 bits", f"{KEYED}; no other client's"),
)
