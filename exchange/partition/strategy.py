"""The description of a strategy, apart from its code: a row of the table of strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from exchange.partition.partitioner import Partitioner

__all__ = ["Strategy"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A named strategy, such as ``kafka.murmur2``."""

    name: str
    make: Callable[..., Partitioner]
    """Class of the partitioner, or a function that makes one; parameters are keyword arguments."""
    mirrors: str
    """Client, class and versions whose choice it mirrors."""
    promise: str
    """What a user may rely on."""
    cost: str
    """Price of the promise: what moves, what becomes uneven."""
    lists_queues: bool = False
    """Whether its partitions are a queue list of RocketMQ, from which the queues of a lost broker disappear.

    Elsewhere partitions have numbers, and those of a lost broker remain, without a leader.
    """
    parameters: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    """Parameter of ``make`` -> function that parses its text, raising ValueError: ``kafka.nearest(rack=eu-1)``."""
