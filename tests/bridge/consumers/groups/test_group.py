"""A member of a group on a broker in memory: handlers that end otherwise than by returning or raising."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bindings import AmqpServer
from bridge.consumers.groups import ConsumerGroup, Publisher, create
from exchange import Dispatcher, Message
from tests.support.waiting import find_limit, until


async def publish_one(url: str) -> None:
    assert await create(url, "orders", 1)
    async with Publisher(url, "orders") as publisher:
        await publisher.publish(Message(routing_key="order.eu.created", body=b"1"))


def left(server: AmqpServer) -> list[bytes]:
    return [message.body for message in server.messages("orders-0")]


def test_a_handler_that_catches_the_end_of_its_time_to_drain_leaves_its_message_unacknowledged() -> None:
    async def work(url: str) -> None:
        await publish_one(url)
        began = asyncio.Event()

        async def catch(_: Message) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return

        group = ConsumerGroup(url, "orders", catch, drain_seconds=0.1)
        running = asyncio.create_task(group.run())
        await asyncio.wait_for(began.wait(), find_limit())
        await group.stop()
        assert group.plan is None, "it has left"
        await asyncio.wait_for(running, find_limit())
        await group.stop()

    with AmqpServer() as server:
        asyncio.run(work(server.url))
        asyncio.run(until(lambda: left(server) == [b"1"]))


@pytest.mark.parametrize("on_error", ["raise", "dead-letter"])
def test_a_handler_that_was_cancelled_from_within_has_failed_and_the_connection_is_not_lost(on_error: Any) -> None:
    async def work(url: str) -> None:
        await publish_one(url)
        lost: list[int] = []
        began = asyncio.Event()

        async def wait_for_nothing(_: Message) -> None:
            began.set()
            cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            cancelled.cancel()
            await cancelled

        group = ConsumerGroup(url, "orders", wait_for_nothing, on_error=on_error, on_lost=lost.append)
        running = asyncio.create_task(group.run())
        if on_error == "raise":
            with pytest.raises(RuntimeError, match="a handler was cancelled from within"):
                await asyncio.wait_for(running, find_limit())
            return
        # A message on its way is neither in its queue nor waiting, so that only the handler tells that it is there.
        await asyncio.wait_for(began.wait(), find_limit())
        group.stop()
        await asyncio.wait_for(running, find_limit())
        assert lost == []

    with AmqpServer() as server:
        asyncio.run(work(server.url))
        asyncio.run(until(lambda: left(server) == ([b"1"] if on_error == "raise" else [])))


@pytest.mark.parametrize("handler", [None, Dispatcher()])
def test_what_cannot_be_called_is_refused_as_a_handler(handler: Any) -> None:
    with pytest.raises(TypeError, match=r"handler is a function, such as dispatcher\.dispatch_async"):
        ConsumerGroup("amqp://127.0.0.1", "orders", handler)
