"""Consumers where tasks run at once, up to where they first wait: `asyncio.eager_task_factory`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from exchange import Delivery, Dispatcher, Message, Retry
from exchange.dispatch.consumer import Consumer
from tests.support.memory_link import MemoryLink
from tests.support.waiting import find_limit, until

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 brought eager tasks")

COUNT = 600


class ImmediateLink(MemoryLink):
    """A link that answers and publishes without waiting, as that of pika answers."""

    async def answer(self, channel: Any, frames: Any) -> None:
        for tag, answer, multiple in frames:
            for each in [one for one in channel.unanswered if one == tag or (multiple and one < tag)]:
                self.settled.append((answer, channel.unanswered.pop(each)))
        self._deliver()

    async def publish(self, message: Message) -> None:
        self.published.append(message)


@pytest.mark.parametrize("link", [MemoryLink(), ImmediateLink()])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("ends", ["returns", "raises", "is retried", "replies"])
def test_all_messages_are_handled_and_settled(link: MemoryLink, waits: bool, ends: str) -> None:
    """Whether handlers wait or not, in order for each key, and without a call inside the call before."""
    link.__init__()  # type: ignore[misc]
    dispatcher = Dispatcher()
    order: list[int] = []

    @dispatcher.on("#")
    async def handle(delivery: Delivery) -> str:
        order.append(int(delivery.body))
        if waits:
            await asyncio.sleep(0)
        if ends in ("raises", "is retried"):
            raise ValueError
        return "done"

    async def work() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        properties = {"reply_to": "caller"} if ends == "replies" else {}
        link.put(*[Message("orders", "a", {}, properties, b"%d" % number) for number in range(COUNT)])
        policy: Any = Retry((1,)) if ends == "is retried" else "dead-letter"
        async with dispatcher.consume(link, prefetch=500, order_by="routing_key", on_error=policy) as consumer:
            await until(lambda: len(link.settled) >= COUNT)
            assert (consumer.in_flight, consumer.waiting) == (0, 0)

    asyncio.run(asyncio.wait_for(work(), find_limit()))
    assert order == list(range(COUNT))
    assert {answer for answer, _ in link.settled} == {"reject" if ends == "raises" else "ack"}
    assert len(link.published) == (COUNT if ends in ("is retried", "replies") else 0)


def test_a_handler_may_stop_its_consumer_before_it_waits() -> None:
    link, dispatcher = MemoryLink(), Dispatcher()
    consumers: list[Consumer] = []

    @dispatcher.on("#")
    async def enough(_: Delivery) -> None:
        await consumers[0].stop()

    async def work() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        async with dispatcher.consume(link) as consumer:
            consumers.append(consumer)
            link.put(Message("orders", "a"))
            await consumer.wait()

    asyncio.run(asyncio.wait_for(work(), find_limit()))
    assert [answer for answer, _ in link.settled] == ["ack"]
