"""One target, as the pump sees it: always there, in order, and answering for each message once.

Whatever is not confirmed is either in flight, and then it is sent again when the target was opened anew, in order; or
held, behind or as the first of its key (see `bridge.pump.order`). A message leaves when it is confirmed, when a dead
letter was written in its place, or when its source will give it again. A lost connection and back-pressure
(`bridge.pump.gate`) are no verdict on a message: only refusals of the message itself count as tries.

Invariants, which the order of a key rests on: a message whose key is held is sent only if it is the first of its key;
and every message that is held is in flight, or waits for a timer, for a gate, or for the one before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from bridge.endpoint import Disconnected, Failure, Outgoing, Target, describe, disconnection
from bridge.pump.gate import Gate
from bridge.pump.order import Held, in_order
from bridge.pump.policy import Attempts, Policy, Unroutable
from bridge.pump.window import Pending, Window

__all__ = ["Events", "Outlet"]

LOG: Final = logging.getLogger(__name__)


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
    held, and tried for ever, and so is one that ``is_last``. ``random`` gives numbers in [0, 1). ``changed`` is called
    when the target was opened, and when messages left that no source waits for.
    """

    def __init__(
        self,
        target: Target,
        policy: Policy,
        events: Events,
        random: Callable[[], float],
        dead_letter: Callable[[Outgoing, Failure, str], None] | None = None,
        changed: Callable[[], None] = lambda: None,
        is_last: Callable[[Outgoing], bool] = lambda _: False,
    ) -> None:
        self.target = target
        self.error: Disconnected | None = None
        """Why it is not connected; None while it is, or before the first try."""
        self._policy = policy
        self._events = events
        self._random = random
        self._dead_letter = dead_letter
        self._changed = changed
        self._is_last = is_last
        self._held = Held(target.key_of)
        self._gates: dict[Place, Gate] = {}
        self._in_flight: dict[int, Outgoing] = {}
        self._connection = Connection(None)
        self._gone = asyncio.Event()
        self._gone.set()
        self._progressed = False
        """Whether the target has confirmed or refused a message over this connection."""
        self._one_by_one = False
        """Whether sending several at once raised an exception: which message it was is then found one by one."""

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

    @property
    def waiting(self) -> Mapping[str, Failure]:
        """Queue of the topology -> why it takes nothing now."""
        return {queue: gate.failure for (queue, _), gate in self._gates.items() if gate.failure is not None}

    def oldest(self) -> Outgoing | None:
        """Return the copy that is not confirmed for the longest time; None: there is none."""
        return min((*self._in_flight.values(), *self._held.firsts()), key=in_order, default=None)

    def owes(self, window: Window) -> bool:
        """Return whether the target has yet to answer for messages of this window."""
        return any(outgoing.context.window is window for outgoing in self._in_flight.values())

    async def run(self) -> None:
        """Keep the target open until cancelled."""
        loop, attempts = asyncio.get_running_loop(), Attempts(self._policy.reconnect, self._random)
        while True:
            connection = Connection(self)
            self._gone.clear()  # not after opening, which a loss may come just before the end of
            try:
                await self.target.open(connection)
            except Exception as error:  # noqa: BLE001  whatever it is, the next try may go well
                reason = disconnection(error)
            else:
                self._connection, self.error, opened = connection, None, loop.time()
                self._progressed = False
                self._events.connected(self.target.name)
                self._send_again()
                self._changed()
                await self._gone.wait()
                attempts.lasted(loop.time() - opened, progressed=self._progressed)
                reason = self.error or Disconnected("closed")
            self.error = reason
            await self._close_target()
            wait = attempts.next_wait()
            self._events.disconnected(self.target.name, reason, wait)
            await asyncio.sleep(wait)

    async def close(self) -> None:
        """Leave the target."""
        self._connection.outlet = None
        await self._close_target()

    async def _close_target(self) -> None:
        try:
            await self.target.close()
        except Exception:
            LOG.exception("%s: closing", self.target.name)

    def send(self, messages: Iterable[Outgoing]) -> None:
        """Send these, which come after all that were sent before."""
        if not self._held and not self._gates and not self._policy.one_at_a_time:
            fresh = list(messages)
            self._in_flight.update([(outgoing.number, outgoing) for outgoing in fresh])
            if self.connected:
                self._write(fresh)
            return
        ready = []
        for outgoing in messages:
            gate = self._gates.get(_place(outgoing)) if self._gates else None
            if gate is not None or self._policy.one_at_a_time or self._held.holds(outgoing):
                self._held.add(outgoing)
                if not self._held.is_first(outgoing):
                    continue
            if gate is None:
                ready.append(outgoing)
            else:
                gate.offer(outgoing)
        self._launch(ready)
        self._launch_from_gates()

    def discard(self, window: Window) -> None:
        """Its source will give the messages of this window again: those that are not sent yet need not be."""

        def unwanted(outgoing: Outgoing) -> bool:
            pending: Pending = outgoing.context
            return pending.window is window and pending.dropped

        firsts = self._held.discard(unwanted)
        if not self.connected:
            for number in [number for number, outgoing in self._in_flight.items() if unwanted(outgoing)]:
                del self._in_flight[number]
        self._release(firsts)

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
        self._progressed |= bool(known)
        if self._gates:
            self._let_through(known)
        if self._held:
            self._release([first for o in known if (first := self._held.remove(o)) is not None])
        self._events.confirmed(self.target.name, known, asyncio.get_running_loop().time())
        for window in windows:
            window.settle()

    def failed(self, outgoing: Outgoing, failure: Failure) -> None:
        """See `bridge.endpoint.Receiver`."""
        if self._in_flight.pop(outgoing.number, None) is None:
            return
        gate = self._gates.get(_place(outgoing)) if self._gates else None
        if gate is not None:
            gate.under_way.discard(outgoing.number)
        if outgoing.context.dropped:
            self._leave(outgoing)
            self._changed()
            return
        if failure.busy:
            self._wait_behind_gate(outgoing, failure)
            return
        self._progressed = True
        outgoing.attempts += 1
        fate = self._fate(outgoing, failure)
        if fate is Unroutable.DEAD_LETTER:
            self._events.refused(self.target.name, outgoing, failure, None)
            self._bury(outgoing, failure, fate)
            self._leave(outgoing)
        else:
            self._hold(outgoing, failure, fate)

    def lost(self, error: Disconnected) -> None:
        """See `bridge.endpoint.Receiver`."""
        self._connection.outlet = None
        self.error = error
        self._gone.set()

    # Refusals.

    def _fate(self, outgoing: Outgoing, failure: Failure) -> Unroutable | None:
        """Return what becomes of it now; None: another try."""
        if not failure.final and outgoing.attempts < self._policy.tries:
            return None
        if self._dead_letter is None or self._is_last(outgoing):
            return Unroutable.HOLD
        return Unroutable.DEAD_LETTER

    def _hold(self, outgoing: Outgoing, failure: Failure, fate: Unroutable | None) -> None:
        """Hold the message and its key, and try it again after a while."""
        self._held.add(outgoing)
        wait = self._policy.backoff.delay(outgoing.attempts, self._random())
        self._events.refused(self.target.name, outgoing, failure, wait)
        pending: Pending = outgoing.context
        if fate is Unroutable.HOLD and pending.held_reason is None:
            pending.held_reason = failure.reason
            self._events.gave_up(self.target.name, outgoing, failure, fate.value)
        asyncio.get_running_loop().call_later(wait, self._retry, outgoing)

    def _bury(self, outgoing: Outgoing, failure: Failure, fate: Unroutable) -> None:
        """Have a dead letter written in its place."""
        assert self._dead_letter is not None  # noqa: S101  this fate is of those that have somewhere to go
        self._events.gave_up(self.target.name, outgoing, failure, fate.value)
        self._dead_letter(outgoing, failure, self.target.name)

    def _retry(self, outgoing: Outgoing) -> None:
        if self._held.is_first(outgoing):
            self._release([outgoing])

    # Back-pressure.

    def _wait_behind_gate(self, outgoing: Outgoing, failure: Failure) -> None:
        """Hold the message and all that goes to its queue."""
        loop = asyncio.get_running_loop()
        place = _place(outgoing)
        gate = self._gates.get(place)
        if gate is None:
            gate = self._gates[place] = Gate()
            # What is under way may be refused as well, and nothing newer of its key may pass it.
            for each in self._in_flight.values():
                if _place(each) == place:
                    self._held.add(each)
                    gate.under_way.add(each.number)
        starts_timer = gate.refuse(failure, loop.time())
        if starts_timer:
            wait = self._policy.backoff.delay(gate.attempts, self._random())
            self._events.refused(self.target.name, outgoing, failure, wait)
            loop.call_later(wait, self._reopen, place)
        patience = self._policy.give_up_after
        if patience is not None and self._dead_letter is not None and loop.time() - gate.since >= patience:
            self._give_up(place, outgoing, failure)
            return
        self._held.add(outgoing)
        if self._held.is_first(outgoing):
            gate.offer(outgoing)

    def _give_up(self, place: Place, refused: Outgoing, failure: Failure) -> None:
        """Make dead letters of all that waits for a queue which has taken nothing for too long, in order."""
        waiting = [each for each in self._held.all() if _place(each) == place and each.number not in self._in_flight]
        for outgoing in sorted({refused, *waiting}, key=in_order):
            self._held.remove(outgoing)
            self._bury(outgoing, failure, Unroutable.DEAD_LETTER)

    def _reopen(self, place: Place) -> None:
        self._gates[place].reopen()
        self._launch_from_gates()

    def _let_through(self, messages: Iterable[Outgoing]) -> None:
        """Open the gates wider that these passed."""
        for outgoing in messages:
            gate = self._gates.get(_place(outgoing))
            if gate is not None:
                gate.under_way.discard(outgoing.number)
                gate.accept()

    def _launch_from_gates(self) -> None:
        if not self._gates or not self.connected:
            return
        now = asyncio.get_running_loop().time()
        for place, gate in list(self._gates.items()):
            self._launch(gate.take(self._may_go))
            if gate.is_calm(now):
                del self._gates[place]

    def _may_go(self, outgoing: Outgoing) -> bool:
        return self._held.is_first(outgoing) and outgoing.number not in self._in_flight

    # Sending.

    def _leave(self, gone: Outgoing) -> None:
        """Forget a message that this target need not take any more."""
        first = self._held.remove(gone)
        if first is not None:
            self._release([first])
        elif self._gates:
            self._launch_from_gates()

    def _release(self, firsts: Iterable[Outgoing]) -> None:
        """Send these, each the first of its key, or have them wait for their gates."""
        ready = []
        for outgoing in firsts:
            gate = self._gates.get(_place(outgoing)) if self._gates else None
            if gate is None:
                ready.append(outgoing)
            else:
                gate.offer(outgoing)
        self._launch(ready)
        self._launch_from_gates()

    def _launch(self, messages: Sequence[Outgoing]) -> None:
        fresh = [outgoing for outgoing in messages if outgoing.number not in self._in_flight]
        self._in_flight.update([(outgoing.number, outgoing) for outgoing in fresh])
        if fresh and self.connected:
            self._write(fresh)

    def _write(self, messages: Sequence[Outgoing]) -> None:
        """Give messages to the target; an exception that one of them causes refuses that one."""
        connection, loop = self._connection, asyncio.get_running_loop()
        try:
            if not self._one_by_one:
                self.target.send(messages)
                return
        except Exception as error:
            self._one_by_one = True
            LOG.exception("%s: sending", self.target.name)
            loop.call_soon(connection.lost, disconnection(error))
            return
        for outgoing in messages:
            try:
                self.target.send([outgoing])
            except Exception as error:  # noqa: BLE001  it is this message's
                failure = Failure(describe(error), final=True)
                loop.call_soon(connection.failed, outgoing, failure)

    def _send_again(self) -> None:
        """Send what was not answered over the connection before, in its order."""
        under_way = sorted(self._in_flight.values(), key=in_order)
        self._in_flight.clear()
        for gate in self._gates.values():
            gate.under_way.clear()
        again: list[Outgoing] = []
        firsts: list[Outgoing] = []
        for outgoing in under_way:
            if outgoing.context.dropped:
                first = self._held.remove(outgoing)
                if first is not None:
                    firsts.append(first)
                continue
            if _place(outgoing) in self._gates or self._held.holds(outgoing):
                self._held.add(outgoing)
                if self._held.is_first(outgoing):
                    firsts.append(outgoing)
            else:
                again.append(outgoing)
        self._launch(again)
        self._release([outgoing for outgoing in firsts if self._may_go(outgoing)])
        self._launch_from_gates()


Place: TypeAlias = tuple[str, object]
"""A queue of the topology, and its partition."""


def _place(outgoing: Outgoing) -> Place:
    placement = outgoing.placement
    return outgoing.queue, None if placement is None else placement.partition
