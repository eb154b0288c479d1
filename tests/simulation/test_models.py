"""The models of the simulation do what live brokers do: the same behaviour, by the same suite."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from bridge.endpoint import Source, Target
from bridge.endpoints.kafka.consumer.share_group import LOCK_SECONDS, SAFE_DELIVERIES
from bridge.interop import to_rocketmq
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.message import RocketMessage
from exchange import Message
from tests.simulation.kafka_share import ShareTopic, share_simulated
from tests.simulation.kafka_share_group import ModelShareGroup
from tests.simulation.kafka_source import KafkaTopic, kafka_simulated
from tests.simulation.kafka_topic import ModelTopic
from tests.simulation.loop import simulate
from tests.simulation.plan import Plan
from tests.simulation.rocketmq import RocketmqServer, RocketmqTopic, rocketmq_simulated
from tests.simulation.rocketmq_broker import ModelBroker
from tests.simulation.world import World
from tests.support.bridge.behaviour import Place, SourceBehaviour, TargetBehaviour, on_a_loop
from tests.support.bridge.share_behaviour import MakePlace, ShareBehaviour, place_of_share_group


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
def topic_place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Make a topic of a model to read from; `test_kafka_behaviour_live` has that of a broker."""
    monkeypatch.setattr(asyncio, "run", lambda work: simulate(work, Random(1))[0])
    topic, world = ModelTopic(request.param), World(Plan(0, window=2_000), Random(2))
    ends: list[None] = []
    clients: list[KafkaTopic] = []

    def make_source() -> Source:
        client = KafkaTopic("read", world, topic, until_end=bool(ends))
        clients.append(client)
        source: Source = client.endpoint
        return source

    def put(messages: Sequence[Message]) -> None:
        for each in messages:
            key = each.routing_key.encode()
            topic.put(key[-1] % request.param, key, each.body)

    with kafka_simulated():
        yield Place(
            make_source=make_source,
            make_target=lambda: pytest.fail("it is no target"),
            put=put,
            read_all=lambda _: (),
            end=lambda: ends.append(None),
            cut=lambda: clients[-1].lose(),  # noqa: PLW0108  of the last one then
        )


class TestModelTopic(SourceBehaviour):
    """`KafkaSource` over `ModelTopic`."""

    @pytest.fixture
    def place(self, topic_place: Place) -> Place:
        return topic_place


class TestModelShareGroup(ShareBehaviour):
    """`ShareSource` over `ModelShareGroup`; `test_kafka_share_live` has brokers."""

    @pytest.fixture
    def make_place(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakePlace]:
        monkeypatch.setattr(asyncio, "run", lambda work: simulate(work, Random(1))[0])
        world = World(Plan(0, window=2_000), Random(2))

        def make(lock_seconds: float = LOCK_SECONDS, limit: int = SAFE_DELIVERIES) -> Place:
            group = ModelShareGroup(1, lock_seconds, limit)

            def make_source() -> Source:
                source: Source = ShareTopic("read", world, group).endpoint
                return source

            def put(messages: Sequence[Message]) -> None:
                for each in messages:
                    group.put(0, each.routing_key.encode(), each.body)

            return place_of_share_group(make_source, put)

        with share_simulated():
            yield make
        assert {each.promise for each in world.broken} <= {"bounded redelivery"}  # of a plan without a fault

    @pytest.mark.parametrize(
        ("code", "ends"), [(KafkaError.GROUP_AUTHORIZATION_FAILED, True), (KafkaError.REQUEST_TIMED_OUT, False)]
    )
    @on_a_loop
    async def test_a_member_that_may_not_acknowledge_is_lost_at_once(
        self, make_place: MakePlace, code: int, ends: bool
    ) -> None:
        """Even if it is given nothing meanwhile, and so hears nothing when it polls."""
        source: Any = make_place().make_source()
        await source.open()
        source._on_acknowledged({}, KafkaException(KafkaError(code)))
        assert (source.lost is not None) == ends
        await source.close()


REFUSED = Message("", "key.0", body=b"refused")


@pytest.fixture
def broker_place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Make topics of a model to read from and to write to; `test_rocketmq_behaviour_live` has those of a broker."""
    monkeypatch.setattr(asyncio, "run", lambda work: simulate(work, Random(1))[0])
    queues, name = request.param
    read, written, world = (
        ModelBroker("in", queues),
        ModelBroker("all", queues),
        World(Plan(0, window=2_000), Random(2)),
    )
    ends: list[None] = []
    written_by: list[RocketmqServer] = []

    def make_source() -> Source:
        client = RocketmqTopic(name, world, read, until_end=bool(ends))
        client.take_over(None)
        source: Source = client.endpoint
        return source

    def make_target() -> Target:
        server = RocketmqServer("all", world, written)
        written.judge = lambda messages: (
            (ResponseCode.MESSAGE_ILLEGAL, "") if any(each.body == REFUSED.body for each in messages) else (0, "")
        )
        written.stored = lambda *_: None
        written_by.append(server)
        target: Target = server.endpoint
        return target

    def put(messages: Sequence[Message]) -> None:
        for each in messages:
            key = each.routing_key.encode()
            read.append(key[-1] % queues, [to_rocketmq(each, "in", key)])

    def read_all(_: int) -> Sequence[Message]:
        bodies = [(each.properties["KEYS"], to_body(each)) for queue in written.queues for each in queue]
        return [Message("", key, body=body) for key, body in bodies]

    with rocketmq_simulated():
        yield Place(
            make_source=make_source,
            make_target=make_target,
            put=put,
            read_all=read_all,
            end=lambda: ends.append(None),
            cut=lambda: written_by[-1].cut_soon() if written_by else None,
            refused=("all", REFUSED),
            queue="all",
        )


def to_body(message: RocketMessage) -> bytes:
    """Return the body of a message of AMQP, of which one of RocketMQ carries the empty one as another."""
    return b"" if message.properties.get("amqp.body") == "empty" else message.body


@pytest.mark.parametrize(
    "broker_place",
    [(1, "rocketmq"), (3, "rocketmq"), (3, "orderly")],
    ids=["one queue", "three queues", "orderly"],
    indirect=True,
)
class TestModelQueues(SourceBehaviour):
    """`RocketmqSource` over `ModelBroker`; it reconnects by itself, so no lost connection is reported."""

    @pytest.fixture
    def place(self, broker_place: Place) -> Place:
        return replace(broker_place, cut=None)


@pytest.mark.parametrize(
    "broker_place", [(1, "rocketmq"), (3, "rocketmq")], ids=["one queue", "three queues"], indirect=True
)
class TestModelStore(TargetBehaviour):
    """`RocketmqTarget` over `ModelBroker`."""

    @pytest.fixture
    def place(self, broker_place: Place) -> Place:
        return broker_place
