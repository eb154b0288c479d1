"""Random messages with a priority, written to running brokers by our own producer: they are where it is foretold."""

from __future__ import annotations

import asyncio
from random import Random

from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting.admin import TopicConfig, create_topic
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import RocketMessage
from exchange.partition.clients.rocketmq.priority import PRIORITY, Priority
from exchange.partition.partitions import Partitions
from tests.exchange.partition.clients.test_rocketmq_priority import WITHOUT
from tests.recorders.rocketmq_placed import BESIDE, PRIORITIES
from tests.support.servers import Server
from tests.support.unique import unique_name

MESSAGES = 200


async def put(server: Server) -> list[tuple[dict[str, str], int, int]]:
    """Send messages to random queues; return the properties of each, the queue chosen, and that of the answer."""
    random, found = Random(5), []
    topic = TopicConfig(unique_name("topic"), 5, 5)
    async with Client(ClientSettings(server.url)) as client, Producer(client, ProducerSettings("placed")) as producer:
        await create_topic(client, topic)
        queues = await producer.queues(topic.name)
        for _ in range(MESSAGES):
            chosen = random.choice(queues)
            properties = {PRIORITY: random.choice(PRIORITIES), **random.choice(BESIDE)}
            result = await producer.send(RocketMessage(topic.name, b"x", properties), queue=chosen, timeout_ms=20_000)
            found.append((properties, chosen.queue_id, result.queue.queue_id))
    return found


def test_a_message_is_in_the_queue_of_its_priority_from_5_4_on(rocketmq_servers: list[Server]) -> None:
    for server in rocketmq_servers:
        knows = not server.version.startswith("4.")
        for properties, chosen, stored in asyncio.run(put(server)):
            key = properties[PRIORITY] if knows and not WITHOUT & properties.keys() else None
            wanted = Priority().choose(key, Partitions.from_count(5)).partition
            assert stored == (chosen if wanted is None else wanted), properties
