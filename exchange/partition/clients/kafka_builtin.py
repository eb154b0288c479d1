"""Kafka's Java producer since 3.3: partitions of records without key (KIP-794); near leaders since 4.4 (KIP-1123).

The producer sends about ``batch.size`` bytes to one partition, then draws the next one. All partitions are equally
likely, until some have more waiting batches than others: then those with shorter queues are more likely. The state of a
producer is a `StickyMemory`.
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


class Weights(NamedTuple):
    """The weights of the partitions in the next draw (`BuiltInPartitioner.PartitionLoadStats`)."""

    cumulated: tuple[int, ...]
    """Running sum of the weights; a draw is a number below the last one."""
    partition_ids: tuple[int, ...]

    def partition(self, number: int) -> int:
        """Return the partition of a drawn number: the first one whose running sum is greater."""
        return self.partition_ids[bisect_right(self.cumulated, number % self.cumulated[-1])]

    @classmethod
    def compute(cls, waiting: Iterable[tuple[int, int]]) -> Weights:
        """Compute the weights from pairs (number of waiting batches, partition id).

        The longest queue has the weight 1; a shorter one has 1 more for each batch by which it is shorter.
        """
        sizes, ids = zip(*waiting, strict=True)
        longest = max(sizes)
        return cls(tuple(accumulate(longest + 1 - size for size in sizes)), ids)


class StickyMemory(NamedTuple):
    """The memory of a producer for one topic."""

    partition: int | None = None
    """Partition that records go to now; None before the first record."""
    produced: int = 0
    """Number of bytes appended to the partition since it was drawn."""
    weights: Weights | None = None
    """Weights of the next draw; None while all available partitions are equally likely."""


@dataclass(frozen=True, slots=True)
class BuiltIn(Partitioner):
    """`org.apache.kafka.clients.producer.internals.BuiltInPartitioner`, for records without key; it ignores keys.

    It needs these events; without them it never leaves its partition:

    - `Appended` after each record;
    - `Appended` of size 0 before the next choice, if the partition's last batch was sent or is full
      (`RecordAccumulator.partitionChanged`); and when the batch turns out to have no room for the record, for which
      a partition is then chosen again;
    - `LoadStats` each time that the sender searches for batches that are ready.
    """

    batch_size: int = 16_384
    """``batch.size``, in bytes."""
    adaptive: bool = True
    """``partitioner.adaptive.partitioning.enable``; if off, LoadStats are ignored."""
    rack: str | None = None
    """``client.rack`` with ``partitioner.rack.aware``: only partitions with a leader there are drawn, if there are any.
    """
    host: str | None = None
    """Only partitions whose leader is at this host are drawn, if there are any; Kafka has no such setting."""

    def __post_init__(self) -> None:
        if self.batch_size < 0:
            raise InputError(f"batch_size is a number of bytes, not {self.batch_size}")

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        place = " near by" if self.rack is not None or self.host is not None else ""
        return Choice(None, None, f"a partition{place} drawn at random, for {self.batch_size} bytes")

    def memory(self, inputs: Inputs) -> StickyMemory:
        return StickyMemory()

    def choose_next(
        self, key: Key, partitions: Partitions, memory: StickyMemory, inputs: Inputs
    ) -> tuple[Choice, StickyMemory]:
        if memory.partition is None:
            memory = StickyMemory(self._draw(partitions, memory.weights, inputs), 0, memory.weights)
        rule = f"kept for {self.batch_size} bytes, {memory.produced} so far"
        return Choice(memory.partition, None, rule), memory

    def after(self, event: Event, partitions: Partitions, memory: StickyMemory, inputs: Inputs) -> StickyMemory:
        if isinstance(event, LoadStats) and self.adaptive:
            return memory._replace(weights=self._weights(event, partitions))
        if isinstance(event, Appended) and memory.partition is not None:
            produced, enough = memory.produced + event.size, max(self.batch_size, 1)
            # If the partition were left before its batch is full, a small batch would be sent. But it is left after
            # twice the bytes, as records with keys may keep its batch from ever being full.
            if produced >= (enough if event.batches_full else 2 * enough):
                return StickyMemory(self._draw(partitions, memory.weights, inputs), 0, memory.weights)
            return memory._replace(produced=produced)
        return memory

    def _draw(self, partitions: Partitions, weights: Weights | None, inputs: Inputs) -> int:
        """Draw the next partition, as `BuiltInPartitioner.nextPartition`."""
        number = inputs.draw(2**31)
        if weights is not None:
            return weights.partition(number)
        near = [partition for partition in partitions.available if self._is_near(partition.leader)]
        return pick(partitions, number, near)

    def _weights(self, stats: LoadStats, partitions: Partitions) -> Weights | None:
        """Return the new weights, as `BuiltInPartitioner.updatePartitionLoadStats`."""
        if not stats.queue_sizes or partitions.count < 2:
            return None
        if len(stats.queue_sizes) == partitions.count and len(set(stats.queue_sizes)) == 1:
            return None  # equally likely; but if partitions are missing here, weights are needed to leave them out
        waiting = list(zip(stats.queue_sizes, stats.partition_ids, strict=True))
        near = [(size, id_) for size, id_ in waiting if id_ in partitions and self._is_near(partitions[id_].leader)]
        return Weights.compute(near or waiting)

    def _is_near(self, leader: Broker | None) -> bool:
        return (
            leader is not None
            and (self.rack is None or leader.rack == self.rack)
            and (self.host is None or (leader.host or leader.name) == self.host)
        )


def pick(partitions: Partitions, number: int, among: tuple[Partition, ...] | list[Partition] = ()) -> int:
    """Return the id of the partition for a number that is not negative, as all strategies of the Java producer do.

    It is one of ``among``; if that is empty, one of the available partitions, in the order of the metadata; if there is
    none, any number below the count.
    """
    candidates = among or partitions.available
    return candidates[number % len(candidates)].id if candidates else number % partitions.count


class Latency(NamedTuple):
    """Times of a broker, in milliseconds (`RecordAccumulator.NodeLatencyStats`)."""

    ready: int
    """Time when the producer last had batches for the broker."""
    drained: int
    """Time when the broker last took batches."""


NO_LATENCIES: Final[Mapping[str, Latency]] = MappingProxyType({})


def load_stats(
    queues: Mapping[int, int],
    partitions: Partitions,
    latencies: Mapping[str, Latency] = NO_LATENCIES,
    availability_timeout: int = 0,
) -> LoadStats:
    """Build the event of the load, as `RecordAccumulator.partitionReady`; empty until each partition has had a batch.

    ``queues`` maps partition ids to numbers of waiting batches, 0 if all were sent; ``latencies`` maps names of
    brokers. ``availability_timeout`` is ``partitioner.availability.timeout.ms``; 0 leaves no broker out.
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
                continue  # as in Java's array: the next partition takes the slot, with this size if it has no batch
        filled += 1
    return LoadStats(tuple(sizes[:filled]), tuple(ids[:filled]))
