"""Consumption by POP on live brokers, beside Java's client: who gets what, how often, and what comes again."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.consumer import Consumer
from bridge.rocketmq.consumer.pop.handle import POP_CK, PopHandle
from bridge.rocketmq.consumer.pop.requests import PopRequests
from bridge.rocketmq.consumer.retrying import DEAD, DLQ_PREFIX
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, RemotingError
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from exchange.errors import InputError
from exchange.partition.clients.rocketmq.allocation import AllocateAveragelyByCircle, assign_pop
from exchange.partition.clients.rocketmq.queues import subscribe_queues
from exchange.partition.clients.rocketmq.send import SendSettings
from tests.support.rocketmq.broker import broker
from tests.support.rocketmq.groups import consumer_of, on_each, send, topic_at
from tests.support.rocketmq.member import java, member
from tests.support.servers import Server
from tests.support.waiting import find_limit, stretch, until

PATIENT = SendSettings(send_msg_timeout=30_000)
MESSAGES = int(os.environ.get("HASHSTAR_ROCKETMQ_MESSAGES", "1000"))


def pops(server: Server) -> bool:
    """Return whether a broker knows POP."""
    return not server.version.startswith("4.")


async def popped_topic(client: Client, server: Server, *, queues: int = 4, share: int = 0) -> str:
    """Create a topic, which its group ``g-TOPIC`` pops where the broker can."""
    topic = await topic_at(client, "pop", queues)
    await admin.create_group(client, admin.GroupConfig(f"g-{topic}"))
    if pops(server):
        await admin.set_request_mode(client, topic, f"g-{topic}", "POP", share)
    return topic


def popper(client: Client, topic: str, **settings: Any) -> Consumer:
    return consumer_of(client, topic, **{"client_rebalance": False, "pop_invisible_time": 30.0, **settings})


async def send_many(client: Client, topic: str, count: int, first: int = 0) -> None:
    async with Producer(client, ProducerSettings("pop-sends", PATIENT)) as producer:
        for at in range(first, first + count, 25):
            numbers = range(at, min(at + 25, first + count))
            await producer.send_batch([RocketMessage.build(topic, b"%d" % number) for number in numbers])


@asynccontextmanager
async def working(consumer: Consumer, came: list[StoredMessage]) -> AsyncIterator[None]:
    """Acknowledge all messages of a consumer until the end of the block."""

    async def work() -> None:
        with suppress(ClientError):
            while True:
                for each in await consumer.receive(16):
                    came.append(each)
                    consumer.done(each)

    task = asyncio.create_task(work())
    try:
        yield
        assert not task.done() or task.exception() is None
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def one(consumer: Consumer, seconds: float = 120) -> StoredMessage:
    (message,) = await asyncio.wait_for(consumer.receive(1), seconds)
    return message


def test_the_broker_has_members_pop_and_one_of_4_x_has_them_pull(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, server: Server) -> None:
        topic = await popped_topic(client, server)
        came: list[StoredMessage] = []
        async with popper(client, topic) as consumer, working(consumer, came):
            await send_many(client, topic, 200)
            await until(lambda: len(came) >= 200)
            assert {queue.topic for queue in consumer.popped} == ({topic} if pops(server) else set())
            assert any(queue.topic == topic for queue in consumer.assigned) is not pops(server)
            assert all((POP_CK in each.properties) is pops(server) for each in came)
        await asyncio.sleep(1)
        async with popper(client, topic) as consumer:
            with pytest.raises(TimeoutError):
                await one(consumer, 2)
        assert Counter(each.body for each in came) == Counter(b"%d" % number for number in range(200))

    on_each(rocketmq_servers, test)


def test_what_is_not_acknowledged_in_time_comes_again_and_what_is_hidden_longer_later(
    rocketmq_servers: list[Server],
) -> None:
    async def test(client: Client, server: Server) -> None:
        if not pops(server):
            return
        topic = await popped_topic(client, server)
        async with popper(client, topic, pop_invisible_time=4.0) as consumer:
            await send(client, [RocketMessage.build(topic, b"slow", {"own": "x"}, tags="t", keys="k")])
            first = await one(consumer)
            longer = await consumer.change_invisible_time(first, 8.0)
            assert not consumer.done(first)  # its handle is void
            began = time.monotonic()
            second = await one(consumer)
            assert time.monotonic() - began > 7
            assert (second.topic, second.body, second.tags, second.keys) == (topic, b"slow", "t", ("k",))
            assert (second.properties["own"], second.reconsume_times) == ("x", 1)
            assert int(second.properties["1ST_POP_TIME"]) >= int(first.properties["1ST_POP_TIME"])
            assert not consumer.done(longer)  # too late
            assert consumer.done(second)
            with pytest.raises(TimeoutError):
                await one(consumer, 7)
            with pytest.raises(InputError, match="was pulled"):
                await consumer.change_invisible_time(first._replace(properties={}), 1)

    on_each(rocketmq_servers, test)


def test_a_failed_message_is_retried_or_becomes_a_dead_letter(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, server: Server) -> None:
        if not pops(server):
            return
        topic = await popped_topic(client, server)
        async with popper(client, topic, max_reconsume_times=1) as consumer:
            await send(client, [RocketMessage.build(topic, b"fails"), RocketMessage.build(topic, b"dead")])
            messages = {each.body: each for each in (await one(consumer), await one(consumer))}
            assert await consumer.retry(messages[b"dead"], DEAD)
            assert not await consumer.retry(messages[b"dead"], DEAD)
            again = await consumer.change_invisible_time(messages[b"fails"], 2.0)
            fails = await one(consumer)
            assert (fails.body, fails.reconsume_times) == (b"fails", 1)
            assert not consumer.done(again)
            assert await consumer.retry(fails)  # it has failed as often as is allowed
            letters = consumer_of(client, f"{DLQ_PREFIX}{consumer.group.name}", group=f"g-dead-{topic}")
            async with letters:
                found = [await one(letters), await one(letters)]
            assert {each.body for each in found} == {b"fails", b"dead"}
            assert not any(POP_CK in each.properties for each in found)

    on_each(rocketmq_servers, test)


def test_tags_are_compared_once_more_and_other_messages_acknowledged(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, server: Server) -> None:
        topic = await popped_topic(client, server)
        await send(client, [RocketMessage.build(topic, b"%d" % at, tags=("Aa", "BB")[at % 2]) for at in range(20)])
        consumer = consumer_of(client, Subscription.to_tags(topic, "Aa"), client_rebalance=False)
        came: list[StoredMessage] = []
        async with consumer, working(consumer, came):
            await until(lambda: len(came) >= 10)
            await asyncio.sleep(0.5)
            assert {each.tags for each in came} == {"Aa"}
            assert len(came) == 10

    on_each(rocketmq_servers, test)


def test_popped_in_order_a_queue_waits_for_its_messages(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, server: Server) -> None:
        topic = await popped_topic(client, server)
        async with Producer(client, ProducerSettings("pop-sends", PATIENT)) as producer:
            for queue in await producer.queues(topic):
                await producer.send_batch([RocketMessage.build(topic, b"%d" % at) for at in range(100)], queue=queue)
        tries: defaultdict[int, list[int]] = defaultdict(list)
        done: defaultdict[int, list[int]] = defaultdict(list)
        settings = {"orderly": True, "suspend_current_queue_time": 0.5, "pop_batch_nums": 16}
        async with (
            Client(ClientSettings(server.url)) as other,
            popper(client, topic, **settings) as ours,
            popper(other, topic, **settings) as theirs,
        ):

            async def work(consumer: Consumer) -> None:
                while True:
                    for each in await consumer.receive(8):
                        number, queue = int(each.body), each.queue_id
                        if done[queue] and number != done[queue][-1] + 1:
                            # One before it has failed: this was handed out before, and comes again.
                            await consumer.retry(each)
                            continue
                        tries[queue].append(number)
                        if number == 20 and tries[queue].count(20) < 3:
                            await consumer.retry(each)
                        elif consumer.done(each):
                            done[queue].append(number)

            tasks = [asyncio.create_task(work(each)) for each in (ours, theirs)]
            await until(lambda: sum(map(len, done.values())) >= 400)
            for task in tasks:
                task.cancel()
        assert all(numbers == list(range(100)) for numbers in done.values())
        assert all(numbers.count(20) == 3 for numbers in tries.values())

    on_each([each for each in rocketmq_servers if pops(each)], test)


def test_java_s_members_and_ours_pop_from_one_group_each_message_once(rocketmq_servers: list[Server]) -> None:
    """With a share of one other member's queues, each rebalance changes the queues of all."""

    async def test(client: Client, server: Server) -> None:
        if not pops(server):
            return
        jars, topic = java(server.version), await popped_topic(client, server, share=1)
        told = {"namesrv": server.url, "group": f"g-{topic}", "topic": topic, "tags": "*", "popped": 60_000}
        came: list[StoredMessage] = []
        more: list[StoredMessage] = []
        settings = {"pop_invisible_time": 60.0}
        async with popper(client, topic, **settings) as ours, working(ours, came):
            await until(lambda: len(ours.popped) == 1)
            await send_many(client, topic, MESSAGES // 3)
            sent = MESSAGES // 3
            async with (
                Client(ClientSettings(server.url)) as other,
                popper(other, topic, **settings) as second,
                working(second, more),
                member(jars, **told) as theirs,
            ):
                await until(lambda: {each.queue_id for each in ours.popped | second.popped} == {0, 1, 2, 3})
                while len(theirs.got) < MESSAGES // 10:  # it may take a moment until it pops
                    await send_many(client, topic, 50, sent)
                    sent += 50
                    await asyncio.sleep(0.1)
                await until(lambda: len(came) + len(more) + len(theirs.got) >= sent)
                await theirs.leave()
            await until(lambda: {each.queue_id for each in ours.popped} == {-1})
            rest = max(MESSAGES - sent, 100)
            await send_many(client, topic, rest, sent)
            sent += rest
            await until(lambda: len(came) + len(more) + len(theirs.got) >= sent)
            await asyncio.sleep(1)
        assert more
        bodies = [*[each.body for each in [*came, *more]], *[base64.b64decode(row["body"]) for row in theirs.got]]
        assert Counter(bodies) == Counter(b"%d" % number for number in range(sent))

    on_each(rocketmq_servers, test)


def test_the_queues_that_a_broker_assigns_are_those_predicted(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, server: Server) -> None:
        if not pops(server):
            return
        topic = await popped_topic(client, server, queues=5, share=1)
        queues = subscribe_queues(await client.route(topic)).all
        async with Client(ClientSettings(server.url)) as second, Client(ClientSettings(server.url)) as third:
            clients = [client, second, third]
            consumers = [popper(each, topic, allocation=AllocateAveragelyByCircle()) for each in clients]
            for consumer in consumers:
                await consumer.open()
            try:
                ids = sorted(each.client_id for each in clients)
                for each, consumer in zip(clients, consumers, strict=True):
                    wanted = {
                        TopicQueue(topic, *queue)
                        for queue in assign_pop(AllocateAveragelyByCircle(), topic, each.client_id, queues, ids, 1)
                    }
                    await until(lambda consumer=consumer, wanted=wanted: consumer.popped == wanted)  # type: ignore[misc]
            finally:
                for consumer in consumers:
                    await consumer.close()

    on_each(rocketmq_servers, test)


def test_when_the_group_is_set_to_pull_again_its_popped_retries_are_pulled(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, server: Server) -> None:
        if not pops(server):
            return
        topic = await popped_topic(client, server)
        group = f"g-{topic}"
        async with popper(client, topic, pop_invisible_time=2.0, rebalance_interval=1.0) as consumer:
            await send(client, [RocketMessage.build(topic, b"pending")])
            await one(consumer)
            await admin.set_request_mode(client, topic, group, "PULL")
            await until(lambda: not consumer.popped)
            again = await one(consumer)
            assert (again.topic, again.body) == (topic, b"pending")
            assert consumer.done(again)

    on_each(rocketmq_servers, test)


def test_a_closed_member_lets_others_have_what_it_did_not_hand_out(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, server: Server) -> None:
        if not pops(server):
            return
        topic = await popped_topic(client, server)
        await send(client, [RocketMessage.build(topic, b"%d" % at) for at in range(8)])
        async with popper(client, topic, pop_invisible_time=300.0) as consumer:
            first = await one(consumer)
            assert consumer.done(first)
            await asyncio.sleep(1)  # by then all are popped
        came: list[StoredMessage] = []
        async with popper(client, topic) as consumer, working(consumer, came):
            await until(lambda: len(came) >= 7)
        assert {each.body for each in came} | {first.body} == {b"%d" % at for at in range(8)}

    on_each(rocketmq_servers, test)


def test_requests_about_popped_messages_need_no_membership(rocketmq_servers: list[Server]) -> None:
    async def test(client: Client, server: Server) -> None:
        topic = await popped_topic(client, server)
        requests, queue = PopRequests(client, f"g-{topic}"), TopicQueue(topic, "broker", -1)
        subscription = Subscription.to_tags(topic)
        if not pops(server):
            with pytest.raises(BrokerError, match="not supported"):
                await requests.pop(queue, subscription)
            return
        news = asyncio.create_task(requests.wait_for_news(queue, 10))
        await asyncio.sleep(0.5)
        assert not news.done()
        await send(client, [RocketMessage.build(topic, b"%d" % at) for at in range(3)])
        assert await asyncio.wait_for(news, find_limit())
        messages: list[StoredMessage] = []
        while len(messages) < 3:
            messages += (await requests.pop(queue, subscription, invisible_time=60)).messages
        handles = [PopHandle.parse(each.properties[POP_CK]) for each in messages]
        await requests.ack(topic, handles[0])
        await requests.ack_all([(topic, each) for each in handles[1:]])
        waiting = asyncio.create_task(requests.pop(queue, subscription, poll_time=stretch(3.0)))

        async def is_polling() -> bool:
            return await requests.polling_number(queue) == 1

        await until(is_polling)
        assert (await waiting).messages == ()
        with pytest.raises(BrokerError, match="NO_MESSAGE"):
            await requests.ack(topic, handles[0]._replace(offset=1 << 40))

    on_each(rocketmq_servers, test)


def test_no_message_is_lost_when_the_broker_is_killed(rocketmq_servers: list[Server]) -> None:
    image = next((each.origin for each in rocketmq_servers if pops(each)), "")
    if not image:
        pytest.skip("POP needs a broker of 5.x")
    with broker(image=image) as started:

        async def work() -> None:
            settings = ClientSettings(started.url, poll_name_server_interval=2.0, heartbeat_broker_interval=5.0)
            async with Client(settings) as client, Client(settings) as other:
                topic = await topic_at(client, "pop")
                await admin.create_group(client, admin.GroupConfig(f"g-{topic}"))
                await admin.set_request_mode(client, topic, f"g-{topic}", "POP")
                await send_many(client, topic, MESSAGES)
                came: list[StoredMessage] = []
                more: list[StoredMessage] = []
                quick = {"pop_invisible_time": 10.0, "pull_time_delay_when_exception": 0.5}
                async with (
                    popper(client, topic, **quick) as ours, popper(other, topic, **quick) as theirs,
                    working(ours, came), working(theirs, more),
                ):  # fmt: skip
                    await until(lambda: len(came) + len(more) >= MESSAGES // 2)
                    await asyncio.to_thread(started.stop, kill=True)
                    await asyncio.to_thread(started.start)
                    await asyncio.to_thread(started.wait)
                    for number in range(MESSAGES, MESSAGES + 10):
                        while True:
                            try:
                                await send(client, [RocketMessage.build(topic, b"%d" % number)])
                                break
                            except RemotingError:
                                await asyncio.sleep(0.5)
                    wanted = {b"%d" % number for number in range(MESSAGES + 10)}
                    await until(lambda: {each.body for each in [*came, *more]} >= wanted)
                counts = Counter(each.body for each in [*came, *more])
                print(f"{sum(counts.values()) - len(counts)} of {len(counts)} came more than once")
                assert set(counts) == wanted

        asyncio.run(asyncio.wait_for(work(), find_limit(240)))
