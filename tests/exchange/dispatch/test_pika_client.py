"""`PikaQueue` on a broker in memory: what pika cannot encode, and names that are not UTF-8."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pika
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection

from bindings import AmqpServer
from exchange import Binding, Delivery, Dispatcher, Exchange, Message, PikaQueue, Queue, Retry, Topology
from exchange.dispatch import open_channel
from exchange.dispatch.consumer import Consumer
from tests.support.waiting import until

ORDERS = Topology([Exchange("orders", "topic")], [Queue("billing")], [Binding.to_queue("orders", "billing", "#")])


def consume(
    server: AmqpServer,
    dispatcher: Dispatcher[Message],
    then: Callable[[Consumer, Any], Awaitable[None]],
    **options: Any,
) -> None:
    async def work() -> None:
        async with (
            open_channel(AsyncioConnection, pika.URLParameters(server.url)) as channel,
            dispatcher.consume(PikaQueue(channel, "billing"), **options) as consumer,
        ):
            await then(consumer, channel)

    asyncio.run(work())


def test_a_reply_that_cannot_be_encoded_does_not_take_the_confirm_of_the_next_one() -> None:
    """Neither pika nor the broker counts it, so the next message has its number."""
    dispatcher = Dispatcher()

    @dispatcher.on("#")
    async def reply(delivery: Delivery) -> None:
        delivery.reply(delivery.body, properties={"priority": 999 if delivery.body == b"bad" else 1})

    async def then(consumer: Consumer, channel: Any) -> None:
        for body in (b"bad", b"good"):
            channel.basic_publish("orders", "a", body, pika.BasicProperties(reply_to="billing.replies"))
            await until(lambda: not consumer.in_flight and consumer.counts.received)
        await until(lambda: consumer.counts.handled == 1)

    topology = ORDERS.declare_queue(Queue("billing.replies"))
    with AmqpServer(topology) as server:
        consume(server, dispatcher, then, on_error="dead-letter", concurrency=1)
        assert [message.body for message in server.messages("billing.replies")] == [b"good"]
        assert server.messages("billing") == []


@pytest.mark.parametrize("key", ["caf\udce9.created", "café.created"])
def test_a_retry_keeps_a_key_that_is_not_ascii(key: str) -> None:
    dispatcher = Dispatcher()
    seen: list[tuple[str, int]] = []

    @dispatcher.on("*.created")
    def fail(delivery: Delivery) -> None:
        seen.append((delivery.routing_key, delivery.retries))
        raise ValueError

    async def then(consumer: Consumer, channel: Any) -> None:
        channel.basic_publish("orders", key.encode("utf-8", "surrogateescape"), b"")
        await until(lambda: len(seen) == 2 and not consumer.in_flight)

    with AmqpServer(ORDERS) as server:
        consume(server, dispatcher, then, on_error=Retry((0.1,)))
    assert seen == [(key, 0), (key, 1)]
