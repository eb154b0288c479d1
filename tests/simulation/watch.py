"""Sources and targets, watched where the pump meets them: what passes is judged, whatever the endpoint is.

A model or a real endpoint is inside. When its process was killed, nothing passes any more.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from typing import Any

from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing, Place, Receiver, Source, Target
from exchange.partition.partitions import Partitions
from exchange.routing.route import Placement
from exchange.values.message import Message
from tests.simulation.judge import Judge
from tests.simulation.sources import Client


class WatchedSource(Source):
    """A source, watched."""

    def __init__(self, client: Client, judge: Judge) -> None:
        self.client = client
        self.inner: Source = client.endpoint
        self.name = self.inner.name
        self.judge = judge
        self._given: dict[Hashable, deque[Delivery]] = defaultdict(deque)
        """Lane -> deliveries that are not settled."""

    @property
    def lost(self) -> Disconnected | None:
        return self.inner.lost

    @property
    def places(self) -> frozenset[Place]:
        return frozenset([Place("simulated", "", self.name)])

    @property
    def settled_in(self) -> str | None:
        return self.inner.settled_in

    @property
    def takes_back(self) -> bool:  # type: ignore[override]  # it is the other's, which may change
        return self.inner.takes_back

    async def open(self) -> None:
        self.judge.note_open(self.name)
        self.judge.world.repeats[self.name] += 1
        await self.inner.open()

    async def read(self, limit: int) -> Sequence[Delivery]:
        deliveries = await self.inner.read(limit)
        if len(deliveries) > limit:
            self.judge.breaks("window", f"{self.name} gives {len(deliveries)} of {limit}")
        for each in deliveries:
            self.judge.world.note_read(each)
            self._given[each.lane].append(each)
        return deliveries

    def settle(self, delivery: Delivery) -> None:
        given = self._given[delivery.lane]
        while given and not self.judge.is_dead:
            self.judge.note_settled(self.name, given[0])
            if given.popleft() is delivery:
                break
        self.inner.settle(delivery)

    async def stop_taking(self) -> bool:
        return await self.inner.stop_taking()

    async def close(self) -> None:
        self.judge.note_dropped(self.name)
        self.judge.closed.append(self.name)
        self._given.clear()
        await self.inner.close()


class WatchedTarget(Target):
    """A target, watched."""

    def __init__(self, client: Client, judge: Judge) -> None:
        self.client = client
        self.inner: Target = client.endpoint
        self.name = self.inner.name
        self.judge = judge

    @property
    def _under_way(self) -> dict[int, Outgoing]:
        return self.judge.under_way[self.name]

    def key_of(self, outgoing: Outgoing) -> Hashable:
        return self.inner.key_of(outgoing)

    def view_for(self, message: Message, placement: Placement) -> tuple[str, Any, Partitions]:
        return self.inner.view_for(message, placement)

    async def open(self, receiver: Receiver) -> None:
        await self.inner.open(_Reports(self, receiver))
        self.judge.open_targets.add(self.name)

    def send(self, messages: Sequence[Outgoing]) -> None:
        judge = self.judge
        if judge.is_dead:
            return
        for each in messages:
            judge.note_sent(self.name, each)
            self._under_way[each.number] = each
        try:
            self.inner.send(messages)
        except Exception:
            for each in messages:
                del self._under_way[each.number]
                if len(messages) == 1:
                    judge.note_raised(each)
            raise

    def end(self) -> None:
        """Take note that its connection is over."""
        if self.name in self.judge.open_targets:
            self.judge.world.repeats[self.name] += 1
        self._under_way.clear()
        self.judge.open_targets.discard(self.name)

    async def close(self) -> None:
        if not self.judge.is_dead:
            self.judge.closed.append(self.name)
            self.end()
        await self.inner.close()


class _Reports:
    """Passes the reports of a target on."""

    def __init__(self, target: WatchedTarget, receiver: Receiver) -> None:
        self._target = target
        self._receiver = receiver

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        target = self._target
        if target.judge.is_dead:
            return
        for each in messages:
            if target._under_way.pop(each.number, None) is not None:
                target.judge.note_confirmed(target.name, each)
        self._receiver.confirmed(messages)

    def failed(self, message: Outgoing, failure: Failure) -> None:
        target = self._target
        if target.judge.is_dead:
            return
        known = target._under_way.pop(message.number, None) is not None
        if known and target.name != "dead" and not failure.moot:
            target.judge.note_refused(message, failure)
        if failure.moot:
            target.judge.note_moot(message)
        self._receiver.failed(message, failure)

    def lost(self, error: Disconnected) -> None:
        if not self._target.judge.is_dead:
            self._target.end()
            self._receiver.lost(error)
