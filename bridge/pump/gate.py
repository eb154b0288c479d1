"""Back-pressure: a queue of a target that takes nothing now is tried with one message, then with more and more.

A nack, or a missing queue, is no verdict on a message: all messages of the queue wait. After each refusal the next try
comes later; after each success twice as many messages may be under way. Until `CALM` seconds after the last refusal,
only one message of each key is under way: a queue that is soon full again may refuse any of the messages that were sent
to it, and later messages of the same key must not overtake the refused one.

A refused message goes behind the waiting messages of other keys. So if the queue refuses only this message, the next
one gets through, which shows that the queue itself works.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from bridge.endpoint import Failure, Outgoing

CALM = 60.0
"""Seconds without a refusal after which a queue's gate is removed."""

WIDEST = 1 << 16
"""Maximum number of messages under way through one gate."""


class Gate:
    """The back-pressure of one queue or partition. Times are the event loop's, in seconds."""

    def __init__(self) -> None:
        self.failure: Failure | None = None
        """Reason why the last try failed; None after a message got through."""
        self.since = 0.0
        """Time of the first refusal since a message got through."""
        self.attempts = 0
        """Number of failed tries since a message got through; a try may be of several messages."""
        self.refused_at = 0.0
        """Time of the last refusal."""
        self.waits = False
        """Whether a timer runs; until it ends, no message is sent."""
        self.under_way: set[int] = set()
        """Numbers of the messages that were sent and have no answer yet."""
        self._wide = 1
        """Present maximum number of messages under way; doubles with each success."""
        self._ready: deque[Outgoing] = deque()
        """Messages to send next, each the first of its key when it was offered."""

    def refuse(self, failure: Failure, now: float) -> bool:
        """Take note of a refusal. Return whether to start a timer that calls `reopen`."""
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
        """Queue a message, the first of its key, to be sent when the gate allows it."""
        self._ready.append(outgoing)

    def take(self, may_go: Callable[[Outgoing], bool]) -> list[Outgoing]:
        """Return the messages to send now, and count them as under way; those that ``may_go`` denies are removed."""
        taken: list[Outgoing] = []
        while self._ready and not self.waits and len(self.under_way) < self._wide:
            outgoing = self._ready.popleft()
            if outgoing.number not in self.under_way and may_go(outgoing):
                self.under_way.add(outgoing.number)
                taken.append(outgoing)
        return taken

    def is_calm(self, now: float) -> bool:
        """Return whether the gate can be removed: no message waits or was refused for `CALM` seconds."""
        return not self._ready and not self.waits and self.failure is None and now - self.refused_at >= CALM


Partition: TypeAlias = tuple[str, object]
"""A queue of the topology, and its partition or None. Each has a gate of its own."""


def find_partition(outgoing: Outgoing) -> Partition:
    """Return the queue of a copy, and its partition, which share a gate."""
    placement = outgoing.placement
    return outgoing.queue, None if placement is None else placement.partition
