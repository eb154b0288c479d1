"""Topics and consumers for the tests of them, on live servers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from bridge.rocketmq.consumer.consumer import Consumer
from bridge.rocketmq.consumer.group import ConsumerSettings
from bridge.rocketmq.consumer.offsets import ConsumeFrom
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings, SendResult
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from exchange.partition.clients.rocketmq.queues import MessageQueue, publish_queues
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit


def on_each(servers: Sequence[Server], test: Callable[[Client, Server], Awaitable[None]]) -> None:
    """Run a test with a client of each server."""

    async def run(server: Server) -> None:
        async with Client(ClientSettings(server.url)) as client:
            await test(client, server)

    for server in servers:
        asyncio.run(asyncio.wait_for(run(server), find_limit()))


async def topic_at(client: Client, what: str = "topic", queues: int = 4) -> str:
    """Create a topic with this number of queues on each broker; its group has the same name after ``g-``."""
    name = unique_name(f"consumer-{what}")
    await admin.create_topic(client, admin.TopicConfig(name, queues, queues))
    return name


async def queues_of(client: Client, topic: str) -> list[MessageQueue]:
    """Return all queues of a topic."""
    return [MessageQueue.from_partition(each) for each in publish_queues(await client.route(topic)).all]


async def send(
    client: Client, messages: Iterable[RocketMessage], queue: MessageQueue | None = None
) -> list[SendResult]:
    """Send these one after another, all to one queue, or to the queues in turn."""
    async with Producer(client, ProducerSettings(unique_name("producer"))) as producer:
        return [await producer.send(each, queue=queue) for each in messages]


async def send_in_order(client: Client, topic: str, first: int, stop: int) -> None:
    """Send messages with their numbers as bodies, each number to every queue."""
    async with Producer(client, ProducerSettings(unique_name("producer"))) as producer:
        queues = await queues_of(client, topic)
        for number in range(first, stop):
            message = RocketMessage(topic, b"%d" % number)
            await asyncio.gather(*[producer.send(message, queue=queue) for queue in queues])


def consumer_of(client: Client, *subscriptions: Subscription | str, group: str = "", **settings: Any) -> Consumer:
    """Return a consumer that begins at the first message."""
    wanted = [Subscription.to_tags(each) if isinstance(each, str) else each for each in subscriptions]
    own = ConsumerSettings(**{"consume_from": ConsumeFrom.FIRST, **settings})
    return Consumer(client, group or f"g-{wanted[0].topic}", wanted, own)


async def read(consumer: Consumer, count: int, *, done: bool = True) -> list[StoredMessage]:
    """Return the next messages, this number of them."""
    found: list[StoredMessage] = []
    async with asyncio.timeout(find_limit()):
        while len(found) < count:
            found += await consumer.receive(count - len(found))
    if done:
        assert all(consumer.done(each) for each in found)
    return found


def by_queue(messages: Iterable[StoredMessage]) -> dict[tuple[str, int], list[bytes]]:
    """Return the bodies of the messages by queue, in order."""
    found: defaultdict[tuple[str, int], list[bytes]] = defaultdict(list)
    for each in messages:
        found[each.broker, each.queue_id].append(each.body)
    return found
