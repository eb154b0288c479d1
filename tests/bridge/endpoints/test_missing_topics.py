"""Topics that are missing are named all at once: who creates one has not to start the bridge again for the next."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.endpoint import Disconnected
from bridge.endpoints.kafka.cluster.topics import count_partitions
from bridge.endpoints.rocketmq.placing import routes_of
from bridge.endpoints.topics import MAX_LISTED_TOPICS, describe_missing
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.errors import ClientError

WANTED = ["there", "a", "b", "c"]
TEXT = "there is no topic 'a', 'b' or 'c'; create them"


def test_kafka_names_all() -> None:
    there = SimpleNamespace(error=None, partitions={0: None})
    with pytest.raises(Disconnected) as caught:
        count_partitions(SimpleNamespace(topics={"there": there}), WANTED)
    assert str(caught.value) == TEXT


def test_rocketmq_names_all() -> None:
    class Client:
        async def route(self, topic: str) -> str:
            if topic != "there":
                raise ClientError("no route", ResponseCode.TOPIC_NOT_EXIST)
            return "its route"

    client: Any = Client()
    with pytest.raises(Disconnected) as caught:
        asyncio.run(routes_of(client, WANTED))
    assert str(caught.value) == TEXT
    assert [*asyncio.run(routes_of(client, WANTED[:1]))] == ["there"]


def test_one_is_named_as_before_and_of_many_the_first_ones() -> None:
    assert describe_missing(["a"]) == "there is no topic 'a'; create it"
    assert (
        describe_missing(["a"], {"a": 12, "b": 1})
        == "there is no topic 'a'; create it with 12 partitions, as in the topology"
    )
    assert describe_missing(["a", "b", "c"], {"b": 1, "c": 4}, "queue") == (
        "there is no topic 'a', 'b' or 'c'; create them, 'b' with 1 queue and 'c' with 4 queues, as in the topology"
    )
    assert describe_missing(["t"] * (MAX_LISTED_TOPICS + 2)).endswith("'t' and 2 more; create them")
