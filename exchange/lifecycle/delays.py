"""Messages that x-delayed-message exchanges keep: each is routed again when its delay is over, or nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Final, NamedTuple

from exchange.entities.profile import Profile
from exchange.lifecycle.content import Content
from exchange.routing.route import LaterRoute
from exchange.routing.router import Router
from exchange.values.message import Message


@dataclass(slots=True)
class _Left:
    """What exchanges still keep of one message, and whether a queue got it so far."""

    copies: int
    reached: bool


class _Kept(NamedTuple):
    """A message that one exchange keeps."""

    time: float
    """Milliseconds since the epoch."""
    number: int
    """The order of messages at one time."""
    exchange: str
    delay: int
    content: Content
    published: Message
    """The message as it was routed before."""
    left: _Left


class Delays:
    """The delayed messages of one virtual host.

    ``offer`` publishes to one queue. ``on_dropped`` is called for a message that no queue gets, at once or later.
    """

    def __init__(
        self,
        router: Router,
        profile: Profile,
        offer: Callable[[str, Content, None], bool],
        on_dropped: Callable[[Message], None] | None,
    ) -> None:
        self._router: Final = router
        self._profile: Final = profile
        self._offer: Final = offer
        self._on_dropped: Final = on_dropped
        self._kept: Final[list[_Kept]] = []
        self._count = 0

    @property
    def next_time(self) -> float:
        """The time in milliseconds at which the host must call `send`; infinite for never."""
        return self._kept[0].time if self._kept else inf

    def keep(
        self, now: float, content: Content, published: Message, later: Iterable[LaterRoute], *, reached: bool
    ) -> None:
        """Keep a message for each exchange that delays it; ``reached`` is whether a queue gets it at once."""
        kept = [*later]
        left = _Left(len(kept), reached)
        for exchange, delay, _ in kept:  # it is routed again, by the topology of then
            self._count += 1
            heappush(self._kept, _Kept(now + delay, self._count, exchange, delay, content, published, left))

    def send(self) -> None:
        """Send on the message whose time it is. A full queue may refuse it; no publisher gets an answer to that."""
        kept = heappop(self._kept)
        queues = self._router.route_later(kept.published, kept.exchange, kept.delay).queues
        content = kept.content.after_delay(kept.delay, self._profile)
        for name in queues:
            self._offer(name, content, None)
        left = kept.left
        left.copies -= 1
        left.reached |= bool(queues)
        if not left.copies and not left.reached and self._on_dropped is not None:
            self._on_dropped(content.as_message())
