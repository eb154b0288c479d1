"""What a source keeps is bounded by its window, in bytes of memory and not of metrics."""

from __future__ import annotations

import os
import subprocess
import sys

from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.remoting.message import RocketMessage
from exchange.partition.clients.rocketmq.queues import MessageQueue
from tests.support.rocketmq.topics import Topics, topics_at
from tests.support.servers import Server
from tests.support.waiting import find_limit

QUEUES = 8
MESSAGES = 400
SIZE = 900_000

READER = """
import asyncio, re, sys
from pathlib import Path
from bridge.rocketmq.remoting.client import ClientSettings
from bridge.endpoints.rocketmq.source import RocketmqSource
from bridge.rocketmq.consumer.subscription import Subscription

async def read(address, topic):
    source = RocketmqSource(
        "s", ClientSettings(address), f"g-{topic}", [Subscription.to_tags(topic)], window_bytes=64 << 20
    )
    await source.open()
    found, seen = [], set()
    while len(seen) < MESSAGES:
        try:
            async with asyncio.timeout(3):
                found += await source.read(1000)
        except TimeoutError:
            if not found:
                continue
            for each in {each.lane: each for each in found}.values():
                source.settle(each)
            seen |= {each.identity for each in found}
            found.clear()
    await source.close()
    # Not ru_maxrss, which begins at the size of the process that started this one.
    print(int(re.search("VmHWM:[^0-9]*([0-9]+)", Path("/proc/self/status").read_text())[1]) // 1024)

asyncio.run(read(*sys.argv[1:]))
"""


async def fill(topics: Topics, producer: Producer, topic: str) -> None:
    [broker] = [each.broker for each in (await topics.client.route(topic)).brokers]
    for number in range(MESSAGES):
        message = RocketMessage.build(topic, os.urandom(SIZE))
        await producer.send(message, queue=MessageQueue(broker, number % QUEUES))


def test_memory_stays_below_300_mb_while_nothing_is_settled(rocketmq: Server) -> None:
    with topics_at(rocketmq.url) as topics:
        topic = topics.make(QUEUES)
        topics.do(fill(topics, topics._producer, topic), 300)
    code = READER.replace("MESSAGES", str(MESSAGES))
    run = subprocess.run(
        [sys.executable, "-c", code, rocketmq.url, topic],
        capture_output=True,
        text=True,
        timeout=find_limit(300),
        check=False,
    )
    assert run.returncode == 0, run.stderr
    print(f"{run.stdout.strip()} MB at the most")
    assert int(run.stdout) < 300
