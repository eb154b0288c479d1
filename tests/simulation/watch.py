"""Sources and targets, watched where the pump meets them: what passes is judged, whatever the endpoint is.

A model or a real endpoint is inside. When its process was killed, nothing passes any more.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from typing import Any

from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing, Receiver, Source, Target
from exchange.partition.partitions import Partitions
from exchange.routing.route import Placement
from exchange.values.message import Message
from tests.simulation.world import World, number_of


class WatchedSource(Source):
    """A source, watched."""

    def __init__(self, inner: Source, world: World) -> None:
        self.inner = inner
        self.name = inner.name
        self.world = world
        self.is_dead = False
        self._given: dict[Hashable, deque[Delivery]] = defaultdict(deque)
        """Lane -> deliveries that are not settled."""

    @property
    def lost(self) -> Disconnected | None:
        return self.inner.lost

    async def open(self) -> None:
        world = self.world
        needed = {"all", "odd"} | ({"dead"} if world.plan.dead_letters else set())
        if not world.open_targets >= needed and not self.is_dead:
            world.breaks("no early delivery", f"{self.name} is opened with {sorted(world.open_targets)}")
        for target, sent in world.under_way.items():
            if not self.is_dead and any(world.source_of(number_of(each)) == self.name for each in sent.values()):
                world.breaks("no early delivery", f"{self.name} is opened while {target} owes it an answer")
        world.repeats[self.name] += 1
        await self.inner.open()

    async def read(self, limit: int) -> Sequence[Delivery]:
        deliveries = await self.inner.read(limit)
        if len(deliveries) > limit:
            self.world.breaks("window", f"{self.name} gives {len(deliveries)} of {limit}")
        for each in deliveries:
            self.world.note_read(each)
            self._given[each.lane].append(each)
        return deliveries

    def settle(self, delivery: Delivery) -> None:
        given = self._given[delivery.lane]
        while given and not self.is_dead:
            number = number_of(given[0])
            if not self.world.is_safe(number):
                self.world.breaks("at least once", f"{self.name} settles {number}, which is not safe")
            if given.popleft() is delivery:
                break
        self.inner.settle(delivery)

    async def stop_taking(self) -> bool:
        return await self.inner.stop_taking()

    async def close(self) -> None:
        if not self.is_dead:
            self.world.note_dropped(self.name)
            self.world.closed.append(self.name)
        self._given.clear()
        await self.inner.close()


class WatchedTarget(Target):
    """A target, watched."""

    def __init__(self, inner: Target, world: World) -> None:
        self.inner = inner
        self.name = inner.name
        self.world = world
        self.is_dead = False

    @property
    def _under_way(self) -> dict[int, Outgoing]:
        return self.world.under_way[self.name]

    def key_of(self, outgoing: Outgoing) -> Hashable:
        return self.inner.key_of(outgoing)

    def view_for(self, message: Message, placement: Placement) -> tuple[str, Any, Partitions]:
        return self.inner.view_for(message, placement)

    async def open(self, receiver: Receiver) -> None:
        await self.inner.open(_Reports(self, receiver))
        if not self.is_dead:
            self.world.open_targets.add(self.name)

    def send(self, messages: Sequence[Outgoing]) -> None:
        world = self.world
        if self.is_dead:
            return
        for each in messages:
            world.note_sent(self.name, each)
            self._under_way[each.number] = each
        try:
            self.inner.send(messages)
        except Exception:
            for each in messages:
                del self._under_way[each.number]
                if len(messages) == 1:
                    world.note_raised(each)
            raise

    def end(self) -> None:
        """Take note that its connection is over."""
        if self.name in self.world.open_targets:
            self.world.repeats[self.name] += 1
        self._under_way.clear()
        self.world.open_targets.discard(self.name)

    async def close(self) -> None:
        if not self.is_dead:
            self.world.closed.append(self.name)
            self.end()
        await self.inner.close()


class _Reports:
    """Passes the reports of a target on."""

    def __init__(self, target: WatchedTarget, receiver: Receiver) -> None:
        self._target = target
        self._receiver = receiver

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        target = self._target
        if target.is_dead:
            return
        for each in messages:
            if target._under_way.pop(each.number, None) is not None:
                target.world.note_confirmed(target.name, each)
        self._receiver.confirmed(messages)

    def failed(self, message: Outgoing, failure: Failure) -> None:
        target = self._target
        if target.is_dead:
            return
        if target._under_way.pop(message.number, None) is not None and target.name != "dead":
            target.world.note_refused(message, failure)
        self._receiver.failed(message, failure)

    def lost(self, error: Disconnected) -> None:
        if not self._target.is_dead:
            self._target.end()
            self._receiver.lost(error)
