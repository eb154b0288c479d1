"""The snippets of docs/rocketmq*.md that need a broker run against one."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.rocketmq.consumer.consumer import Consumer
from bridge.rocketmq.consumer.group import ConsumerSettings
from bridge.rocketmq.consumer.offsets import ConsumeFrom
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.producer.requests import reply_to
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import RocketMessage
from tests.support.pages import ROOT, blocks
from tests.support.servers import Server
from tests.support.waiting import find_limit

PAGES = [ROOT / "docs" / name for name in ("rocketmq.md", "rocketmq-produce.md", "rocketmq-consume.md")]
SNIPPETS = [block.text for page in PAGES for block in blocks(page) if "await " in block.text]
ADDRESSES = ("10.0.0.1:9876;10.0.0.2:9876", "127.0.0.1:9876")


async def execute(snippet: str, server: Server, names: dict[str, Any]) -> None:
    """Run a snippet as the asyncio REPL would, at the server instead of the guide's; it adds to ``names``."""
    for address in ADDRESSES:
        snippet = snippet.replace(address, server.url)
    code = compile(snippet, "a snippet of the guide", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if inspect.iscoroutine(running := eval(code, names)):  # noqa: S307 - our own page
        await running


@asynccontextmanager
async def answering(client: Client, producer: Producer, topic: str) -> AsyncIterator[None]:
    """Reply to the requests of a topic."""

    async def answer() -> None:
        settings = ConsumerSettings(consume_from=ConsumeFrom.FIRST)
        async with Consumer(client, "fruiterers", [Subscription.to_tags(topic)], settings) as consumer:
            while True:
                for message in await consumer.receive():
                    await producer.send(reply_to(message, b"1.20"))
                    consumer.done(message)

    task = asyncio.ensure_future(answer())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def test_the_snippets_of_the_guide_run(rocketmq: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sends, another receives that; the lines of producing and the request find a producer, as in the first."""
    [first, producing, requesting, transacting, consuming, popping, polling] = SNIPPETS
    server = rocketmq
    shipped: list[Any] = []
    names: dict[str, Any] = {"ship": shipped.append}

    async def work() -> None:
        async with (
            Client(ClientSettings(server.url)) as client,
            Producer(client, ProducerSettings("guide")) as producer,
        ):
            for topic in ("orders", "prices"):
                await admin.create_topic(client, admin.TopicConfig(topic, 4, 4))
            await execute(first, server, names)
            assert "MessageQueue" in capsys.readouterr().out
            broker = names["sent"].queue.broker
            message = RocketMessage.build("orders", b"1", tags="paid")
            names.update(producer=producer, message=message, messages=[message, message])
            await execute(producing.replace("broker-a", broker), server, names)
            assert (await names["future"]).status == "SEND_OK"
            async with answering(client, producer, "prices"):
                await execute(requesting.replace("3000", "100_000"), server, names)
            assert names["reply"].body == b"1.20"
            while not shipped:
                await execute(consuming, server, names)
            inserted: list[str] = []

            async def insert_order(number: str) -> None:
                inserted.append(number)

            names.update(insert_order=insert_order, order_exists=inserted.__contains__, ShipmentError=ValueError)
            await execute(transacting.replace("shop.db", str(tmp_path / "shop.db")), server, names)
            names["client"] = client
            await execute(polling.replace("1_795_392_000_000", "0"), server, names)
            assert {message.unique_id for message in shipped} >= set(inserted)
            assert len(inserted) == 1
            await producer.send(RocketMessage.build("orders", b"popped"))
            while b"popped" not in {message.body for message in shipped}:  # others may come after it
                await execute(popping, server, names)
        assert {message.topic for message in shipped} == {"orders"}

    asyncio.run(asyncio.wait_for(work(), find_limit(300)))
