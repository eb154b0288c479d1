"""Small models of the systems that messages are read from: a queue with redeliveries, and a log with partitions.

A broker outlives its clients: a `ModelSource` is one client, from the start of a bridge to its end.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Hashable, Sequence
from math import inf
from typing import Any, Final

from bridge.endpoint import Delivery, Disconnected, EndOfStream, Source
from exchange.errors import InputError
from tests.simulation.plan import Fault
from tests.simulation.world import World
from tests.support.virtual_loop import pass_time

ACK_SECONDS: Final = 0.05
"""Maximum number of seconds until an acknowledgement, or commit, has reached its broker."""
NEXT: Final = "break next settling"
"""The fault that the next settling fails, whenever that is: most faults are over before anything is settled."""
INTERRUPTED: Final = 0.1
"""Seconds within which a read is called off that waits while its source cannot settle."""


class Client:
    """What sources and targets have in common: faults that last for a time, and the end of their process."""

    name: str
    world: World
    endpoint: Any
    """The source or target that is watched; of a model, itself."""

    def __init__(self) -> None:
        self.until: dict[str, float] = {}
        """Fault -> time until which it lasts."""
        self.numbers: dict[str, int] = {}
        self.is_dead = False
        """Whether its process was killed: nothing it does reaches its system."""
        self.news = asyncio.Event()

    def take_over(self, before: Client | None) -> None:
        """Take the place of a client of the same system, whose faults last, as a pump begins that has this one."""
        if before is not None:
            self.until, self.numbers = before.until, before.numbers
            if self.has("mute"):
                self.until["mute"] = 0.0

    def has(self, fault: str) -> bool:
        """Return whether a fault lasts."""
        return fault in self.until and not self.world.well and self.until[fault] > self.world.now

    def strike(self, fault: Fault) -> None:
        """Begin a fault."""
        loop, now = asyncio.get_running_loop(), self.world.now
        self.until[fault.what] = max(self.until.get(fault.what, 0.0), now + fault.seconds)
        self.numbers[fault.what] = fault.number
        self.news.set()
        loop.call_later(fault.seconds, self.news.set)
        if fault.what in ("lose", "down"):
            self.lose()

    def put(self, number: int) -> None:
        """Add a message."""
        raise NotImplementedError

    def note_put(self) -> None:
        """Take note that there are messages which another client, or its end, has put there."""
        self.news.set()

    @property
    def is_empty(self) -> bool:
        """Whether all was acknowledged."""
        return True

    def kill(self) -> None:
        """End its process."""
        raise NotImplementedError

    async def reach(self) -> None:
        """Reach the system, for as long as that takes. Raises Disconnected, InputError."""
        await pass_time(self.world.delay(0.01))
        while self.has("hang"):
            self.news.clear()
            await self.news.wait()
        if self.has("down"):
            raise Disconnected("not now")
        if self.has("wrong"):
            raise InputError("there is no such place")

    def lose(self) -> None:
        """Lose the connection."""
        raise NotImplementedError


class ModelSource(Client, Source):
    """A source; what its system is, its subclasses decide."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__()
        self.name = name
        self.world = world
        self.endpoint = self
        self.gone: Disconnected | None = None
        self.is_open = False
        self.session = 0
        self.fenced = -1
        """Session whose settling the broker ignores."""
        self.settled: list[Delivery] = []
        """Settled deliveries of which the broker does not know yet."""
        self.broken_at: float | None = None
        self.is_read = False
        """Whether a read is under way."""

    @property
    def lost(self) -> Disconnected | None:
        return self.gone

    @abstractmethod
    def begin(self) -> None:
        """Begin a session."""

    @abstractmethod
    def fetch(self, limit: int) -> list[tuple[int, Hashable, int]]:
        """Return the next messages: number, lane, and position."""

    @abstractmethod
    def acknowledge(self, delivery: Delivery) -> None:
        """Have the broker take what is settled."""

    @abstractmethod
    def finish(self) -> None:
        """End the session at the broker."""

    async def open(self) -> None:
        await self.reach()
        if self.is_dead:
            raise Disconnected("dead")
        self.session += 1
        self.gone = None
        self.is_open = True
        self.begin()

    async def read(self, limit: int) -> Sequence[Delivery]:
        self.is_read = True
        try:
            return await self._read(limit)
        finally:
            self.is_read = False

    async def _read(self, limit: int) -> Sequence[Delivery]:
        while True:
            if self.gone is not None or self.is_dead:
                raise self.gone or Disconnected("dead")
            taken = [] if self.has("quiet") else self.fetch(limit)
            if taken:
                return [
                    Delivery(
                        self.world.make_message(number), lane, position, f"{self.name}:{number}", size=1 + number % 3
                    )
                    for number, lane, position in taken
                ]
            if self.world.well and self.is_empty:
                raise EndOfStream
            self.news.clear()
            await self.news.wait()

    def settle(self, delivery: Delivery) -> None:
        is_next = self.until.pop(NEXT, 0.0) and not self.world.well
        if is_next or self.has("break settling"):
            self.broken_at = self.world.now
            asyncio.get_running_loop().call_later(INTERRUPTED, self._judge_read, self.session)
            raise ValueError("a mistake")
        if self.is_dead or self.gone is not None or not self.is_open:
            return
        self.settled.append(delivery)
        asyncio.get_running_loop().call_later(self.world.delay(ACK_SECONDS), self._reach_broker, self.session)

    def _reach_broker(self, session: int) -> None:
        if session == self.session and self.settled and not self.is_dead and self.fenced != session:
            self.acknowledge(self.settled.pop(0))
            self.news.set()

    def strike(self, fault: Fault) -> None:
        super().strike(fault)
        if fault.what == "break settling":
            self.until[NEXT] = inf

    def lose(self) -> None:
        if self.is_open and self.gone is None:
            self.gone = Disconnected("cut")
            self.settled.clear()
            self.finish()
        self.news.set()

    def kill(self) -> None:
        """End its process."""
        self.lose()
        self.is_dead = True

    def _judge_read(self, session: int) -> None:
        """Judge whether it is read on though it cannot settle: what comes then would only come again."""
        if session == self.session and self.is_read and not self.is_dead:
            self.world.breaks("settling", f"{self.name} cannot settle, and is read on")

    def look(self) -> None:
        """Judge whether it is left when it cannot settle."""
        if self.broken_at is not None and self.world.now - self.broken_at > 1 and not self.is_dead:
            self.world.breaks("settling", f"{self.name} cannot settle since {self.broken_at:.3f}")
            self.broken_at = None

    async def close(self) -> None:
        if self.is_open and self.gone is None and not self.is_dead:
            if self.fenced != self.session:
                for each in self.settled:
                    self.acknowledge(each)
            self.finish()
        self.settled.clear()
        self.is_open, self.broken_at, self.gone = False, None, None
        self.session += 1
        self.news.set()


class Broker:
    """What outlives the clients: of a queue what is ready, of a log its partitions."""

    def __init__(self) -> None:
        self.ready: deque[int] = deque()
        self.partitions: list[list[int]] = [[], []]
        self.committed = [0, 0]
        self.is_stream = False
        """Whether a queue is a stream now."""
        self.clients: list[Any] = []
        """Clients that are connected: they share what is ready, or the partitions."""

    def leave(self, client: Any) -> None:
        """Take note that a client is not connected any more."""
        if client in self.clients:
            self.clients.remove(client)
        for each in self.clients:
            each.note_put()


class QueueSource(ModelSource):
    """A queue: what is not acknowledged when its session ends goes back in its order. One lane for a session.

    It has no prefetch: only the window of the pump bounds what is read.
    """

    takes_back = True

    def __init__(self, name: str, world: World, broker: Broker) -> None:
        super().__init__(name, world)
        self.broker = broker
        self.unacknowledged: deque[tuple[int, int]] = deque()
        """Delivery tags and numbers."""
        self.given = 0

    def put(self, number: int) -> None:
        self.broker.ready.append(number)
        self.news.set()

    def begin(self) -> None:
        self.given = 0
        self.broker.clients.append(self)

    def fetch(self, limit: int) -> list[tuple[int, Hashable, int]]:
        taken: list[tuple[int, Hashable, int]] = []
        for _ in range(min(limit, len(self.broker.ready))):
            self.given += 1
            number = self.broker.ready.popleft()
            self.unacknowledged.append((self.given, number))
            taken.append((number, self.session, self.given))
        return taken

    def acknowledge(self, delivery: Delivery) -> None:
        while delivery.lane == self.session and self.unacknowledged and self.unacknowledged[0][0] <= delivery.position:
            self.unacknowledged.popleft()

    def finish(self) -> None:
        self.broker.ready.extendleft(reversed([number for _, number in self.unacknowledged]))
        self.unacknowledged.clear()
        self.broker.leave(self)

    @property
    def is_empty(self) -> bool:
        return not self.broker.ready and not self.unacknowledged


class Lane:
    """A partition, from its assignment until it is taken away."""

    def __init__(self, partition: int, position: int) -> None:
        self.partition = partition
        self.position = position
        """Offset of the next record that is read."""


class LogSource(ModelSource):
    """A log of two partitions, with committed offsets. Each partition is a lane for as long as it is assigned."""

    def __init__(self, name: str, world: World, broker: Broker) -> None:
        super().__init__(name, world)
        self.broker = broker
        self.lanes: dict[int, Lane] = {}
        self.barrier: list[int] = []
        """Partition -> offset from which on records belong to an open transaction."""

    def put(self, number: int) -> None:
        partition = int(self.world.key_of(number).partition(".")[2]) % 2
        self.broker.partitions[partition].append(number)
        self.news.set()

    def begin(self) -> None:
        self.broker.clients.append(self)
        self._share()

    def _share(self) -> None:
        """Share the partitions among all members anew; what is taken from one begins again at another."""
        members = self.broker.clients
        for partition, at in enumerate(self.broker.committed):
            owner = members[partition % len(members)]
            if partition not in owner.lanes:
                for each in members:
                    each.lanes.pop(partition, None)
                self.world.repeats[self.name] += 1
                owner.lanes[partition] = Lane(partition, at)
                owner.news.set()

    def strike(self, fault: Fault) -> None:
        super().strike(fault)
        if fault.what == "open transaction":
            self.barrier = [len(records) for records in self.broker.partitions]
        elif fault.what == "fence":
            self.fenced = self.session
            asyncio.get_running_loop().call_later(fault.seconds, self.lose)
        elif fault.what == "rebalance" and self.is_open and self.gone is None:
            partition = fault.number % 2
            if self.lanes.pop(partition, None) is not None:  # of several members, the one that has it
                self.world.repeats[self.name] += 1
                asyncio.get_running_loop().call_later(fault.seconds, self._assign, partition, self.session)

    def _assign(self, partition: int, session: int) -> None:
        members = self.broker.clients
        if session == self.session and self in members and partition not in self.lanes and (
            members[partition % len(members)] is self
        ):  # fmt: skip
            self.lanes[partition] = Lane(partition, self.broker.committed[partition])
            self.news.set()

    def fetch(self, limit: int) -> list[tuple[int, Hashable, int]]:
        committed = self.broker.committed
        room = self.world.plan.window - sum(lane.position - committed[at] for at, lane in self.lanes.items())
        taken: list[tuple[int, Hashable, int]] = []
        for partition, lane in self.lanes.items():
            records = self.broker.partitions[partition]
            end = min(len(records), self.barrier[partition]) if self.has("open transaction") else len(records)
            while lane.position < end and len(taken) < min(limit, room):
                taken.append((records[lane.position], lane, lane.position))
                lane.position += 1
        return taken

    def acknowledge(self, delivery: Delivery) -> None:
        lane = delivery.lane
        if isinstance(lane, Lane) and self.lanes.get(lane.partition) is lane:
            self.broker.committed[lane.partition] = max(self.broker.committed[lane.partition], delivery.position + 1)

    def finish(self) -> None:
        self.lanes = {}
        self.broker.leave(self)
        if self.broker.clients:
            self._share()

    @property
    def is_empty(self) -> bool:
        return self.broker.committed == [len(records) for records in self.broker.partitions]
