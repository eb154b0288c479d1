"""The pump: reads from sources, routes, writes to targets, and settles at the source what all targets have confirmed.

One place owns the life of a delivery. It is at least once, always: nothing is settled before every copy was confirmed,
dead-lettered (and that confirmed), or dropped because the owner chose so by name. Messages of one key reach a target
in the order in which they were read; `bridge.order` and `bridge.outlet` keep that over refusals and lost connections.
All of it runs on one thread, that of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import random as any_random
from time import time
from typing import Any, Final, Protocol

from bridge.amqp import assembled
from bridge.dead_letters import dead_letter_of
from bridge.endpoint import Delivery, Disconnected, EndOfStream, Failure, Outgoing, Source, Target
from bridge.filtering import Filter
from bridge.outlet import Events, Outlet
from bridge.policy import Policy, Unroutable
from bridge.window import Pending, Window
from exchange.errors import HashstarError
from exchange.message import Message
from exchange.route import Placement
from exchange.router import Router

__all__ = ["Inlet", "Pump", "PumpEvents"]

BATCH: Final = 1_000
"""So many deliveries are asked for at once, at most."""

NOWHERE: Final[Mapping[str, Placement]] = {}


class PumpEvents(Events, Protocol):
    """What is told to those who count and log."""

    def read(self, source: str, deliveries: Sequence[Delivery]) -> None:
        """These were read."""

    def unroutable(self, source: str, delivery: Delivery, fate: str, reason: str) -> None:
        """The topology has no queue for it."""

    def filtered(self, source: str, delivery: Delivery, reason: str) -> None:
        """The source's filter does not want it; it is settled as it is."""

    def ended(self, source: str) -> None:
        """There will be no more from it, and all of it is settled."""


@dataclass(slots=True, eq=False)
class Inlet:
    """A source, and where its messages enter the topology."""

    source: Source
    exchange: str | None = None
    """Published to this exchange; None: to the one each message names."""
    routing_key: str | None = None
    """With this key; None: with its own."""
    policy: Policy | None = None
    """Its own window and rate; None: the pump's."""
    filter: Filter | None = None
    """Which of its messages are wanted; None: all."""
    window: Window = field(init=False, repr=False)

    def enter(self, message: Message) -> Message:
        """The message as it is published in the topology."""
        if self.exchange is None and self.routing_key is None:
            return message
        return assembled(
            message.exchange if self.exchange is None else self.exchange,
            message.routing_key if self.routing_key is None else self.routing_key,
            message.headers,
            message.properties,
            message.body,
        )


class Pump:
    """Moves messages from inlets through a router to the targets of its queues.

    ``targets`` maps the topology's queues to targets; several queues may share one. Messages that only get to queues of
    ``ignored`` are settled as they are. ``dead_letters`` takes what cannot be delivered: without it, such messages
    are held. ``random`` gives numbers in [0, 1), for jitter, ``clock`` seconds since 1970, for dead letters. Build
    and run it on one event loop.
    """

    def __init__(
        self,
        inlets: Sequence[Inlet],
        router: Router,
        targets: Mapping[str, Target],
        events: PumpEvents,
        policy: Policy = Policy(),  # noqa: B008  a frozen value
        dead_letters: Target | None = None,
        ignored: frozenset[str] = frozenset(),
        random: Callable[[], float] = any_random,
        clock: Callable[[], float] = time,
    ) -> None:
        self._inlets = inlets
        self._router = router
        self._events = events
        self._policy = policy
        self._random = random
        self._clock = clock
        self._ignored = ignored
        self._numbers = count(1)
        self._dead_outlet: Outlet | None = None
        if dead_letters is not None:
            self._dead_outlet = Outlet(dead_letters, policy, events, random)
        outlets: dict[Target, Outlet] = {}
        for target in targets.values():
            if target not in outlets:
                refuse = self._dead_letter if self._dead_outlet is not None else None
                outlets[target] = Outlet(target, policy, events, random, refuse)
        self._outlets = {queue: outlets[target] for queue, target in targets.items()}
        self._all = [*outlets.values(), *([self._dead_outlet] if self._dead_outlet is not None else [])]
        for inlet in inlets:
            own = inlet.policy or policy
            inlet.window = Window(own.window, own.window_bytes, self._settler(inlet))
        self._stopping = asyncio.Event()
        self._running = asyncio.Event()
        self._running.set()
        self._settled = asyncio.Event()

    # What an owner may ask of it while it runs.

    @property
    def outlets(self) -> Sequence[Outlet]:
        """Its targets, the one for dead letters last."""
        return self._all

    @property
    def in_flight(self) -> int:
        """Deliveries that were read and are not settled."""
        return sum([inlet.window.messages for inlet in self._inlets])

    @property
    def paused(self) -> bool:
        """Whether it reads nothing for now."""
        return not self._running.is_set()

    def pause(self) -> None:
        """Read nothing more; what was read goes on."""
        self._running.clear()

    def resume(self) -> None:
        """Go on reading."""
        self._running.set()

    def stop(self) -> None:
        """Read nothing more, and end when all that was read is settled, or after `Policy.drain` seconds."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until all sources have ended or until stopped. Raises InputError if an endpoint can never be opened."""
        keepers = [asyncio.create_task(outlet.run()) for outlet in self._all]
        readers = [asyncio.create_task(self._keep_reading(inlet)) for inlet in self._inlets]
        stopping = asyncio.create_task(self._stopping.wait())
        ended = asyncio.gather(*readers)
        try:
            await _first_of([ended, stopping, *keepers], until=[ended, stopping])
            if stopping.done():
                for reader in readers:
                    reader.cancel()
                await asyncio.gather(*readers, return_exceptions=True)
                await self._drained(keepers)
        finally:
            for task in (stopping, *readers, *keepers):
                task.cancel()
            await asyncio.gather(stopping, *readers, *keepers, ended, return_exceptions=True)
            for outlet in self._all:
                await outlet.close()
            for inlet in self._inlets:
                await inlet.source.close()

    # Reading.

    async def _keep_reading(self, inlet: Inlet) -> None:
        source, attempt = inlet.source, 0
        while True:
            try:
                await source.open()
                self._events.connected(source.name)
                attempt = 0
                await self._read(inlet)
            except EndOfStream:
                await self._empty(inlet.window)
                self._events.ended(source.name)
                return
            except Disconnected as error:
                inlet.window.drop()
                for outlet in self._all:
                    outlet.discard(inlet.window)
                await source.close()
                attempt += 1
                wait = self._policy.reconnect.delay(attempt, self._random())
                self._events.disconnected(source.name, error, wait)
                await asyncio.sleep(wait)

    async def _read(self, inlet: Inlet) -> None:
        loop = asyncio.get_running_loop()
        rate = (inlet.policy or self._policy).rate
        free_at = loop.time()
        while True:
            await self._running.wait()
            while inlet.window.room <= 0:
                await self._next_settling()
            limit = min(inlet.window.room, BATCH)
            if rate is not None:
                free_at = max(free_at, loop.time() - 1.0)  # what was not used is saved up for a second
                await asyncio.sleep(max(0.0, free_at - loop.time()))
                limit = min(limit, max(1, int(rate / 10)))
            deliveries = await inlet.source.read(limit)
            if rate is not None:
                free_at += len(deliveries) / rate
            self._take(inlet, deliveries)
            await asyncio.sleep(0)  # a source that always has some must not keep others from their turn

    def _take(self, inlet: Inlet, deliveries: Sequence[Delivery]) -> None:
        self._events.read(inlet.source.name, deliveries)
        now = asyncio.get_running_loop().time()
        self._route(inlet, inlet.window.admit(deliveries, now))

    def _route(self, inlet: Inlet, pendings: Sequence[Pending]) -> None:
        """Send deliveries on their way; the one copy of each becomes as many as there are targets."""
        ready: dict[Outlet, list[Outgoing]] = {}
        enter, route_of, numbers, wanted = inlet.enter, self._router.route, self._numbers, inlet.filter
        ignored, outlets = self._ignored, self._outlets
        for pending in pendings:
            delivery = pending.delivery
            try:
                if wanted is not None and (objection := wanted.objection(delivery.message)) is not None:
                    self._events.filtered(inlet.source.name, delivery, objection)
                    inlet.window.done(pending)
                    continue
                message = enter(delivery.message)
                queues, _, placed = route_of(message)
            except HashstarError as error:  # what a broker would refuse, or a header that cannot be read
                self._unroutable(inlet, pending, str(error), ready)
                continue
            if not queues:
                self._unroutable(inlet, pending, "no queue of the topology gets it", ready)
                continue
            placements = {placement.queue: placement for placement in placed} if placed else NOWHERE
            copies = 0
            for queue in queues:
                if queue not in ignored:
                    copies += 1
                    outgoing = Outgoing(message, delivery, queue, placements.get(queue), next(numbers), 0, pending)
                    outlet = outlets[queue]
                    if outlet in ready:
                        ready[outlet].append(outgoing)
                    else:
                        ready[outlet] = [outgoing]
            if copies:
                pending.copies = copies
            else:
                inlet.window.done(pending)
        for outlet, messages in ready.items():
            outlet.send(messages)
        inlet.window.settle()

    def _unroutable(self, inlet: Inlet, pending: Pending, reason: str, ready: dict[Outlet, list[Outgoing]]) -> None:
        fate = self._policy.unroutable
        if fate is Unroutable.DEAD_LETTER and self._dead_outlet is None:
            fate = Unroutable.HOLD
        self._events.unroutable(inlet.source.name, pending.delivery, fate.value, reason)
        if fate is Unroutable.DROP:
            inlet.window.done(pending)
        elif fate is Unroutable.DEAD_LETTER and self._dead_outlet is not None:
            dead = self._dead(pending, Failure(f"unroutable: {reason}"), inlet.source.name, "", 0)
            ready.setdefault(self._dead_outlet, []).append(dead)
        else:
            wait = self._policy.backoff.most
            asyncio.get_running_loop().call_later(wait, self._route_again, inlet, pending)

    def _route_again(self, inlet: Inlet, pending: Pending) -> None:
        if not pending.dropped:
            self._route(inlet, [pending])

    # Dead letters.

    def _dead_letter(self, outgoing: Outgoing, failure: Failure, target: str) -> None:
        assert self._dead_outlet is not None  # noqa: S101  outlets are given this only where there is one
        dead = self._dead(outgoing.context, failure, target, outgoing.queue, outgoing.attempts)
        self._dead_outlet.send([dead])

    def _dead(self, pending: Pending, failure: Failure, where: str, queue: str, attempts: int) -> Outgoing:
        message = dead_letter_of(pending.delivery, failure.reason, where, queue, attempts, self._clock())
        return Outgoing(message, pending.delivery, "", None, next(self._numbers), context=pending)

    # Settling.

    def _settler(self, inlet: Inlet) -> Callable[[Delivery], None]:
        def settle(delivery: Delivery) -> None:
            inlet.source.settle(delivery)
            self._settled.set()

        return settle

    async def _next_settling(self) -> None:
        self._settled.clear()
        await self._settled.wait()

    async def _empty(self, window: Window) -> None:
        while window.messages:
            await self._next_settling()

    async def _drained(self, keepers: Sequence[asyncio.Task[None]]) -> None:
        async def all_settled() -> None:
            for inlet in self._inlets:
                await self._empty(inlet.window)

        draining = asyncio.create_task(all_settled())
        await asyncio.wait([draining, *keepers], timeout=self._policy.drain, return_when=asyncio.FIRST_COMPLETED)
        draining.cancel()


async def _first_of(tasks: Sequence[asyncio.Future[Any]], until: Sequence[asyncio.Future[Any]]) -> None:
    """Wait until one of ``until`` is done; an exception of any of the tasks is raised."""
    while not any(task.done() for task in until):
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
