"""Partitions chosen by functions of the bridge's owner: ``python:package.module:function``.

The router knows such a partitioner by its name only. The pump asks it once for each message that it routes, with what
the target knows of its partitions at that moment, and with a memory for each queue of the topology.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bridge.endpoint import Target
from exchange.message import Message
from exchange.partition.partitioner import Partitioner, Producer
from exchange.routing.route import Placement

__all__ = ["Placing"]


class Placing:
    """Chooses partitions; ``partitioners`` maps queues of the topology to those of the owner.

    ``random`` returns numbers in [0, 1), ``clock`` seconds of a monotonic clock.
    """

    def __init__(
        self, partitioners: Mapping[str, Partitioner], random: Callable[[], float], clock: Callable[[], float]
    ) -> None:
        self._producers: Final = {
            queue: Producer(partitioner, lambda n: int(random() * n), lambda: int(clock() * 1_000))
            for queue, partitioner in partitioners.items()
        }

    def __contains__(self, queue: object) -> bool:
        return queue in self._producers

    def __bool__(self) -> bool:
        return bool(self._producers)

    def place(self, message: Message, placement: Placement, target: Target) -> Placement:
        """Return the placement with the partition that the queue's partitioner chooses.

        Raises InputError, with the partitioner's name, if it fails.
        """
        topic, key, partitions = target.view_for(message, placement)
        choice = self._producers[placement.queue].choose(topic, key, partitions, message.body)
        name = None if choice.partition is None else partitions[choice.partition].name
        return placement._replace(partition=choice.partition, name=name, hash=choice.hash, rule=choice.rule)
