"""Slots between keys and partitions: what moves when the number of partitions changes.

A key is hashed to one of a fixed number of slots, and each slot is in one partition. With more partitions, slots move
to the new partitions only; with fewer, only the slots of the removed partitions move. So no two partitions that stay
ever exchange keys, and a barrier between old and new partition of each slot keeps the messages of a key in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from exchange.errors import InputError
from exchange.limits import SLOTS

__all__ = ["check_slots", "moved_slots", "place_slots"]


def check_slots(slots: int, partitions: int) -> None:
    """Check the number of slots and of partitions. Raises InputError."""
    if not 1 <= slots <= SLOTS:
        raise InputError(f"{slots:,} slots: there are 1 to {SLOTS:,}")
    if not 1 <= partitions <= slots:
        raise InputError(f"{partitions:,} partitions for {slots:,} slots: there are 1 to {slots:,}")


@lru_cache(maxsize=64)
def place_slots(slots: int, partitions: int) -> tuple[int, ...]:
    """Return the partition of each slot; the partitions' numbers of slots differ by one at most. Raises InputError.

    The result depends on the two numbers only, not on earlier resizes. From each number of partitions to the next one,
    the new partition takes slots from those that have most.

    >>> place_slots(8, 2)
    (0, 0, 0, 0, 1, 1, 1, 1)
    >>> place_slots(8, 3)
    (0, 0, 0, 2, 1, 1, 1, 2)
    """
    check_slots(slots, partitions)
    placed = [list(range(slots))]
    for number in range(1, partitions):
        taken = []
        for _ in range(slots // (number + 1)):
            fullest = max(placed, key=len)  # the first of several, so that each process gets the same result
            taken.append(fullest.pop())
        placed.append(sorted(taken))
    partition_of = {slot: number for number, members in enumerate(placed) for slot in members}
    return tuple([partition_of[slot] for slot in range(slots)])


@lru_cache(maxsize=64)
def moved_slots(slots: int, before: int, after: int) -> Mapping[int, tuple[int, int]]:
    """Return the slots that move from ``before`` to ``after`` partitions, each with its old and its new partition.

    Old partitions are never new ones of other slots: see the head of this module. Raises InputError.
    """
    pairs = zip(place_slots(slots, before), place_slots(slots, after), strict=True)
    return MappingProxyType({slot: (old, new) for slot, (old, new) in enumerate(pairs) if old != new})
