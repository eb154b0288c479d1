"""Lite pull on live brokers, beside Java's DefaultLitePullConsumer: positions, commits, pauses, changes of queues."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.group import ConsumerSettings
from bridge.rocketmq.consumer.lite_pull import LitePullConsumer
from bridge.rocketmq.consumer.offsets import ConsumeFrom
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.errors import ClientError, RemotingError
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.clients.rocketmq.send import SendSettings
from tests.support.rocketmq.broker import broker
from tests.support.rocketmq.groups import on_each, send, topic_at
from tests.support.rocketmq.member import java, member
from tests.support.servers import SERVERS, Server
from tests.support.waiting import find_limit, until

PATIENT = SendSettings(send_msg_timeout=30_000)
MESSAGES = int(os.environ.get("HASHSTAR_ROCKETMQ_MESSAGES", "1000"))


def lite(client: Client, topic: str, *, auto_commit: bool = True, **settings: Any) -> LitePullConsumer:
    """Return a consumer that begins at the first message, and commits twice a second."""
    own = {"consume_from": ConsumeFrom.FIRST, "persist_consumer_offset_interval": 0.5, **settings}
    return LitePullConsumer(client, f"g-{topic}", ConsumerSettings(**own), auto_commit=auto_commit)


async def fill(client: Client, topic: str, count: int, first: int = 0) -> list[TopicQueue]:
    """Send messages with their numbers as bodies, each to every queue; return the queues."""
    async with Producer(client, ProducerSettings("lite-sends", PATIENT)) as producer:
        queues = await producer.queues(topic)
        for at in range(first, first + count, 50):
            numbers = range(at, min(at + 50, first + count))
            for queue in queues:
                await producer.send_batch(
                    [RocketMessage.build(topic, b"%d" % number) for number in numbers], queue=queue
                )
        return [TopicQueue(topic, *queue) for queue in queues]


async def take(consumer: LitePullConsumer, count: int) -> list[StoredMessage]:
    """Return this number of messages."""
    found: list[StoredMessage] = []
    async with asyncio.timeout(find_limit()):
        while len(found) < count:
            found += await consumer.poll(1.0, count - len(found))
    return found


@asynccontextmanager
async def polling(consumer: LitePullConsumer, came: list[StoredMessage]) -> AsyncIterator[None]:
    """Poll a consumer until the end of the block."""

    async def work() -> None:
        while True:
            came.extend(await consumer.poll(0.2))

    task = asyncio.create_task(work())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_what_was_polled_is_committed_by_the_next_poll_and_a_clean_end(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client, "lite", 1)
        (queue,) = await fill(client, topic, 60)
        with suppress(KeyError):
            async with lite(client, topic) as consumer:
                await consumer.subscribe(Subscription.to_tags(topic))
                assert [each.queue_offset for each in await take(consumer, 10)] == list(range(10))
                assert consumer.position(queue) == 10
                raise KeyError  # the work failed
        async with lite(client, topic) as consumer:
            await consumer.subscribe(Subscription.to_tags(topic))
            assert (await take(consumer, 1))[0].queue_offset == 0
            assert [each.queue_offset for each in await take(consumer, 20)] == list(range(1, 21))
        async with lite(client, topic) as consumer:
            assert await consumer.committed(queue) == 21
            await consumer.subscribe(Subscription.to_tags(topic))
            assert [each.queue_offset for each in await take(consumer, 39)] == list(range(21, 60))
            assert await consumer.poll(0) == []
            await eventually_committed(consumer, queue, 60)
        with pytest.raises(ClientError, match="closed"):
            await consumer.poll()

    on_each(rocketmq_servers, test)


async def eventually_committed(consumer: LitePullConsumer, queue: TopicQueue, offset: int) -> None:
    async def is_committed() -> bool:
        return await consumer.committed(queue) == offset

    await until(is_committed)


def test_assigned_queues_are_read_from_where_the_caller_wants(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client, "lite", 2)
        first, other = sorted(await fill(client, topic, 100), key=lambda queue: queue.order)
        await asyncio.sleep(1.1)
        between = round(time.time() * 1000)
        await asyncio.sleep(0.1)
        await fill(client, topic, 20, 100)
        async with lite(client, topic, auto_commit=False) as consumer:
            await consumer.assign([first])
            assert consumer.assigned == {first}
            assert [each.queue_offset for each in await take(consumer, 5)] == list(range(5))
            await consumer.seek(first, 50)
            assert [each.queue_offset for each in await take(consumer, 5)] == list(range(50, 55))
            await consumer.seek_to_time(first, between)
            assert [int(each.body) for each in await take(consumer, 20)] == list(range(100, 120))
            assert await consumer.poll(0.3) == []
            await consumer.seek_to_begin(first)
            assert (await take(consumer, 1))[0].queue_offset == 0
            await consumer.seek_to_end(first)
            assert await consumer.poll(0.3) == []
            for illegal in (-1, 121):
                with pytest.raises(ClientError, match="Seek offset illegal"):
                    await consumer.seek(first, illegal)
            with pytest.raises(ClientError, match="not in assigned list"):
                await consumer.seek(other, 0)
            assert await consumer.committed(first) in (None, 0)  # nothing was committed by itself
            assert await consumer.commit({first: 70}) == {first: 70}
            assert await consumer.committed(first) == 70
            await consumer.seek(first, 30)
            await take(consumer, 10)
            assert await consumer.commit() == {first: 40}
            with pytest.raises(ClientError, match="not in assigned list"):
                await consumer.commit({other: 1})
            with pytest.raises(InputError, match="cannot be committed"):
                await consumer.commit({first: -1})
            with pytest.raises(InputError, match="cannot subscribe as well"):
                await consumer.subscribe(Subscription.to_tags(topic))
            await consumer.assign([other])
            assert consumer.assigned == {other}
            assert {each.queue_id for each in await take(consumer, 120)} == {other.queue_id}
        async with lite(client, topic) as consumer:
            await consumer.assign([first])
            assert (await take(consumer, 1))[0].queue_offset == 40

    on_each(rocketmq_servers, test)


def test_a_paused_queue_gives_nothing_until_it_is_resumed(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, _: Server) -> None:
        topic = await topic_at(client, "lite", 2)
        paused, other = await fill(client, topic, 100)
        async with lite(client, topic) as consumer:
            consumer.pause([paused])
            await consumer.subscribe(Subscription.to_tags(topic))
            assert {each.queue_id for each in await take(consumer, 100)} == {other.queue_id}
            assert await consumer.poll(0.5) == []
            consumer.resume([paused])
            assert {each.queue_id for each in await take(consumer, 50)} == {paused.queue_id}
            consumer.pause([paused])
            assert await consumer.poll(0.5) == []
            consumer.resume([paused])
            assert [each.queue_offset for each in await take(consumer, 50)] == list(range(50, 100))
            with pytest.raises(InputError, match="queues cannot be assigned as well"):
                await consumer.assign([paused])
            await consumer.unsubscribe(topic)
            assert not consumer.assigned

    on_each(rocketmq_servers, test)


def test_a_listener_is_called_when_a_topic_gets_queues(rocketmq_servers: list[Server]) -> None:
    async def test(_: Client, server: Server) -> None:
        settings = ClientSettings(server.url, poll_name_server_interval=0.5)
        async with Client(settings) as client:
            topic = await topic_at(client, "lite", 2)
            told: list[frozenset[TopicQueue]] = []
            async with lite(client, topic) as consumer:
                before = await consumer.queues(topic)
                await consumer.on_queues_changed(topic, lambda _, queues: told.append(queues))
                await admin.create_topic(client, admin.TopicConfig(topic, 4, 4))
                await until(lambda: bool(told))
                assert len(told) == 1
                assert told[0] - before == {TopicQueue(topic, "broker", at) for at in (2, 3)}

    on_each(rocketmq_servers, test)


def test_java_s_lite_pull_consumer_and_ours_share_a_group(rocketmq_servers: list[Server]) -> None:
    """What is committed before a rebalance comes once; each message was committed by then."""

    async def test(client: Client, server: Server) -> None:
        jars, topic = java(server.version), await topic_at(client, "lite", 4)
        came: list[StoredMessage] = []
        third = MESSAGES // 12  # to each of four queues
        told = {"namesrv": server.url, "group": f"g-{topic}", "topic": topic, "tags": "*", "polls": True}
        async with lite(client, topic) as consumer, polling(consumer, came):
            await consumer.subscribe(Subscription.to_tags(topic))
            queues = await fill(client, topic, third)
            await until(lambda: len(came) == 4 * third)
            for queue in queues:
                await eventually_committed(consumer, queue, third)
            async with member(jars, **told) as theirs:
                await until(lambda: len(consumer.assigned) == 2)
                await fill(client, topic, third, third)
                await until(lambda: len(came) + len(theirs.got) >= 8 * third)
                for queue in queues:  # each commits its own once a second
                    await eventually_committed(consumer, queue, 2 * third)
                await theirs.leave()
            await until(lambda: len(consumer.assigned) == 4)
            await fill(client, topic, third, 2 * third)
            await until(lambda: len(came) + len(theirs.got) >= 12 * third)
            await asyncio.sleep(0.5)
        bodies = [*[each.body for each in came], *[base64.b64decode(row["body"]) for row in theirs.got]]
        assert theirs.got
        assert Counter(bodies) == Counter({b"%d" % number: 4 for number in range(3 * third)})

    on_each(rocketmq_servers, test)


@pytest.mark.parametrize("image", SERVERS["rocketmq"].images())
def test_no_message_is_lost_when_the_broker_is_killed(image: str) -> None:
    with broker(image=image) as started:

        async def work() -> None:
            settings = ClientSettings(started.url, poll_name_server_interval=2.0, heartbeat_broker_interval=5.0)
            async with Client(settings) as client:
                topic = await topic_at(client, "lite", 2)
                await fill(client, topic, MESSAGES // 2)
                came: list[StoredMessage] = []
                async with lite(client, topic, pull_time_delay_when_exception=0.5) as consumer:
                    await consumer.subscribe(Subscription.to_tags(topic))
                    came += await take(consumer, MESSAGES // 2)
                    await asyncio.to_thread(started.stop, kill=True)
                    await asyncio.to_thread(started.start)
                    await asyncio.to_thread(started.wait)
                    while True:
                        with suppress(RemotingError):
                            await send(client, [RocketMessage.build(topic, b"last")], MessageQueue("broker", 0))
                            break
                        await asyncio.sleep(0.5)
                    wanted = Counter({b"%d" % number: 2 for number in range(MESSAGES // 2)}) + Counter([b"last"])
                    async with polling(consumer, came):
                        await until(lambda: Counter(each.body for each in came) >= wanted)
                print(f"{len(came) - wanted.total()} of {wanted.total()} came more than once")

        asyncio.run(asyncio.wait_for(work(), find_limit(240)))
