"""A source as the pump sees it: opened when its messages can be moved, read while there is room, opened again if lost.

No delivery may be read before it can be moved: a broker counts how often it delivers a message, and quorum queues drop
a message that was delivered too often. So a source is opened only while the bridge is not paused, all targets that its
messages can reach are open, and none of these has a message without an answer from an earlier connection of the source.

=============  ===================================================  ====================================================
state          waits for                                            leaves it for
=============  ===================================================  ====================================================
waiting        the end of a pause or drain, its targets to be       opening
               open, and to have answered for everything of the
               connection before
opening        the source                                           reading; else resting
reading        messages; while the window is full or the bridge     resting, when the connection is gone; emptying, when
               is paused: settling, *or* the loss of the            the stream has ended, or it leaves
               connection
emptying       the last settling, *or* the loss of the connection   ended, or waiting if it leaves; else resting
resting        the time before the next try                         waiting
=============  ===================================================  ====================================================
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from bridge.endpoint import Delivery, Disconnected, EndOfStream, Source, to_disconnected
from bridge.interop.filtering import Filter
from bridge.pump.dead_letters import DeadLetterLimit
from bridge.pump.keys import SELECTOR, TAGS
from bridge.pump.outlet import Outlet
from bridge.pump.policy import Attempts, Policy
from bridge.pump.replies import Servers
from bridge.pump.window import Admission, Window
from bridge.table import Table
from exchange.errors import HashstarError
from exchange.selector import Selector, Tags
from exchange.values.message import Message, assemble_message

LOG: Final = logging.getLogger(__name__)

BATCH: Final = 1_000
"""Maximum number of deliveries that one read asks for."""

SOON: Final = 0.05
"""Seconds until messages are tried again that wait for a share of dead letters which has fallen."""

LOOK: Final = 0.25
"""Seconds between checks of what an inlet waits for, such as whether the open source has lost its connection."""


@dataclass(slots=True, eq=False)
class Inlet:
    """A source, and how its messages enter the topology.

    >>> inlet = Inlet(MemorySource(), exchange="orders")
    >>> inlet.enter(Message("amq.direct", "order.eu.created")).exchange
    'orders'
    """

    source: Source
    exchange: str | None = None
    """Exchange that all its messages are published to; None: the exchange that each message names."""
    routing_key: str | None = None
    """Routing key of all its messages; None: each message's own."""
    policy: Policy | None = None
    """The source's own policy; None: the pump's."""
    filter: Filter | None = None
    """Filter that its messages must match; None: all enter."""
    replies_of: Servers | None = None
    """Those whose replies it reads: these go to the callers of requests, past the topology. None: it reads none."""
    admission: Admission | None = field(default=None, repr=False)
    """What its deliveries wait for beside room in the window; None: nothing."""
    window: Window = field(init=False, repr=False)
    is_read_out: bool = field(default=False, init=False)
    """Whether its source was stopped, and all that its system had sent was read: nothing goes back to the system."""

    def __post_init__(self) -> None:
        """Add the source's own condition to the filter."""
        if self.source.condition is not None:
            self.filter = replace(self.filter or Filter(), condition=self.source.condition)

    def enter(self, message: Message) -> Message:
        """Return the message as it is published to the topology."""
        if self.exchange is None and self.routing_key is None:
            return message
        return assemble_message(
            message.exchange if self.exchange is None else self.exchange,
            message.routing_key if self.routing_key is None else self.routing_key,
            message.headers,
            message.properties,
            message.body,
        )


class _Stuck(Exception):
    """Nothing of what was read can be settled."""


class InletReader:
    """The life of one inlet in a pump.

    ``outlets`` are those that its messages can reach. ``take`` is called with the deliveries that were read;
    ``is_paused`` is called before each read. ``settled`` is the event.
    """

    def __init__(
        self,
        inlet: Inlet,
        outlets: Collection[Outlet],
        policy: Policy,
        random: Callable[[], float],
        take: Callable[[Inlet, Sequence[Delivery]], None],
        settled: Callable[[str, Delivery], None],
        is_paused: Callable[[], bool],
    ) -> None:
        self.inlet = inlet
        own = inlet.policy or policy
        inlet.window = Window(own.window, own.window_bytes, self._settle)
        self.limit: Final = DeadLetterLimit(
            own.max_dead_letters, lambda call: asyncio.get_running_loop().call_later(SOON, call)
        )
        inlet.window.limit = self.limit
        self._outlets = outlets
        self._policy = policy
        self._rate = own.rate
        self._free_at = 0.0
        """When the rate permits the next delivery, by the loop's time."""
        self._random = random
        self._take = take
        self._settled = settled
        self._is_paused = is_paused
        self._moved = asyncio.Event()
        self._is_open = False
        """Whether it is open, or is being opened."""
        self._can_be_read = False
        """Whether it has been opened."""
        self.is_idle = True
        """Whether its source is closed, and all that is settled is settled at its system."""
        self._progressed = False
        """Whether a delivery was settled over this connection."""
        self._fault: Disconnected | None = None
        """The error that settling raised; the connection ends with it."""
        self._task: asyncio.Task[None] | None = None
        self._is_interrupted = False
        """Whether this reader has cancelled its task, to end a read that may wait for ever."""
        self._leaves = False
        self._is_draining = self._reads_rest = False
        self._unadmitted: Sequence[Delivery] = ()
        """Deliveries that were read, and for which the window has no room yet."""

    def leave(self) -> None:
        """Read nothing more, settle what was read, however long it takes, and close the source until `take_up`."""
        if not self._leaves:
            self._leaves = True
            if not self._is_draining:  # else it was called off for a moment only
                self._interrupt()
            self.wake()

    def take_up(self) -> None:
        """Open the source again, after it has left."""
        self._leaves = False
        self.wake()

    def wake(self) -> None:
        """Check again now whether what it waits for has happened."""
        self._moved.set()

    def waiting_for(self) -> str | None:
        """Return why the source waits for its targets before it is opened; None if it does not."""
        if self._is_open:
            return None
        closed = [outlet.target.name for outlet in self._outlets if not outlet.connected]
        if closed:
            return f"waits until {', '.join(closed)} can be written to"
        owing = [outlet.target.name for outlet in self._outlets if outlet.owes(self.inlet.window)]
        return f"waits until {', '.join(owing)} has answered for what was read before" if owing else None

    async def run(
        self,
        connected: Callable[[], None],
        disconnected: Callable[[Disconnected, float], None],
        left: Callable[[], None],
    ) -> None:
        """Read until the stream has ended and all of it is settled, or until cancelled.

        ``connected`` is called each time the source was opened, ``disconnected`` each time it was lost or could not be
        opened, with the reason and the seconds until the next try; ``left`` each time it has left.
        """
        inlet, loop = self.inlet, asyncio.get_running_loop()
        attempts = Attempts(self._policy.reconnect, self._random)
        self._task = asyncio.current_task()
        while True:
            self._fault, self._unadmitted = None, ()
            await self._wait(lambda: not self._is_paused() and not self._leaves and self.waiting_for() is None)
            opened: float | None = None
            began, tried_for = loop.time(), 0.0
            reason: Disconnected | None
            self._is_open, self._progressed, self.is_idle = True, False, False
            self._was_interrupted()  # a library may have made another error of it; it must not be counted for ever
            self._reads_rest = inlet.is_read_out = False
            try:
                await inlet.source.open()
                opened, self._can_be_read = loop.time(), True
                connected()
                await self._read()
            except Exception as error:  # noqa: BLE001  whatever it is, the next try may go well
                reason = to_disconnected(error)
            except asyncio.CancelledError:
                if not self._was_interrupted():
                    raise
                reason = self._fault if self._fault is not None or opened is None else await self._leave()
            else:
                self.is_idle = True
                return
            if opened is None:
                tried_for = loop.time() - began
            self._is_open = self._can_be_read = self._is_draining = False
            # The order matters: outlets discard only messages that the window has marked as dropped, and they must have
            # discarded them before the source is closed, as it may then give them again.
            inlet.window.drop()
            for outlet in self._outlets:
                outlet.discard(inlet.window)
            await self.close()
            self.is_idle = True
            if reason is None:
                left()
                continue
            if opened is not None:
                attempts.note_connection(loop.time() - opened, progressed=self._progressed)
            wait = attempts.next_wait(tried_for)
            disconnected(reason, wait)
            await asyncio.sleep(wait)

    async def empty(self) -> None:
        """Wait until all that was read is settled. Raises Disconnected if the connection is lost before."""
        window = self.inlet.window
        if window.messages:
            await self._wait(lambda: not window.messages)

    async def drain(self) -> None:
        """Read and settle what the source was sent before it took no more, after `run` was cancelled.

        It ends when all is settled, or nothing can be: what is on hold is not waited for. Raises HashstarError.
        """
        self._is_draining = True
        with suppress(_Stuck):
            await self._read_rest()
            await self.empty()

    async def _leave(self) -> Disconnected | None:
        """Settle all that was read; return the reason if the connection is lost before."""
        try:
            await self.drain()
        except Exception as error:  # noqa: BLE001  whatever it is, the source is closed
            return to_disconnected(error)
        except asyncio.CancelledError:
            if not self._was_interrupted():
                raise
            return self._fault
        return None

    async def _read_rest(self) -> None:
        if not self._can_be_read or (self._is_paused() and not self._reads_rest):
            return
        self._reads_rest = self._reads_rest or await self.inlet.source.stop_taking()
        if self._reads_rest:
            await self._admit(self._unadmitted)
            await self._read()
            self.inlet.is_read_out = True

    def _may_move(self) -> bool:
        """Return whether deliveries may be taken: not in a pause, unless it began when the pump was stopped already."""
        return self._is_draining or not self._is_paused()

    async def close(self) -> None:
        """Close the source; log what goes wrong."""
        try:
            await self.inlet.source.close()
        except Exception:
            LOG.exception("%s: closing", self.inlet.source.name)

    async def _read(self) -> None:
        """Read to the end of the stream. Raises Disconnected."""
        inlet, loop, rate = self.inlet, asyncio.get_running_loop(), self._rate
        window, source = inlet.window, inlet.source
        self._free_at = max(self._free_at, loop.time())
        while True:
            while not self._may_move() or window.room <= 0:
                await self._wait(lambda: self._may_move() and window.room > 0)
            if self._is_draining and window.messages and self._is_stuck():
                raise _Stuck
            limit = min(window.room, BATCH)
            if rate is not None:
                self._free_at = max(self._free_at, loop.time() - 1.0)  # unused rate is saved up for at most a second
                limit = min(limit, max(1, int(rate / 10)))  # at most the messages of a tenth of a second
                if not self._is_draining:
                    await asyncio.sleep(max(0.0, self._free_at - loop.time()))
            try:
                deliveries = self._unadmitted = await source.read(limit)
            except EndOfStream:
                await self.empty()
                return
            if rate is not None:
                if self._is_draining:  # after the read, which may find the end: that is not waited for
                    await asyncio.sleep(max(0.0, self._free_at - loop.time()))
                self._free_at += len(deliveries) / rate
            await self._admit(deliveries)
            await asyncio.sleep(0)  # let other tasks run, even if this source always has messages

    async def _admit(self, deliveries: Sequence[Delivery]) -> None:
        """Pass on deliveries, as many as the window's bytes and `Inlet.admission` allow. Raises Disconnected."""
        window, admission = self.inlet.window, self.inlet.admission

        def fitting() -> int:
            count = window.fitting(deliveries)
            return count if admission is None else admission.prepare(deliveries[:count], self.wake)

        while True:
            count = fitting()
            self._unadmitted = deliveries[count:]
            if count:
                self._take(self.inlet, deliveries if count == len(deliveries) else deliveries[:count])
            if self._fault is not None:
                raise self._fault
            if not self._unadmitted:
                return
            deliveries = self._unadmitted
            await self._wait(lambda: self._may_move() and fitting() > 0)

    async def _wait(self, ready: Callable[[], bool]) -> None:
        """Wait until ``ready()`` is true.

        Raises Disconnected as soon as an open source loses its connection, and while it drains, _Stuck.
        """
        while not ready():
            error = self._fault or (self.inlet.source.lost if self._is_open else None)
            if error is not None:
                raise error
            if self._is_draining and self._is_stuck():
                raise _Stuck
            self._moved.clear()
            look = asyncio.get_running_loop().call_later(LOOK, self._moved.set)
            try:
                await self._moved.wait()
            finally:
                look.cancel()

    def _is_stuck(self) -> bool:
        """Return whether nothing can be settled, and no target still has to answer for what it was sent."""
        window = self.inlet.window
        is_owed = any(each.connected and each.owes(window) for each in self._outlets)
        return window.is_stuck and not is_owed and not self.limit.is_due

    def _interrupt(self) -> None:
        """Cancel the task, as its read may wait for a delivery that never comes."""
        task = self._task
        if self._is_open and not self._is_interrupted and task is not None and task is not asyncio.current_task():
            self._is_interrupted = True
            task.cancel()

    def _was_interrupted(self) -> bool:
        """Return whether `_interrupt` has cancelled the task; not if the pump has, too, as the task must end then."""
        was_interrupted, self._is_interrupted = self._is_interrupted, False
        return was_interrupted and self._task is not None and not self._task.uncancel()

    def _settle(self, delivery: Delivery) -> None:
        self._progressed = True
        self._settled(self.inlet.source.name, delivery)
        try:
            self.inlet.source.settle(delivery)
        except Exception as error:
            LOG.exception("%s: settling", self.inlet.source.name)
            if self._fault is None and self._is_open:
                self._fault = to_disconnected(error)
                self._interrupt()
        self._moved.set()


def read_filter(table: Table) -> Filter | None:
    """Read the filter of a source's table, ``selector`` and ``tags``; None if it has neither. Raises InputError."""
    selector, tags = SELECTOR.read(table), TAGS.read(table)
    if selector is None and tags is None:
        return None
    key = "selector"
    try:
        by_sql = None if selector is None else Selector.parse(selector)
        key = "tags"
        by_tags = None if tags is None else Tags.parse(tags)
    except HashstarError as error:
        table.keep(table.error(key, str(error)))
        return None
    if by_tags is not None:
        warn_of_bars(table, key, by_tags.tags)
    return Filter(by_sql, by_tags)


def warn_of_bars(table: Table, key: str, tags: Collection[str]) -> None:
    """Warn of each tag with a bar in it: RocketMQ allows it, and more likely ``||`` was meant."""
    for tag in sorted(tags):
        if "|" in tag:
            table.warn(key, f"{tag!r} is one tag, with a bar in it; tags are separated by ||")
