"""Scaling a topic of real brokers while it is in use: each message that was sent is read.

The scenario is small; ``HASHSTAR_SCALE_RATE=2000 HASHSTAR_SCALE_SETTLE=33`` makes it whole, with the times of
Java's producers.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from bridge.rocketmq.consumer.consumer import Consumer
from bridge.rocketmq.consumer.group import ConsumerSettings
from bridge.rocketmq.consumer.offsets import ConsumeFrom
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.producer.decisions import Decision
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.producer.transactions import Transactions
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import RocketMessage
from exchange.partition.clients.rocketmq.queues import MessageQueue
from tests.support.rocketmq.broker import broker
from tests.support.servers import SERVERS, Server
from tests.support.unique import unique_name
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
RATE = float(os.environ.get("HASHSTAR_SCALE_RATE", "100"))
"""Messages a second."""
SETTLE = float(os.environ.get("HASHSTAR_SCALE_SETTLE", "4"))
"""Seconds after which no producer of the test has the old route: its interval, and ``sendMsgTimeout``."""
POLL = max(SETTLE - 3, 0.5)
"""``pollNameServerInterval`` of the test's clients, in seconds."""
SECONDS = 60 + 12 * SETTLE
HASTY = {"transactionCheckInterval": "1000"}
"""Brokers look every second which transactions are decided."""


class Traffic:
    """A producer that sends until it is stopped, and consumers of groups."""

    def __init__(self, url: str, topic: str) -> None:
        self.topic = topic
        self.sent: list[bytes] = []
        self.failed = 0
        self.read: dict[str, Counter[bytes]] = {}
        self.queues: Counter[int] = Counter()
        self.settings = ClientSettings(url, poll_name_server_interval=POLL)

    @asynccontextmanager
    async def producing(self) -> AsyncIterator[None]:
        """Send messages at a rate, in the block."""
        task = asyncio.create_task(self._produce())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _produce(self) -> None:
        async with Client(self.settings) as client, Producer(client, ProducerSettings(f"p-{self.topic}")) as producer:
            loop = asyncio.get_running_loop()
            began = loop.time()
            number = 0
            try:
                while True:
                    await asyncio.sleep(max(0.0, began + number / RATE - loop.time()))
                    number += 1
                    body = b"%d" % len(self.sent)
                    try:
                        result = await producer.send(RocketMessage.build(self.topic, body))
                    except Exception:  # noqa: BLE001  what was not confirmed is not promised
                        self.failed += 1
                    else:
                        self.sent.append(body)
                        self.queues[result.queue.queue_id] += 1
            finally:
                await asyncio.shield(asyncio.sleep(0))

    @asynccontextmanager
    async def consuming(self, group: str, where: ConsumeFrom = ConsumeFrom.FIRST) -> AsyncIterator[None]:
        """Have a group read in the block."""
        found = self.read.setdefault(group, Counter())

        async def consume() -> None:
            while True:
                for message in await consumer.receive(32):
                    found[message.body] += 1
                    consumer.done(message)

        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(self.settings))
            settings = ConsumerSettings(
                consume_from=where, persist_consumer_offset_interval=0.5, rebalance_interval=1.0
            )
            consumer = Consumer(client, group, [Subscription.to_tags(self.topic)], settings)
            await stack.enter_async_context(consumer)
            task = asyncio.create_task(consume())
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await consumer.persist()

    def missing(self, group: str) -> set[bytes]:
        """Return the messages that were confirmed and that a group has not read."""
        return set(self.sent) - set(self.read[group])


class Command:
    """``hashstar rocketmq scale`` in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.err: list[str] = []

    @classmethod
    async def start(cls, url: str, topic: str, to: int, *options: str) -> Command:
        command = ["rocketmq", "scale", topic, "--queues", str(to), "--namesrv", url, "--yes"]
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", "bridge.cli", *command, "--settle", str(SETTLE), "--wait", "30", *options,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=ROOT,
            )
        )  # fmt: skip

    async def kill_at(self, words: str) -> None:
        """Kill it when it prints these words."""
        assert self._process.stderr is not None
        while words not in (line := (await self._process.stderr.readline()).decode()):
            assert line, f"it ended: {self.err}"
            self.err.append(line)
        self._process.send_signal(signal.SIGKILL)
        await self._process.communicate()

    async def end(self) -> tuple[int | None, str, str]:
        out, err = await self._process.communicate()
        return self._process.returncode, out.decode(), err.decode()


async def scaled(url: str, topic: str, to: int, *options: str) -> tuple[int | None, str, str]:
    """Run the command to its end."""
    return await (await Command.start(url, topic, to, *options)).end()


async def counts(url: str, topic: str) -> set[tuple[int, int]]:
    async with Client(ClientSettings(url)) as client:
        queues = (await client.update_route(topic)).queues
    assert len(queues) == 1, f"another broker is known there, too: {queues}"
    return {(data.write_queues, data.read_queues) for data in queues}


def on_each(servers: list[Server], test: Callable[[Server, str], object]) -> None:
    """Run a test with a topic of 16 queues at each server."""

    async def run(server: Server) -> None:
        topic = unique_name("scaled")
        async with Client(ClientSettings(server.url)) as client:
            await admin.create_topic(client, admin.TopicConfig(topic, 16, 16))
        await asyncio.wait_for(test(server, topic), SECONDS)  # type: ignore[arg-type]

    for server in servers:
        asyncio.run(run(server))


def test_16_to_8_to_16_while_a_producer_sends_loses_nothing_even_if_the_command_is_killed(
    rocketmq_servers: list[Server],
) -> None:
    async def test(server: Server, topic: str) -> None:
        traffic = Traffic(server.url, topic)
        group, late = f"g-{topic}", f"late-{topic}"
        async with traffic.consuming(group), traffic.producing():
            async with traffic.consuming(late):
                await until(lambda: len(traffic.sent) > RATE / 2 and traffic.read[late])
                await asyncio.sleep(1)
            # One group has stopped: its queues above 8 are not drained until it is back.
            for words in ("set write 16 -> 8", "until no producer has the old route"):
                await (await Command.start(server.url, topic, 8)).kill_at(words)
                assert await counts(server.url, topic) == {(8, 16)}
            code, _, err = await scaled(server.url, topic, 8, "--wait", "2")
            assert code == 1, err
            assert f"for {late}" in err
            assert await counts(server.url, topic) == {(8, 16)}
            async with traffic.consuming(late):
                code, out, err = await scaled(server.url, topic, 8)
                assert code == 0, out + err
                assert "a change is under way already" in out
            assert await counts(server.url, topic) == {(8, 8)}
            before = traffic.queues.copy()
            await asyncio.sleep(1)
            assert not any(queue >= 8 for queue in traffic.queues - before)
            await (await Command.start(server.url, topic, 16)).kill_at("set read 8 -> 16")
            code, out, err = await scaled(server.url, topic, 16, "--format", "json")
            assert (code, json.loads(out)["done"]) == (0, True), err
            assert await counts(server.url, topic) == {(16, 16)}
            before = traffic.queues.copy()
            await until(lambda: any(queue >= 8 for queue in traffic.queues - before))
            await asyncio.sleep(1)
        async with traffic.consuming(group), traffic.consuming(late):
            await until(lambda: not traffic.missing(group) and not traffic.missing(late))
        print(f"\n{server.version}: {len(traffic.sent):,} sent, {traffic.failed} refused, 0 lost")
        assert len(traffic.queues) == 16

    on_each(rocketmq_servers, test)


@pytest.mark.smoke
def test_delayed_messages_are_waited_for(rocketmq_servers: list[Server]) -> None:
    """They were sent to a queue that is hidden before they come there."""

    async def test(server: Server, topic: str) -> None:
        traffic = Traffic(server.url, topic)
        group = f"g-{topic}"
        async with (
            traffic.consuming(group),
            Client(traffic.settings) as client,
            Producer(client, ProducerSettings(f"p-{topic}")) as producer,
        ):
            broker = (await producer.queues(topic))[0].broker
            delayed = RocketMessage.build(topic, b"delayed", delay_level=11)  # a minute or more
            await producer.send(delayed, queue=MessageQueue(broker, 12))
            if server.version_info >= (5,):
                timed = RocketMessage.build(topic, b"timed", deliver_ms=time.time_ns() // 1_000_000 + 60_000)
                await producer.send(timed, queue=MessageQueue(broker, 13))
            code, _, err = await scaled(server.url, topic, 8, "--settle", "0.1", "--wait", "1")
            assert code == 1, err
            assert f"{broker}:12 gets 1 delayed or transactional" in err
            assert (f"{broker}:13 gets 1 delayed or transactional" in err) == (server.version_info >= (5,))
            if SETTLE >= 33:
                code, _, err = await scaled(server.url, topic, 8, "--settle", "0.1", "--wait", "440")
                assert code == 0, err
                assert set(traffic.read[group]) == {b"delayed", *([b"timed"] if server.version_info >= (5,) else [])}

    on_each(rocketmq_servers, test)


def test_a_group_that_is_down_while_queues_are_added_reads_them_from_their_first_new_message(
    rocketmq_servers: list[Server],
) -> None:
    async def test(server: Server, topic: str) -> None:
        traffic = Traffic(server.url, topic)
        group = f"g-{topic}"
        async with Client(traffic.settings) as client, Producer(client, ProducerSettings(f"p-{topic}")) as producer:
            broker = (await producer.queues(topic))[0].broker
            for queue in range(16):
                await producer.send(RocketMessage.build(topic, b"old %d" % queue), queue=MessageQueue(broker, queue))
            async with traffic.consuming("other-" + topic):
                await until(lambda: len(traffic.read["other-" + topic]) == 16)
                await asyncio.sleep(1)
                assert (await scaled(server.url, topic, 8, "--settle", "0.1"))[0] == 0
            async with traffic.consuming(group):
                await until(lambda: len(traffic.read[group]) == 8)
                await asyncio.sleep(1)
            traffic.read[group].clear()
            code, _, err = await scaled(server.url, topic, 16)
            assert code == 0, err
            assert f"give {group} an offset in queues 8 to 15" in err
            for queue in range(16):
                await producer.send(RocketMessage.build(topic, b"new %d" % queue), queue=MessageQueue(broker, queue))
        async with traffic.consuming(group, ConsumeFrom.LAST):
            await until(lambda: len(traffic.read[group]) >= 16)
        assert set(traffic.read[group]) == {b"new %d" % queue for queue in range(16)}

    on_each(rocketmq_servers, test)


@pytest.mark.parametrize("image", SERVERS["rocketmq"].images())
def test_a_half_message_keeps_its_queue_until_it_is_decided(image: str) -> None:
    async def test(url: str) -> None:
        topic = unique_name("scaled")
        traffic = Traffic(url, topic)
        async with Client(traffic.settings) as client:
            await admin.create_topic(client, admin.TopicConfig(topic, 16, 16))
            async with (
                traffic.consuming(f"g-{topic}"),
                Producer(client, ProducerSettings(f"p-{topic}")) as producer,
                Transactions(producer, check=lambda message: Decision.UNKNOWN) as transactions,
            ):
                queue = MessageQueue((await producer.queues(topic))[0].broker, 12)
                async with transactions.begin(RocketMessage.build(topic, b"half"), queue=queue):
                    err = "run it again then"
                    while "run it again then" in err:  # the broker does not show its halves yet
                        code, _, err = await scaled(url, topic, 8, "--settle", "0.1", "--wait", "1")
                    assert code == 1, err
                    assert f"{queue.name} gets 1 delayed or transactional" in err
                    assert await counts(url, topic) == {(8, 16)}
                code, _, err = await scaled(url, topic, 8, "--settle", "0.1")
                assert code == 0, err
                await until(lambda: traffic.read[f"g-{topic}"])

    with broker(HASTY, image) as started:
        asyncio.run(asyncio.wait_for(test(started.url), SECONDS))
