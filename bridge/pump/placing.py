"""Partitions that more than the key of a message decides: the turns of a client, chance, the owner's function.

The router has no memory. It knows the partition where the key decides it, and else only the rule. So the pump has the
producers: it asks one, once for each copy that it routes, with what the target knows of its partitions at that moment.
Queues of one target with the same strategy share a producer, which has a memory for each topic, as in the clients that
the strategies mirror. So what is written is what `exchange.partition` predicts from the same memory, however many
copies a message has, and whichever targets the others go to.

A record of Kafka without a key has the routing key "" in AMQP, which is a key to most strategies. Here it has no key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import randrange
from typing import Any, Final

from bridge.endpoint import Outgoing, Target
from bridge.interop.kafka_guest import has_null_key
from exchange.errors import InputError
from exchange.partition.clients.kafka_batches import Batch, BatchedRecord
from exchange.partition.hashing.keys import serialize_key
from exchange.partition.partitioner import Appended, Choice, Draw, Key, NewBatch, Partitioner, Producer
from exchange.partition.partitioning.key_source import ROUTING_KEY
from exchange.partition.partitions import Partitions
from exchange.routing.route import Placement
from exchange.values.message import Message

STREAMS: Final = "rabbitmq."
"""Prefix of the strategies by which RabbitMQ and its clients choose: they hash the routing key, also an empty one."""


class Placing:
    """Chooses partitions; ``partitioners`` maps queues of the topology to those of the owner.

    The router knows such a partitioner, ``python:package.module:function``, by its name only. ``random`` returns
    numbers in [0, 1), ``clock`` seconds of a monotonic clock.
    """

    def __init__(
        self, partitioners: Mapping[str, Partitioner], random: Callable[[], float], clock: Callable[[], float]
    ) -> None:
        self._own: Final = partitioners
        self._random: Final = random
        self._clock: Final = clock
        self._producers: Final[dict[str, AppendingProducer]] = {}
        """Queue of the topology -> its producer."""
        self._of_targets: Final[dict[Target, list[AppendingProducer]]] = {}

    def is_open(self, message: Message, placement: Placement) -> bool:
        """Return whether more than the key decides the partition of a message, so that `place` is to be asked."""
        return (
            placement.partition is None
            or placement.queue in self._own
            or placement.partitioning.partitioner.reads_record
            or _is_keyless(message, placement)
        )

    def place(self, message: Message, placement: Placement, target: Target) -> Placement:
        """Return the placement with the partition that the queue's partitioner chooses.

        If a partitioner of the owner fails, raises InputError with its name. Where another one has no choice for the
        key, as where Java's client throws, the placement has no partition: the target takes any, in turns.
        """
        queue, partitioning = placement.queue, placement.partitioning
        own = self._own.get(queue)
        topic, key, seen = target.view_for(message, placement)
        partitions = seen if own is not None else _as_seen(partitioning.partitions, seen)
        if _is_keyless(message, placement):
            if partitioning.strategy.startswith(STREAMS):
                return placement
            key = None
        try:
            choice = self._producer(queue, own or partitioning.partitioner, target).append(
                topic, key, partitions, message.body
            )
        except InputError:
            if own is not None:
                raise
            return placement._replace(partition=None, name=None)
        name = None if choice.partition is None else partitions[choice.partition].name
        return placement._replace(partition=choice.partition, name=name, hash=choice.hash, rule=choice.rule)

    def _producer(self, queue: str, partitioner: Partitioner, target: Target) -> AppendingProducer:
        producer = self._producers.get(queue)
        if producer is None:
            known = self._of_targets.setdefault(target, [])
            producer = next((each for each in known if each.partitioner == partitioner), None)
            if producer is None:
                random, clock = self._random, self._clock
                producer = AppendingProducer(partitioner, lambda n: int(random() * n), lambda: int(clock() * 1_000))
                known.append(producer)
            self._producers[queue] = producer
        return producer


class KeylessTurns:
    """The partitions of messages that neither the topology nor a key places: the memory of a target, by topic.

    It outlives the target's connections. ``partitioner`` is what the system's own client does without a key; ``draw``
    is as for `exchange.partition.partitioner.Producer`.
    """

    def __init__(self, partitioner: Partitioner, draw: Draw = randrange) -> None:
        self._producer: Final = AppendingProducer(partitioner, draw)

    def place(self, outgoing: Outgoing, topic: str, partitions: Partitions, value: Any = None) -> int:
        """Return the partition of a message: for another try the same one, as long as it exists."""
        turn = outgoing.turn
        if turn is None or turn not in partitions:
            turn = outgoing.turn = self._producer.append(topic, None, partitions, value).partition
        return turn or 0


def _as_seen(wanted: Partitions, seen: Partitions) -> Partitions:
    """Return the partitions as the system has them, with their leaders, where the topology only has their number."""
    return seen if wanted.count == seen.count and wanted.is_numbered else wanted


def _is_keyless(message: Message, placement: Placement) -> bool:
    return not message.routing_key and placement.partitioning.key == ROUTING_KEY and has_null_key(message)


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
