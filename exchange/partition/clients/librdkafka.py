"""librdkafka's partitioners, and so those of confluent-kafka in Python, Go and .NET, and of rdkafka in Rust and PHP.

A partitioner is a row of ``ROWS``: what decides for no key, for the empty key and for all other keys (`rdkafka_msg.c`
and `rdkafka_topic.c`, librdkafka 1.6-2.16). Most partitioners send records without a key to a *sticky* partition, which
is drawn at random and serves a topic for a number of milliseconds. So time decides when the next one is drawn, not the
bytes sent, as in Kafka's own producer.

The partition of a key is one of all partitions, with or without a leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from exchange.errors import InputError
from exchange.partition.clients.key_hash import ABSOLUTE_FNV1A, CRC32, MURMUR2, KeyHash
from exchange.partition.hashing.keys import serialize_key
from exchange.partition.partitioner import Choice, Draw, Inputs, Key, Partitioner, Strategy
from exchange.partition.partitions import Partitions


class Chance(Enum):
    """What decides where no hash does, with its description."""

    STICKY = "the topic's sticky partition"
    RANDOM = "a random partition, drawn once more if it has no leader"


class KeyRule(NamedTuple):
    """What decides for the three kinds of keys; a hash treats no key as the empty one."""

    null: KeyHash | Chance
    empty: KeyHash | Chance
    other: KeyHash | Chance


STICKY: Final = Chance.STICKY
RANDOM: Final = Chance.RANDOM

ROWS: Final[Mapping[str, KeyRule]] = MappingProxyType({
    "random": KeyRule(STICKY, RANDOM, RANDOM),
    "consistent": KeyRule(CRC32, CRC32, CRC32),
    "consistent_random": KeyRule(STICKY, STICKY, CRC32),
    "murmur2": KeyRule(MURMUR2, MURMUR2, MURMUR2),
    "murmur2_random": KeyRule(STICKY, MURMUR2, MURMUR2),
    "fnv1a": KeyRule(ABSOLUTE_FNV1A, ABSOLUTE_FNV1A, ABSOLUTE_FNV1A),
    "fnv1a_random": KeyRule(STICKY, ABSOLUTE_FNV1A, ABSOLUTE_FNV1A),
})  # fmt: skip
"""Value of the topic property ``partitioner`` -> what decides."""


class StickyDraw(NamedTuple):
    """The partition that a topic's records without key go to, and the time when it was drawn, in milliseconds."""

    partition: int
    since: int


@dataclass(frozen=True, slots=True)
class Librdkafka(Partitioner):
    """The partitioner of ``ROWS`` that the topic property ``partitioner`` selects.

    The other parameter is the property ``sticky.partitioning.linger.ms``, by default twice ``linger.ms`` (5 ms); with 0
    a partition is drawn for each record instead. Raises InputError for values that librdkafka refuses.
    """

    partitioner: str = "consistent_random"
    sticky_partitioning_linger_ms: int = 10

    def __post_init__(self) -> None:
        if self.partitioner not in ROWS:
            raise InputError(f"librdkafka has no partitioner {self.partitioner!r}; there are {', '.join(ROWS)}")
        if not 0 <= self.sticky_partitioning_linger_ms <= 900_000:
            raise InputError(
                f"sticky.partitioning.linger.ms is from 0 to 900000, not {self.sticky_partitioning_linger_ms}"
            )

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        data = serialize_key(key)
        decides = self._decides(data)
        if isinstance(decides, Chance):
            return Choice(None, None, decides.value)
        return decides.choose(data or b"", partitions.count)

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        data = serialize_key(key)
        decides = self._decides(data)
        return None if isinstance(decides, Chance) else decides.partition_of(data or b"", partitions.count)

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        decides = self._decides(serialize_key(key))
        if decides is STICKY:
            if self._is_over(memory, partitions, inputs.now):
                memory = StickyDraw(_draw_partition(partitions, inputs.draw), inputs.now)
            return Choice(memory.partition, None, decides.value), memory
        if decides is RANDOM:
            return Choice(_draw_partition(partitions, inputs.draw), None, decides.value), memory
        return self.choose(key, partitions), memory

    def _decides(self, key: bytes | None) -> KeyHash | Chance:
        row = ROWS[self.partitioner]
        decides = row.null if key is None else row.other if key else row.empty
        return RANDOM if decides is STICKY and self.sticky_partitioning_linger_ms == 0 else decides

    def _is_over(self, sticky: StickyDraw | None, partitions: Partitions, now: int) -> bool:
        """Return whether to draw another sticky partition (`rd_kafka_msg_sticky_partition`)."""
        if sticky is None or not _is_available(partitions, sticky.partition):
            return True
        return now - sticky.since > self.sticky_partitioning_linger_ms


def _is_available(partitions: Partitions, partition: int) -> bool:
    return partition in partitions and partitions[partition].leader is not None


def _draw_partition(partitions: Partitions, draw: Draw) -> int:
    """Draw a partition; a second draw is final, with or without a leader (`rd_kafka_msg_partitioner_random`)."""
    first = draw(partitions.count)
    return first if _is_available(partitions, first) else draw(partitions.count)


KEYED: Final = "a key has one partition as long as their number stays"
JAVA: Final = f"{KEYED}: the one that Kafka's Java producer chooses"
SARAMA: Final = f"{KEYED}: the one that Sarama's default chooses"
NOT_JAVA: Final = f"{KEYED}; not the one that Kafka's Java producer chooses"
MOVES: Final = "another number of partitions moves nearly all keys"
NO_KEY_ONE: Final = "records without a key all go to one partition"
NO_KEY_TIME: Final = "records without a key go in turns of milliseconds, however many they are"


def _strategy(name: str, promise: str, cost: str) -> Strategy:
    mirrors = f"librdkafka 1.6-2.16 (confluent-kafka), partitioner={name}"
    make = partial(Librdkafka, name)
    parameters = {"sticky_partitioning_linger_ms": int} if STICKY in ROWS[name] else {}
    return Strategy(f"librdkafka.{name}", make, mirrors, promise, cost, parameters=parameters)


STRATEGIES: Final = (
    _strategy("random", "even in the long run", "the order of a key's records; small batches"),
    _strategy("consistent", NOT_JAVA, f"{MOVES}; {NO_KEY_ONE}, number 0, with those of the empty key"),
    _strategy(
        "consistent_random",
        f"librdkafka's default: {NOT_JAVA}",
        f"{MOVES}; {NO_KEY_TIME}; the empty key counts as none",
    ),
    _strategy("murmur2", JAVA, f"{MOVES}; {NO_KEY_ONE}, that of the empty key"),
    _strategy("murmur2_random", JAVA, f"{MOVES}; {NO_KEY_TIME}"),
    _strategy("fnv1a", SARAMA, f"{MOVES}; {NO_KEY_ONE}, that of the empty key"),
    _strategy("fnv1a_random", SARAMA, f"{MOVES}; {NO_KEY_TIME}"),
)
