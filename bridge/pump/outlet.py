"""A target as the pump sees it: it is always there, keeps the order, and gives one answer for each message.

A message without confirmation is in flight, or held (see `bridge.pump.order`), or both. Messages in flight are sent
again, in order, each time the target is opened again. A message leaves the outlet when it is confirmed, when a dead
letter is sent instead of it, or when its source will give it again. A lost connection and back-pressure
(`bridge.pump.gate`) are no verdict on a message: only refusals of the message itself count as tries.

The order of a key rests on two invariants. A message whose key is held is sent only if it is the first of its key. And
each held message is in flight, or waits for a timer, for a gate, or for the message before it: so none is forgotten.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from bridge.endpoint import Disconnected, Failure, Outgoing, Target, to_disconnected
from bridge.pump.dead_letters import count_written
from bridge.pump.events import TargetEvents
from bridge.pump.gate import Gate, Partition, find_partition
from bridge.pump.order import Held, by_number
from bridge.pump.policy import Attempts, Policy, Unroutable
from bridge.pump.sending import LiveReceiver, Sender
from bridge.pump.window import Pending, Window, abandon_copy, finish_copies

LOG: Final = logging.getLogger(__name__)

WAITING: Final = 3.0
"""Maximum number of seconds between the tries of a message that waits (`Failure.waits`)."""


class Outlet:
    """Sends messages to a target until they are confirmed.

    ``dead_letter`` sends a dead letter instead of a message that this target refuses for good. Without it, such a
    message is held and tried for ever, and so is a message for which ``is_last`` is true. ``fate`` is what events call
    the fate of a message given to ``dead_letter``: DROP where that drops it. ``random`` returns numbers in [0, 1).
    ``changed`` is called when the target was opened, and when a refused message leaves because its source will
    give it again. With ``is_limited``, the limit of a message's source decides whether it may become a dead letter.
    """

    def __init__(
        self,
        target: Target,
        policy: Policy,
        events: TargetEvents,
        random: Callable[[], float],
        dead_letter: Callable[[Outgoing, Failure, str], None] | None = None,
        changed: Callable[[], None] = lambda: None,
        is_last: Callable[[Outgoing], bool] = lambda _: False,
        fate: Unroutable = Unroutable.DEAD_LETTER,
        *,
        is_limited: bool = False,
    ) -> None:
        self.target = target
        self.error: Disconnected | None = None
        """Reason why the target is not connected; None while it is, and before the first try."""
        self._policy = policy
        self._events = events
        self._random = random
        self._dead_letter = dead_letter
        self._changed = changed
        self._is_last = is_last
        self._given_up: Final = fate
        self._is_limited: Final = is_limited
        self._held = Held(target.key_of)
        self._gates: dict[Partition, Gate] = {}
        self._in_flight: dict[int, Outgoing] = {}
        """Number -> message without an answer that was sent, or will be once there is a connection."""
        self._connection = LiveReceiver(None)
        self._gone = asyncio.Event()
        self._gone.set()
        self._progressed = False
        """Whether the target has confirmed or refused a message over this connection."""
        self._sender: Final = Sender(target, events.sending)

    @property
    def connected(self) -> bool:
        """Whether the target is open."""
        return self._connection.outlet is not None

    @property
    def in_flight(self) -> int:
        """Number of messages without an answer that were sent, or will be once there is a connection."""
        return len(self._in_flight)

    @property
    def held(self) -> int:
        """Number of held messages."""
        return len(self._held)

    @property
    def waiting(self) -> Mapping[str, Failure]:
        """Queue of the topology -> failure because of which its target takes no message for it, or for a key."""
        waiting = {each.queue: each.waiting[0] for each in self._held.all() if each.waiting is not None}
        waiting.update({queue: gate.failure for (queue, _), gate in self._gates.items() if gate.failure is not None})
        return waiting

    def oldest(self) -> Outgoing | None:
        """Return the unconfirmed message that was routed first; None if there is none."""
        return min((*self._in_flight.values(), *self._held.firsts()), key=by_number, default=None)

    def owes(self, window: Window) -> bool:
        """Return whether messages of this window have no answer yet."""
        return any(outgoing.context.window is window for outgoing in self._in_flight.values())

    async def run(self) -> None:
        """Keep the target open until cancelled."""
        loop, attempts = asyncio.get_running_loop(), Attempts(self._policy.reconnect, self._random)
        while True:
            connection = LiveReceiver(self)
            self._gone.clear()  # before opening: the connection may be lost before `open` has returned
            began, tried_for = loop.time(), 0.0
            try:
                await self.target.open(connection)
            except Exception as error:  # noqa: BLE001  whatever it is, the next try may go well
                reason, tried_for = to_disconnected(error), loop.time() - began
                connection.outlet = None
            else:
                self._connection, opened = connection, loop.time()
                self._progressed = False
                if self.connected:  # else it was lost while it was opened
                    self.error = None
                    self._events.connected(self.target.name)
                    self._send_again()
                    self._changed()
                    await self._gone.wait()
                attempts.note_connection(loop.time() - opened, progressed=self._progressed)
                reason = self.error or Disconnected("closed")
            self.error = reason
            await self._close_target()
            wait = attempts.next_wait(tried_for)
            self._events.disconnected(self.target.name, reason, wait)
            await asyncio.sleep(wait)

    async def close(self) -> None:
        """Close the target, and ignore what it still reports."""
        self._connection.outlet = None
        await self._close_target()

    async def _close_target(self) -> None:
        try:
            await self.target.close()
        except Exception:
            LOG.exception("%s: closing", self.target.name)

    def send(self, messages: Iterable[Outgoing]) -> None:
        """Send new messages, whose numbers are higher than those of all messages before."""
        # The fast path, with nothing held and no gate: all that it does for each message is to remember it.
        if not self._held and not self._gates and not self._policy.one_at_a_time:
            fresh = list(messages)
            self._in_flight.update([(outgoing.number, outgoing) for outgoing in fresh])
            if self.connected:
                self._sender.write(self._connection, fresh)
            return
        firsts = []
        for outgoing in messages:
            waits = self._gates and find_partition(outgoing) in self._gates
            if waits or self._policy.one_at_a_time or self._held.holds(outgoing):
                self._held.add(outgoing)
                if not self._held.is_first(outgoing):
                    continue
            firsts.append(outgoing)
        self._release(firsts)

    def discard(self, window: Window) -> None:
        """Forget the messages of a window that were dropped and not sent yet: their source will give them again.

        While the target is connected, those in flight stay: it may still write them, and newer ones must not overtake
        them.
        """

        def unwanted(outgoing: Outgoing) -> bool:
            pending: Pending = outgoing.context
            return pending.window is window and pending.dropped

        firsts = self._held.discard(unwanted)
        if not self.connected:
            for number in [number for number, outgoing in self._in_flight.items() if unwanted(outgoing)]:
                del self._in_flight[number]
        self._release(firsts)

    # Reports of the target.

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        """Forget the confirmed messages, release the next ones of their keys, and settle deliveries at the sources."""
        forget = self._in_flight.pop
        known = [outgoing for outgoing in messages if forget(outgoing.number, None) is not None]
        windows = finish_copies([outgoing.context for outgoing in known])
        self._progressed |= bool(known)
        now = asyncio.get_running_loop().time()
        if self._is_limited:
            count_written(known)
        if self._gates:
            self._let_through(known)
        if self._held:
            firsts = [first for o in known if (first := self._held.remove(o)) is not None]
            # A message that one confirm releases may be confirmed by this report, too: it must not be sent again.
            self._release([first for first in firsts if self._held.is_first(first)])
        self._events.confirmed(self.target.name, known, now)
        for window in windows:
            window.settle()

    def failed(self, outgoing: Outgoing, failure: Failure) -> None:
        """Decide on a refused message: wait behind a gate, try again, hold it for ever, or send a dead letter."""
        if self._in_flight.pop(outgoing.number, None) is None:
            return
        gate = self._gates.get(find_partition(outgoing)) if self._gates else None
        if gate is not None:
            gate.under_way.discard(outgoing.number)
        if outgoing.context.dropped or failure.moot:
            abandon_copy(outgoing.context, outgoing.queue)
            self._events.abandoned(self.target.name, outgoing)
            self._leave(outgoing)
            self._changed()
            return
        if failure.busy:
            self._wait_behind_gate(outgoing, failure)
            return
        self._progressed = True
        outgoing.attempts += 1
        if failure.waits:
            self._wait(outgoing, failure)
            return
        fate = self._fate(outgoing, failure)
        if fate is Unroutable.DEAD_LETTER and not self._may_become_dead_letter(outgoing, failure):
            fate = Unroutable.HOLD
        if fate is Unroutable.DEAD_LETTER:
            self._events.refused(self.target.name, outgoing, failure, None)
            self._send_dead_letter(outgoing, failure)
            self._leave(outgoing)
        else:
            self._hold(outgoing, failure, fate)

    def lost(self, error: Disconnected) -> None:
        """Have `run` open the target again, after which messages in flight are sent again."""
        self.error = error
        self._gone.set()

    # Refusals.

    def _fate(self, outgoing: Outgoing, failure: Failure) -> Unroutable | None:
        """Return the fate of a refused message; None: it is only tried again."""
        if not failure.final and outgoing.attempts - outgoing.waits < self._policy.tries:
            return None
        if self._dead_letter is None or self._is_last(outgoing):
            return Unroutable.HOLD
        return Unroutable.DEAD_LETTER

    def _may_become_dead_letter(self, outgoing: Outgoing, failure: Failure) -> bool:
        """Return whether the limit of the message's source permits that; else it is tried again until it does."""
        pending: Pending = outgoing.context
        limit = pending.window.limit
        if limit is not None and self._is_limited:
            again, now = partial(self._retry, outgoing, outgoing.attempts), asyncio.get_running_loop().time()
            if not limit.permit(pending, outgoing.queue, failure.reason, again, now):
                return False
            pending.held_reason = None
        return True

    def _wait(self, outgoing: Outgoing, failure: Failure) -> None:
        """Hold a message and its key until it passes, or, after ``give_up_after``, becomes a dead letter."""
        now = asyncio.get_running_loop().time()
        outgoing.waits += 1
        outgoing.waiting = failure, outgoing.waiting[1] if outgoing.waiting is not None else now
        patience = self._policy.give_up_after
        if patience is None or self._dead_letter is None or now - outgoing.waiting[1] < patience:
            self._hold(outgoing, failure, None)
        else:
            self._send_dead_letter(outgoing, failure)
            self._leave(outgoing)

    def _hold(self, outgoing: Outgoing, failure: Failure, fate: Unroutable | None) -> None:
        """Hold the message and its key, and try the message again after the backoff."""
        self._held.add(outgoing)
        wait = self._policy.backoff.delay(outgoing.attempts, self._random())
        if failure.waits:
            wait = min(wait, WAITING)
        self._events.refused(self.target.name, outgoing, failure, wait)
        pending: Pending = outgoing.context
        if fate is Unroutable.HOLD and pending.held_reason is None:
            pending.held_reason = failure.reason
            self._events.gave_up(self.target.name, outgoing, failure, fate.value)
        asyncio.get_running_loop().call_later(wait, self._retry, outgoing, outgoing.attempts)
        self._launch_from_gates()  # it leaves room for another one

    def _send_dead_letter(self, outgoing: Outgoing, failure: Failure) -> None:
        """Call ``dead_letter`` to send a dead letter instead of the message."""
        assert self._dead_letter is not None  # noqa: S101  `_fate` and `_wait_behind_gate` have checked it
        self._events.gave_up(self.target.name, outgoing, failure, self._given_up.value)
        pending: Pending = outgoing.context
        if pending.window.limit is not None:
            pending.window.limit.release(pending, outgoing.queue)
        self._dead_letter(outgoing, failure, self.target.name)

    def _retry(self, outgoing: Outgoing, attempts: int) -> bool:
        """Return whether a message is tried again: if it is the first of its key, and was not tried since."""
        if is_due := self._held.is_first(outgoing) and outgoing.attempts == attempts:
            self._release([outgoing])
        return is_due

    # Back-pressure.

    def _wait_behind_gate(self, outgoing: Outgoing, failure: Failure) -> None:
        """Hold the message and all others for its queue or partition, and try again later, through a gate."""
        loop = asyncio.get_running_loop()
        partition = find_partition(outgoing)
        gate = self._gates.get(partition)
        if gate is None:
            gate = self._gates[partition] = Gate()
            # The target may refuse the messages in flight, too: they are held, so that newer ones of their keys wait.
            for each in self._in_flight.values():
                if find_partition(each) == partition:
                    self._held.add(each)
                    gate.under_way.add(each.number)
        if gate.refuse(failure, loop.time()):
            wait = self._policy.backoff.delay(gate.attempts, self._random())
            self._events.refused(self.target.name, outgoing, failure, wait)
            loop.call_later(wait, self._reopen, partition)
        patience = self._policy.give_up_after
        if patience is not None and self._dead_letter is not None and loop.time() - gate.since >= patience:
            self._give_up(partition, outgoing, failure)
            return
        self._held.add(outgoing)
        if self._held.is_first(outgoing):
            gate.offer(outgoing)

    def _give_up(self, partition: Partition, refused: Outgoing, failure: Failure) -> None:
        """Send dead letters, in order, for the waiting messages of a queue that has taken none for too long.

        Messages in flight stay, as the target may still confirm them.
        """
        held = [each for each in self._held.all() if find_partition(each) == partition]
        waiting = [each for each in held if each.number not in self._in_flight]
        for outgoing in sorted({refused, *waiting}, key=by_number):
            self._held.remove(outgoing)
            self._send_dead_letter(outgoing, failure)

    def _reopen(self, partition: Partition) -> None:
        self._gates[partition].reopen()
        self._launch_from_gates()

    def _let_through(self, messages: Iterable[Outgoing]) -> None:
        """Open the gates of confirmed messages wider."""
        for outgoing in messages:
            gate = self._gates.get(find_partition(outgoing))
            if gate is not None:
                gate.under_way.discard(outgoing.number)
                gate.accept()

    def _launch_from_gates(self) -> None:
        if not self._gates or not self.connected:
            return
        now = asyncio.get_running_loop().time()
        for partition, gate in list(self._gates.items()):
            self._launch(gate.take(self._may_go))
            if gate.is_calm(now):
                del self._gates[partition]

    def _may_go(self, outgoing: Outgoing) -> bool:
        return self._held.is_first(outgoing) and outgoing.number not in self._in_flight

    # Sending.

    def _leave(self, gone: Outgoing) -> None:
        """Forget a message that is not to be sent any more, and release the next one of its key."""
        if (first := self._held.remove(gone)) is not None:
            self._release([first])
        elif self._gates:
            self._launch_from_gates()

    def _release(self, firsts: Iterable[Outgoing]) -> None:
        """Send messages, each the first of its key, or offer them to their gates."""
        ready = []
        for outgoing in firsts:
            gate = self._gates.get(find_partition(outgoing)) if self._gates else None
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
            self._sender.write(self._connection, fresh)

    def _send_again(self) -> None:
        """Send the messages in flight over a new connection, in their order.

        Of a held key, only the first message is sent, even if more were in flight before the connection was lost: these
        wait again. Messages behind a gate are offered to it.
        """
        under_way = sorted(self._in_flight.values(), key=by_number)
        self._in_flight.clear()
        for gate in self._gates.values():
            gate.under_way.clear()
        again: list[Outgoing] = []
        firsts: list[Outgoing] = []
        for outgoing in under_way:
            if outgoing.context.dropped:
                if (first := self._held.remove(outgoing)) is not None:
                    firsts.append(first)
                continue
            if find_partition(outgoing) in self._gates or self._held.holds(outgoing):
                self._held.add(outgoing)
                if self._held.is_first(outgoing):
                    firsts.append(outgoing)
            else:
                again.append(outgoing)
        self._launch(again)
        self._release([outgoing for outgoing in firsts if self._may_go(outgoing)])
        self._launch_from_gates()
