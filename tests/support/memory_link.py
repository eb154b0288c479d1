"""A broker with one queue in memory, as the asyncio consumer sees it: it checks answers, and can lose its channel."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exchange.dispatch.answers import AnswerFrame
from exchange.dispatch.delivery import Carrier, Delivery, Ticket, assemble_delivery
from exchange.dispatch.link import LinkLost, Unroutable
from exchange.entities.entities import Binding, Exchange, Queue
from exchange.values.message import Message


class MemoryChannel:
    """A channel: what it gave and is unanswered."""

    def __init__(self) -> None:
        self.open = True
        self.last_tag = 0
        self.unanswered: dict[int, Message] = {}


class MemoryLink:
    """A queue; messages are put into it, and come out in order, at most ``prefetch`` of them unanswered.

    ``settled`` lists the outcome of each message: "ack" and "reject" are final. An answer to a delivery that the
    channel did not give, or has had answered, is an AssertionError, as a broker closes the channel then.
    """

    def __init__(self) -> None:
        self.queue = "memory"
        self.messages: deque[tuple[Message, bool]] = deque()
        self.settled: list[tuple[str, Message]] = []
        self.published: list[Message] = []
        self.declared: list[str] = []
        self.routable = True
        self.lost_publishes = 0
        self.channel = MemoryChannel()
        self.consuming = False
        self.frames = 0
        self.before_answers: Callable[[], None] = lambda: None
        self._prefetch = 0
        self._receive: Callable[[Delivery], None] = lambda _: None
        self._ended: Callable[[BaseException | None], None] = lambda _: None
        self._carrier: Carrier | None = None

    def put(self, *messages: Message) -> None:
        """Put messages at the end of the queue."""
        self.messages.extend((message, False) for message in messages)
        self._deliver()

    def lose(self, *, for_good: bool = False) -> None:
        """Lose the channel: what it gave goes back in order; a robust client consumes on a new one."""
        old, self.channel = self.channel, MemoryChannel()
        old.open = False
        self.messages.extendleft((message, True) for message in reversed(old.unanswered.values()))
        old.unanswered.clear()
        if for_good:
            self.consuming = False
            self._ended(LinkLost("lost for good"))
        self._deliver()

    def _deliver(self) -> None:
        if self.consuming:
            asyncio.get_running_loop().call_later(0.001, self._deliver_now)  # brokers take time, also virtual time

    def _deliver_now(self) -> None:
        channel = self.channel
        while self.consuming and self.messages and len(channel.unanswered) < self._prefetch:
            message, redelivered = self.messages.popleft()
            channel.last_tag += 1
            channel.unanswered[channel.last_tag] = message
            assert self._carrier is not None
            ticket = Ticket(self._carrier, channel, channel.last_tag, self.queue)
            self._receive(
                assemble_delivery(
                    message.exchange, message.routing_key, message.headers, message.properties, message.body,
                    redelivered, ticket,
                )
            )  # fmt: skip

    async def open(
        self,
        carrier: Carrier,
        receive: Callable[[Delivery], None],
        ended: Callable[[BaseException | None], None],
        prefetch: int | None,
        options: Mapping[str, Any],
    ) -> None:
        self._carrier, self._receive, self._ended = carrier, receive, ended
        self._prefetch = prefetch or 10**9
        self.consuming = True
        self._deliver()

    async def cancel(self) -> None:
        self.consuming = False
        await asyncio.sleep(0)

    def is_open(self, channel: Any) -> bool:
        return bool(channel.open)

    async def answer(self, channel: Any, frames: Sequence[AnswerFrame]) -> None:
        self.before_answers()
        await asyncio.sleep(0.001)
        if not channel.open:
            raise LinkLost("the channel is closed")
        back: dict[int, Message] = {}
        for tag, answer, multiple in frames:
            self.frames += 1
            assert tag in channel.unanswered, f"unknown delivery tag {tag}"
            for each in [one for one in channel.unanswered if one == tag or (multiple and one < tag)]:
                message = channel.unanswered.pop(each)
                self.settled.append((answer, message))
                if answer == "requeue":
                    back[each] = message
        self.messages.extendleft((back[tag], True) for tag in sorted(back, reverse=True))
        self._deliver()

    async def publish(self, message: Message) -> None:
        await asyncio.sleep(0.001)
        if self.lost_publishes:
            self.lost_publishes -= 1
            raise LinkLost("not confirmed")
        if not self.routable:
            raise Unroutable("no queue")
        self.published.append(message)

    async def declare(
        self, exchanges: Sequence[Exchange], queues: Sequence[Queue], bindings: Sequence[Binding]
    ) -> None:
        self.declared += [each.name for each in exchanges] + [each.name for each in queues]

    async def close(self) -> None:
        pass
