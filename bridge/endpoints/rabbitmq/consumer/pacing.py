"""How many messages of a quorum queue are taken at once, so that a loop of crashes costs no more than its cause.

Each process that is killed costs one delivery of every message that was sent to it, and the queue drops a message that
was delivered too often. So a connection begins with a prefetch of one. Whenever it has settled as many messages, and
the last one came back seldom, the prefetch becomes `GROWTH` times as large, up to the configured one: so a process that
ends early has taken few. As long as messages come that came back, it stays small: those that came back often may be
among them. Such a message is alone under way, whatever has arrived behind it.

A new prefetch is for new consumers only. So the present one is cancelled, at a moment when it has as many messages as
it may have: one that is on its way to a cancelled consumer goes back, and that counts. The next consumer begins when
all that was delivered is settled: if messages of two were unacknowledged when the connection ends, they would come back
in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from bridge.endpoints.rabbitmq.consumer.redeliveries import count_deliveries
from bridge.endpoints.rabbitmq.frames import Arrived
from exchange.amqp import ContentHeader

GROWTH: Final = 4
"""Factor by which the prefetch grows."""

MAX_REDELIVERED_PREFETCH: Final = 4
"""Maximum prefetch as long as messages come that were delivered before."""


class Pacing:
    """The decisions of one connection.

    ``alone_from`` is the minimum number of earlier deliveries of a message taken alone, ``most`` the configured
    prefetch. ``settled`` and ``given`` are delivery tags: of the last delivery that was settled, and that was given.
    """

    def __init__(self, alone_from: int, most: int) -> None:
        self._alone_from: Final = alone_from
        self._most: Final = most
        self.prefetch = 1
        """Prefetch of the consumer, or of the next one if there is none."""
        self.is_stopped = False
        """Whether there is no consumer."""
        self._began = 0
        """Delivery tag of the last message before those of this consumer."""
        self._alone = 0
        """Delivery tag of the last message that was given alone."""
        self._is_fresh = False
        """Whether the last message that was given was not delivered before."""

    def may_grow(self, settled: int, unacknowledged: int) -> bool:
        """Return whether the consumer is to be cancelled now, before anything else is acknowledged."""
        is_full = unacknowledged >= self.prefetch and not self.is_stopped
        has_shown = settled - self._began >= self.prefetch and settled != self._alone
        most = self._most if self._is_fresh else min(self._most, MAX_REDELIVERED_PREFETCH)
        return is_full and has_shown and self.prefetch < most

    def stop(self) -> None:
        """Take note that the consumer is cancelled, so that one with a larger prefetch begins."""
        self.is_stopped = True
        self.prefetch = min(self.prefetch * GROWTH, self._most)

    def may_start(self, arrived: Sequence[Arrived], given: int, settled: int) -> bool:
        """Return whether the next consumer is to begin."""
        return self.is_stopped and not arrived and settled == given

    def start(self, settled: int) -> None:
        """Take note that it begins."""
        self.is_stopped, self._began = False, settled

    def count_ready(self, arrived: Sequence[Arrived], limit: int, given: int, settled: int) -> int:
        """Return how many of the messages that have arrived may be given, at most ``limit``; 0: others go first."""
        if not arrived or settled < self._alone:
            return 0
        if self._is_high(arrived[0]):
            if settled < given:
                return 0
            self._alone = arrived[0].tag
            return 1
        ready = 0
        for each in islice(arrived, limit):
            if (each.redelivered or not self._alone_from) and self._is_high(each):
                break
            ready += 1
            self._is_fresh = not each.redelivered
        return ready

    def _is_high(self, arrived: Arrived) -> bool:
        """Return whether a message is to be taken alone; only one that was redelivered has a count."""
        count = count_deliveries(ContentHeader(arrived.properties)) if arrived.redelivered else 0
        return count >= self._alone_from
