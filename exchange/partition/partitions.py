"""The partitions of one destination, as a producer knows them at one moment.

Their order is the one the cluster's metadata (Kafka), the publish queue list (RocketMQ) or the exchange (super streams)
gives, and is part of the value: strategies that go round go round in it. Ids are unique; so are names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

__all__ = ["Broker", "Partition", "Partitions"]


class Broker(NamedTuple):
    """A server that leads partitions."""

    name: str
    """RocketMQ's brokerName, Kafka's node id as text."""
    host: str = ""
    rack: str | None = None


ANY_BROKER: Final = Broker("")
"""The leader of a partition of which nothing more is known than that it has one."""


class Partition(NamedTuple):
    """One partition of a destination."""

    id: int
    """Kafka's partition number; in RocketMQ the position in the publish queue list, in a super stream likewise."""
    leader: Broker | None = ANY_BROKER
    """None while it has none: Kafka's producers call it unavailable."""
    name: str = ""
    """What its system calls it: ``3``, ``broker-a:1`` (brokerName and queueId), the name of a stream."""


class Partitions:
    """An immutable sequence of partitions.

    >>> Partitions.of(12).count
    12
    """

    __slots__ = ("_by_id", "all", "available", "count")

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self.all: Final = tuple([p if p.name else p._replace(name=str(p.id)) for p in partitions])
        self.available: Final = tuple([p for p in self.all if p.leader is not None])
        """Those with a leader, in the same order."""
        self.count: Final = len(self.all)
        self._by_id: Final[Mapping[int, Partition]] = {p.id: p for p in self.all}
        if not self.all:
            raise ValueError("a destination has at least one partition")
        if len(self._by_id) < self.count or len({p.name for p in self.all}) < self.count:
            raise ValueError("two partitions of one destination have the same id or name")

    @classmethod
    def of(cls, count: int) -> Partitions:
        """Partitions 0 to ``count`` - 1, each with a leader."""
        if count < 1:
            raise ValueError("a destination has at least one partition")
        return _of(count)

    @classmethod
    def on(cls, brokers: Mapping[str, int]) -> Partitions:
        """So many partitions on each of these brokers, named ``broker:0``, ``broker:1`` ..., in the order given."""
        queues = [(name, queue_id) for name, count in brokers.items() for queue_id in range(count)]
        return cls([Partition(at, Broker(name), f"{name}:{queue_id}") for at, (name, queue_id) in enumerate(queues)])

    @classmethod
    def named(cls, names: Iterable[str]) -> Partitions:
        """Partitions with these names, numbered in this order: the streams of a super stream."""
        return cls([Partition(at, ANY_BROKER, name) for at, name in enumerate(names)])

    def __getitem__(self, partition_id: int) -> Partition:
        return self._by_id[partition_id]

    def __contains__(self, partition_id: object) -> bool:
        return partition_id in self._by_id

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.all)

    def __len__(self) -> int:
        return self.count

    def __eq__(self, other: object) -> bool:
        return self.all == other.all if isinstance(other, Partitions) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.all)

    def __repr__(self) -> str:
        return f"<Partitions {', '.join([p.name if p.leader else p.name + ' (no leader)' for p in self.all])}>"

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, name):
            raise AttributeError(f"Partitions do not change ({name})")
        object.__setattr__(self, name, value)


@lru_cache(maxsize=64)
def _of(count: int) -> Partitions:
    return Partitions([Partition(at) for at in range(count)])
