"""The endpoints of Kafka do what every endpoint must, on live brokers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from bridge.endpoints.kafka.config import KafkaSource, KafkaTarget
from bridge.endpoints.topics import TopicDestination
from exchange import Message
from tests.support.bridge.behaviour import Place, SourceBehaviour, TargetBehaviour
from tests.support.kafka.topics import Topics, topics_at
from tests.support.servers import Server

REFUSED = Message("", "key.0", body=bytes(30_000))


@pytest.fixture(scope="module")
def topics(kafka: Server) -> Iterator[Topics]:
    with topics_at(kafka.url) as made:
        yield made


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
def place(request: pytest.FixtureRequest, topics: Topics) -> Place:
    """Make a topic to read from and one to write to; librdkafka reconnects by itself, so no cut is reported."""
    read, written = topics.make(request.param), topics.make(request.param)
    small = topics.make(config={"max.message.bytes": "20000"})
    ends: list[None] = []

    def put(messages: Sequence[Message]) -> None:
        topics.put(read, [(message.routing_key.encode(), message.body) for message in messages])

    def read_all(count: int) -> Sequence[Message]:
        return [
            Message("", message.key().decode(), body=message.value() or b"") for message in topics.read(written, count)
        ]

    def end() -> None:
        ends.append(None)

    settings = topics.settings
    return Place(
        make_source=lambda: KafkaSource("read", {**settings, "group.id": read}, [read], until_end=bool(ends)),
        make_target=lambda: KafkaTarget(
            "written", settings, {"queue": TopicDestination(written), "small": TopicDestination(small)}
        ),
        put=put,
        read_all=read_all,
        end=end,
        refused=("small", REFUSED),
        longest=900_000,
    )


class TestKafkaSource(SourceBehaviour):
    """`KafkaSource`."""


class TestKafkaTarget(TargetBehaviour):
    """`KafkaTarget`."""
