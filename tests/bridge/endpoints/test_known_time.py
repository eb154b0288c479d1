"""Times that publishers choose: what the bridge cannot hold of them is unknown, and the message keeps what it says."""

from __future__ import annotations

import pytest
from confluent_kafka import Message as Found

from bridge.endpoint import validate_time
from bridge.endpoints.kafka.consumer.reader import LaneReader
from bridge.endpoints.rabbitmq.consumer.deliveries import read_identity_and_time
from bridge.endpoints.rocketmq.lane import QueueLane
from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.remoting.message import StoredMessage
from exchange.amqp import ContentHeader
from exchange.values.field_values import Typed

GREATEST = 2**63 - 1
NOW = 1_763_800_000


@pytest.mark.parametrize("time", [0, -1, GREATEST, -GREATEST])
def test_a_time_of_64_bits_is_known(time: int) -> None:
    assert validate_time(time) == time


@pytest.mark.parametrize("time", [GREATEST + 1, -GREATEST - 1, 2**64 * 1_000_000])
def test_any_other_is_not(time: int) -> None:
    assert validate_time(time) is None


@pytest.mark.parametrize(("stamp", "known"), [(NOW, True), (NOW * 1_000_000, False), (2**64 - 1, False)])
def test_of_a_message_of_rabbitmq(stamp: int, known: bool) -> None:
    content = ContentHeader.encode({}, {"timestamp": Typed("timestamp", stamp), "message_id": "m"})
    assert read_identity_and_time("r", "queue", b"", content, b"") == (
        "message/r/queue/m/00000000",
        stamp * 1_000_000 if known else None,
    )


@pytest.mark.parametrize(("stamp", "known"), [(NOW * 1_000, True), (NOW * 1_000_000_000, False), (GREATEST, False)])
def test_of_a_record_of_kafka(stamp: int, known: bool) -> None:
    found = Found(topic="t", partition=0, offset=1, key=b"k", value=b"v", headers=None, timestamp=(1, stamp))
    delivery = LaneReader("k", "t", 0).make_delivery(found, "lane")
    assert delivery.time == (stamp * 1_000 if known else None)
    assert delivery.message.headers["x-kafka-timestamp"] == stamp


@pytest.mark.parametrize(("stamp", "known"), [(NOW * 1_000, True), (NOW * 1_000_000_000, False), (GREATEST, False)])
def test_of_a_message_of_rocketmq(stamp: int, known: bool) -> None:
    stored = StoredMessage("t", b"v", {}, 0, "b", 2, 7, 9, 0, stamp, bytes(8), 5, bytes(8), 0)
    delivery = QueueLane("r", AssignedQueue(TopicQueue("t", "b", 2), 0)).make_delivery(stored)
    assert delivery.time == (stamp * 1_000 if known else None)
