"""A channel of the application may outlive many consumers: it keeps nothing of those that have ended."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
import pika
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection

from bindings import AmqpServer
from exchange import Delivery, Dispatcher, PikaQueue, Queue, Topology
from exchange.dispatch import open_channel
from tests.support.waiting import find_limit


@asynccontextmanager
async def queue_of(client: str, url: str) -> AsyncIterator[Any]:
    """Open a channel, and return a function that returns the queue on it anew."""
    if client == "pika":
        async with open_channel(AsyncioConnection, pika.URLParameters(url)) as channel:
            yield lambda: PikaQueue(channel, "orders")
        return
    connect = aio_pika.connect_robust if client == "robust aio-pika" else aio_pika.connect
    async with await connect(url) as connection:
        queue = await (await connection.channel()).get_queue("orders")
        yield lambda: queue


@pytest.mark.parametrize("client", ["robust aio-pika", "aio-pika", "pika"])
def test_a_consumer_that_has_ended_is_forgotten_by_its_channel(client: str) -> None:
    """Also one that has opened a channel for replies."""
    topology = Topology(queues=[Queue("orders"), Queue("caller")])

    async def work(server: AmqpServer) -> None:
        dispatcher = Dispatcher()
        dispatcher.add("#", lambda delivery: Delivery.from_message(delivery).body)
        ended: list[weakref.ref[Any]] = []
        async with queue_of(client, server.url) as queue, await aio_pika.connect(server.url) as connection:
            channel = await connection.channel()
            for _ in range(5):
                request = aio_pika.Message(b"", reply_to="caller")
                await channel.default_exchange.publish(request, "orders")
                async with dispatcher.consume(queue(), threads=False) as consumer:
                    while not consumer.counts.handled:  # noqa: ASYNC110
                        await asyncio.sleep(0.001)
                ended.append(weakref.ref(consumer))
            del consumer
            await asyncio.sleep(0.01)
            gc.collect()
            assert [each() for each in ended] == [None] * 5

    with AmqpServer(topology) as server:
        asyncio.run(asyncio.wait_for(work(server), find_limit()))
        assert len(server.messages("caller")) == 5
