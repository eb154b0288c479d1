"""Records that went through a real Kafka and its C client: AMQP messages in it come home as they went."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bridge.interop import Record, to_amqp, to_kafka
from exchange.amqp import ContentHeader, build_lazy_message, get_content
from tests.bridge.interop.test_codec_live import QUEUED, WIRES, WRITTEN_ANEW
from tests.support.bridge.wires import long_string, table_of
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit


class Topic:
    """A new topic with one partition."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.name = unique_name("mapping")
        self.count = 0
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.admin.create_topics([NewTopic(self.name, 1, 1)])[self.name].result(find_limit())

    def through(self, records: Sequence[Record]) -> list[Record]:
        """Produce records, and return them as they are consumed."""
        start = self.count
        self.count += len(records)
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for record in records:
            given: dict[str, Any] = {} if record.timestamp is None else {"timestamp": record.timestamp}
            headers: Any = list(record.headers)
            producer.produce(self.name, record.value, record.key, partition=0, headers=headers, **given)
        assert producer.flush(find_limit()) == 0
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.name})
        try:
            consumer.assign([TopicPartition(self.name, 0, start)])
            came: list[Record] = []
            deadline = time.monotonic() + find_limit()
            while len(came) < len(records):
                assert time.monotonic() < deadline, f"{len(came)} of {len(records)} came"
                message = consumer.poll(1.0)
                if message is not None:
                    came.append(record_of(message))
            return came
        finally:
            consumer.close()


def record_of(message: Any) -> Record:
    kind, timestamp = message.timestamp()
    return Record(
        message.topic(),
        message.key(),
        message.value(),
        message.headers() or [],
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        kind == TIMESTAMP_LOG_APPEND_TIME,
        message.partition(),
        message.offset(),
    )


@pytest.fixture
def topic(kafka: Server) -> Iterator[Topic]:
    topic = Topic(kafka.url)
    yield topic
    topic.admin.delete_topics([topic.name])[topic.name].result(find_limit())


@pytest.mark.smoke
def test_messages_come_home_from_a_broker(topic: Topic) -> None:
    wires = [*WIRES.values(), *QUEUED.values(), *(wire for wire, _ in WRITTEN_ANEW.values())]
    odd = [b"a", b"a", b"", b"\xff", b"a\0b", b"amqp.exchange", b"CC", "ü".encode(), b"x" * 255]
    contents = [ContentHeader.from_parts({}, table_of([(b"h", wire)])) for wire in wires]
    contents += [
        ContentHeader.from_parts({}, table_of([(name, long_string(b"\0\xff")) for name in odd]), unused=2),
        ContentHeader.encode(),
        ContentHeader.encode({}, {"message_id": "\udcff", "timestamp": 2**64 - 1, "priority": 9}),
    ]
    sent = [build_lazy_message("e", "k\udcff", content, b"body") for content in contents]
    for message, record in zip(sent, topic.through([to_kafka(one, topic.name, b"") for one in sent]), strict=True):
        home = to_amqp(record)
        assert (home.exchange, home.routing_key, home.body) == (message.exchange, message.routing_key, message.body)
        assert get_content(home) == get_content(message)


@pytest.mark.smoke
def test_records_come_home_to_a_broker(topic: Topic) -> None:
    headers = [("b", b"\xff\0"), ("a", None), ("a", b""), ("b", b"2"), ("CC", b"x"), ("x-kafka-key", b"y")]
    pairs = [(key, value) for key in (None, b"", b"k") for value in (None, b"", b"v")]
    sent = [Record(topic.name, key, value, headers, 1_600_000_000_000) for key, value in pairs]
    first = topic.through(sent)
    again = topic.through([to_kafka(to_amqp(record), topic.name) for record in first])
    assert [record._replace(offset=None) for record in again] == [record._replace(offset=None) for record in first]
    assert [record._replace(offset=None, partition=None) for record in first] == sent
