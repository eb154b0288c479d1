"""Records that become messages and records again: put into AMQP only when needed, with the same result."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Message as Consumed
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Outgoing, validate_time
from bridge.endpoints.kafka.cluster.lazy import RecordHeaders, convert_record, record_of
from bridge.endpoints.kafka.cluster.topics import KafkaTopic
from bridge.endpoints.kafka.config import KafkaTarget
from bridge.endpoints.kafka.consumer.reader import FIXED_BYTES, LaneReader
from bridge.endpoints.kafka.producer.writer import RecordWriter
from bridge.endpoints.topics import TopicDestination
from bridge.interop import IDENTITY, Record, Unmappable, identify_record, to_amqp, to_kafka
from bridge.interop.marks import HOPS, read_hops
from exchange import Binding, Exchange, Queue, Router, Topology
from exchange.amqp import get_content
from exchange.partition import Partitions
from exchange.partition.partitioning.specification import Partitioning, parse_key_source
from exchange.partition.partitioning.strategies import build_partitioner
from exchange.routing.route import Placement
from exchange.values.message import assemble_message
from tests.bridge.interop.test_mapping import DEBEZIUM, kafka_headers, long_keys, parts
from tests.support.bridge.identity import with_identity

TIMES = {0: (None, False), 1: (1_790_000_000_000, False), 2: (1_790_000_000_000, True)}


@st.composite
def consumed_records(draw: st.DrawFn) -> Consumed:
    kind = draw(st.sampled_from([0, 1, 2]))
    headers: Any = draw(kafka_headers | st.just([("n" * 300, b"")])) or None  # more than the client's types tell
    return Consumed(
        topic="orders",
        partition=3,
        offset=draw(st.integers(0, 2**62)),
        key=draw(st.none() | st.binary(max_size=300) | long_keys),
        value=draw(st.none() | st.binary(max_size=20)),
        headers=headers,
        timestamp=(kind, TIMES[kind][0] or -1),
    )


def to_record(consumed: Consumed) -> Record:
    kind, _ = consumed.timestamp()
    time, is_append_time = TIMES[kind]
    headers: Any = consumed.headers() or ()
    return Record("orders", consumed.key(), consumed.value(), headers, time, is_append_time, 3, consumed.offset())


def make_delivery(consumed: Consumed) -> Delivery:
    return LaneReader("read", "orders", 3).make_delivery(consumed, "lane")


@given(consumed_records())
@example(Consumed(topic="orders", partition=3, offset=0, headers=[("x-kafka-key", b"kept")], timestamp=(0, -1)))
def test_a_record_is_the_message_that_the_mapping_makes_of_it(consumed: Consumed) -> None:
    record, delivery = to_record(consumed), make_delivery(consumed)
    assert delivery.identity == identify_record("read", record)
    assert delivery.time == (None if record.timestamp is None else validate_time(record.timestamp * 1_000))
    assert (delivery.lane, delivery.position, delivery.redelivered) == ("lane", record.offset, False)
    assert delivery.origin == f"orders-3 at {record.offset}"
    assert delivery.size - len(record.value or b"") == FIXED_BYTES
    message, expected, refusal = delivery.message, None, None
    try:
        expected = to_amqp(record)
    except Unmappable as problem:
        refusal = str(problem)
    assert delivery.refusal == refusal
    if expected is None:
        return
    for code in ("CC", "BCC", "x-kafka-topic", "a"):
        assert (code in message.headers) == (code in expected.headers)
    assert bool(message.headers) == bool(expected.headers)
    assert parts(message) == parts(expected)
    assert message.headers == expected.headers
    assert message.properties == expected.properties


@given(consumed_records(), st.booleans(), st.sampled_from(["orders", "bench", ""]))
def test_a_record_is_written_as_if_it_had_been_a_message_of_amqp(
    consumed: Consumed, has_identity: bool, exchange: str
) -> None:
    delivery = make_delivery(consumed)
    if not has_identity:
        delivery.identity = None
    read = delivery.message
    message = assemble_message(exchange, read.routing_key, read.headers, read.properties, read.body)
    writer = RecordWriter({"queue": TopicDestination("copy")}, {"copy": KafkaTopic(4, None)})
    try:
        home = to_kafka(with_identity(to_amqp(to_record(consumed)), delivery.identity), "copy", b"")
    except Unmappable:
        return
    record, _ = writer.make_record(Outgoing(message, delivery, "queue", number=7))
    marked = home._replace(headers=[*home.headers, ("x-hashstar-hops", b"1")])
    assert record._replace(headers=list(record.headers)) == marked


def test_a_message_that_was_changed_has_no_record_any_more() -> None:
    message = convert_record(Record("orders", b"k", b"v", [("a", b"1")], None, False, 0, 9))
    assert record_of(message) is not None
    other = assemble_message("", "", {"b": "2"}, message.properties, b"")
    assert record_of(other) is None
    assert dict(get_content(other).headers()) == {"b": "2"}
    assert record_of(assemble_message("", "", message.headers, {}, b"")) is None
    assert get_content(message).property("delivery_mode") == 2


def test_a_route_by_key_decodes_nothing() -> None:
    topology = Topology().declare_exchange(Exchange("orders", "topic")).declare_queue(Queue("all"))
    router = Router(topology.bind(Binding.to_queue("orders", "all", "#")))
    message = convert_record(Record("orders", b"k", b"v", [("CC", b"1")], None, False, 0, 9))
    for _ in range(2):
        assert router.route(message).queues == ("all",)
    assert isinstance(message.headers, RecordHeaders)
    assert message.headers.made is None


def test_only_a_record_that_has_passed_no_bridge_is_taken_for_one_without_a_look_at_its_headers() -> None:
    plain = make_delivery(Consumed(topic="orders", partition=3, offset=5, value=b"v", headers=[("CC", b"1")])).message
    assert isinstance(plain.headers, RecordHeaders)
    assert not plain.headers.may_have_marks
    assert plain.headers.has_one_key == plain.has_one_key
    assert read_hops(plain) == 0
    passed = make_delivery(Consumed(topic="orders", partition=3, offset=5, value=b"v", headers=[(HOPS, b"5")])).message
    assert read_hops(passed) == 5


def test_a_record_keeps_the_identity_that_it_has() -> None:
    consumed = Consumed(
        topic="orders", partition=3, offset=5, key=b"k", value=b"v", headers=[(IDENTITY, b"kafka/a/b/0/1/7eb6749a")]
    )
    delivery = make_delivery(consumed)
    assert delivery.identity == "kafka/a/b/0/1/7eb6749a"
    assert delivery.message.headers[IDENTITY] == "kafka/a/b/0/1/7eb6749a"


@pytest.mark.parametrize("abroad", [False, True], ids=["lazily", "through AMQP"])
@pytest.mark.parametrize("partitioning", [None, "routing_key", "word 1"])
def test_a_long_key_is_written_whole_to_the_partition_that_the_java_producer_chooses(
    partitioning: str | None, abroad: bool
) -> None:
    murmur2 = build_partitioner("kafka.murmur2")
    writer = RecordWriter({"queue": TopicDestination("copy")}, {"copy": KafkaTopic(7, None)})
    for n in range(50):
        key = DEBEZIUM % n
        record = Record("orders", key, b"v", [("n" * 300, b"1")], None, False, 3, n)
        message = to_amqp(record) if abroad else convert_record(record)
        outgoing = Outgoing(message, Delivery(message), "queue", number=n)
        if partitioning is not None:
            way = Partitioning.parse(f"kafka.murmur2 over 7 by {partitioning}")
            choice = way.choose(message)
            outgoing.placement = Placement("queue", choice.partition, None, way.key.read(message), 1, "", way)
        written, partition = writer.make_record(outgoing)
        assert (written.key, list(written.headers)) == (key, [("n" * 300, b"1"), (HOPS, b"1")])
        decisive = key if partitioning != "word 1" else key.split(b".")[0]
        assert partition == murmur2.choose(decisive, Partitions.from_count(7)).partition


def test_messages_of_long_keys_are_kept_in_order_by_the_whole_word() -> None:
    target = KafkaTarget("to", {}, {"queue": TopicDestination("copy", parse_key_source("word 1"))})

    def key_of(key: bytes) -> Any:
        message = convert_record(Record("orders", key, b"v"))
        return target.key_of(Outgoing(message, Delivery(message), "queue"))

    assert key_of(b"w" * 300 + b".a") == key_of(b"w" * 300 + b".b")
    assert key_of(b"w" * 300 + b".a") != key_of(b"w" * 301 + b".a")


def test_a_record_that_cannot_be_read_is_refused_alone() -> None:
    class Odd:
        """A message of the client, with a header whose name is not UTF-8."""

        def __getattr__(self, name: str) -> Any:
            return {"timestamp": (1, 5), "offset": 9, "key": b"k", "value": b"v"}.__getitem__(name)

    class Called(Odd):
        def __getattr__(self, name: str) -> Any:
            return lambda: super(Called, self).__getattr__(name)

    problem = UnicodeDecodeError("utf-8", b"a", 0, 1, "bad")
    delivery = LaneReader("read", "orders", 3).make_delivery(Called(), "lane", problem)
    record = Record("orders", b"k", b"v", [], 5, False, 3, 9)
    assert parts(delivery.message) == parts(to_amqp(record))
    assert (delivery.position, delivery.time) == (9, 5_000)
    assert delivery.identity == identify_record("read", record)
    assert str(delivery.refusal).startswith("it cannot be read: ")


def test_a_header_name_that_would_crash_the_client_is_refused_with_its_message() -> None:
    message = to_amqp(Record("orders", b"k", b"v", [("\udcff", b"1")], None, False, 0, 9))
    writer = RecordWriter({"queue": TopicDestination("copy")}, {"copy": KafkaTopic(1, None)})
    with pytest.raises(ValueError, match="surrogates"):
        writer.make_record(Outgoing(message, Delivery(message), "queue"))
