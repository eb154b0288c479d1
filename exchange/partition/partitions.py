"""The partitions of one destination, as a producer knows them at one moment.

Their order is that of the cluster's metadata (Kafka), the publish queue list (RocketMQ) or the exchange's bindings
(super streams). It is part of the value, since round-robin strategies follow it. Ids are unique, and so are names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from exchange.limits import PARTITIONS


class Broker(NamedTuple):
    """A server that leads partitions."""

    name: str
    """Name of the broker in RocketMQ, node id as text in Kafka."""
    host: str = ""
    rack: str | None = None


ANY_BROKER: Final = Broker("")
"""The leader of a partition that is known to have one, but not which one."""


class Partition(NamedTuple):
    """One partition of a destination."""

    id: int
    """Partition number in Kafka; position in RocketMQ's publish queue list, or among the streams of a super stream."""
    leader: Broker | None = ANY_BROKER
    """The leader; None while there is none: then Kafka's producers call the partition unavailable."""
    name: str = ""
    """Name in its system: ``3``, ``broker-a:1`` (broker name and queue id), the name of a stream."""


class Partitions:
    """An immutable sequence of partitions.

    >>> Partitions.from_count(12).count
    12
    """

    __slots__ = ("_by_id", "all", "available", "count")

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self.all: Final = tuple([p if p.name else p._replace(name=str(p.id)) for p in partitions])
        self.available: Final = tuple([p for p in self.all if p.leader is not None])
        """Partitions with a leader, in the same order."""
        self._by_id: Final[Mapping[int, Partition]] = {p.id: p for p in self.all}
        self.count: Final = _check_count(len(self.all))  # set last: from then on `__getattr__` fills empty slots
        if len(self._by_id) < self.count or len({p.name for p in self.all}) < self.count:
            raise ValueError("two partitions of one destination have the same id or name")

    @classmethod
    def from_count(cls, count: int) -> Partitions:
        """Return the partitions 0 to ``count`` - 1, each with a leader."""
        return _build_numbered(_check_count(count))

    @classmethod
    def queues(cls, brokers: Mapping[str, int]) -> Partitions:
        """Return RocketMQ's queue list, from the number of queues of each broker: ``broker-a:0``, ``broker-a:1`` ..."""
        _check_count(sum(brokers.values()))
        names = [(name, queue_id) for name, count in brokers.items() for queue_id in range(count)]
        return cls([Partition(at, Broker(name), f"{name}:{queue_id}") for at, (name, queue_id) in enumerate(names)])

    @classmethod
    def led_by(cls, brokers: Mapping[Broker, int]) -> Partitions:
        """Return numbered partitions, led in turns by these brokers, as those of a new topic of Kafka.

        ``brokers`` maps each broker to the number of partitions that it leads.
        """
        _check_count(sum(brokers.values()))
        # Sorted, the first turn of all brokers comes before the second turn of any.
        turns = [(turn, at) for at, count in enumerate(brokers.values()) for turn in range(count)]
        names = tuple(brokers)
        return cls([Partition(number, names[at]) for number, (_, at) in enumerate(sorted(turns))])

    @classmethod
    def named(cls, names: Iterable[str]) -> Partitions:
        """Return partitions of these names, numbered in this order: the streams of a super stream."""
        return cls([Partition(at, ANY_BROKER, name) for at, name in enumerate(names)])

    @property
    def is_numbered(self) -> bool:
        """Whether they have no names and leaders of their own, but only numbers."""
        return self == _build_numbered(self.count)

    def without_leader(self, broker: str) -> Partitions:
        """Return the partitions with this broker's without a leader: in Kafka, until another broker leads them."""
        return Partitions([p._replace(leader=None) if p.leader and p.leader.name == broker else p for p in self.all])

    def without_queues(self, broker: str) -> Partitions:
        """Return the list without this broker's queues, numbered again: in RocketMQ, when it lost its master."""
        left = [p for p in self.all if p.leader is None or p.leader.name != broker]
        return Partitions([p._replace(id=at) for at, p in enumerate(left)])

    def __getitem__(self, partition_id: int) -> Partition:
        return self._by_id[partition_id]

    def __contains__(self, partition_id: object) -> bool:
        return partition_id in self._by_id

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.all)

    def __len__(self) -> int:
        return self.count

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partitions):
            return NotImplemented
        return self is other or (self.count == other.count and self.all == other.all)

    def __hash__(self) -> int:
        return hash(self.count)  # so that no partition need be built

    def __getattr__(self, name: str) -> Any:
        # Called for an empty slot. `_of` fills only ``count``; the partitions are built when one of them is read.
        if name not in ("_by_id", "all", "available"):
            raise AttributeError(name)
        built = tuple([Partition(at, ANY_BROKER, str(at)) for at in range(object.__getattribute__(self, "count"))])
        object.__setattr__(self, "all", built)
        object.__setattr__(self, "available", built)
        object.__setattr__(self, "_by_id", {p.id: p for p in built})
        return getattr(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            (Partitions.from_count, (self.count,)) if self is _build_numbered(self.count) else (Partitions, (self.all,))
        )

    def __repr__(self) -> str:
        return f"<Partitions {', '.join([p.name if p.leader else p.name + ' (no leader)' for p in self.all])}>"

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, name):
            raise AttributeError(f"Partitions do not change ({name})")
        object.__setattr__(self, name, value)


@lru_cache(maxsize=64)
def _build_numbered(count: int) -> Partitions:
    partitions = object.__new__(Partitions)
    object.__setattr__(partitions, "count", count)  # all other slots stay empty: see `Partitions.__getattr__`
    return partitions


def _check_count(count: int) -> int:
    """Return a number of partitions. Raises ValueError if there are none, or more than any system has."""
    if count < 1:
        raise ValueError("a destination has at least one partition")
    if count > PARTITIONS:
        raise ValueError(f"a destination has at most {PARTITIONS:,} partitions")
    return count
