"""A group that reads in order, while members come and go and its broker is restarted or dies."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from typing import Any

from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.consumer import Consumer
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.errors import ClientError, RemotingError
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from tests.support.rocketmq.broker import Broker, broker
from tests.support.rocketmq.groups import consumer_of, queues_of, topic_at
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, until


async def send_all(client: Client, topic: str, first: int, stop: int) -> None:
    """Send each number to every queue, again until the broker has confirmed it."""
    async with Producer(client, ProducerSettings(unique_name("producer"))) as producer:
        queues = await queues_of(client, topic)
        for number in range(first, stop):
            for queue in queues:
                while True:
                    try:
                        await producer.send(RocketMessage(topic, b"%d" % number), queue=queue)
                        break
                    except RemotingError:
                        await asyncio.sleep(0.5)


async def in_order(started: Broker) -> None:
    """Read while a member joins, the broker dies and is started again, and the member leaves."""
    came: defaultdict[int, list[StoredMessage]] = defaultdict(list)

    async def work(consumer: Consumer) -> None:
        with suppress(ClientError):  # it was closed
            while True:
                for each in await consumer.receive(4):
                    came[each.queue_id].append(each)
                    await asyncio.sleep(0.001)
                    consumer.done(each)

    def have(number: int) -> bool:
        return all(any(each.body == b"%d" % number for each in came[queue]) for queue in range(4))

    def queues(consumer: Consumer) -> set[TopicQueue]:
        return {queue for queue in consumer.assigned if queue.topic == topic}

    settings = ClientSettings(started.url, poll_name_server_interval=2.0, heartbeat_broker_interval=5.0)
    async with Client(settings) as client, Client(settings) as other, Client(settings) as sender:
        topic = await topic_at(client)
        own: dict[str, Any] = {"orderly": True, "rebalance_interval": 5.0}
        async with consumer_of(client, topic, **own) as first:
            works = [asyncio.create_task(work(first))]
            await send_all(sender, topic, 0, 40)
            await until(lambda: have(39))
            async with consumer_of(other, topic, **own) as second:
                works.append(asyncio.create_task(work(second)))
                sending = asyncio.create_task(send_all(sender, topic, 40, 140))
                await until(lambda: len(queues(second)) == len(queues(first)) == 2)
                await asyncio.sleep(0.3)
                await asyncio.to_thread(started.stop, kill=True)
                await asyncio.to_thread(started.start)
                await sending
                await until(lambda: have(139))
            await send_all(sender, topic, 140, 160)
            await until(lambda: have(159))
            assert len(queues(first)) == 4
        await asyncio.gather(*works)

    again = 0
    for messages in came.values():
        offsets = [each.queue_offset for each in messages]
        fresh = list(dict.fromkeys(offsets))
        assert fresh == list(range(len(fresh))), "a message is missing, or came before one that is before it"
        numbers = list(dict.fromkeys(int(each.body) for each in sorted(messages, key=lambda each: each.queue_offset)))
        assert numbers == list(range(160))
        again += len(offsets) - len(fresh)
    print(f"came again: {again} of {sum(map(len, came.values()))}")


def test_order_survives_joining_and_leaving_members_and_a_broker_that_is_killed_and_restarted() -> None:
    with broker() as started:
        asyncio.run(asyncio.wait_for(in_order(started), find_limit(180)))
