"""A source while one of two brokers hangs: what it has is not taken for nothing, and the other's goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from bridge.endpoint import Delivery, EndOfStream
from bridge.endpoints.rocketmq.source import RocketmqSource
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import RocketMessage
from tests.support.rocketmq.groups import queues_of, send
from tests.support.rocketmq_cluster import Cluster
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

HANGS = "broker-b"


@pytest.fixture
def cluster(rocketmq_cluster: Cluster) -> Iterator[Cluster]:
    yield rocketmq_cluster
    rocketmq_cluster.broker_b.relay.go_on()


def run(cluster: Cluster, test: Callable[[ClientSettings, str], Awaitable[None]], here: int, there: int) -> None:
    """Run with a topic of one queue at each broker, and messages in that of the broker that does not hang."""

    async def work() -> None:
        settings = ClientSettings(cluster.server.url)
        topic = unique_name("hung")
        async with Client(settings) as client:
            await admin.create_topic(client, admin.TopicConfig(topic, 1, 1))
            for queue in await queues_of(client, topic):
                count = there if queue.broker == HANGS else here
                await send(client, [RocketMessage.build(topic, b"%d" % number) for number in range(count)], queue)
        await test(settings, topic)

    asyncio.run(asyncio.wait_for(work(), find_limit()))


async def settle(source: RocketmqSource, count: int) -> None:
    """Read and settle this number of messages."""
    while count > 0:
        for delivery in await source.read(100):
            source.settle(delivery)
            count -= 1


def test_a_source_is_not_at_its_end_while_a_broker_hangs(cluster: Cluster) -> None:
    async def test(settings: ClientSettings, topic: str) -> None:
        cluster.broker_b.relay.stall()
        source = RocketmqSource("s", settings, f"g-{topic}", [Subscription.to_tags(topic)], until_end=True)
        await source.open()
        await settle(source, 20)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(source.read(100), 8)
        cluster.broker_b.relay.go_on()
        await settle(source, 10)
        with pytest.raises(EndOfStream):
            await source.read(100)
        await source.close()

    run(cluster, test, here=20, there=10)


def test_a_broker_that_hangs_does_not_keep_the_others_messages_waiting(cluster: Cluster) -> None:
    async def test(settings: ClientSettings, topic: str) -> None:
        source = RocketmqSource("s", settings, f"g-{topic}", [Subscription.to_tags(topic)], window=50)
        await source.open()
        found: list[Delivery] = []
        while len(found) < 30:
            found += await source.read(30 - len(found))
        # Some of both are out; now one broker cannot be told what is settled of its own.
        cluster.broker_b.relay.stall()
        for delivery in found:
            source.settle(delivery)
        # Thirty windows: were each to wait until that broker is given up, it would take minutes.
        await settle(source, 1_500 - sum("broker-b" not in each.origin for each in found))
        cluster.broker_b.relay.go_on()
        await source.close()

    run(cluster, test, here=1_500, there=20)
