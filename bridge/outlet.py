"""One target, as the pump sees it: always there, in order, and answering for each message once.

Whatever is not confirmed is either in flight, and then it is sent again when the target was opened anew, in order; or
held, behind or as the first of its key (see `bridge.order`). A message leaves when it is confirmed, when a dead letter
was written in its place, or when its source will give it again. A lost connection is nobody's fault: only refusals
count as tries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bridge.endpoint import Disconnected, Failure, Outgoing, Target
from bridge.order import Held, in_order
from bridge.policy import Policy, Unroutable
from bridge.window import Pending, Window

__all__ = ["Events", "Outlet"]


class Events(Protocol):
    """What is told to those who count and log."""

    def connected(self, name: str) -> None:
        """A source or a target was opened."""

    def disconnected(self, name: str, error: Exception, wait: float) -> None:
        """It was lost or could not be opened; the next try comes after so many seconds."""

    def confirmed(self, target: str, messages: Sequence[Outgoing], now: float) -> None:
        """A target has these; ``now`` is the loop's time."""

    def refused(self, target: str, message: Outgoing, failure: Failure, retry_in: float | None) -> None:
        """A target refused a message; None: it is not tried again."""

    def gave_up(self, target: str, message: Outgoing, failure: Failure, fate: str) -> None:
        """A message is a ``dead-letter``, is on ``hold`` or was dropped (``drop``)."""


@dataclass(slots=True, eq=False)
class Connection:
    """What a target reports to, for as long as it is open; what comes later is not heard."""

    outlet: Outlet | None

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        if self.outlet is not None:
            self.outlet.confirmed(messages)

    def failed(self, message: Outgoing, failure: Failure) -> None:
        if self.outlet is not None:
            self.outlet.failed(message, failure)

    def lost(self, error: Disconnected) -> None:
        if self.outlet is not None:
            self.outlet.lost(error)


class Outlet:
    """Sends to a target until it is confirmed.

    ``dead_letter`` makes another outlet's message of one that this target does not take; without it such a message is
    held, and tried for ever. ``random`` gives numbers in [0, 1).
    """

    def __init__(
        self,
        target: Target,
        policy: Policy,
        events: Events,
        random: Callable[[], float],
        dead_letter: Callable[[Outgoing, Failure, str], None] | None = None,
    ) -> None:
        self.target = target
        self._policy = policy
        self._events = events
        self._random = random
        self._dead_letter = dead_letter
        self._held = Held(target.key_of)
        self._in_flight: dict[int, Outgoing] = {}
        self._connection = Connection(None)
        self._gone = asyncio.Event()
        self._gone.set()
        self._error: Disconnected | None = None

    @property
    def connected(self) -> bool:
        """Whether the target is open."""
        return self._connection.outlet is not None

    @property
    def in_flight(self) -> int:
        """Messages that were sent, or will be when there is a connection."""
        return len(self._in_flight)

    @property
    def held(self) -> int:
        """Messages of keys that are held."""
        return len(self._held)

    async def run(self) -> None:
        """Keep the target open until cancelled. Raises InputError if it can never be opened."""
        attempt = 0
        while True:
            connection = Connection(self)
            self._gone.clear()  # not after opening, which a loss may come just before the end of
            try:
                await self.target.open(connection)
            except Disconnected as error:
                await self.target.close()
                attempt += 1
                wait = self._policy.reconnect.delay(attempt, self._random())
                self._events.disconnected(self.target.name, error, wait)
                await asyncio.sleep(wait)
                continue
            self._connection = connection
            self._events.connected(self.target.name)
            self._send_again()
            await self._gone.wait()
            await self.target.close()
            # The first try to come back is made soon: most connections that are cut can be made again at once.
            attempt = 1
            wait = self._policy.reconnect.delay(attempt, self._random())
            self._events.disconnected(self.target.name, self._error or Disconnected("closed"), wait)
            await asyncio.sleep(wait)

    async def close(self) -> None:
        """Leave the target."""
        self._connection.outlet = None
        await self.target.close()

    def send(self, messages: Iterable[Outgoing]) -> None:
        """Send these, which come after all that were sent before."""
        if self._held or self._policy.one_at_a_time:
            ready = []
            for outgoing in messages:
                if self._policy.one_at_a_time or self._held.holds(outgoing):
                    self._held.add(outgoing)
                    if not self._held.is_first(outgoing):
                        continue
                ready.append(outgoing)
        else:
            ready = list(messages)
        self._launch(ready)

    def discard(self, window: Window) -> None:
        """Its source will give the messages of this window again: those that are not sent yet need not be."""

        def unwanted(outgoing: Outgoing) -> bool:
            pending: Pending = outgoing.context
            return pending.window is window and pending.dropped

        self._held.discard(unwanted)

    # What the target reports.

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        """See `bridge.endpoint.Receiver`."""
        in_flight, windows = self._in_flight, set()
        known = []
        for outgoing in messages:
            if in_flight.pop(outgoing.number, None) is not None:
                known.append(outgoing)
                pending: Pending = outgoing.context
                pending.window.done(pending)
                windows.add(pending.window)
        if self._held:
            self._launch([first for o in known if (first := self._held.remove(o)) is not None])
        self._events.confirmed(self.target.name, known, asyncio.get_running_loop().time())
        for window in windows:
            window.settle()

    def failed(self, outgoing: Outgoing, failure: Failure) -> None:
        """See `bridge.endpoint.Receiver`."""
        if self._in_flight.pop(outgoing.number, None) is None:
            return
        if outgoing.context.dropped:
            self._launch_next(outgoing)
            return
        outgoing.attempts += 1
        fate = self._fate(outgoing, failure)
        if fate is None or fate is Unroutable.HOLD:
            self._held.add(outgoing)
            wait = self._policy.backoff.delay(outgoing.attempts, self._random())
            self._events.refused(self.target.name, outgoing, failure, wait)
            asyncio.get_running_loop().call_later(wait, self._retry, outgoing)
            return
        self._events.refused(self.target.name, outgoing, failure, None)
        self._events.gave_up(self.target.name, outgoing, failure, fate.value)
        if fate is Unroutable.DEAD_LETTER and self._dead_letter is not None:
            self._dead_letter(outgoing, failure, self.target.name)
        else:
            pending: Pending = outgoing.context
            pending.window.done(pending)
            pending.window.settle()
        self._launch_next(outgoing)

    def lost(self, error: Disconnected) -> None:
        """See `bridge.endpoint.Receiver`."""
        self._connection.outlet = None
        self._error = error
        self._gone.set()

    def _fate(self, outgoing: Outgoing, failure: Failure) -> Unroutable | None:
        """What becomes of it now; None: another try."""
        if failure.busy or (not failure.final and outgoing.attempts < self._policy.tries):
            return None
        return Unroutable.HOLD if self._dead_letter is None else Unroutable.DEAD_LETTER

    def _retry(self, outgoing: Outgoing) -> None:
        if self._held.is_first(outgoing) and outgoing.number not in self._in_flight:
            self._launch([outgoing])

    def _launch_next(self, gone: Outgoing) -> None:
        first = self._held.remove(gone)
        if first is not None:
            self._launch([first])

    def _launch(self, messages: Sequence[Outgoing]) -> None:
        fresh = [outgoing for outgoing in messages if outgoing.number not in self._in_flight]
        self._in_flight.update([(outgoing.number, outgoing) for outgoing in fresh])
        if fresh and self.connected:
            self.target.send(fresh)

    def _send_again(self) -> None:
        for number, outgoing in list(self._in_flight.items()):
            if outgoing.context.dropped:
                del self._in_flight[number]
                self._held.remove(outgoing)
        again = sorted(self._in_flight.values(), key=in_order)
        if again:
            self.target.send(again)
