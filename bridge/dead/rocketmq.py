"""Read a topic of RocketMQ, ``%DLQ%GROUP`` or another one, with single pulls: no group is joined, nothing committed."""

from __future__ import annotations

import asyncio
from typing import Final

from bridge.dead.reading import Bounds, Read, RowWriter, Take
from bridge.endpoints.rocketmq.addresses import read_settings
from bridge.interop import Unmappable
from bridge.interop.rocketmq import convert_from_rocketmq
from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import FLAG_SUBSCRIPTION, BrokerQueues, parse_pull, pull_fields
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.errors import ClientError
from bridge.table import Table
from exchange.errors import InputError

READER: Final = "hashstar-dead"
"""Name of the group in pulls. It is never registered."""
PULLED: Final = 32
"""Maximum number of messages of one pull."""


async def read_topic(url: str, topic: str, bounds: Bounds, take: Take) -> Read:
    """Read all queues of a topic at all brokers. Raises InputError, RemotingError."""
    read = Read(notes=["no consumer group was joined, and no offset committed"])
    deadline = asyncio.get_running_loop().time() + bounds.seconds
    async with Client(read_settings(url, Table({"url": url}, "the address"))) as client:
        try:
            route = await client.update_route(topic)
        except ClientError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                raise InputError(f"there is no topic {topic!r}") from None
            raise
        count = 0
        for data in route.queues:
            for number in range(data.read_queues):
                queue = TopicQueue(topic, data.broker, number)
                room = None if bounds.messages is None else bounds.messages - count
                count += await _read_queue(client, queue, room, deadline, take, read)
    return read


async def _read_queue(
    client: Client, queue: TopicQueue, room: int | None, deadline: float, take: Take, read: Read
) -> int:
    """Read a queue; return the number of messages."""
    asked = BrokerQueues(client, READER)
    at, end = await asked.min_offset(queue), await asked.max_offset(queue)
    rows = RowWriter(f"{queue.topic} {queue.broker} queue {queue.queue_id}", take, read)
    everything = Subscription.to_tags(queue.topic)
    address = client.address(queue.broker)
    while at < end and (room is None or rows.count < room) and asyncio.get_running_loop().time() < deadline:
        wanted = PULLED if room is None else min(PULLED, room - rows.count)
        fields = pull_fields(READER, queue, everything, at, wanted, None)
        fields |= {"sysFlag": str(FLAG_SUBSCRIPTION), "subscription": everything.expression}
        pulled = parse_pull(await client.invoke(address, RequestCode.PULL_MESSAGE, fields), address)
        for message in pulled.messages(queue, everything):
            try:
                rows.add(convert_from_rocketmq(message), message.store_time * 1_000, message.queue_offset)
            except Unmappable:
                read.bad += 1
        if pulled.next_offset <= at:
            break
        at = pulled.next_offset
    rows.flush()
    read.left = (read.left or 0) + max(end - at, 0)
    return rows.count
