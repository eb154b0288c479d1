"""What is told of a strategy beside the code that does it: a row of the table `exchange.partition.STRATEGIES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from exchange.partition.partitioner import Partitioner

__all__ = ["Strategy"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A partitioner one can name: ``kafka.murmur2``."""

    name: str
    make: Callable[..., Partitioner]
    """Its class, or what makes one of it; parameters are keyword arguments."""
    mirrors: str
    """Whose choice it is: client, class and versions."""
    promise: str
    """What a user may rely on."""
    cost: str
    """What it asks for that: what moves, what gets uneven."""
    lists_queues: bool = False
    """Whether its partitions are a queue list of RocketMQ's: a lost broker's queues are not in it.

    Elsewhere partitions have numbers, and those of a lost broker stay where they are, without a leader.
    """
    parameters: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    """Parameter of ``make`` -> what reads its text, raising ValueError: ``kafka.nearest(rack=eu-1)``."""
