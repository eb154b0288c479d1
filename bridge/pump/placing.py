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
from exchange.partition.appending import AppendingProducer
from exchange.partition.partitioner import Draw, Partitioner
from exchange.partition.partitioning.key_source import ROUTING_KEY
from exchange.partition.partitions import Partitions
from exchange.routing.route import Placement
from exchange.values.message import Message

__all__ = ["Placing", "KeylessTurns"]

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
    return seen if wanted.count == seen.count and wanted == Partitions.of(wanted.count) else wanted


def _is_keyless(message: Message, placement: Placement) -> bool:
    return not message.routing_key and placement.partitioning.key == ROUTING_KEY and has_null_key(message)
