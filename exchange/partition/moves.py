"""Find out which keys move when the partitions, the brokers or the partitioner change.

Messages are counted by key. All results are derived from these counts and two distributions, before and after the
change. A message whose key does not decide its partition neither moves nor stays, and is counted apart. Two partitions
are the same if their names are equal, even if their leaders differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from exchange.errors import InputError
from exchange.partition.partitioner import Partitioner
from exchange.partition.partitions import Partitions
from exchange.values.field_values import resolve_type


class Distribution(NamedTuple):
    """A partitioner and the partitions it chooses from."""

    partitioner: Partitioner
    partitions: Partitions

    def name_for(self, key: Any) -> str | None:
        """Return the name of the key's partition, None if the key does not decide it.

        Raises InputError for a key that the client cannot take.
        """
        partition = self.partitioner.partition_of(key, self.partitions)
        return None if partition is None else self.partitions[partition].name


class KeyCounts:
    """Number of messages by key; 1, 1.0, True and "1" are different keys."""

    def __init__(self) -> None:
        self._counts: dict[Any, int] = {}
        self._keys: dict[Any, Any] = {}

    def add(self, key: Any, messages: int = 1) -> None:
        """Add ``messages`` to the count of a key."""
        same = key if type(key) is str or type(key) is bytes else resolve_type(key)
        count = self._counts.get(same)
        if count is None:
            self._counts[same] = messages
            self._keys[same] = key
        else:
            self._counts[same] = count + messages

    def items(self) -> list[tuple[Any, int]]:
        """Return each key with its number of messages."""
        return [(self._keys[same], count) for same, count in self._counts.items()]

    def __len__(self) -> int:
        return len(self._counts)


@dataclass(frozen=True, slots=True)
class MessageDistribution:
    """The distribution of messages to partitions, and how even it is."""

    messages: Mapping[str, int]
    """Partition name -> number of messages, in the partitions' order, empty ones included."""
    hottest_key: Any
    """Key with the most messages."""
    hottest_messages: int

    @property
    def ratio(self) -> float | None:
        """Messages of the fullest partition, divided by the mean: 1.0 is even. None without a message."""
        total = sum(self.messages.values())
        return max(self.messages.values()) * len(self.messages) / total if total else None

    @property
    def empty(self) -> int:
        """Number of partitions without a message."""
        return sum(not count for count in self.messages.values())


@dataclass(frozen=True, slots=True)
class Moves:
    """The difference between two distributions, for the counted messages."""

    keys: int
    messages: int
    keys_moved: int
    messages_moved: int
    keys_at_risk: int
    """Number of moving keys with more than one message: their order is at risk until the old partition is drained."""
    keys_scattered: int
    """Number of keys with more than one message that decide their partition before, and not after: nothing keeps their
    messages in order any more."""
    messages_undecided: int
    """Number of messages whose key does not decide the partition, before or after."""
    refused: str
    """Error of the first key that a client cannot take; empty if they take all."""
    flows: Mapping[tuple[str, str], int]
    """(Old partition, new partition) -> number of messages that move."""
    before: MessageDistribution
    after: MessageDistribution


def compare_distributions(counts: KeyCounts, before: Distribution, after: Distribution) -> Moves:
    """Return what moves for these messages when ``after`` replaces ``before``."""
    in_before = dict.fromkeys([partition.name for partition in before.partitions], 0)
    in_after = dict.fromkeys([partition.name for partition in after.partitions], 0)
    keys_moved = keys_at_risk = keys_scattered = messages = undecided = 0
    refused = ""
    flows: Counter[tuple[str, str]] = Counter()
    hottest: tuple[Any, int] = (None, 0)
    for key, count in counts.items():
        messages += count
        try:
            old, new = before.name_for(key), after.name_for(key)
        except InputError as error:
            old = new = None
            refused = refused or str(error)
        if old is None or new is None:
            undecided += count
            keys_scattered += old is not None and count > 1
            continue
        if count > hottest[1]:
            hottest = (key, count)
        in_before[old] += count
        in_after[new] += count
        if old != new:
            keys_moved += 1
            keys_at_risk += count > 1
            flows[old, new] += count
    return Moves(
        keys=len(counts),
        messages=messages,
        keys_moved=keys_moved,
        messages_moved=flows.total(),
        keys_at_risk=keys_at_risk,
        keys_scattered=keys_scattered,
        messages_undecided=undecided,
        refused=refused,
        flows=flows,
        before=MessageDistribution(in_before, *hottest),
        after=MessageDistribution(in_after, *hottest),
    )
