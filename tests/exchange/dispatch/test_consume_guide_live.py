"""The snippets of docs/consume.md that consume run against a broker."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import aio_pika
import pika
import pytest

from exchange import Delivery, Dispatcher
from tests.support.pages import ROOT, blocks
from tests.support.servers import Server
from tests.support.waiting import find_limit

ADDRESS = "amqp://guest:guest@localhost/"
SNIPPETS = [
    block.text
    for block in blocks(ROOT / "docs" / "consume.md")
    if "await " in block.text and "dispatcher" in block.text
]


def test_the_first_consumer_of_the_guide_bills_and_replies(rabbitmq: Server) -> None:
    """As it stands, at the server instead of the guide's, in a process that is ended by Ctrl-C."""
    [snippet] = [text for text in SNIPPETS if "price.{product}" in text]
    assert ADDRESS in snippet
    answers: list[Any] = []
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.exchange_declare("guide", "topic", auto_delete=True)
        channel.queue_bind("orders", "guide", "#")
        channel.basic_consume("amq.rabbitmq.reply-to", lambda *given: answers.append(given), auto_ack=True)
        to_me = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="1")
        channel.basic_publish("guide", "order.eu.created", b"17")
        channel.basic_publish("guide", "price.tea", b"", to_me)
        command = [sys.executable, "-u", "-W", "error", "-c", snippet.replace(ADDRESS, rabbitmq.url)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + find_limit()
            while not answers:
                assert time.monotonic() < deadline
                assert process.poll() is None, process.communicate()
                connection.process_data_events(0.1)
            connection.sleep(0.5)  # the request is acknowledged after its reply
        finally:
            process.send_signal(signal.SIGINT)
            printed, errors = process.communicate(timeout=find_limit())
            left = channel.queue_declare("orders", passive=True).method.message_count
            channel.queue_delete("orders")
    assert printed == "bill eu 17\n"
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert "never" not in errors
    assert left == 0
    assert json.loads(answers[0][3]) == {"product": "tea", "cents": 1299}
    assert answers[0][2].correlation_id == "1"


async def execute(snippet: str, url: str, names: dict[str, Any]) -> None:
    """Run a snippet as the asyncio REPL would, at the server instead of the guide's."""
    code = compile(snippet.replace(ADDRESS, url), "docs/consume.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, names)  # noqa: S307  # our own page


@pytest.mark.parametrize("part", ["open_channel", "SIGTERM"])
def test_the_other_consumers_of_the_guide_consume_until_they_are_ended(rabbitmq: Server, part: str) -> None:
    """With the dispatcher of the first one: pika's until its task is cancelled, the other until SIGTERM."""
    [snippet] = [text for text in SNIPPETS if part in text]
    handled: list[bytes] = []
    dispatcher = Dispatcher()

    @dispatcher.on("#")
    async def handle(delivery: Delivery) -> None:
        handled.append(delivery.body)

    async def work() -> None:
        connection = await aio_pika.connect(rabbitmq.url)
        async with connection, connection.channel() as channel:
            queue = await channel.declare_queue("orders", durable=True)
            await channel.default_exchange.publish(aio_pika.Message(b"17"), "orders")
            task = asyncio.ensure_future(execute(snippet, rabbitmq.url, {"dispatcher": dispatcher, "queue": queue}))
            while not handled:
                assert not task.done()
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.1)
            if part == "SIGTERM":
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                task.cancel()
            await asyncio.wait([task], timeout=find_limit())
            assert task.done()
            assert task.cancelled() or task.exception() is None
            assert (await queue.delete(if_unused=False, if_empty=False)).message_count == 0

    asyncio.run(work())
    assert handled == [b"17"]
