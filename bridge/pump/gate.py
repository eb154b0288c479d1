"""Back-pressure: a queue of a target that takes nothing now is tried with one message, then with more and more.

A nack, or a queue that is missing, is no verdict on a message: whatever goes there waits. After each refusal the next
try comes later; after each success twice as many messages may be under way. For `CALM` seconds after the last refusal
only one message of a key is under way, because a queue that is about to be full again may refuse any message in the
middle of what it was sent, and those behind it must not overtake it.

What was refused goes behind the other keys that wait: should one message be refused for its own sake, as nothing else
is any more, another one gets through and shows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from bridge.endpoint import Failure, Outgoing

__all__ = ["CALM", "Gate"]

CALM = 60.0
"""Seconds without a refusal after which a queue is written to as any other."""

WIDEST = 1 << 16
"""Maximum number of messages under way."""


class Gate:
    """The back-pressure of one queue. Times are the event loop's, in seconds."""

    def __init__(self) -> None:
        self.failure: Failure | None = None
        """Why the last try failed; None once a message got through."""
        self.since = 0.0
        """Since when no message got through."""
        self.attempts = 0
        """Number of rounds of tries since then."""
        self.refused_at = 0.0
        """When the last message was refused."""
        self.waits = False
        """Whether a timer runs, before which nothing is tried."""
        self.under_way: set[int] = set()
        """Numbers of messages that were sent and are not answered."""
        self._wide = 1
        self._ready: deque[Outgoing] = deque()

    def refuse(self, failure: Failure, now: float) -> bool:
        """Take note of a refusal. Return whether a timer is to be started, after which `reopen` is called."""
        if self.failure is None:
            self.since, self.attempts = now, 0
        self.failure, self.refused_at, self._wide = failure, now, 1
        if self.waits:
            return False
        self.waits = True
        self.attempts += 1
        return True

    def reopen(self) -> None:
        """Allow the next try."""
        self.waits = False

    def accept(self) -> None:
        """Take note of a message that got through."""
        self.failure = None
        self._wide = min(self._wide * 2, WIDEST)

    def offer(self, outgoing: Outgoing) -> None:
        """Add a message that may be sent when there is room; the first of its key."""
        self._ready.append(outgoing)

    def take(self, may_go: Callable[[Outgoing], bool]) -> list[Outgoing]:
        """Return the messages that may be sent now; those that ``may_go`` denies are forgotten."""
        taken: list[Outgoing] = []
        while self._ready and not self.waits and len(self.under_way) < self._wide:
            outgoing = self._ready.popleft()
            if outgoing.number not in self.under_way and may_go(outgoing):
                self.under_way.add(outgoing.number)
                taken.append(outgoing)
        return taken

    def is_calm(self, now: float) -> bool:
        """Return whether the queue can be written to as any other again."""
        return not self._ready and not self.waits and self.failure is None and now - self.refused_at >= CALM
