"""Messages that a queue has delivered many times before, and that it will soon drop.

A quorum queue of RabbitMQ 4 counts how often each message came back to it unacknowledged. At the delivery limit, 20
unless the queue or a policy sets another, it drops the message, or dead-letters it if it has a dead-letter exchange.
Each connection that ends, for whatever reason, counts for all messages that were prefetched over it. So when the counts
come near the limit, the source waits longer and longer before it is opened again: in the queue, the messages are safe.
`bridge.endpoints.rabbitmq.consumer.pacing` keeps the counts from coming near, where the limit is known.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from exchange.amqp import ContentHeader, MalformedHeader
from exchange.values.field_values import resolve_type

LOG: Final = logging.getLogger(__name__)

LIMIT: Final = 20
"""RabbitMQ's default delivery limit: there is no 21st delivery."""

FIRST_PAUSE: Final = 60.0
"""Seconds before the source is opened again when a message comes into danger; they double with each delivery."""
LONGEST_PAUSE: Final = 6 * 3_600.0
"""Maximum of these seconds."""

FORGET: Final = 600.0
"""Minimum number of seconds without such a message after which the danger is over."""

CAREFUL_PREFETCH: Final = 10
"""Maximum number of messages that are prefetched while there is danger."""


def count_deliveries(content: ContentHeader) -> int:
    """Return how many earlier deliveries of a message its queue counts towards the limit; 0 if it does not count.

    ``x-acquired-count``, since 4.3, has those, too, that do not count: a message that was given back by basic.nack.
    """
    try:
        _, value = resolve_type(content.header("x-delivery-count"))
    except MalformedHeader:
        return 0
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


class Redeliveries:
    """The redelivered messages of a source. Times are the event loop's, in seconds."""

    def __init__(self, queue: str, source: str = "") -> None:
        self._queue = queue
        self._source = source
        self._seen_at = 0.0
        self._limit: int | None = LIMIT
        self._is_known = False
        self.most = 0
        """Highest number of earlier deliveries of a message in danger; 0 if there is none."""

    def look(self, content: ContentHeader) -> None:
        """Count the earlier deliveries of a message, and log an error if it is in danger."""
        if self.see(count_deliveries(content), asyncio.get_running_loop().time()):
            LOG.error("%s: %s", self._source, self.warning)

    def learn(self, limit: int | None) -> None:
        """Take note of the queue's present limit, None for none; as long as it is unknown, it is `LIMIT`."""
        self._limit, self._is_known = limit, True
        if limit is None or self.most < self.near:
            self.most = 0

    @property
    def near(self) -> int:
        """Minimum number of earlier deliveries of a message in danger. With more than the limit, it is another one."""
        return max(1, ((self._limit or 0) + 1) // 2)

    def see(self, count: int, now: float) -> bool:
        """Take note of a message that was delivered ``count`` times before. Return whether that is a new maximum."""
        if self._limit is None or not self.near <= count <= self._limit:
            return False
        is_news = count > self.most
        self.most = max(self.most, count)
        self._seen_at = now
        return is_news

    def limit_prefetch(self, prefetch: int, now: float) -> int:
        """Return the number of messages that may be unacknowledged: ``prefetch``, or a few while there is danger."""
        return min(prefetch, CAREFUL_PREFETCH) if self.in_danger(now) else prefetch

    def in_danger(self, now: float) -> bool:
        """Return whether messages are near the limit."""
        if self.most and now - self._seen_at > max(FORGET, 2 * self._pause()):
            self.most = 0
        return self.most > 0

    def wait(self, now: float) -> float:
        """Return the seconds to wait before the source is opened again."""
        return max(0.0, self._seen_at + self._pause() - now) if self.in_danger(now) else 0.0

    def _pause(self) -> float:
        return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self.most - self.near)))

    @property
    def warning(self) -> str:
        """Warning for the operator."""
        return (
            f"queue {self._queue!r} has delivered a message {self.most} times, and drops or dead-letters it after "
            f"{self._limit}{'' if self._is_known else ' unless it has another delivery-limit'}; find out why nothing "
            "settles it, or set a policy with delivery-limit = -1 or a dead-letter-exchange"
        )
