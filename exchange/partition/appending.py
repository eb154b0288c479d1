"""A producer of which only records are asked: it supplies the events of the batches that they fill itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from exchange.partition.clients.kafka_batches import Batch, BatchedRecord
from exchange.partition.hashing.keys import serialize_key
from exchange.partition.partitioner import Appended, Choice, Draw, Key, NewBatch, Partitioner, Producer
from exchange.partition.partitions import Partitions

__all__ = ["AppendingProducer"]

BATCH_SIZE: Final = 16_384
"""Kafka's default of ``batch.size``, in bytes."""


class AppendingProducer(Producer):
    """A producer whose batches are sent when they are full, and not before.

    Strategies such as Kafka's sticky ones stay at a partition until a batch there is full. `append` chooses as
    `choose`, and then reports to the strategy what the record does to the batch of its partition; with other strategies
    it is `choose`. Sizes are those of key and value, as in Kafka's message format 2.
    """

    def __init__(self, partitioner: Partitioner, draw: Draw, clock: Callable[[], int] = lambda: 0) -> None:
        super().__init__(partitioner, draw, clock)
        self._takes_events: Final = type(partitioner).after is not Partitioner.after
        self._batches: Final[dict[tuple[str, int], Batch]] = {}

    def append(self, topic: str, key: Key, partitions: Partitions, value: Any = None) -> Choice:
        """Return the choice for the next record of this topic. Raises InputError as `Partitioner.choose`."""
        choice = self.choose(topic, key, partitions, value)
        partition = choice.partition
        if not self._takes_events or partition is None:
            return choice
        key_bytes, value_bytes = serialize_key(key), serialize_key(value)
        record = BatchedRecord(
            None if key_bytes is None else len(key_bytes), None if value_bytes is None else len(value_bytes), 0
        )
        before, grown = self._grow(topic, partition, record)
        if grown is None and self._changes_memory(topic, NewBatch(partition), partitions):
            choice = self.choose(topic, key, partitions, value)  # as Kafka's producers ask again
            partition = partition if choice.partition is None else choice.partition
            before, grown = self._grow(topic, partition, record)
        if grown is None:
            grown, before = Batch.begin(record, BATCH_SIZE, 0), 0
        self._batches[topic, partition] = grown
        self.handle(topic, Appended(grown.size - before), partitions)
        return choice

    def _grow(self, topic: str, partition: int, record: BatchedRecord) -> tuple[int, Batch | None]:
        """Return the size of a partition's batch, and the batch with the record; None if it has no room."""
        batch = self._batches.get((topic, partition))
        return (0, None) if batch is None else (batch.size, batch.append(record))

    def _changes_memory(self, topic: str, event: NewBatch, partitions: Partitions) -> bool:
        name = self._memory_name(topic)
        before = self._memories[name]
        self.handle(topic, event, partitions)
        return bool(self._memories[name] != before)
