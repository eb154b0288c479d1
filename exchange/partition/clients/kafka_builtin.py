"""Where Kafka's Java producer puts records without a key since 3.3 (KIP-794), and near leaders since 4.4 (KIP-1123).

It fills one partition with about ``batch.size`` bytes, then draws the next. The draw is even until more batches wait
for some partitions than for others; then shorter queues are drawn more often. All a producer knows is in `Memory`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Final, NamedTuple

from exchange.errors import InputError
from exchange.partition.partitioner import Appended, Choice, Event, Inputs, Key, LoadStats, Partitioner
from exchange.partition.partitions import Broker, Partition, Partitions

__all__ = ["BuiltIn", "Latency", "Memory", "Weights", "load_stats", "pick"]


class Weights(NamedTuple):
    """How likely each partition is to be drawn next (`BuiltInPartitioner.PartitionLoadStats`)."""

    cumulated: tuple[int, ...]
    """The running sum of the weights; the last one is how many draws there are."""
    partition_ids: tuple[int, ...]

    def partition(self, number: int) -> int:
        """The partition of a number drawn: the first whose running sum is greater."""
        return self.partition_ids[bisect_right(self.cumulated, number % self.cumulated[-1])]

    @classmethod
    def of(cls, waiting: Iterable[tuple[int, int]]) -> Weights:
        """Of pairs (batches that wait, partition id): the longest queue weighs 1, a shorter one as many more."""
        sizes, ids = zip(*waiting, strict=True)
        longest = max(sizes)
        return cls(tuple(accumulate(longest + 1 - size for size in sizes)), ids)


class Memory(NamedTuple):
    """What a producer remembers of one topic."""

    partition: int | None = None
    """Where records go now; None before the first one."""
    produced: int = 0
    """Bytes appended there since it was drawn."""
    weights: Weights | None = None
    """None while every available partition is as likely as any other."""


@dataclass(frozen=True, slots=True)
class BuiltIn(Partitioner):
    """`org.apache.kafka.clients.producer.internals.BuiltInPartitioner`: records without a key; it looks at none.

    It is to be told what happens to them: `Appended` after each; with size 0, before the next is chosen, once the last
    batch of the partition was sent or is full (`RecordAccumulator.partitionChanged`), and again, after which the same
    record is chosen for anew, when it turns out that the batch has no room for it;
    `LoadStats` whenever the sender looks for batches that are ready. Untold, it stays where it is.
    """

    batch_size: int = 16_384
    """Bytes: ``batch.size``."""
    adaptive: bool = True
    """``partitioner.adaptive.partitioning.enable``; off, LoadStats mean nothing."""
    rack: str | None = None
    """``client.rack`` with ``partitioner.rack.aware``: where partitions have a leader there, only they are drawn."""
    host: str | None = None
    """The same of the leader's host, or its name where no host is told; Kafka has no such setting."""

    def __post_init__(self) -> None:
        if self.batch_size < 0:
            raise InputError(f"batch_size is a number of bytes, not {self.batch_size}")

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        place = " near by" if self.rack is not None or self.host is not None else ""
        return Choice(None, None, f"a partition{place} drawn at random, for {self.batch_size} bytes")

    def memory(self, inputs: Inputs) -> Memory:
        return Memory()

    def choose_next(self, key: Key, partitions: Partitions, memory: Memory, inputs: Inputs) -> tuple[Choice, Memory]:
        if memory.partition is None:
            memory = Memory(self._drawn(partitions, memory.weights, inputs), 0, memory.weights)
        rule = f"kept for {self.batch_size} bytes, {memory.produced} so far"
        return Choice(memory.partition, None, rule), memory

    def after(self, event: Event, partitions: Partitions, memory: Memory, inputs: Inputs) -> Memory:
        if isinstance(event, LoadStats) and self.adaptive:
            return memory._replace(weights=self._weights(event, partitions))
        if isinstance(event, Appended) and memory.partition is not None:
            produced, enough = memory.produced + event.size, max(self.batch_size, 1)
            # Leaving a batch that is not full would send it small, but not for ever: keyed records may keep it so.
            if produced >= (enough if event.batches_full else 2 * enough):
                return Memory(self._drawn(partitions, memory.weights, inputs), 0, memory.weights)
            return memory._replace(produced=produced)
        return memory

    def _drawn(self, partitions: Partitions, weights: Weights | None, inputs: Inputs) -> int:
        """`BuiltInPartitioner.nextPartition`."""
        number = inputs.draw(2**31)
        if weights is not None:
            return weights.partition(number)
        near = [partition for partition in partitions.available if self._is_near(partition.leader)]
        return pick(partitions, number, near)

    def _weights(self, stats: LoadStats, partitions: Partitions) -> Weights | None:
        """`BuiltInPartitioner.updatePartitionLoadStats`."""
        if not stats.queue_sizes or partitions.count < 2:
            return None
        if len(stats.queue_sizes) == partitions.count and len(set(stats.queue_sizes)) == 1:
            return None  # left out are those without a leader or that do not answer: without them, it is not even
        waiting = list(zip(stats.queue_sizes, stats.partition_ids, strict=True))
        near = [(size, id_) for size, id_ in waiting if id_ in partitions and self._is_near(partitions[id_].leader)]
        return Weights.of(near or waiting)

    def _is_near(self, leader: Broker | None) -> bool:
        return (
            leader is not None
            and (self.rack is None or leader.rack == self.rack)
            and (self.host is None or (leader.host or leader.name) == self.host)
        )


def pick(partitions: Partitions, number: int, among: tuple[Partition, ...] | list[Partition] = ()) -> int:
    """What all of the Java producer's strategies make of a number, not negative: a partition's own number.

    One of ``among``, else of those available, in the order of the metadata; where none is available, any number below
    the count.
    """
    places = among or partitions.available
    return places[number % len(places)].id if places else number % partitions.count


class Latency(NamedTuple):
    """When a producer last had batches for a broker, in milliseconds (`RecordAccumulator.NodeLatencyStats`)."""

    ready: int
    drained: int
    """And when the broker last took some."""


NO_LATENCIES: Final[Mapping[str, Latency]] = MappingProxyType({})


def load_stats(
    queues: Mapping[int, int],
    partitions: Partitions,
    latencies: Mapping[str, Latency] = NO_LATENCIES,
    availability_timeout: int = 0,
) -> LoadStats:
    """What the sender tells of the load (`RecordAccumulator.partitionReady`); nothing until each partition had a batch.

    ``queues`` are the batches that wait, by partition id, 0 where all were sent; ``latencies`` go by brokers' names.
    ``availability_timeout`` is ``partitioner.availability.timeout.ms``; 0 leaves no broker out.
    """
    if len(queues) < partitions.count:
        return LoadStats((), ())
    sizes, ids, filled = [0] * len(queues), [0] * len(queues), 0
    for partition_id, size in sorted(queues.items()):
        leader = partitions[partition_id].leader if partition_id in partitions else None
        if leader is None:
            continue
        ids[filled] = partition_id
        if size:
            sizes[filled] = size
            latency = latencies.get(leader.name)
            if availability_timeout > 0 and latency and latency.ready - latency.drained > availability_timeout:
                continue  # the next takes the place, and this one's size if itself has no batch: it is Java's array
        filled += 1
    return LoadStats(tuple(sizes[:filled]), tuple(ids[:filled]))
