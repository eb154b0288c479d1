"""Which queues each consumer of a RocketMQ group reads: the allocation that each of them computes for itself.

Where queues are pulled, there is no coordinator. Each consumer sorts the queues and the client ids that it knows, and
applies the same strategy. So each queue is read by exactly one consumer as long as all of them know the same lists and
have the same strategy; else a queue may be read by no consumer, or by two.

Where they are popped, brokers of 5.x compute the assignment (`assign_pop`). A queue may be popped by several members at
once, as the broker hides what one has popped from the others: a slow member delays no queue, and there may be more
members than queues.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import md5
from typing import ClassVar, Final, TypeVar

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import MessageQueue, find_broker_name
from exchange.partition.clients.rocketmq.round_robin import find_era
from exchange.partition.hashing.java import encode_code_units
from exchange.partition.partitions import Partition

Share = tuple[Partition, ...]
"""The queues of one client."""

Item = TypeVar("Item")


def rebalance(
    allocation: Allocation, topic: str, queues: Iterable[Partition], clients: Iterable[str]
) -> dict[str, Share]:
    """Return the queues that each client of the group reads when all of them know these queues and clients.

    Both are sorted first, as by `RebalanceImpl.rebalanceByTopic`: queues by broker name and queueId, names by UTF-16
    code units. Raises InputError where the strategy throws; the Java consumer logs that, and keeps its queues.
    """
    in_order = sorted(queues, key=lambda queue: MessageQueue.from_partition(queue).order)
    ids = sorted(clients, key=encode_code_units)
    return {client: allocation.allocate(topic, client, in_order, ids) for client in ids}


class Allocation:
    """A strategy (`org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy`); subclasses are frozen."""

    name: ClassVar[str]
    """Name of the strategy (``getName()``)."""

    def allocate(self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]) -> Share:
        """Return the queues of one client. Both lists are used in their order; brokers may list an id twice.

        A client that is not in the list gets no queue. Raises InputError, with Java's message, for an empty client id
        or list.
        """
        if not client:
            raise InputError("currentCID is empty")
        if not queues:
            raise InputError("mqAll is null or mqAll empty")
        if not clients:
            raise InputError("cidAll is null or cidAll empty")
        return self._share(topic, client, queues, clients) if client in clients else ()

    def _share(self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]) -> Share:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class AllocateAveragely(Allocation):
    """`AllocateMessageQueueAveragely`, the default: consecutive queues; the first clients may have one more."""

    name = "AVG"

    def _share(self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]) -> Share:
        index = clients.index(client)
        size, more = divmod(len(queues), len(clients))
        start = index * size + min(index, more)
        return tuple(queues[start : start + size + (index < more)])


@dataclass(frozen=True, slots=True)
class AllocateAveragelyByCircle(Allocation):
    """`AllocateMessageQueueAveragelyByCircle`: one queue after the other, clients in turn."""

    name = "AVG_BY_CIRCLE"

    def _share(self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]) -> Share:
        return tuple(queues[clients.index(client) :: len(clients)])


@dataclass(frozen=True, slots=True)
class AllocateConsistentHash(Allocation):
    """`AllocateMessageQueueConsistentHash` with its own hash, the first 32 bits of MD5.

    When a client comes or goes, only the queues next to its points on the ring move. 4.x hashes the bytes of the
    platform's charset, here UTF-8 as in 5.0.
    """

    name = "CONSISTENT_HASH"

    virtual_nodes: int = 10
    """Number of points of each client on the ring; with 0 no queue is read."""

    def __post_init__(self) -> None:
        if self.virtual_nodes < 0:
            raise InputError(f"illegal virtualNodeCnt :{self.virtual_nodes}")

    def _share(self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]) -> Share:
        points, owners = _ring(tuple(clients), self.virtual_nodes)
        if not points:
            return ()
        return tuple([
            queue
            for queue in queues
            for text in (MessageQueue.from_partition(queue).text(topic),)
            if owners[bisect_left(points, _hash(text)) % len(points)] == client
        ])  # fmt: skip


@lru_cache(maxsize=16)
def _ring(clients: tuple[str, ...], virtual_nodes: int) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the points of the ring in order, and the client of each (`ConsistentHashRouter`).

    If two clients have the same point, it belongs to the later one.
    """
    ring: dict[int, str] = {}
    for index, client in enumerate(clients):
        # A client that is listed again gets more points, whose numbers continue.
        first = sum(owner == client for owner in ring.values()) if client in clients[:index] else 0
        ring |= {_hash(f"{client}-{number}"): client for number in range(first, first + virtual_nodes)}
    points = sorted(ring)
    return tuple(points), tuple([ring[point] for point in points])


def _hash(text: str) -> int:
    return int.from_bytes(md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()[:4], "big")


@dataclass(frozen=True, slots=True)
class AllocateByMachineRoom(Allocation):
    """`AllocateMessageQueueByMachineRoom`: the queues of brokers ``room@...`` in these rooms, in equal shares.

    The remaining queues, at the end of the list, go to the first clients.
    """

    name = "MACHINE_ROOM"

    rooms: frozenset[str]
    """``consumeridcs``."""
    version: str = "5.0"
    """Version of the client. Up to 4.9.3, an empty list or id is no error: the client gets no queue."""
    faithful: bool = False
    """Whether it has the bug of 4.0-4.7.1 (apache/rocketmq#2477): the shares are taken from the queues of all rooms."""

    def __post_init__(self) -> None:
        find_era(self.version)

    def allocate(self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]) -> Share:
        if self._is_before(4, 9, 4):
            return self._share(topic, client, queues, clients) if client in clients else ()
        return super(AllocateByMachineRoom, self).allocate(topic, client, queues, clients)

    def _share(self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]) -> Share:
        near = [queue for queue in queues if self._is_near(find_broker_name(queue))]
        index = clients.index(client)
        size, more = divmod(len(near), len(clients))
        share = (queues if self.faithful and self._is_before(4, 8) else near)[index * size : (index + 1) * size]
        extra = [near[size * len(clients) + index]] if index < more else []
        return (*share, *extra)

    def _is_before(self, *version: int) -> bool:
        return tuple(map(int, self.version.split("."))) < version

    def _is_near(self, broker: str) -> bool:
        room, *rest = broker.rstrip("@").split("@")  # Java's split drops empty texts at the end
        return len(rest) == 1 and room in self.rooms


@dataclass(frozen=True, slots=True)
class AllocateByConfig(Allocation):
    """`AllocateMessageQueueByConfig`: the queues that are configured, whether they exist or not."""

    name = "CONFIG"

    queues: tuple[Partition, ...]

    def allocate(self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]) -> Share:
        return self.queues


@dataclass(frozen=True, slots=True)
class AllocateMachineRoomNearby(Allocation):
    """`AllocateMachineRoomNearby`: queues go to the clients in their room, or to all clients if the room has none."""

    allocation: Allocation
    """Strategy for the queues of a room among these clients."""
    room_of_queue: Callable[[Partition], str | None]
    """``MachineRoomResolver.brokerDeployIn``."""
    room_of_client: Callable[[str], str | None]
    """``MachineRoomResolver.consumerDeployIn``."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name ``MACHINE_ROOM_NEARBY-`` with that of the other strategy."""
        return f"MACHINE_ROOM_NEARBY-{self.allocation.name}"

    def _share(self, topic: str, client: str, queues: Sequence[Partition], clients: Sequence[str]) -> Share:
        queues_in = _by_room(
            queues, self.room_of_queue, lambda queue: f"mq {MessageQueue.from_partition(queue).text(topic)}"
        )
        clients_in = _by_room(clients, self.room_of_client, lambda other: f"consumer id {other}")
        own_room = self.room_of_client(client) or ""
        rooms = [own_room] if own_room in queues_in else []
        rooms += [room for room in sorted(queues_in, key=encode_code_units) if room not in clients_in]
        shares = [
            self.allocation.allocate(topic, client, queues_in[room], clients_in.get(room, clients)) for room in rooms
        ]
        return tuple([queue for share in shares for queue in share])


def _by_room(
    items: Iterable[Item], room_of: Callable[[Item], str | None], describe: Callable[[Item], str]
) -> Mapping[str, list[Item]]:
    rooms: dict[str, list[Item]] = {}
    for item in items:
        room = room_of(item)
        if not room:
            raise InputError(f"Machine room is null for {describe(item)}")
        rooms.setdefault(room, []).append(item)
    return rooms


ANY_QUEUE: Final = -1
"""Number that stands for all queues of a topic at a broker."""


def assign_pop(
    allocation: Allocation,
    topic: str,
    client: str,
    queues: Sequence[Partition],
    clients: Sequence[str],
    share_queues: int = 0,
) -> frozenset[MessageQueue]:
    """Return the queues that one client pops (`QueryAssignmentProcessor.allocate4Pop`).

    Both lists are sorted, as for `exchange.partition.clients.rocketmq.allocation.rebalance`. ``share_queues`` is
    ``popShareQueueNum``: 0, or as many as there are other clients, lets each client pop all queues of all brokers. Else
    a client pops its own queues by the allocation, and those of the next ``share_queues`` clients; where there are more
    clients than queues, each pops one. A client that is not in the list gets nothing with a share, everything without.
    Raises InputError where the allocation throws: the broker answers no assignment then.
    """
    if share_queues <= 0 or share_queues >= len(clients) - 1:
        return frozenset([MessageQueue(MessageQueue.from_partition(queue).broker, ANY_QUEUE) for queue in queues])
    if len(clients) > len(queues):
        if not client.strip() or not queues:
            raise InputError("currentCID is empty" if queues else "mqAll is null or mqAll empty")
        if client not in clients:
            return frozenset()
        return frozenset([MessageQueue.from_partition(queues[clients.index(client) % len(queues)])])
    ours = list(allocation.allocate(topic, client, queues, clients))
    if client in clients:
        index = clients.index(client)
        for step in range(1, share_queues + 1):
            ours += allocation.allocate(topic, clients[(index + step) % len(clients)], queues, clients)
    return frozenset(map(MessageQueue.from_partition, ours))
