"""Kafka's Java producer with its accumulator and its sender, on brokers that answer each request in the same time.

`kafka.murmur2` needs to be given what happens to batches. Here it follows from the records alone, their sizes and
times: records fill batches, and the sender sends those that are full or older than ``linger.ms``, at once and at the
moments when brokers answer. A broker has five requests under way at most (``max.in.flight.requests.per.connection``),
so the batches for a slow one wait, and adaptive partitioning gives its partitions fewer records.

It is the accumulator and the sender of kafka-clients 3.9 to 4.4, by a clock that stands while they work. The threads of
a real producer race, so that its sender is some microseconds later, and may find another record in a batch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from exchange.errors import InputError
from exchange.partition.clients.kafka import BUILT_IN, Keyed
from exchange.partition.clients.kafka_accumulator import NO_QUEUES, Accumulator, Queues
from exchange.partition.clients.kafka_batches import BatchedRecord
from exchange.partition.clients.kafka_builtin import BuiltIn
from exchange.partition.partitioner import UNKNOWN, Choice, Inputs, Key, Partitioner, PartitionRequest, Strategy
from exchange.partition.partitions import Partitions

MAX_UNDER_WAY: Final = 5
"""Default of ``max.in.flight.requests.per.connection``."""
BUFFER_MEMORY: Final = 33_554_432
"""Default of ``buffer.memory``, in bytes."""
EVERY_BROKER: Final = ""
"""Stands for all brokers that have no time of their own."""


class ProduceRequest(NamedTuple):
    """A request to a broker."""

    answered: int
    """Milliseconds."""
    size: int
    """Bytes of ``buffer.memory`` that its batches occupy until it is answered."""


class BatchingMemory(NamedTuple):
    """The memory of a `BatchingProducer`, for all topics."""

    queues: Queues = NO_QUEUES
    cluster: Mapping[str, Partitions] = MappingProxyType({})
    """Topic -> its partitions, as they were with its last record."""
    under_way: Mapping[str, tuple[ProduceRequest, ...]] = MappingProxyType({})
    """Broker -> its requests."""
    now: int = 0
    """Time until which the sender has done its work, in milliseconds."""
    next_check: int | None = None
    """When the sender looks for batches again if no broker answers before; None: not before it is woken up."""


@dataclass(frozen=True, slots=True)
class BatchingProducer(Partitioner):
    """The default partitioner with all that decides it: batches, linger, the load of brokers.

    A record is its key and its value, without headers, at the time of its `Inputs`. Raises InputError when
    ``buffer.memory`` is full, where ``send`` would wait for brokers.
    """

    one_memory: ClassVar[bool] = True
    reads_record: ClassVar[bool] = True

    accumulator: Accumulator
    ignore_keys: bool = False
    """``partitioner.ignore.keys``"""
    round_trips: tuple[tuple[str, int], ...] = ()
    """Brokers, each with the milliseconds until it answers a request; `EVERY_BROKER` for all others, else 0."""

    def choose(self, key: Key, partitions: Partitions) -> Choice:
        if self.ignore_keys or key is None:
            size = self.accumulator.batch_size
            return Choice(None, None, f"a partition drawn at random, for {size} bytes and full batches")
        return KEYED.choose(key, partitions)

    def partition_of(self, key: Key, partitions: Partitions) -> int | None:
        return None if self.ignore_keys else KEYED.partition_of(key, partitions)

    def memory(self, inputs: Inputs) -> BatchingMemory:
        return BatchingMemory(now=inputs.now)

    def answer(self, request: PartitionRequest) -> tuple[Choice, Any]:
        choice = self.choose(request.key, request.partitions)
        if request.inputs is None or request.given is UNKNOWN:
            return choice, request.kept
        key, value = request.key_bytes, request.value_bytes
        state: BatchingMemory = request.kept
        now = max(request.now, state.now)
        state = self._work_until(state._replace(cluster={**state.cluster, request.topic: request.partitions}), now)
        record = BatchedRecord(None if key is None else len(key), None if value is None else len(value), now)
        stored, queues = self.accumulator.append(
            state.queues, (request.topic, choice.partition), record, request.partitions, Inputs(request.draw, now)
        )
        state = state._replace(queues=queues)
        if stored.new_batch:
            _check_memory(state)
        if stored.new_batch or stored.batch_is_full:
            state = self._send(state, now)
        if choice.partition is None:
            choice = Choice(stored.partition, None, "in a new batch" if stored.new_batch else "in the batch that waits")
        return choice, state

    def _work_until(self, state: BatchingMemory, now: int) -> BatchingMemory:
        """Do what the sender does until ``now``, whenever it is to look again or a broker answers."""
        while True:
            moments = [request.answered for requests in state.under_way.values() for request in requests]
            if state.next_check is not None:
                moments.append(state.next_check)
            if not moments or min(moments) > now:
                return state._replace(now=now)
            state = self._send(state, min(moments))

    def _send(self, state: BatchingMemory, now: int) -> BatchingMemory:
        """Send what is ready to the brokers that can take it, until there is no more (`Sender.sendProducerData`)."""
        queues = state.queues
        under_way = {
            broker: tuple([request for request in requests if request.answered > now])
            for broker, requests in state.under_way.items()
        }
        sent = True
        while sent:
            sent = False
            ready, queues = self.accumulator.find_ready(queues, state.cluster, now)
            for broker in sorted(ready.brokers):
                requests = under_way.get(broker, ())
                can_take = len(requests) < MAX_UNDER_WAY
                queues = self.accumulator.note_latency(queues, broker, now, can_take)
                if not can_take:
                    continue
                drained, queues = self.accumulator.drain(queues, state.cluster, broker)
                sent = sent or bool(drained)
                answered = now + self._round_trip(broker)
                if drained and answered > now:
                    size = sum([taken.batch.limit for taken in drained])
                    under_way[broker] = (*requests, ProduceRequest(answered, size))
        return BatchingMemory(queues, state.cluster, under_way, now, ready.next_check)

    def _round_trip(self, broker: str) -> int:
        times = dict(self.round_trips)
        return times.get(broker, times.get(EVERY_BROKER, 0))


KEYED: Final = Keyed(BuiltIn())


def _check_memory(state: BatchingMemory) -> None:
    waiting = sum(
        batch.limit
        for _, batches in state.queues.topics.values()
        for queue in batches.values()
        for batch in queue
    )  # fmt: skip
    if waiting + sum(request.size for requests in state.under_way.values() for request in requests) > BUFFER_MEMORY:
        raise InputError(
            f"the producer's buffer.memory of {BUFFER_MEMORY:,} bytes is full: send() would wait until brokers answer"
        )


def build_producer(
    batch_size: int = 16_384,
    linger_ms: int = 5,
    adaptive: bool = True,
    availability_timeout_ms: int = 0,
    rack: str | None = None,
    ignore_keys: bool = False,
    round_trip_ms: tuple[tuple[str, int], ...] = (),
) -> Partitioner:
    """Build the producer from its settings. Raises InputError for values that Kafka refuses."""
    for name, number in (
        ("batch_size", batch_size), ("linger_ms", linger_ms), ("availability_timeout_ms", availability_timeout_ms),
    ):  # fmt: skip
        if not 0 <= number < 1 << 31:
            raise InputError(f"{name} is from 0 to 2147483647, not {number}")
    accumulator = Accumulator(batch_size, linger_ms, adaptive, availability_timeout_ms, rack)
    return BatchingProducer(accumulator, ignore_keys, round_trip_ms)


TIMES: Final = re.compile(r"(?:[^:,]+:)?[0-9]{1,9}(?:,[^:,]+:[0-9]{1,9})*")


def _parse_times(text: str) -> tuple[tuple[str, int], ...]:
    """Parse ``20``, or ``b1:5,b2:400``, or ``20,b2:400``: milliseconds, of all brokers and of single ones."""
    if not TIMES.fullmatch(text):
        raise ValueError("milliseconds: 20, or by broker: b1:5,b2:400, or both: 20,b2:400")
    pairs = [item.rpartition(":") for item in text.split(",")]
    return tuple([(broker, int(time)) for broker, _, time in pairs])


STRATEGIES: Final = (
    Strategy(
        "kafka.accumulator", build_producer,
        "kafka-clients 3.9-4.4: KafkaProducer's default partitioner with its batches and sender, without compression",
        "a key goes to one partition, that of kafka.murmur2; without one, the partition follows from sizes and times",
        "with other counts most keys move; a real sender races with the program's threads",
        parameters={
            **BUILT_IN, "linger_ms": int, "availability_timeout_ms": int, "rack": str, "round_trip_ms": _parse_times,
        },
    ),
)  # fmt: skip
