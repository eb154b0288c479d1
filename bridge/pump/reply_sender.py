"""Replies that were read where servers reply are sent to the callers of the requests, without routing.

A reply whose caller no longer waits, or that has no token of this bridge, is counted and settled. One that its caller's
system refuses is dropped: its caller is gone, and must not delay other callers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from bridge.client_errors import describe_unexpected
from bridge.endpoint import Failure, Outgoing
from bridge.pump.events import ReplyEvents
from bridge.pump.inlet import Inlet
from bridge.pump.outlet import Outlet
from bridge.pump.policy import Policy, Unroutable
from bridge.pump.replies import AddressedReply, Replies, ReplyOutcome, Servers
from bridge.pump.window import Pending
from exchange.errors import HashstarError


class ReplySender:
    """Sends replies to callers. ``numbers`` and ``clock`` are the pump's; ``changed`` is as for `Outlet`."""

    def __init__(
        self,
        replies: Replies,
        policy: Policy,
        events: ReplyEvents,
        random: Callable[[], float],
        numbers: Iterator[int],
        clock: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self._replies = replies
        self._events = events
        self._numbers = numbers
        self._clock = clock
        self._outlets: Final = {
            each.target: Outlet(each.target, policy, events, random, _drop, changed, fate=Unroutable.DROP)
            for each in replies.callers.values()
        }

    @property
    def outlets(self) -> Sequence[Outlet]:
        """Outlets of the targets that write to callers."""
        return [*self._outlets.values()]

    def send(self, inlet: Inlet, pendings: Sequence[Pending], servers: Servers) -> None:
        """Send the replies among deliveries to their callers, and settle all other deliveries."""
        name = inlet.source.name
        ready: dict[Outlet, list[Outgoing]] = {}
        for pending in pendings:
            delivery = pending.delivery
            reply: AddressedReply | ReplyOutcome = "unknown"
            try:
                if delivery.refusal is None:
                    reply = self._replies.address_reply(servers, delivery, self._clock())
            except Exception as error:  # noqa: BLE001  an unexpected error of one message must not stop the others
                reason = str(error) if isinstance(error, HashstarError) else describe_unexpected(error)
                self._events.unroutable(name, delivery, Unroutable.DROP.value, reason)
            if isinstance(reply, str):
                self._events.replied(name, reply)
                inlet.window.finish_copy(pending)
                continue
            self._events.replied(name, "brought home")
            outgoing = Outgoing(reply.message, delivery, reply.queue, None, next(self._numbers), 0, pending, reply)
            ready.setdefault(self._outlets[reply.target], []).append(outgoing)
        for outlet, messages in ready.items():
            outlet.send(messages)
        inlet.window.settle()


def _drop(outgoing: Outgoing, failure: Failure, target: str) -> None:
    """Settle a reply that its caller's system has refused."""
    pending: Pending = outgoing.context
    pending.window.finish_copy(pending)
    pending.window.settle()
