"""Slots of keys in partitions, and partitions at the members of a group: as little as possible moves with a change.

A key is hashed to one of a fixed number of slots, and each slot is in one partition. With more partitions, slots move
to the new partitions only; with fewer, only the slots of the removed partitions move. So no two partitions that stay
ever exchange keys, and a barrier between old and new partition of each slot keeps the messages of a key in order.

The assignment of partitions to members has the properties of Kafka's sticky assignors
(`org.apache.kafka.clients.consumer.StickyAssignor`): the members' numbers of partitions differ by one at most, and of
all such assignments it is one that moves the fewest partitions. A member that joins takes its share from those that
have most; the share of one that leaves is divided among the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from exchange.errors import InputError
from exchange.limits import SLOTS


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
def find_moved_slots(slots: int, before: int, after: int) -> Mapping[int, tuple[int, int]]:
    """Return the slots that move from ``before`` to ``after`` partitions, each with its old and its new partition.

    Old partitions are never new ones of other slots: see the head of this module. Raises InputError.
    """
    pairs = zip(place_slots(slots, before), place_slots(slots, after), strict=True)
    return MappingProxyType({slot: (old, new) for slot, (old, new) in enumerate(pairs) if old != new})


def assign_sticky(
    partitions: int, members: Iterable[str], previous: Mapping[str, Iterable[int]] | None = None
) -> dict[str, tuple[int, ...]]:
    """Return the partitions of each member, which keeps as many of its previous ones as an even assignment allows.

    It does not depend on the order of ``members``. Partitions and members in ``previous`` that no longer exist are
    ignored; of two members that had the same partition, the first by name keeps it. Raises InputError for a negative
    number.

    >>> assign_sticky(5, ["a", "b"])
    {'a': (0, 2, 4), 'b': (1, 3)}
    >>> assign_sticky(5, ["a", "b", "c"], {"a": (0, 2, 4), "b": (1, 3)})
    {'a': (0, 2), 'b': (1, 3), 'c': (4,)}
    """
    if partitions < 0:
        raise InputError(f"{partitions} partitions: the number is 0 or more")
    names = sorted(set(members))
    if not names:
        return {}
    free = set(range(partitions))
    kept: dict[str, list[int]] = {}
    for name in names:
        mine = sorted(free.intersection((previous or {}).get(name, ())))
        kept[name] = mine
        free.difference_update(mine)
    share, more = divmod(partitions, len(names))
    # One partition more goes to those that have most: any other member would take it from one of these.
    by_size = sorted(names, key=lambda name: -len(kept[name]))
    quota = {name: share + (at < more) for at, name in enumerate(by_size)}
    for name in names:
        free.update(kept[name][quota[name] :])
        del kept[name][quota[name] :]
    # Round robin, so that a first assignment does not give neighbouring partitions to one member.
    waiting = sorted(free, reverse=True)
    while waiting:
        for name in names:
            if waiting and len(kept[name]) < quota[name]:
                kept[name].append(waiting.pop())
    return {name: tuple(sorted(kept[name])) for name in names}


def count_moves(before: Mapping[str, Iterable[int]], after: Mapping[str, Iterable[int]]) -> int:
    """Return the number of partitions that had an owner before and have another one, or none, after."""
    owners = {partition: name for name, mine in after.items() for partition in mine}
    return sum(owners.get(partition) != name for name, mine in before.items() for partition in mine)
