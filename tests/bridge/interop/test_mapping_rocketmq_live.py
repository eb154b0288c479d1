"""What the mapping makes of messages for RocketMQ comes through every broker as it went, one by one and in batches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from bridge.interop import convert_from_rocketmq, to_rocketmq
from bridge.rocketmq.remoting.message import RocketMessage
from bridge.rocketmq.remoting.properties import SYSTEM
from exchange.values.message import Message
from tests.bridge.interop.test_mapping import parts
from tests.bridge.interop.test_mapping_rocketmq import messages
from tests.support.rocketmq.topics import Topics, topics_at
from tests.support.servers import Server
from tests.support.tiers import examples

LIVE = examples(2, derandomize=True, suppress_health_check=[*HealthCheck], database=None)


@pytest.fixture(scope="module")
def all_topics(rocketmq_servers: list[Server]) -> Iterator[list[Topics]]:
    with topics_at(rocketmq_servers[0].url) as first:
        more = [topics_at(server.url) for server in rocketmq_servers[1:]]
        yield [first, *[each.__enter__() for each in more]]
        for each in more:
            each.__exit__(None, None, None)


@pytest.mark.parametrize("batch", [1, 40], ids=["one by one", "in batches"])
@LIVE
@given(sent=st.lists(messages(), min_size=25, max_size=25))
def test_messages_of_amqp_come_home_from_every_broker(
    all_topics: list[Topics], batch: int, sent: list[Message]
) -> None:
    for topics in all_topics:
        topic = topics.make()
        topics.put(topic, [to_rocketmq(message, topic, b"k") for message in sent], batch)
        found = topics.read(topic, len(sent))
        assert [parts(convert_from_rocketmq(message)) for message in found] == [parts(message) for message in sent]


def test_all_text_but_what_separates_properties_comes_through_every_broker(all_topics: list[Topics]) -> None:
    characters = [chr(code) for code in (*range(3, 256), 0, 0x2028, 0x4E2D, 0xD7FF, 0xE000, 0xFFFF, 0x1F600, 0x10FFFF)]
    properties = {f"n{character}": f"{character}v{character}" for character in characters}
    for topics in all_topics:
        topic = topics.make()
        topics.put(topic, [RocketMessage(topic, b"b", {**properties, "KEYS": "k", " ": " "}, flag) for flag in (5, -1)])
        for message, flag in zip(topics.read(topic, 2), (5, -1), strict=True):
            kept = {name: value for name, value in message.properties.items() if name not in SYSTEM}
            assert kept == {**properties, " ": " "}
            assert (message.flag, message.keys, message.body) == (flag, ("k",), b"b")
