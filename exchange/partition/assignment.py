"""The assignment of partitions to the members of a consumer group: even, and sticky.

It has the properties of Kafka's sticky assignors (`org.apache.kafka.clients.consumer.StickyAssignor`): the members'
numbers of partitions differ by one at most, and of all such assignments it is one that moves the fewest partitions. A
member that joins takes its share from those that have most; the share of one that leaves is divided among the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from exchange.errors import InputError

__all__ = ["assign_sticky", "count_moves"]

Assignment = Mapping[str, tuple[int, ...]]
"""Member -> its partitions, in order."""


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
