"""Send the answers to deliveries together, each on the channel that its delivery came on; and publish to the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from exchange.dispatch.answers import Answers
from exchange.dispatch.delivery import Answer, Ticket
from exchange.dispatch.link import Link, LinkLost
from exchange.dispatch.policy import ConsumerCounts
from exchange.text.display import count_noun

T = TypeVar("T")

log: Final = logging.getLogger("exchange.dispatch.consumer")

ANSWER_DELAY: Final = 0.002
"""Maximum seconds that an answer waits for others, to be sent with them. It does not wait where an eighth of the
prefetch is done, so that the broker never runs out of deliveries that it may send."""


class AnswerSender:
    """The answers of one consumer. All methods are called in the thread of its event loop."""

    def __init__(self, link: Link, counts: ConsumerCounts, prefetch: int | None) -> None:
        self.at_once = False
        """Whether answers do not wait for others, as the consumer is stopping."""
        self._link: Final = link
        self._counts: Final = counts
        self._batch: Final = max(1, (prefetch or 0) // 8)
        self._by_channel: Final[dict[Any, Answers]] = {}  # after a reconnect there may be two channels
        self._unsent: Final[set[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None

    def receive(self, ticket: Ticket) -> None:
        """Note that a delivery has come, which gets exactly one answer."""
        answers = self._by_channel.get(ticket.channel)
        if answers is None:
            for old in [old for old in self._by_channel if not self._link.is_open(old)]:
                self._counts.lost += self._by_channel.pop(old).pending
                self._unsent.discard(old)
            answers = self._by_channel[ticket.channel] = Answers()
        answers.receive(ticket.tag)

    def add(self, ticket: Ticket, answer: Answer) -> None:
        """Send an answer, soon and together with others; it is lost if its channel is."""
        answers = self._by_channel.get(ticket.channel)
        if answers is None:
            self._counts.lost += 1
            return
        answers.add(ticket.tag, answer)
        self._unsent.add(ticket.channel)
        if self._sending is not None:
            return
        if self.at_once or answers.pending >= self._batch:
            self._send_now()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ANSWER_DELAY, self._send_now)

    async def finish(self, seconds: float) -> None:
        """Send all answers now, and wait for that at most ``seconds``."""
        self._send_now()
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=seconds)

    def _send_now(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sending is None and self._unsent:
            sending = asyncio.get_running_loop().create_task(self._send())
            self._sending = None if sending.done() else sending

    async def _send(self) -> None:
        try:
            while self._unsent:
                channel = self._unsent.pop()
                answers = self._by_channel[channel]
                number = answers.pending
                try:
                    await self._link.answer(channel, answers.take())
                except LinkLost as trouble:
                    log.warning("%s not acknowledged: %s", count_noun(number, "delivery", "deliveries"), trouble)
                    self._counts.lost += number
        finally:
            self._sending = None


async def finish(publish: Awaitable[T]) -> T:
    """Await a publish; if the caller is cancelled, the publish goes on by itself, and its error is dropped.

    A publish of aiormq must not be cancelled: if the broker's return of its message comes in that moment, aiormq's
    reader of the channel ends, and soon nothing is read from the whole connection any more.
    """
    publishing = asyncio.ensure_future(publish)
    try:
        return await asyncio.shield(publishing)
    except asyncio.CancelledError:
        publishing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        raise
