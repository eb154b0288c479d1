"""The requester and a dispatcher that replies, over real brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import aio_pika
import pytest

from bridge.consumers.requests import ConnectionLost, Refused, ReplyTimeout, Requester, Unroutable
from exchange import Delivery, Dispatcher
from exchange.values.message import Message
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, until

Replies = Literal["direct", "queue"]


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[str]:
    """Reply to requests with a dispatcher; yield the name of its queue."""
    dispatcher: Dispatcher[Any] = Dispatcher()
    released = asyncio.Event()

    @dispatcher.on("#")
    async def reply(delivery: Delivery) -> bytes | None:
        if delivery.body == b"never":
            return None
        if delivery.body == b"late":
            await released.wait()
        if delivery.body == b"release":
            released.set()
        if delivery.body == b"typed":
            delivery.reply(b"", headers={"status": 200, "ok": True, "names": ["a", None]})
            return None
        return b"re:" + delivery.body

    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(unique_name("rpc"), auto_delete=True)
        async with dispatcher.consume(queue, prefetch=100):
            yield queue.name


def run(server: Server, replies: Replies, test: Callable[[Requester, str], Awaitable[None]]) -> None:
    async def main() -> None:
        requester = Requester(server.url, replies=replies, timeout=find_limit())
        async with serving(server.url) as queue, requester:
            await test(requester, queue)

    asyncio.run(asyncio.wait_for(main(), find_limit()))


@pytest.mark.smoke
@pytest.mark.parametrize("replies", ["direct", "queue"])
def test_a_dispatcher_replies_to_each_of_many_calls(rabbitmq_servers: list[Server], replies: Replies) -> None:
    async def test(requester: Requester, queue: str) -> None:
        bodies = [b"%d" % n for n in range(500)]
        got = await asyncio.gather(*[requester.request(Message("", queue, body=body)) for body in bodies])
        assert [each.body for each in got] == [b"re:" + body for body in bodies]
        typed = await requester.request(Message("", queue, body=b"typed"))
        assert typed.headers == {"status": 200, "ok": True, "names": ["a", None]}
        assert requester.counts == (501, 501, 0, 0, 0, 0)

    for server in rabbitmq_servers:
        run(server, replies, test)


@pytest.mark.parametrize("replies", ["direct", "queue"])
def test_what_cannot_be_answered_fails_with_its_reason(rabbitmq: Server, replies: Replies) -> None:
    async def test(requester: Requester, queue: str) -> None:
        with pytest.raises(Unroutable, match="no queue gets a message"):
            await requester.request(Message("", f"{queue}-missing"))
        with pytest.raises(Refused, match="no exchange"):
            await requester.request(Message("hashstar-missing", queue))
        with pytest.raises(ReplyTimeout):
            await requester.request(Message("", queue, body=b"never"), timeout=0.2)
        with pytest.raises(ReplyTimeout):
            await requester.request(Message("", queue, body=b"late"), timeout=0.2)
        assert (await requester.request(Message("", queue, body=b"release"))).body == b"re:release"
        await until(lambda: requester.counts.late == 1)
        assert (await requester.request(Message("", queue, body=b"1"))).body == b"re:1"

    run(rabbitmq, replies, test)


def test_calls_go_on_over_the_next_connection(rabbitmq: Server) -> None:
    async def main() -> None:
        connections: list[aio_pika.abc.AbstractConnection] = []

        async def connect() -> aio_pika.abc.AbstractConnection:
            connections.append(await aio_pika.connect(rabbitmq.url))
            return connections[-1]

        async with serving(rabbitmq.url) as queue, Requester(connect, timeout=find_limit()) as requester:
            waiting = asyncio.create_task(requester.request(Message("", queue, body=b"never")))
            await asyncio.sleep(0.2)
            await connections[0].close(ConnectionError("cut"))
            with pytest.raises(ConnectionLost):
                await waiting
            assert (await requester.request(Message("", queue, body=b"1"))).body == b"re:1"
            assert len(connections) == 2

    asyncio.run(asyncio.wait_for(main(), find_limit()))
