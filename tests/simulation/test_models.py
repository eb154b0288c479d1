"""The models of the simulation do what live brokers do: the same behaviour, by the same suite."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from bridge.endpoint import Source
from exchange import Message
from tests.simulation.kafka_source import KafkaTopic, kafka_simulated
from tests.simulation.kafka_topic import ModelTopic
from tests.simulation.loop import simulate
from tests.simulation.plan import Plan
from tests.simulation.world import World
from tests.support.bridge.behaviour import Place, SourceBehaviour


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
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
