"""RocketMQ's proxy: our remoting client through it, and the kept gRPC client of the field beside ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.rocketmq.consumer.lite_pull import LitePullConsumer
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.producer.transactions import Transactions
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.errors import BrokerError
from bridge.rocketmq.remoting.message import RocketMessage
from exchange.partition.clients.rocketmq.grpc import GrpcProxy
from exchange.partition.clients.rocketmq.queues import publish_queues
from exchange.partition.clients.rocketmq.selectors import ByHash
from exchange.partition.clients.rocketmq.send import SendSettings
from tests.support.rocketmq.groups import consumer_of, read
from tests.support.rocketmq.proxy import Proxy, proxy_of
from tests.support.servers import Server, missing
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

PATIENT = SendSettings(send_msg_timeout=20_000)


@pytest.fixture(scope="module")
def proxied(rocketmq_servers: list[Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Proxy]]:
    """Yield a server of 5.x, and a proxy before it."""
    server = next((each for each in rocketmq_servers if not each.version.startswith("4.")), None)
    if server is None:
        missing("the proxy needs a broker of 5.x")
    with proxy_of(server, tmp_path_factory.mktemp("proxy")) as proxy:
        yield server, proxy


def run(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work(), find_limit(200)))


async def make_topic(server: Server, kind: str = "NORMAL") -> str:
    """Create a topic of a message type, with its group ``g-TOPIC``, at the broker itself."""
    topic = unique_name("proxied")
    async with Client(ClientSettings(server.url)) as client:
        attributes = {"+message.type": kind}
        await admin.create_topic(client, admin.TopicConfig(topic, attributes=attributes))
        await admin.create_group(client, admin.GroupConfig(f"g-{topic}"))
        await admin.set_request_mode(client, topic, f"g-{topic}", "POP")
    return topic


def test_our_client_sends_and_consumes_through_the_proxy(proxied: tuple[Server, Proxy]) -> None:
    server, proxy = proxied

    async def work() -> None:
        topic = await make_topic(server)
        async with Client(ClientSettings(proxy.remoting)) as client:
            route = await client.route(topic)
            # The proxy stands for all brokers.
            assert {address for data in route.brokers for _, address in data.addresses} == {proxy.remoting}
            async with Producer(client, ProducerSettings("proxied", PATIENT)) as producer:
                queue = (await producer.queues(topic))[2]
                for number in range(10):
                    sent = await producer.send(RocketMessage.build(topic, b"%d" % number), queue=queue)
                    assert sent.queue == queue
                chosen = await producer.send(RocketMessage.build(topic, b"10"), selector=ByHash(), key="customer 7")
                want = ByHash().choose("customer 7", publish_queues(route))
                assert publish_queues(route).all[want.partition or 0].name == chosen.queue.name
                batch = [RocketMessage.build(topic, b"11"), RocketMessage.build(topic, b"12")]
                await producer.send_batch(batch, queue=queue)
            wanted = {b"%d" % number for number in range(13)}
            for settings in ({}, {"orderly": True}):
                async with consumer_of(client, topic, group=f"g-{topic}-{len(settings)}", **settings) as consumer:
                    found = await read(consumer, 13)
                    assert {each.body for each in found} == wanted
            # It knows no assignment by brokers over remoting: members divide the queues, and pull.
            async with consumer_of(client, topic, client_rebalance=False) as consumer:
                assert {each.body for each in await read(consumer, 13)} == wanted
                assert not consumer.popped
            async with LitePullConsumer(client, f"g-{topic}-lite") as lite:
                await lite.assign(await lite.queues(topic))
                for each in lite.assigned:
                    await lite.seek_to_begin(each)
                polled: set[bytes] = set()
                while polled != wanted:
                    polled |= {each.body for each in await lite.poll(find_limit())}

    run(work)


def test_transactions_go_through_the_proxy_in_a_topic_for_them(proxied: tuple[Server, Proxy]) -> None:
    server, proxy = proxied

    async def work() -> None:
        plain, topic = await make_topic(server), await make_topic(server, "TRANSACTION")
        async with (
            Client(ClientSettings(proxy.remoting)) as client,
            Producer(client, ProducerSettings("proxied", PATIENT)) as producer,
            Transactions(producer) as transactions,
        ):
            with pytest.raises(BrokerError, match="expected type is NORMAL"):
                await transactions.begin(RocketMessage.build(plain, b"x")).__aenter__()
            async with transactions.begin(RocketMessage.build(topic, b"rolled back")) as transaction:
                assert await transaction.rollback()
            async with transactions.begin(RocketMessage.build(topic, b"committed")) as transaction:
                assert await transaction.commit()
            async with consumer_of(client, topic) as consumer:
                assert [each.body for each in await read(consumer, 1)] == [b"committed"]

    run(work)


def test_groups_of_the_grpc_client_are_in_the_queues_predicted_and_each_reads_the_other_s(
    proxied: tuple[Server, Proxy],
) -> None:
    rocketmq = pytest.importorskip("rocketmq", reason="rocketmq-python-client is not installed")
    server, proxy = proxied

    def send(topic: str, groups: list[str]) -> None:
        settings = rocketmq.ClientConfiguration(proxy.grpc, rocketmq.Credentials())
        producer = rocketmq.Producer(settings, (topic,))
        producer.startup()
        try:
            for group in groups:
                message = rocketmq.Message()
                message.topic, message.body, message.message_group = topic, group.encode(), group
                producer.send(message)
        finally:
            producer.shutdown()

    def receive(topic: str, count: int) -> set[bytes]:
        settings = rocketmq.ClientConfiguration(proxy.grpc, rocketmq.Credentials())
        consumer = rocketmq.SimpleConsumer(settings, f"g-{topic}", {topic: rocketmq.FilterExpression()})
        consumer.startup()
        found: set[bytes] = set()
        failures = 0
        try:
            while len(found) < count:
                try:
                    messages = consumer.receive(16, 30) or ()
                except Exception:  # the proxy may not have its settings yet
                    failures += 1
                    if failures > 20:
                        raise
                    time.sleep(0.5)
                    continue
                for message in messages:
                    found.add(message.body)
                    consumer.ack(message)
        finally:
            consumer.shutdown()
        return found

    async def work() -> None:
        topic, fifo = await make_topic(server), await make_topic(server, "FIFO")
        groups = [f"customer {number}" for number in range(40)]
        async with Client(ClientSettings(server.url)) as client:
            await asyncio.to_thread(send, fifo, groups)
            partitions = publish_queues(await client.route(fifo))
            async with consumer_of(client, fifo, group=f"g-{fifo}-ours") as consumer:
                for each in await read(consumer, len(groups)):
                    choice = GrpcProxy().choose(each.body.decode(), partitions)
                    assert partitions.all[choice.partition or 0].name == f"{each.broker}:{each.queue_id}"
                    assert each.sharding_key == each.body.decode()
            async with Producer(client, ProducerSettings("proxied", PATIENT)) as producer:
                for number in range(20):
                    await producer.send(RocketMessage.build(topic, b"%d" % number))
            assert await asyncio.to_thread(receive, topic, 20) == {b"%d" % number for number in range(20)}

    run(work)
