"""What becomes of a delivery that cannot be delivered: it is dropped, held and routed again later, or a dead letter.

Without a target of dead letters it is held in place of that. How many become dead letters is limited
(`bridge.pump.dead_letters.DeadLetterLimit`): what is beyond waits, and is routed again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from bridge.endpoint import Failure, Outgoing, Target
from bridge.interop.marks import is_dead_letter
from bridge.pump.dead_letters import build_dead_letter, is_packed, pack
from bridge.pump.events import ReplyEvents
from bridge.pump.inlet import Inlet
from bridge.pump.outlet import Outlet
from bridge.pump.policy import Policy, Unroutable
from bridge.pump.window import Pending

LIMITED: Final = 5.0
"""Seconds after which a delivery is routed again that could not become a dead letter, as too many others did."""


class Undeliverable:
    """Decides on what cannot be delivered, and makes dead letters. The other parameters are those of the pump.

    ``changed`` is as for `Outlet`, ``route`` routes a delivery once more.
    """

    def __init__(
        self,
        target: Target | None,
        policy: Policy,
        events: ReplyEvents,
        random: Callable[[], float],
        clock: Callable[[], float],
        numbers: Iterator[int],
        changed: Callable[[], None],
        route: Callable[[Inlet, Pending], None],
    ) -> None:
        self._policy: Final = policy
        self._events: Final = events
        self._clock: Final = clock
        self._numbers: Final = numbers
        self._route: Final = route
        self.outlet: Outlet | None = None
        """Outlet of dead letters; None: there are none, and what would be one is held."""
        if target is not None:
            patient = replace(policy, give_up_after=None)  # a dead letter has no other target
            self.outlet = Outlet(
                target, patient, events, random, self._send_packed, changed, lambda dead: is_packed(dead.message)
            )

    def unroutable(self, inlet: Inlet, pending: Pending, reason: str, ready: dict[Outlet, list[Outgoing]]) -> None:
        """Drop a delivery that no queue gets, hold it, or add its dead letter to ``ready``, as the policy says."""
        if self._policy.unroutable is Unroutable.DROP:
            self._events.unroutable(inlet.source.name, pending.delivery, Unroutable.DROP.value, reason)
            pending.held_reason = None
            inlet.window.finish_copy(pending)
        elif self._policy.unroutable is Unroutable.DEAD_LETTER:
            self._bury(inlet, pending, reason, f"unroutable: {reason}", ready)
        else:
            self.hold(inlet, pending, reason)

    def end_loop(self, inlet: Inlet, pending: Pending, hops: int, ready: dict[Outlet, list[Outgoing]]) -> None:
        """End a loop of bridges with a dead letter, or, if the message is a dead letter itself, by holding it."""
        reason = f"loop: passed {hops} bridges"
        if is_dead_letter(pending.delivery.message):
            self.hold(inlet, pending, reason)
        else:
            self._bury(inlet, pending, reason, reason, ready)

    def hold(self, inlet: Inlet, pending: Pending, reason: str) -> None:
        """Keep a delivery, and route it again later."""
        self._note_hold(inlet, pending, reason)
        asyncio.get_running_loop().call_later(self._policy.backoff.most, self._route, inlet, pending)

    def permits(self, inlet: Inlet, pending: Pending, queue: str, reason: str) -> bool:
        """Return whether a delivery may become a dead letter now; else hold it, and route it again later."""
        limit = inlet.window.limit
        if limit is None:
            return True
        loop = asyncio.get_running_loop()

        def again() -> bool:
            timer.cancel()
            self._route(inlet, pending)
            if limit.release(pending, queue, again):  # else it waits once more
                pending.held_reason = None
            return True

        timer = loop.call_later(LIMITED, again)
        if limit.permit(pending, queue, reason, again, loop.time()):
            timer.cancel()
            return True
        self._note_hold(inlet, pending, reason)
        return False

    def build(self, pending: Pending, reason: str, where: str, queue: str, attempts: int = 0) -> Outgoing:
        """Return the dead letter of a delivery, to be sent to `outlet`; ``where`` is its target, or its source."""
        message = build_dead_letter(pending.delivery, reason, where, queue, attempts, self._clock())
        return Outgoing(message, pending.delivery, "", None, next(self._numbers), context=pending)

    def send(self, outgoing: Outgoing, failure: Failure, target: str) -> None:
        """Send the dead letter of a copy that its target has refused for good."""
        assert self.outlet is not None  # noqa: S101  outlets get this method only if there is one
        dead = self.build(outgoing.context, failure.reason, target, outgoing.queue, outgoing.attempts)
        self.outlet.send([dead])

    def _send_packed(self, dead: Outgoing, _: Failure, __: str) -> None:
        """Send a refused dead letter again, with its headers in its body."""
        assert self.outlet is not None  # noqa: S101  it has called this method
        packed = Outgoing(pack(dead.message), dead.delivery, "", None, next(self._numbers), 0, dead.context)
        self.outlet.send([packed])

    def _bury(
        self, inlet: Inlet, pending: Pending, reason: str, written: str, ready: dict[Outlet, list[Outgoing]]
    ) -> None:
        """Add the dead letter of a whole delivery to ``ready``; ``written`` is the reason that it has."""
        if self.outlet is None:
            self.hold(inlet, pending, reason)
        elif self.permits(inlet, pending, "", reason):
            source = inlet.source.name
            self._events.unroutable(source, pending.delivery, Unroutable.DEAD_LETTER.value, reason)
            pending.held_reason = None
            ready.setdefault(self.outlet, []).append(self.build(pending, written, source, ""))

    def _note_hold(self, inlet: Inlet, pending: Pending, reason: str) -> None:
        if pending.held_reason is None:  # else this is another try, and the first one was reported
            self._events.unroutable(inlet.source.name, pending.delivery, Unroutable.HOLD.value, reason)
        pending.held_reason = reason
