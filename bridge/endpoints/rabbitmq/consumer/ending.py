"""How a consumer of a queue ends, so that what the queue is just sending keeps its order.

A quorum queue puts a message that is on its way to a cancelled consumer behind those that wait, and one that is on its
way to a channel that is closed in front of them. So a consumer is cancelled at a moment when nothing can be on its way:
when it has as many messages as its prefetch allows. That moment comes if the queue has more, as nothing is
acknowledged before it. Where it does not come, the queue has next to nothing: the consumer ends with its channel then,
and what is on its way counts as delivered.
"""

from __future__ import annotations

import asyncio
from typing import Final

from bridge.endpoints.rabbitmq.connection import Channel

QUIET: Final = 0.05
"""Seconds for which a queue that has more may need to send it, after what was sent before has arrived."""


class ConsumerEnd:
    """The end of the consumer of a channel, if it has one. ``news`` is set when no more is to be expected."""

    def __init__(self, channel: Channel, news: asyncio.Event) -> None:
        self.is_over = False
        """Whether no more is to be expected than what has arrived."""
        self.is_cancelled = False
        """Whether there is no consumer any more: before, nothing is to be acknowledged."""
        self._channel = channel
        self._news = news

    def begin(self, unacknowledged: int, *, has_consumer: bool) -> None:
        """Begin with a number of messages that have arrived, and are not acknowledged."""
        if not has_consumer:
            self._note_cancelled()
        elif not self.cancel_if_full(unacknowledged):
            self._channel.mark(lambda: asyncio.get_running_loop().call_later(QUIET, self._expect_no_more))

    def cancel_if_full(self, unacknowledged: int) -> bool:
        """Cancel the consumer if nothing can be on its way to it; return whether it is cancelled."""
        if not self.is_cancelled and unacknowledged >= self._channel.prefetch:
            self._channel.cancel()
            self._note_cancelled()
        return self.is_cancelled

    def _note_cancelled(self) -> None:
        self.is_cancelled = True
        self._expect_no_more()

    def _expect_no_more(self) -> None:
        self.is_over = True
        self._news.set()
