"""What becomes of messages that died in queues: their dead letters are routed, now or again later, or they are lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, NamedTuple, Protocol

from exchange.entities.profile import QueueBehaviour
from exchange.errors import InputError
from exchange.lifecycle.content import Content, DeadLetter, record_death
from exchange.lifecycle.outcomes import NO_EXCHANGE, Cause, DeletionCause, find_targets
from exchange.lifecycle.queues import Death, LiveQueue
from exchange.lifecycle.quorum import QuorumQueue
from exchange.limits import DEAD_LETTERS
from exchange.routing.route import LaterRoute
from exchange.routing.router import Router
from exchange.text.display import list_some
from exchange.values.message import Message

RETRY_MILLISECONDS: Final = 180_000
"""Time after which a dead letter that must arrive at least once, and had no target, is routed again."""


class Sender(Protocol):
    """What dead-lettering needs of the virtual host."""

    now: float
    """The time in milliseconds since the epoch."""

    @property
    def release(self) -> QueueBehaviour:
        """The behaviour of the broker's release."""

    @property
    def dead(self) -> deque[Death]:
        """What died, the oldest first."""

    def queue(self, name: str) -> LiveQueue:
        """Return the state of a queue."""

    def offer(self, name: str, content: Content, publisher: object | None) -> bool:
        """Publish to one queue; return whether it took the message."""

    def delay(self, content: Content, published: Message, later: Iterable[LaterRoute], *, reached: bool) -> None:
        """Keep a message that exchanges delay; ``reached`` is whether a queue gets it at once."""

    def lose(self, queue: LiveQueue, content: Content, reason: str, cause: Cause | DeletionCause) -> None:
        """Note a message that ended in a queue."""


class _Retry(NamedTuple):
    """A dead letter that must arrive, and that is routed again."""

    time: float
    """Milliseconds since the epoch."""
    number: int
    """The order of retries at one time."""
    queue: QuorumQueue
    content: Content
    """The message in that queue."""
    dead: Content
    """Its dead letter."""
    reason: str
    arrived: frozenset[str]
    """Targets that took it before."""


class DeadLettering:
    """Routes the dead letters of one virtual host, one after the other."""

    def __init__(self, host: Sender, router: Router) -> None:
        self._host: Final = host
        self._router: Final = router
        self._retries: Final[list[_Retry]] = []
        self._retry_count = 0
        self._is_sending = False

    def send_all(self) -> None:
        """Dead-letter what died, and what dies then, until all is done. Raises InputError if that has no end."""
        if self._is_sending:
            return  # the loop that is running takes it
        self._is_sending = True
        dead = self._host.dead
        try:
            count = 0
            while dead:
                if count == DEAD_LETTERS:
                    names = list_some(sorted({queue.name for queue, *_ in dead}), 4)
                    raise InputError(f"dead letters go round without end: {DEAD_LETTERS:,} at once, from {names}")
                count += 1
                queue, content, failures, reason = dead.popleft()
                self.send(queue, content, failures, reason)
        finally:
            self._is_sending = False
            dead.clear()

    def send(self, queue: LiveQueue, content: Content, failures: int | None, reason: str) -> None:
        """Dead-letter one message that died in a queue."""
        host, address = self._host, queue.address
        if address is None:
            host.lose(queue, content, reason, NO_EXCHANGE)
            return
        dead = record_death(content, queue.name, reason, address, int(host.now // 1000), host.release)
        dead.failures = failures
        if queue.limits.dead_letters.at_least_once and isinstance(queue, QuorumQueue):
            self._send_surely(queue, content, dead, reason)
            return
        targets, cause, later = find_targets(self._router, dead, reason, host.release)
        passed = False
        if later:
            passed = True
            host.delay(dead, DeadLetter(dead), later, reached=bool(targets))
        for name in targets:
            # What a full queue refuses with reject-publish-dlx dies there, and is its dead letter.
            passed |= host.offer(name, dead, None) or host.queue(name).limits.overflow == "reject-publish-dlx"
        if not passed:
            host.lose(queue, dead, reason, cause or "full queue")

    def _send_surely(
        self, queue: QuorumQueue, content: Content, dead: Content, reason: str, arrived: frozenset[str] = frozenset()
    ) -> None:
        """Route a dead letter, now or later, until all of its targets took it; its queue keeps the message until then.

        ``arrived`` are the targets that took it before.
        """
        host = self._host
        targets, _, later = find_targets(self._router, dead, reason, host.release)
        if later and not arrived:
            host.delay(dead, DeadLetter(dead), later, reached=bool(targets))
        arrived |= {name for name in targets if name not in arrived and host.offer(name, dead, queue)}
        if targets and arrived.issuperset(targets):
            queue.forget_dead(content)
        else:
            self._retry_count += 1
            time = host.now + RETRY_MILLISECONDS
            heappush(self._retries, _Retry(time, self._retry_count, queue, content, dead, reason, arrived))

    @property
    def next_retry(self) -> float:
        """The time in milliseconds at which the host must call `retry`; infinite for never."""
        return self._retries[0].time if self._retries else inf

    def retry(self) -> LiveQueue:
        """Route the dead letter again whose time it is; return its queue."""
        retry = heappop(self._retries)
        self._send_surely(retry.queue, retry.content, retry.dead, retry.reason, retry.arrived)
        return retry.queue

    def forget(self, queue: LiveQueue) -> Iterator[tuple[Content, str]]:
        """Forget the dead letters of a deleted queue; yield those that have not arrived anywhere, and why they died."""
        gone = [retry for retry in self._retries if retry.queue is queue]
        self._retries[:] = [retry for retry in self._retries if retry.queue is not queue]
        heapify(self._retries)
        for retry in gone:
            if not retry.arrived:
                yield retry.dead, retry.reason
