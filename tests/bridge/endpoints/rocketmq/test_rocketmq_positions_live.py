"""A position that a queue does not have any more: a check shows what a source then does, and the source does it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.endpoints.rocketmq.config import RocketmqSource
from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import BrokerQueues
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.message import RocketMessage
from tests.support.bridge.behaviour import on_a_loop
from tests.support.bridge.positions import look_at_position, read_numbers
from tests.support.rocketmq.topics import Topics


@on_a_loop
async def test_a_queue_of_rocketmq_that_ends_before_the_offset_of_the_group(topics: Topics) -> None:
    topic = topics.make(1)
    group = topics.group(f"g-{topic}")
    await asyncio.to_thread(topics.put, topic, [RocketMessage.build(topic, b"%d" % n) for n in range(20)])
    client_broker = next(iter(topics.client.brokers()))

    def commit(offset: int) -> None:
        topics.do(BrokerQueues(topics.client, group).commit(TopicQueue(topic, client_broker, 0), offset))

    def source() -> RocketmqSource:
        return RocketmqSource("read", topics.settings, group, [Subscription.to_tags(topic)], from_last=True)

    expected: Sequence[tuple[int, str, str, int]] = [
        (5, "ok", "goes on where it was in 1, 15 messages behind", 15),
        (500, "warning", "ends before what was read: read from the start on, 20 messages", 20),
    ]
    for offset, level, words, count in expected:
        await asyncio.to_thread(commit, offset)
        [(found, text)] = await look_at_position(source(), "group")
        assert (found, words in text) == (level, True), text
        assert await read_numbers(source(), count) == [*range(20 - count, 20)]
