"""The endpoints of RocketMQ do what every endpoint must, on live brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from bridge.endpoints.rocketmq.config import RocketmqSource, RocketmqTarget
from bridge.endpoints.topics import TopicDestination
from bridge.interop import convert_from_rocketmq, to_rocketmq
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.message import RocketMessage
from exchange import Message
from tests.support.bridge.behaviour import Place, SourceBehaviour, TargetBehaviour
from tests.support.rocketmq.topics import Topics
from tests.support.unique import unique_name

REFUSED = Message("", "key.0", {"long": "x" * 40_000}, body=b"refused")
"""Its properties do not fit."""


class Cut:
    """Cuts the connections of targets as soon as a request is under way."""

    def __init__(self) -> None:
        self.targets: list[RocketmqTarget] = []
        self._tasks: list[asyncio.Task[None]] = []

    def target(self, topics: Topics, topic: str) -> RocketmqTarget:
        target = RocketmqTarget("written", topics.settings, {"queue": TopicDestination(topic)})
        self.targets.append(target)
        return target

    def cut(self) -> None:
        self._tasks.append(asyncio.create_task(self._cut()))

    async def _cut(self) -> None:
        for _ in range(2_000):
            for target in self.targets:
                client = target._client
                for address in [] if client is None else list(client._channels):
                    channel = client.open_channel(address) if client is not None else None
                    if channel is not None and channel._waiting:
                        channel.abort("cut")
                        return
            await asyncio.sleep(0)


def native(topic: str, message: Message) -> RocketMessage:
    """Return a message as a producer of RocketMQ sends it; only a message of AMQP may have no body."""
    if message.body:
        return RocketMessage.build(topic, message.body, keys=message.routing_key)
    return to_rocketmq(message, topic, message.routing_key.encode())


def place_with(topics: Topics, queues: int, *, orderly: bool = False, cut: Cut | None = None) -> Place:
    """Create a topic to read from and one to write to, both with this number of queues."""
    read, written = topics.make(queues), topics.make(queues)
    group = unique_name("group")
    ends: list[None] = []

    def put(messages: Sequence[Message]) -> None:
        topics.put(read, [native(read, message) for message in messages])

    def read_all(count: int) -> Sequence[Message]:
        return [
            Message("", home.routing_key, body=home.body)
            for home in map(convert_from_rocketmq, topics.read(written, count))
        ]

    def source() -> RocketmqSource:
        return RocketmqSource(
            "read", topics.settings, group, [Subscription.to_tags(read)], orderly=orderly, until_end=bool(ends)
        )

    def target() -> RocketmqTarget:
        if cut is not None:
            return cut.target(topics, written)
        return RocketmqTarget("written", topics.settings, {"queue": TopicDestination(written)})

    return Place(
        make_source=source,
        make_target=target,
        put=put,
        read_all=read_all,
        end=lambda: ends.append(None),
        cut=None if cut is None else cut.cut,
        refused=("queue", REFUSED),
        longest=1_000_000,
    )


class TestRocketmqSource(SourceBehaviour):
    """`RocketmqSource`; it reconnects by itself, so no lost connection is reported."""

    @pytest.fixture(params=[(1, False), (3, False), (3, True)], ids=["one queue", "three queues", "orderly"])
    def place(self, request: pytest.FixtureRequest, topics: Topics) -> Place:
        queues, orderly = request.param
        return place_with(topics, queues, orderly=orderly)


class TestRocketmqTarget(TargetBehaviour):
    """`RocketmqTarget`."""

    @pytest.fixture(params=[1, 3], ids=["one queue", "three queues"])
    def place(self, request: pytest.FixtureRequest, topics: Topics) -> Place:
        return place_with(topics, request.param, cut=Cut())
