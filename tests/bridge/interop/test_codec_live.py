"""What a real RabbitMQ does to headers on their way: the bytes that were published against the bytes that come.

pika sends and gives the bytes of content headers here undecoded. The tables of this module are what RabbitMQ 3.10.8,
4.0.5 and 4.3.6 answered on 2026-11-21; each run asks the brokers it finds again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar
from unittest import mock

import pika
import pytest

from bridge.interop import IDENTITY, Record, to_amqp, to_kafka
from exchange.amqp import ContentHeader, build_lazy_message, get_content
from exchange.amqp.fields import encode_value
from tests.support.bridge.identity import with_identity
from tests.support.bridge.wires import long_string, sized, table_of
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

WIRES = {
    "bool": b"t\x01", "byte": b"b\xff", "unsignedbyte": b"B\xff", "short": b"s\xff\xfe", "unsignedshort": b"u\xff\xfe",
    "signedint": b"I\xff\0\0\1", "unsignedint": b"i\xff\0\0\1", "long": b"l" + b"\xff" * 8,
    "float": struct.pack(">cf", b"f", 1.1), "float -0": b"f\x80\0\0\0", "float denormal": b"f\0\0\0\1",
    "double": struct.pack(">cd", b"d", 1.1), "longstr": long_string(b"text"), "longstr not UTF-8": long_string(b"\xff"),
    "timestamp": b"T" + b"\xff" * 8, "void": b"V",
}  # fmt: skip
"""Fields that come as they were sent, from queues and streams of all versions."""

QUEUED = {
    "decimal": b"D\x02\xff\0\0\0", "binary": sized(b"x", b"ab"), "array": sized(b"A", b"t\x01V"),
    "empty array": sized(b"A", b""), "table": sized(b"F", table_of([(b"z", b"t\x01"), (b"a", b"V")])),
    "empty table": sized(b"F", b""), "table with a name twice": sized(b"F", table_of([(b"a", b"V"), (b"a", b"t\x00")])),
}  # fmt: skip
"""Fields that come so from queues."""

WRITTEN_ANEW = {"L": (b"L" + b"\xff" * 8, b"l" + b"\xff" * 8), "another true": (b"t\x02", b"t\x01")}
"""Fields that come as the other from all but the classic queues of 3.x, which keep the bytes of a message."""

REFUSED = {
    "U": b"U\0\0", "unknown tag": b"Z\0", "NaN": b"f\x7f\xc0\0\0", "infinity": b"d\x7f\xf0" + bytes(6),
    "too short": b"l\0", "array too long": b"A\0\0\0\xff\0",
}  # fmt: skip
"""Fields over which RabbitMQ closes the connection."""


class Raw:
    """Basic properties for pika that keep their bytes."""

    INDEX: ClassVar = 60

    def __init__(self, raw: bytes = b"") -> None:
        self.raw = raw

    def decode(self, encoded: bytes, offset: int = 0) -> Raw:
        self.raw = bytes(encoded[offset:])
        return self

    def encode(self) -> list[bytes]:
        return [self.raw]


class Place:
    """A queue or stream through which content headers are sent."""

    def __init__(self, server: Server, kind: str) -> None:
        self.version = server.version_info
        self.kind = kind
        self.queue = unique_name("codec")
        self._url = server.url
        self.open()
        self.channel.queue_declare(self.queue, durable=True, arguments={"x-queue-type": kind})

    def open(self) -> None:
        """Connect, or reconnect."""
        self.connection: Any = pika.BlockingConnection(pika.URLParameters(self._url))
        self.channel: Any = self.connection.channel()
        self.channel.confirm_delivery()

    @property
    def keeps_bytes(self) -> bool:
        """Return whether the broker changes no bytes."""
        return self.kind == "classic" and self.version < (4,)

    def publish(self, content: ContentHeader, body: bytes = b"body") -> None:
        self.channel.basic_publish("", self.queue, body, Raw(content.raw), mandatory=True)

    def through(self, contents: Sequence[ContentHeader]) -> list[ContentHeader]:
        """Publish content headers, and return them as they come, without what the broker adds to all."""
        for content in contents:
            self.publish(content)
        self.channel.basic_qos(prefetch_count=100)
        arguments = {"x-stream-offset": "first"} if self.kind == "stream" else None
        came: list[ContentHeader] = []
        for method, properties, _ in self.channel.consume(
            self.queue, arguments=arguments, inactivity_timeout=find_limit()
        ):
            assert method is not None, f"{len(came)} of {len(contents)} came"
            self.channel.basic_ack(method.delivery_tag)
            content = ContentHeader(properties.raw)
            for added in ("x-stream-offset", "x-delivery-count"):
                content = content.without_header(added)
            came.append(content)
            if len(came) == len(contents):
                break
        self.channel.cancel()
        return came

    def close(self) -> None:
        if self.connection.is_closed:
            self.open()
        if self.channel.is_closed:
            self.channel = self.connection.channel()
        self.channel.queue_delete(self.queue)
        self.connection.close()


def places(servers: Sequence[Server], kind: str) -> Iterator[Place]:
    with mock.patch.dict(pika.spec.props, {Raw.INDEX: Raw}):
        for server in servers:
            place = Place(server, kind)
            try:
                yield place
            finally:
                place.close()


def one(wire: bytes, name: bytes = b"h") -> ContentHeader:
    return ContentHeader.from_parts({}, table_of([(name, wire)]))


def of(content: ContentHeader) -> list[tuple[bytes, bytes]]:
    """Return the headers as they came."""
    return content.fields()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_queue_keeps_headers_of_all_types(rabbitmq_servers: list[Server], kind: str) -> None:
    sent = [one(wire) for wire in (WIRES | QUEUED).values()]
    for place in places(rabbitmq_servers, kind):
        assert [of(content) for content in place.through(sent)] == [of(content) for content in sent]


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_a_broker_writes_unusual_fields_anew(rabbitmq_servers: list[Server], kind: str) -> None:
    sent = [one(wire) for wire, _ in WRITTEN_ANEW.values()]
    usual = [one(wire) for _, wire in WRITTEN_ANEW.values()]
    for place in places(rabbitmq_servers, kind):
        assert [of(content) for content in place.through(sent)] == [
            of(content) for content in (sent if place.keeps_bytes else usual)
        ]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_broker_sorts_headers_and_keeps_the_first_of_a_name(rabbitmq_servers: list[Server], kind: str) -> None:
    fields = [(b"z", b"V"), (b"a", b"t\x01"), (b"m", b"V"), (b"a", b"V"), (b"ab", b"V"), (b"\xff", b"V"), (b"B", b"V")]
    sent = ContentHeader.from_parts({}, table_of(fields), unused=3)
    for place in places(rabbitmq_servers, kind):
        (came,) = place.through([sent])
        if place.keeps_bytes:
            assert came == sent
        elif place.version >= (4,):
            assert came.unused_flags == 0
            assert of(came) == sorted(dict(reversed(fields)).items())
        else:  # a quorum queue of 3.x: sorted, by a header that it added
            assert sorted(of(came)) == sorted(fields)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_queue_keeps_all_properties(rabbitmq_servers: list[Server], kind: str) -> None:
    text = {name: name for name in ("content_type", "content_encoding", "correlation_id", "reply_to", "message_id")}
    text |= {"type": "\udcff", "user_id": "guest", "app_id": "a" * 255, "cluster_id": "c", "expiration": "600000"}
    properties = text | {"delivery_mode": 2, "priority": 200, "timestamp": 2**64 - 1}
    for headers in (None, {}, {"a": 1}):
        sent = ContentHeader.encode(headers, properties)
        for place in places(rabbitmq_servers, kind):
            (came,) = place.through([sent])
            assert came.parts() == sent.parts()
            assert of(came) == of(sent)
            if place.keeps_bytes or place.version >= (4,):
                assert came.has_table == sent.has_table


def test_a_stream_keeps_single_values_only(rabbitmq_servers: list[Server]) -> None:
    for place in places(rabbitmq_servers, "stream"):
        sent = [one(wire) for wire in WIRES.values()]
        nested = [
            one(QUEUED["array"]),
            one(QUEUED["table"]),
            one(QUEUED["array"], b"x-h"),
            one(QUEUED["table"], b"x-h"),
        ]
        came = place.through([*sent, *nested, one(QUEUED["binary"])])
        assert [of(content) for content in came[: len(sent)]] == [of(content) for content in sent]
        is_new = place.version >= (4,)
        assert [bool(of(content)) for content in came[len(sent) : -1]] == [False, False, is_new, is_new]
        assert of(came[-1]) == [(b"h", long_string(b"ab") if is_new else QUEUED["binary"])]


def test_a_stream_closes_the_connection_over_a_decimal(rabbitmq_servers: list[Server]) -> None:
    for place in places(rabbitmq_servers, "stream"):
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
            place.publish(one(QUEUED["decimal"]))
        assert caught.value.reply_code == 541


@pytest.mark.parametrize("wire", REFUSED.values(), ids=REFUSED.keys())
def test_a_broker_closes_the_connection_over_a_malformed_table(rabbitmq_servers: list[Server], wire: bytes) -> None:
    for place in places(rabbitmq_servers, "classic"):
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
            place.publish(one(wire))
        assert caught.value.reply_code == 541


@pytest.mark.parametrize("depth", [100, 1000])
def test_a_broker_has_no_limit_of_nesting(rabbitmq_servers: list[Server], depth: int) -> None:
    wire = b""
    for _ in range(depth):
        wire = sized(b"A", wire)
    for place in places(rabbitmq_servers, "classic"):
        assert [of(content) for content in place.through([one(wire)])] == [[(b"h", wire)]]


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_a_record_of_kafka_comes_home_from_a_broker(rabbitmq_servers: list[Server], kind: str) -> None:
    headers = [
        ("z", b"1"), ("a", None), ("CC", b"x"), ("z", b"\xff\x00"), ("", b""), ("x-death", b"2"), ("a", b"3"),
        ("x-kafka-topic", b"4"), ("ü", "ü".encode()),
    ]  # fmt: skip
    record = Record(
        "orders", b"\xffkey", b"body", headers, 1_700_000_000_123, is_append_time=True, partition=3, offset=7
    )
    for one_record in (record, record._replace(headers=[]), record._replace(key=None), record._replace(key=b"")):
        message = with_identity(to_amqp(one_record), "kafka/main/orders/3/7/12345678")
        for place in places(rabbitmq_servers, kind):
            (came,) = place.through([get_content(message)])
            assert came.header(IDENTITY) == "kafka/main/orders/3/7/12345678"
            home = to_kafka(build_lazy_message("", place.queue, came.without_header(IDENTITY), b"body"), "orders")
            assert home == one_record._replace(headers=list(one_record.headers), partition=None, offset=None)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_message_comes_home_from_kafka_and_through_the_broker(rabbitmq_servers: list[Server], kind: str) -> None:
    fields = [(name.encode(), wire) for name, wire in sorted((WIRES | QUEUED).items())]
    sent = ContentHeader.from_parts({"message_id": b"\x01m"}, table_of(fields))
    for place in places(rabbitmq_servers, kind):
        (came,) = place.through([sent])
        home = get_content(to_amqp(to_kafka(build_lazy_message("", "q", came, b"body"), "t")))
        assert home == came
        (again,) = place.through([home])
        assert again == came
        assert dict(of(again)) == dict(fields)


def test_a_changed_header_is_what_the_broker_reads(rabbitmq: Server) -> None:
    for place in places([rabbitmq], "classic"):
        content = ContentHeader.encode(None, {"message_id": "m"}).with_header("b", 1).with_property("priority", 3)
        content = content.with_header("a", [{"x": 1.5}]).with_header("b", "two")
        (came,) = place.through([content])
        assert dict(came.headers()) == {"a": [{"x": 1.5}], "b": "two"}
        assert came.properties() == {"message_id": "m", "priority": 3}
        assert encode_value(came.header("a")) == encode_value([{"x": 1.5}])
