"""Kafka's Java producer, from 0.8 on: the partitions of records with and without a key.

The bytes of a key alone select its partition, in the same way in every version of the Java client, among all
partitions, with or without a leader. Versions differ in where records without a key go: each way is a strategy of its
own, and `Keyed` combines it with the one for keys. The strategies get partitions in the order of the cluster's
metadata, which is not that of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from exchange.errors import InputError
from exchange.partition.clients.kafka_builtin import BuiltIn, pick
from exchange.partition.hashing.hashes import to_positive, to_signed
from exchange.partition.hashing.java import string_hash
from exchange.partition.hashing.keys import describe_key, resolve_key_type, serialize_key
from exchange.partition.hashing.librdkafka import murmur2_hash, murmur2_partition
from exchange.partition.partitioner import Choice, Event, Inputs, Key, NewBatch, Partitioner, Strategy
from exchange.partition.partitions import Partitions
from exchange.values.field_values import INTEGER_TYPES


@dataclass(frozen=True, slots=True)
class Keyed(Partitioner):
    """``toPositive(murmur2(key)) % count`` for records with a key; ``keyless`` chooses for records without.

    An empty key is a key (`BuiltInPartitioner.partitionForKey`, before 3.3 `DefaultPartitioner.partition`).
    """

    keyless: Partitioner

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        data = serialize_key(key)
        if data is None:
            return self.keyless.choose(None, partitions)
        value = murmur2_hash(data)
        return Choice(to_positive(value) % partitions.count, to_signed(value), f"toPositive(hash) % {partitions.count}")

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        data = serialize_key(key)
        return (
            self.keyless.partition_of(None, partitions) if data is None else murmur2_partition(data, partitions.count)
        )

    def memory(self, inputs: Inputs) -> Any:
        return self.keyless.memory(inputs)

    def choose_next(self, key: Key, partitions: Partitions, memory: Any, inputs: Inputs) -> tuple[Choice, Any]:
        if key is None:
            return self.keyless.choose_next(None, partitions, memory, inputs)
        return self.choose(key, partitions), memory

    def after(self, event: Event, partitions: Partitions, memory: Any, inputs: Inputs) -> Any:
        return self.keyless.after(event, partitions, memory, inputs)


@dataclass(frozen=True, slots=True)
class KeyedOneCounter(Keyed):
    """`DefaultPartitioner` of 0.9 to 0.10.1: it has one counter for all topics."""

    one_memory: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Counter(Partitioner):
    """The available partitions in turn, by a counter that every call increments; it ignores keys.

    Java's counter is an int that wraps around, and ``toPositive`` clears its sign: so this one has 31 bits. Producers
    call `RoundRobinPartitioner` of 2.4 to 3.9.1 twice for a record that needs a new batch, before and after the
    `NewBatch`, which increments the counter twice: call `choose_next` twice for such a record.
    """

    start: int | None = None
    """First value of the counter; None for a random one."""

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        return Choice(None, None, "the available partitions in turn, by the producer's counter")

    def memory(self, inputs: Inputs) -> int:
        return inputs.draw(2**31) if self.start is None else self.start

    def choose_next(self, key: Key, partitions: Partitions, memory: int, inputs: Inputs) -> tuple[Choice, int]:
        return Choice(pick(partitions, memory), None, f"counter {memory}"), to_positive(memory + 1)


class RoundRobinMemory(NamedTuple):
    """The memory of `RoundRobin`."""

    counter: int = 0
    again: int | None = None
    """Partition that needed a new batch: the next call is for the same record. None: it is for a new one."""


@dataclass(frozen=True, slots=True)
class RoundRobin(Partitioner):
    """`RoundRobinPartitioner` from 3.9.2 on: after a `NewBatch` it chooses the same partition again.

    Producers from 4.0 on call it once for each record, so they need no `NewBatch`.
    """

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        return COUNTER.choose(key, partitions)

    def memory(self, inputs: Inputs) -> RoundRobinMemory:
        return RoundRobinMemory()

    def choose_next(
        self, key: Key, partitions: Partitions, memory: RoundRobinMemory, inputs: Inputs
    ) -> tuple[Choice, RoundRobinMemory]:
        if memory.again is not None:
            return Choice(memory.again, None, "the same again, in its new batch"), RoundRobinMemory(memory.counter)
        choice, counter = COUNTER.choose_next(key, partitions, memory.counter, inputs)
        return choice, RoundRobinMemory(counter)

    def after(self, event: Event, partitions: Partitions, memory: RoundRobinMemory, inputs: Inputs) -> RoundRobinMemory:
        return memory._replace(again=event.partition) if isinstance(event, NewBatch) else memory


COUNTER: Final = Counter(0)


@dataclass(frozen=True, slots=True)
class Sticky(Partitioner):
    """One available partition until a batch of it is full, then another one (KIP-480, `StickyPartitionCache`).

    Each record that needs a new batch, also one with a key, must be preceded by a `NewBatch`.
    """

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        return Choice(None, None, "a partition drawn at random, until it needs a new batch")

    def choose_next(
        self, key: Key, partitions: Partitions, memory: int | None, inputs: Inputs
    ) -> tuple[Choice, int | None]:
        kept = memory is not None
        partition = memory if kept else self._draw(partitions, None, inputs)
        return Choice(partition, None, "kept until it needs a new batch" if kept else "drawn at random"), partition

    def after(self, event: Event, partitions: Partitions, memory: int | None, inputs: Inputs) -> int | None:
        if isinstance(event, NewBatch) and memory in (None, event.partition):
            return self._draw(partitions, memory, inputs)
        return memory

    def _draw(self, partitions: Partitions, old: int | None, inputs: Inputs) -> int:
        """Draw another partition, as `StickyPartitionCache.nextPartition`."""
        if len(partitions.available) == 1:
            return partitions.available[0].id
        while (new := pick(partitions, inputs.draw(2**31))) == old and partitions.available:
            pass  # as Java does, draw until it is another partition
        return new


@dataclass(frozen=True, slots=True)
class Random(Partitioner):
    """A random partition for each record; it ignores keys.

    The Java producer does so with ``partitioner.ignore.keys``, ``batch.size`` 0 and no adaptive partitioning.
    """

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        return Choice(None, None, "an available partition drawn at random")

    def choose_next(self, key: Key, partitions: Partitions, memory: None, inputs: Inputs) -> tuple[Choice, None]:
        return Choice(pick(partitions, inputs.draw(2**31)), None, "drawn at random"), None


@dataclass(frozen=True, slots=True)
class Explicit(Partitioner):
    """The key is the number of the partition, as the argument ``partition`` of `ProducerRecord`."""

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        try:
            kind, number = resolve_key_type(key)
        except InputError:
            kind, number = "", None
        if kind not in INTEGER_TYPES:
            raise InputError(f"the key is to be the partition's number, an integer, not {describe_key(key)}")
        return Choice(_check_number(number, partitions), None, "the key is the partition's number")


def _check_number(number: int, partitions: Partitions) -> int:
    """Return a partition number that a user chose. Raises InputError where `KafkaProducer.partition` throws."""
    if number < 0:
        raise InputError(f"{describe_key(number)} is no partition: the Java producer throws IllegalArgumentException")
    if number >= partitions.count:
        raise InputError(
            f"there is no partition {describe_key(number)}, only 0 to {partitions.count - 1}: the Java producer would "
            "wait for it, then throw TimeoutException"
        )
    return number


class Kept(NamedTuple):
    """The memory of `Scala`."""

    since: int
    """Time of the last refresh of the metadata, in milliseconds."""
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Scala(Partitioner):
    """The Scala producer of 0.8: `kafka.producer.DefaultPartitioner` with keys that are strings.

    Records without a key go to one partition until the metadata is refreshed (`DefaultEventHandler.getPartition`). The
    producer refreshes the metadata of all topics at once, and also when it retries; this class refreshes by the time
    since the first record of the topic only.
    """

    refresh_ms: int = 600_000
    """``topic.metadata.refresh.interval.ms``; negative for never."""

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        if key is None:
            return Choice(None, None, "a partition drawn at random, until the metadata is refreshed")
        if not isinstance(key, str):
            raise InputError(f"the Scala producer takes hashCode of an object: give a string, not {describe_key(key)}")
        value = string_hash(key)
        return Choice(_absolute(value) % partitions.count, value, f"abs(hash) % {partitions.count}")

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        if type(key) is not str:
            return self.choose(key, partitions).partition
        return _absolute(string_hash(key)) % partitions.count

    def memory(self, inputs: Inputs) -> Kept:
        return Kept(inputs.now)

    def choose_next(self, key: Key, partitions: Partitions, memory: Kept, inputs: Inputs) -> tuple[Choice, Kept]:
        if 0 <= self.refresh_ms < inputs.now - memory.since:
            memory = Kept(inputs.now)
        if key is not None:
            return self.choose(key, partitions), memory
        if memory.partition is not None:
            return Choice(memory.partition, None, "kept until the metadata is refreshed"), memory
        if not partitions.available:
            raise InputError("no partition has a leader: the Scala producer throws LeaderNotAvailableException")
        ordered = sorted(partition.id for partition in partitions.available)
        partition = ordered[_absolute(to_signed(inputs.draw(2**32))) % len(ordered)]
        return Choice(partition, None, "drawn at random"), memory._replace(partition=partition)


def _absolute(value: int) -> int:
    """Return the absolute value as `kafka.utils.Utils.abs`: 0 for the least int."""
    return 0 if value == -0x8000_0000 else abs(value)


def build_default_3_3(batch_size: int = 16_384, adaptive: bool = True, ignore_keys: bool = False) -> Partitioner:
    """Build the default partitioner since 3.3, from ``partitioner.ignore.keys`` and parameters of `BuiltIn`."""
    keyless = BuiltIn(batch_size, adaptive)
    return keyless if ignore_keys else Keyed(keyless)


def build_nearest(
    rack: str | None = None,
    host: str | None = None,
    batch_size: int = 16_384,
    adaptive: bool = True,
    ignore_keys: bool = False,
) -> Partitioner:
    """Build the default of 4.4 with ``partitioner.rack.aware``: records without a key go to leaders near by."""
    if rack is None and host is None:
        raise InputError("kafka.nearest needs a rack, a host or both: kafka.nearest(rack=eu-1)")
    keyless = BuiltIn(batch_size, adaptive, rack, host)
    return keyless if ignore_keys else Keyed(keyless)


def _parse_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


BUILT_IN: Final[Mapping[str, Callable[[str], Any]]] = {
    "batch_size": int,
    "adaptive": _parse_boolean,
    "ignore_keys": _parse_boolean,
}

SAME_KEY: Final = "a key goes to one partition, whatever the client's version"
MOVES: Final = "with other counts most keys move; keys that are sent often weigh on one partition"

STRATEGIES: Final = (
    Strategy(
        "kafka.murmur2", build_default_3_3, "kafka-clients 3.3+: the default (BuiltInPartitioner, KIP-794)",
        f"{SAME_KEY}; without one, batches are full and slow brokers get less", MOVES, parameters=BUILT_IN,
    ),
    Strategy(
        "kafka.default_2_4", lambda: Keyed(Sticky()), "kafka-clients 2.4-3.2: DefaultPartitioner (KIP-480)",
        f"{SAME_KEY}; without one, batches are full",
        f"{MOVES}; without a key, slow brokers get more, as their batches take longer",
    ),
    Strategy(
        "kafka.default_0_10_2", lambda: Keyed(Counter()), "kafka-clients 0.10.2-2.3: DefaultPartitioner",
        f"{SAME_KEY}; without one, the available partitions in turn, topic by topic", f"{MOVES}; batches are small",
    ),
    Strategy(
        "kafka.default_0_9", lambda: KeyedOneCounter(Counter()),
        "kafka-clients 0.8.2-0.10.1: DefaultPartitioner (0.8.2: internals.Partitioner)",
        f"{SAME_KEY}; without one, the available partitions in turn",
        f"{MOVES}; one counter for all topics: a topic that gets every second record uses every second partition",
    ),
    Strategy(
        "kafka.scala_0_8", Scala, "kafka 0.8, the Scala producer: kafka.producer.DefaultPartitioner",
        "a string goes to one partition, by its hashCode", f"{MOVES}; without a key, one partition for ten minutes",
        parameters={"refresh_ms": int},
    ),
    Strategy(
        "kafka.round_robin", RoundRobin, "kafka-clients 3.9.2, 4.0+: RoundRobinPartitioner",
        "the available partitions in turn, whatever the key", "no order by key; batches are small",
    ),
    Strategy(
        "kafka.round_robin_2_4", lambda: COUNTER, "kafka-clients 2.4-3.9.1: RoundRobinPartitioner (KAFKA-9965)",
        "the available partitions in turn, each time it is asked",
        "no order by key; asked twice for a record that needs a new batch, it may leave every second partition empty",
    ),
    Strategy(
        "kafka.uniform_sticky", Sticky, "kafka-clients 2.4-3.9: UniformStickyPartitioner",
        "full batches, whatever the key", "no order by key; slow brokers get more",
    ),
    Strategy(
        "kafka.random", Random, "kafka-clients 3.3+ with batch.size=0, partitioner.ignore.keys, not adaptive",
        "each available partition is as likely as any other", "no order by key; batches of one record",
    ),
    Strategy(
        "kafka.explicit", Explicit, "kafka-clients: ProducerRecord's partition",
        "the key is the partition's number", "the application that sets it must know how many partitions there are",
    ),
    Strategy(
        "kafka.nearest", build_nearest, "kafka-clients 4.4+ with partitioner.rack.aware (KIP-1123); by host, nobody's",
        f"{SAME_KEY}; without one, to leaders near by as long as there are any",
        f"{MOVES}; without a key, only partitions near by get records",
        parameters={"rack": str, "host": str, **BUILT_IN},
    ),
)  # fmt: skip
