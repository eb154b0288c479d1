"""The `RecordAccumulator` of Kafka's Java producer, as far as it decides the partitions of records without a key.

Such a record goes to the sticky partition of `BuiltIn` until batches of ``batch.size`` were appended to it. Which
batches are full, and how many wait in each partition when the load is measured, depends on all records, also those with
a key, and on when the sender takes batches away. An `Accumulator` is the settings, a `Queues` what waits: each step
takes the queues and returns new ones. Time and random numbers come from outside, so a run can be replayed.

As kafka-clients 3.9 to 4.4, with the default of ``buffer.memory.allocation.strategy``, ``full``. Left out:
compression (see `exchange.partition.clients.kafka_batches`); batches that are sent again, whose back-off the sender's
thread draws at random; waiting for ``buffer.memory``, in which threads of the program race.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from exchange.partition.clients.kafka_batches import Batch, BatchedRecord
from exchange.partition.clients.kafka_builtin import BuiltIn, Latency, StickyMemory, load_stats
from exchange.partition.hashing.java import order_as_hash_map, string_hash
from exchange.partition.partitioner import Appended, Inputs
from exchange.partition.partitions import Partitions

TopicPartition = tuple[str, int]
"""A topic and the number of a partition."""

Cluster = Mapping[str, Partitions]
"""Topic -> its partitions; leaders are distinguished by name. The order is that of the metadata."""


class TopicQueues(NamedTuple):
    """What the producer has for one topic (`RecordAccumulator.TopicInfo`)."""

    sticky: StickyMemory = StickyMemory()
    batches: Mapping[int, tuple[Batch, ...]] = MappingProxyType({})
    """Partition -> its batches that wait, oldest first; partitions that never had a record are missing."""


class Queues(NamedTuple):
    """The batches that wait to be sent, and what is known about brokers."""

    topics: Mapping[str, TopicQueues] = MappingProxyType({})
    latencies: Mapping[str, Latency] = MappingProxyType({})
    """Broker -> when it last had ready batches, and last could take them; only with ``availability_timeout_ms``."""
    drained_last: Mapping[str, int] = MappingProxyType({})
    """Broker -> position, among its partitions, of the one that was drained last: the next drain begins there."""


NO_QUEUES: Final = Queues()
"""The queues of a new producer."""


class AppendResult(NamedTuple):
    """The result of `Accumulator.append` (`RecordAppendResult`)."""

    partition: int
    size: int
    """Number of bytes by which the batches grew."""
    batch_is_full: bool
    """Whether the partition has a batch to send at once; then, or with a new batch, the sender is woken up."""
    new_batch: bool


class Ready(NamedTuple):
    """The result of `Accumulator.find_ready` (`ReadyCheckResult`)."""

    brokers: frozenset[str]
    next_check: int | None
    """Time in milliseconds at which the next batch will have lingered, until which the sender sleeps; None if none
    waits. Batches that come after the first ready one of their broker are not looked at."""


class Drained(NamedTuple):
    """A batch that the sender took from its queue."""

    topic: str
    partition: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The settings of a producer that decide where records without a key go."""

    batch_size: int = 16_384
    """``batch.size``, in bytes."""
    linger_ms: int = 5
    """``linger.ms``; its default was 0 before 4.0."""
    adaptive: bool = True
    """``partitioner.adaptive.partitioning.enable``"""
    availability_timeout_ms: int = 0
    """``partitioner.availability.timeout.ms``; 0 leaves no broker out."""
    rack: str | None = None
    """``client.rack`` with ``partitioner.rack.aware``, from 4.4 on."""

    def append(
        self,
        queues: Queues,
        target: tuple[str, int | None],
        record: BatchedRecord,
        partitions: Partitions,
        inputs: Inputs,
    ) -> tuple[AppendResult, Queues]:
        """Append a record to a topic's partition, None for any partition; return where it is, and the queues.

        ``partitions`` are those of the topic.
        """
        topic, wanted = target
        built_in = self._built_in()
        sticky, batches = queues.topics.get(topic, TopicQueues())
        while True:
            if wanted is None:
                choice, sticky = built_in.choose_next(None, partitions, sticky, inputs)
                partition = cast("int", choice.partition)
            else:
                partition = wanted
            waiting = batches.get(partition, ())
            if wanted is None and (moved := self._leave_partition(waiting, sticky, partitions, inputs)):
                sticky = moved
                continue
            last = waiting[-1] if waiting else None
            grown = last.append(record) if last is not None else None
            if last is not None and grown is not None:
                waiting, size = (*waiting[:-1], grown), grown.size - last.size
                break
            if last is not None:
                waiting = (*waiting[:-1], last._replace(closed=True))
                batches = {**batches, partition: waiting}
                # A switch was put off until this batch is full: the record may begin a batch elsewhere instead.
                if wanted is None and (moved := self._leave_partition(waiting, sticky, partitions, inputs)):
                    sticky = moved
                    continue
            begun = Batch.begin(record, self.batch_size, inputs.now)
            waiting, size = (*waiting, begun), begun.size
            break
        batches = {**batches, partition: waiting}
        if wanted is None:
            sticky = built_in.after(Appended(size, waiting[-1].is_full), partitions, sticky, inputs)
        topics = {**queues.topics, topic: TopicQueues(sticky, batches)}
        stored = AppendResult(partition, size, len(waiting) > 1 or waiting[-1].is_full, grown is None)
        return stored, queues._replace(topics=topics)

    def find_ready(
        self, queues: Queues, cluster: Cluster, now: int, muted: Iterable[TopicPartition] = (), flushing: bool = False
    ) -> tuple[Ready, Queues]:
        """Return the brokers that have batches to take, and the queues with the load as it is now (`ready`).

        ``muted`` partitions wait for an earlier batch; when ``flushing`` all others are ready.
        """
        built_in = self._built_in()
        muted = frozenset(muted)
        brokers: set[str] = set()
        next_check: int | None = None
        topics = dict(queues.topics)
        for topic in order_as_hash_map({topic: string_hash(topic) for topic in topics}):
            sticky, batches = topics[topic]
            partitions = cluster[topic]
            sizes = {partition: len(waiting) for partition, waiting in batches.items()}
            stats = load_stats(sizes, partitions, queues.latencies, self.availability_timeout_ms)
            unused = Inputs(_draw_nothing, now)
            topics[topic] = TopicQueues(built_in.after(stats, partitions, sticky, unused), batches)
            for partition in order_as_hash_map({partition: partition for partition in batches}):
                waiting = batches[partition]
                leader = partitions[partition].leader if partition in partitions else None
                if not waiting or leader is None or leader.name in brokers or (topic, partition) in muted:
                    continue
                lingers_until = waiting[0].created + self.linger_ms
                if flushing or now >= lingers_until or waiting[0].is_full:
                    brokers.add(leader.name)
                elif next_check is None or lingers_until < next_check:
                    next_check = lingers_until
        return Ready(frozenset(brokers), next_check), queues._replace(topics=topics)

    def drain(
        self,
        queues: Queues,
        cluster: Cluster,
        broker: str,
        max_size: int = 1_048_576,
        muted: Iterable[TopicPartition] = (),
    ) -> tuple[tuple[Drained, ...], Queues]:
        """Take the batches of one request to a broker: one at most of each partition (`drainBatchesForOneNode`).

        ``max_size`` is ``max.request.size`` in bytes, which only the first batch may exceed.
        """
        led = [
            (topic, partition.id)
            for topic, partitions in cluster.items()
            for partition in partitions
            if partition.leader is not None and partition.leader.name == broker
        ]
        if not led:
            return (), queues
        muted = frozenset(muted)
        topics = dict(queues.topics)
        taken: list[Drained] = []
        size, first = 0, queues.drained_last.get(broker, 0) % len(led)
        at = first
        for at in (*range(first, len(led)), *range(first)):
            topic, partition = led[at]
            known = topics.get(topic)
            waiting = known.batches.get(partition) if known is not None else None
            if known is None or not waiting or (topic, partition) in muted:
                continue
            if taken and size + waiting[0].size > max_size:
                break
            topics[topic] = known._replace(batches={**known.batches, partition: waiting[1:]})
            taken.append(Drained(topic, partition, waiting[0]))
            size += waiting[0].size
        return tuple(taken), queues._replace(topics=topics, drained_last={**queues.drained_last, broker: at})

    def note_latency(self, queues: Queues, broker: str, now: int, can_take: bool) -> Queues:
        """Note that a broker with ready batches can take them, or cannot (`updateNodeLatencyStats`)."""
        if self.availability_timeout_ms <= 0:
            return queues
        drained = now if can_take or broker not in queues.latencies else queues.latencies[broker].drained
        return queues._replace(latencies={**queues.latencies, broker: Latency(now, drained)})

    def _leave_partition(
        self, waiting: tuple[Batch, ...], sticky: StickyMemory, partitions: Partitions, inputs: Inputs
    ) -> StickyMemory | None:
        """Return the memory after a switch of partitions that waited until all batches are full; None if none is due.

        The partition may be the same again (`RecordAccumulator.partitionChanged`).
        """
        if waiting and not waiting[-1].is_full:
            return None
        moved = self._built_in().after(Appended(0), partitions, sticky, inputs)
        return None if moved.produced == sticky.produced else moved

    def _built_in(self) -> BuiltIn:
        return BuiltIn(self.batch_size, self.adaptive, self.rack)


def _draw_nothing(bound: int) -> int:
    raise AssertionError("the load is measured without random numbers")
