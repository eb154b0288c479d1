"""Which queues each consumer of a RocketMQ group reads: the allocation that every one of them computes for itself.

There is no coordinator. Each consumer sorts the queues and the client ids it knows of and applies the same strategy, so
that queues are read once when all know the same and have the same strategy, and are not or twice while they do not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import md5
from typing import ClassVar, TypeVar

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.message_queue import MessageQueue
from exchange.partition.clients.rocketmq.queues import broker_name
from exchange.partition.clients.rocketmq.round_robin import era_of
from exchange.partition.hashing.java import code_units
from exchange.partition.partitions import Partition

__all__ = [
    "Allocation", "Averagely", "AveragelyByCircle", "ByConfig", "ByMachineRoom", "ConsistentHash", "MachineRoomNearby",
    "rebalance",
]  # fmt: skip

Item = TypeVar("Item")


def rebalance(
    allocation: Allocation, topic: str, queues: Iterable[Partition], clients: Iterable[str]
) -> dict[str, tuple[Partition, ...]]:
    """What each client of the group reads when all of them know these queues and clients.

    Sorted first, as `RebalanceImpl.rebalanceByTopic` does it: queues by broker name and queueId, names by UTF-16 code
    units. Raises InputError where the strategy throws; the Java consumer logs that and keeps the queues it has.
    """
    in_order = sorted(queues, key=lambda queue: MessageQueue.of(queue).order)
    ids = sorted(clients, key=code_units)
    return {client: allocation.allocate(topic, client, in_order, ids) for client in ids}


class Allocation:
    """A strategy (`org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy`); subclasses are frozen."""

    name: ClassVar[str]
    """``getName()``."""

    def allocate(
        self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]
    ) -> tuple[Partition, ...]:
        """The queues of one client, both lists in the order given; ids may be there twice, as brokers tell them.

        A client that is not in the list gets none. Raises InputError, with Java's words, where there is no client id,
        no queue or no client.
        """
        if not client:
            raise InputError("currentCID is empty")
        if not queues:
            raise InputError("mqAll is null or mqAll empty")
        if not clients:
            raise InputError("cidAll is null or cidAll empty")
        return self._share(topic, client, queues, clients) if client in clients else ()

    def _share(
        self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]
    ) -> tuple[Partition, ...]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Averagely(Allocation):
    """`AllocateMessageQueueAveragely`, the default: neighbouring queues; the first clients have one more."""

    name = "AVG"

    def _share(
        self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]
    ) -> tuple[Partition, ...]:
        index = clients.index(client)
        size, more = divmod(len(queues), len(clients))
        start = index * size + min(index, more)
        return tuple(queues[start : start + size + (index < more)])


@dataclass(frozen=True, slots=True)
class AveragelyByCircle(Allocation):
    """`AllocateMessageQueueAveragelyByCircle`: as cards are dealt."""

    name = "AVG_BY_CIRCLE"

    def _share(
        self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]
    ) -> tuple[Partition, ...]:
        return tuple(queues[clients.index(client) :: len(clients)])


@dataclass(frozen=True, slots=True)
class ConsistentHash(Allocation):
    """`AllocateMessageQueueConsistentHash` with its own hash, the first 32 bits of MD5.

    When a client comes or goes only the queues next to its points on the ring change hands. 4.x hashes the bytes of the
    platform's charset, here UTF-8 as of 5.0.
    """

    name = "CONSISTENT_HASH"

    virtual_nodes: int = 10
    """Points of each client on the ring; with 0 no queue is read."""

    def __post_init__(self) -> None:
        if self.virtual_nodes < 0:
            raise InputError(f"illegal virtualNodeCnt :{self.virtual_nodes}")

    def _share(
        self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]
    ) -> tuple[Partition, ...]:
        points, owners = _ring(tuple(clients), self.virtual_nodes)
        if not points:
            return ()
        return tuple([
            queue
            for queue in queues
            if owners[bisect_left(points, _hash(MessageQueue.of(queue).text(topic))) % len(points)] == client
        ])  # fmt: skip


@lru_cache(maxsize=16)
def _ring(clients: tuple[str, ...], virtual_nodes: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The points in order and whose each is; of two clients on one point the later (`ConsistentHashRouter`)."""
    ring: dict[int, str] = {}
    for place, client in enumerate(clients):
        # A client listed again has more points.
        there = sum(owner == client for owner in ring.values()) if client in clients[:place] else 0
        ring |= {_hash(f"{client}-{number}"): client for number in range(there, there + virtual_nodes)}
    points = sorted(ring)
    return tuple(points), tuple([ring[point] for point in points])


def _hash(text: str) -> int:
    return int.from_bytes(md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()[:4], "big")


@dataclass(frozen=True, slots=True)
class ByMachineRoom(Allocation):
    """`AllocateMessageQueueByMachineRoom`: the queues of brokers called ``room@...`` of these rooms, averagely.

    Its extra queues are dealt from the end of the list.
    """

    name = "MACHINE_ROOM"

    rooms: frozenset[str]
    """``consumeridcs``."""
    version: str = "5.0"
    """The client's; up to 4.9.3 empty lists and ids are no error, but give no queue."""
    faithful: bool = False
    """With the bug of 4.0-4.7.1 (apache/rocketmq#2477): whole shares are taken from the queues of all rooms."""

    def __post_init__(self) -> None:
        era_of(self.version)

    def allocate(
        self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]
    ) -> tuple[Partition, ...]:
        if self._is_before(4, 9, 4):
            return self._share(topic, client, queues, clients) if client in clients else ()
        return super(ByMachineRoom, self).allocate(topic, client, queues, clients)

    def _share(
        self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]
    ) -> tuple[Partition, ...]:
        near = [queue for queue in queues if self._is_near(broker_name(queue))]
        index = clients.index(client)
        size, more = divmod(len(near), len(clients))
        share = (queues if self.faithful and self._is_before(4, 8) else near)[index * size : (index + 1) * size]
        extra = [near[size * len(clients) + index]] if index < more else []
        return (*share, *extra)

    def _is_before(self, *version: int) -> bool:
        return tuple(map(int, self.version.split("."))) < version

    def _is_near(self, broker: str) -> bool:
        room, *rest = broker.rstrip("@").split("@")  # Java's split leaves empty texts at the end out
        return len(rest) == 1 and room in self.rooms


@dataclass(frozen=True, slots=True)
class ByConfig(Allocation):
    """`AllocateMessageQueueByConfig`: the queues that were configured, whatever there is."""

    name = "CONFIG"

    queues: tuple[Partition, ...]

    def allocate(
        self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]
    ) -> tuple[Partition, ...]:
        return self.queues


@dataclass(frozen=True, slots=True)
class MachineRoomNearby(Allocation):
    """`AllocateMachineRoomNearby`: queues go to clients of their room, to all where it has none."""

    allocation: Allocation
    """Of the queues among those clients."""
    room_of_queue: Callable[[Partition], str | None]
    """``MachineRoomResolver.brokerDeployIn``."""
    room_of_client: Callable[[str], str | None]
    """``MachineRoomResolver.consumerDeployIn``."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """``MACHINE_ROOM_NEARBY-`` and the name of the other strategy."""
        return f"MACHINE_ROOM_NEARBY-{self.allocation.name}"

    def _share(
        self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]
    ) -> tuple[Partition, ...]:
        queues_in = _by_room(queues, self.room_of_queue, lambda queue: f"mq {MessageQueue.of(queue).text(topic)}")
        clients_in = _by_room(clients, self.room_of_client, lambda other: f"consumer id {other}")
        here = self.room_of_client(client) or ""
        rooms = [here] if here in queues_in else []
        rooms += [room for room in sorted(queues_in, key=code_units) if room not in clients_in]
        shares = [
            self.allocation.allocate(topic, client, queues_in[room], clients_in.get(room, clients)) for room in rooms
        ]
        return tuple([queue for share in shares for queue in share])


def _by_room(
    items: Iterable[Item], room_of: Callable[[Item], str | None], shown: Callable[[Item], str]
) -> Mapping[str, list[Item]]:
    rooms: dict[str, list[Item]] = {}
    for item in items:
        room = room_of(item)
        if not room:
            raise InputError(f"Machine room is null for {shown(item)}")
        rooms.setdefault(room, []).append(item)
    return rooms
