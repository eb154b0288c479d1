"""Across and home: AMQP -> Kafka -> AMQP and Kafka -> AMQP -> Kafka change nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import interop
from bridge.interop import Record, Unmappable, rocketmq, rocketmq_guest, to_amqp, to_kafka
from bridge.interop.kafka_guest import BROKER_HEADERS, OURS
from bridge.interop.record import Header, find_last_header, read_whole_key
from bridge.interop.texts import format_wire, parse_wire
from exchange.amqp import ContentHeader, MalformedHeader, build_lazy_message, get_content
from exchange.values.field_values import Typed
from exchange.values.message import Message
from tests.exchange.amqp.test_codec import parts_of, properties
from tests.support.bridge.wires import headers_wire, table_of, wires
from tests.support.cases import with_each

bytes_of_key = st.binary(max_size=255)
long_keys = st.builds(
    lambda begin, text, end: begin + text.encode()[:400] + end,
    st.binary(max_size=3),
    st.sampled_from(["k", "\u00e4", "\u20ac", "\U0001f600"]).map(lambda letter: letter * 300),
    st.binary(max_size=3),
)  # fmt: skip
"""Of more than 255 bytes, with characters of all lengths at the place where they are cut."""
keys = bytes_of_key.map(lambda raw: raw.decode("utf-8", "surrogateescape"))
ours = st.sampled_from([
    "amqp.", "amqp.exchange", "amqp.types", "amqp.priority", "amqp.timestamp", "amqp.header.x", "amqp.header-hex.6",
    "amqp.headers", "amqp.flags", "amqp.other", "x-kafka-topic", "x-kafka-key", "x-kafka-order", "x-kafka-offset",
    "x-kafka-header-a", "x-kafka-earlier-1-a", "x-kafka-tombstone", "x-hashstar-id", *sorted(BROKER_HEADERS),
])  # fmt: skip
long_names = st.builds(str.__mul__, st.sampled_from(["n", "x-kafka-", "~", "\u00e4\u20ac"]), st.sampled_from([60, 300]))
kafka_names = (
    ours
    | st.sampled_from("abc")
    | long_names
    | st.sampled_from(["x-kafka-name-a", "x-kafka-header-~a", "~a", "a" * 255, "a" * 250])
    | st.text(max_size=12).map(lambda t: t.encode("utf-8", "replace").decode())
)
kafka_headers = st.lists(st.tuples(kafka_names, st.none() | st.binary(max_size=20)), max_size=8)
amqp_names = (
    kafka_names.filter(lambda name: name != "x-kafka-topic").map(lambda text: text.encode()[:255])
    | st.binary(max_size=6)
)  # fmt: skip
amqp_tables = headers_wire | st.lists(st.tuples(amqp_names, wires), max_size=8).map(table_of)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    parts = dict(parts_of(draw(properties)))
    content = ContentHeader.from_parts(parts, draw(st.none() | amqp_tables), draw(st.integers(0, 3)))
    return build_lazy_message(draw(keys), draw(keys), content, draw(st.binary(max_size=20)))


@st.composite
def records(draw: st.DrawFn) -> Record:
    timestamp = draw(st.none() | st.integers(-1, 2**62))
    return Record(
        draw(st.text("abc.-_", min_size=1, max_size=20)),
        draw(st.none() | bytes_of_key | long_keys),
        draw(st.none() | st.binary(max_size=20)),
        draw(kafka_headers),
        timestamp,
        timestamp is not None and draw(st.booleans()),
        draw(st.none() | st.integers(0, 2**31 - 1)),
        draw(st.none() | st.integers(0, 2**63 - 1)),
    )


def parts(message: Message) -> tuple[str, str, bytes, bytes]:
    return message.exchange, message.routing_key, get_content(message).raw, message.body


@given(messages(), st.none() | st.binary(max_size=9))
def test_a_message_comes_home_from_kafka_as_it_went(message: Message, key: bytes | None) -> None:
    record = to_kafka(message, "t", key)
    assert (record.topic, record.key, record.value) == ("t", key, message.body)
    for name, value in record.headers:  # what confluent-kafka takes
        assert "\0" not in name
        assert name
        name.encode()
        assert value is None or type(value) is bytes
    assert parts(to_amqp(record)) == parts(message)


@given(records())
def test_a_record_comes_home_from_amqp_as_it_went(record: Record) -> None:
    message = to_amqp(record)
    assert (message.exchange, message.body) == (record.topic, record.value or b"")
    routing_key = message.routing_key.encode("utf-8", "surrogateescape")
    assert routing_key == (record.key or b"") if len(record.key or b"") <= 255 else len(routing_key) <= 255
    home = to_kafka(message, record.topic, b"not its key")
    assert home == record._replace(headers=list(record.headers), partition=None, offset=None)


@given(records())
def test_a_record_comes_home_through_a_broker_that_sorts_headers(record: Record) -> None:
    message = to_amqp(record)
    fields = list(get_content(message).fields())
    assert len({name for name, _ in fields}) == len(fields)
    content = get_content(message).with_table(table_of(sorted(fields)))
    home = to_kafka(build_lazy_message(message.exchange, message.routing_key, content, message.body), record.topic)
    assert home == record._replace(headers=list(record.headers), partition=None, offset=None)


@given(records())
def test_a_stream_takes_every_header_of_a_record(record: Record) -> None:
    for _, wire in get_content(to_amqp(record)).fields():
        assert wire[:1] in {b"S", b"V", b"I", b"l", b"t"}


@given(wires)
def test_a_text_and_its_type_are_the_field(wire: bytes) -> None:
    assert parse_wire(*format_wire(wire)) == wire


@given(messages(), kafka_headers)
def test_headers_of_kafka_never_crash(message: Message, headers: list[Header]) -> None:
    record = to_kafka(message, "t")
    for mixed in ([*record.headers, *headers], [*headers, *record.headers]):
        with suppress(Unmappable):
            to_amqp(record._replace(headers=mixed))


@given(st.lists(st.tuples(st.sampled_from([name.encode() for name in OURS]), wires), max_size=8).map(table_of))
def test_headers_of_amqp_never_crash(table: bytes) -> None:
    with suppress(Unmappable):
        to_kafka(build_lazy_message("", "", ContentHeader.encode().with_table(table), b""), "t")


DEBEZIUM = (
    b'{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"},{"type":"string",'
    b'"optional":true,"name":"io.debezium.data.Uuid","version":1,"field":"tenant"}],"optional":false,'
    b'"name":"shop.public.orders.Key"},"payload":{"id":%d,"tenant":"0b6f3a52-6a6b-4b0e-9a55-1ff0d1c0f1a7"}}'
)
"""A key of Kafka Connect's JsonConverter with schemas, for an id."""


def test_long_keys_of_records_have_routing_keys_of_their_own_that_begin_as_they_do() -> None:
    routing_keys = [to_amqp(Record("t", DEBEZIUM % n, b"")).routing_key for n in range(1_000)]
    assert len(set(routing_keys)) == 1_000
    assert {len(key) for key in routing_keys} == {255}
    assert {key[:222].encode() for key in routing_keys} == {(DEBEZIUM % 1)[:222]}
    assert to_amqp(Record("t", DEBEZIUM % 7, b"other")).routing_key == routing_keys[7]


@given(long_keys)
def test_a_long_key_is_cut_at_a_character(key: bytes) -> None:
    routing_key = to_amqp(Record("t", key, b"")).routing_key
    assert read_whole_key(routing_key, key) == key.decode("utf-8", "surrogateescape")
    assert read_whole_key(routing_key, key + b".") is None
    beginning = routing_key[:-33].encode("utf-8", "surrogateescape")
    assert key.startswith(beginning)
    with suppress(UnicodeDecodeError):
        key.decode()
        beginning.decode()  # so is its beginning


def test_long_names_of_headers_are_kept_in_headers_of_their_own() -> None:
    name = "very-long-" * 40
    headers = get_content(to_amqp(Record("t", None, b"", [(name, b"1"), (name, None), ("a", b"2")]))).headers()
    [digest] = [key.removeprefix("x-kafka-name-") for key in headers if key.startswith("x-kafka-name-")]
    assert headers[f"x-kafka-name-{digest}"] == name
    assert headers[f"x-kafka-earlier-1-~{digest}"] == "1"
    assert headers[f"x-kafka-header-~{digest}"] is None
    assert headers["a"] == "2"


def test_what_a_consumer_of_kafka_reads() -> None:
    headers = {
        "region": "eu", "count": Typed("signedint", -5), "big": 2**40, "ratio": 1.5, "price": Decimal("12.50"),
        "urgent": True, "raw": b"\x00\xff", "at": Typed("timestamp", 1_700_000_000), "nothing": None,
        "list": [1, "zwei", None], "table": {"a": {"b": "ü"}}, "amqp.x": "mine",
    }  # fmt: skip
    properties = {"content_type": "text/plain", "delivery_mode": 2, "timestamp": Typed("timestamp", 1_700_000_000)}
    record = to_kafka(Message("orders", "order.eu.new", headers, properties, b"body"), "orders", b"k")
    types = {
        "count": "signedint", "big": "long", "ratio": "double", "price": "decimal", "urgent": "bool", "raw": "binary",
        "at": "timestamp", "list": "array", "table": "table",
    }  # fmt: skip
    assert record.headers[:-1] == [
        ("amqp.exchange", b"orders"),
        ("amqp.routing_key", b"order.eu.new"),
        ("amqp.content_type", b"text/plain"),
        ("amqp.delivery_mode", b"2"),
        ("amqp.timestamp", b"1700000000"),
        ("region", b"eu"),
        ("count", b"-5"),
        ("big", b"1099511627776"),
        ("ratio", b"1.5"),
        ("price", b"12.50"),
        ("urgent", b"true"),
        ("raw", b"\x00\xff"),
        ("at", b"1700000000"),
        ("nothing", None),
        ("list", b'[1,"zwei",null]'),
        ("table", '{"a":{"b":"ü"}}'.encode()),
        ("amqp.header.amqp.x", b"mine"),
    ]
    name, text = record.headers[-1]
    assert (name, json.loads(text or b"")) == ("amqp.types", types)
    assert record.timestamp is None


def test_a_message_with_text_headers_needs_no_types() -> None:
    record = to_kafka(Message("", "q", {"a": "1", "b": None}, {}, b""), "t")
    assert record.headers == [("amqp.exchange", b""), ("amqp.routing_key", b"q"), ("a", b"1"), ("b", None)]


def test_what_a_consumer_of_amqp_reads() -> None:
    record = Record(
        "orders", b"k1", b"v", [("b", b"2"), ("a", b"1"), ("a", b"3"), ("CC", b"x"), ("n", None)], 1_700_000_000_123,
        is_append_time=False, partition=3, offset=7,
    )  # fmt: skip
    message = to_amqp(record)
    assert (message.exchange, message.routing_key, message.body) == ("orders", "k1", b"v")
    assert message.properties == {"delivery_mode": 2}
    order = ["b", "x-kafka-earlier-1-a", "a", "x-kafka-header-CC", "n"]
    assert message.headers == {
        "x-kafka-topic": "orders", "x-kafka-partition": Typed("signedint", 3), "x-kafka-offset": 7,
        "x-kafka-timestamp": 1_700_000_000_123, "x-kafka-timestamp-type": "CreateTime", "x-kafka-key": "k1",
        "x-kafka-order": json.dumps(order, separators=(",", ":")), "b": "2", "x-kafka-earlier-1-a": "1", "a": "3",
        "x-kafka-header-CC": "x", "n": None,
    }  # fmt: skip


@pytest.mark.parametrize(("documented", "headers"), [(interop, OURS), (rocketmq, rocketmq_guest.OURS)])
def test_headers_that_describe_what_is_carried_are_in_the_table_of_a_head(
    documented: ModuleType, headers: Mapping[str, str]
) -> None:
    head = str(documented.__doc__)
    missing = [name for name, kind in headers.items() if not re.search(rf"^``{name}\S*`` +{kind}", head, re.MULTILINE)]
    assert missing == []


def test_an_empty_value_is_no_tombstone_and_an_empty_key_is_a_key() -> None:
    for key in (None, b"", b"k"):
        for value in (None, b"", b"v"):
            home = to_kafka(to_amqp(Record("t", key, value)), "t")
            assert (home.key, home.value) == (key, value)


def test_exchange_and_routing_key_can_be_given() -> None:
    message = to_amqp(Record("t", b"k", b"v"), "e", "r")
    assert (message.exchange, message.routing_key) == ("e", "r")
    record = to_kafka(message, "u")
    assert (record.topic, record.key) == ("u", b"k")
    back = to_amqp(to_kafka(Message("e", "r"), "t"), "f")
    assert (back.exchange, back.routing_key) == ("f", "r")


def test_a_record_keeps_its_key_under_any_routing_key_that_amqp_can_hold() -> None:
    record = Record("t", b"k" * 256, b"v")
    assert to_kafka(to_amqp(record, routing_key="short"), "t").key == record.key
    with pytest.raises(Unmappable, match=r"routing key .* has 256 bytes"):
        to_amqp(record, routing_key="k" * 256)


def test_headers_added_in_the_other_system_stay_with_the_message() -> None:
    record = to_kafka(Message("e", "k", {"n": 1}, {}, b""), "t")
    home = to_amqp(record._replace(headers=[*record.headers, ("traceparent", b"00-1")]))
    assert home.headers == {"n": 1, "traceparent": "00-1"}

    message = to_amqp(Record("t", b"k", b"v", [("a", b"1")]))
    death = [{"queue": "q", "count": 1}]
    content = get_content(message).with_header("x-death", death).with_property("message_id", "m")
    back = to_kafka(build_lazy_message("", "", content, b"v"), "t")
    assert back.headers == [("a", b"1"), ("x-death", b'[{"queue":"q","count":1}]'), ("amqp.message_id", b"m")]


@with_each(
    ("headers", "reason"),
    [
        ([("amqp.priority", b"high")], "header amqp.priority: b'high' is not a whole number of 8 bits"),
        ([("amqp.priority", b"256")], "header amqp.priority: b'256' is not a whole number of 8 bits"),
        ([("amqp.message_id", b"m" * 256)], "has 256 bytes"),
        ([("amqp.types", b'{"n":"long"}'), ("n", b"many")], "header 'n': 'many' is not a long"),
        ([("amqp.types", b'{"n":"long"}'), ("n", b"9" * 30)], "is not a long"),
        ([("amqp.types", b'{"n":"byte"}'), ("n", b"128")], "header 'n': '128' is not a byte"),
        ([("amqp.types", b'{"n":"long"}'), ("n", None)], "null is not a long"),
        ([("amqp.types", b'{"n":"colour"}'), ("n", b"red")], "there is no type 'colour'"),
        ([("amqp.types", b'{"n":"table"}'), ("n", b"[1]")], "is not a table"),
        ([("amqp.types", b'{"n":"bool=dAI="}'), ("n", b"false")], "is not the value in 'bool=dAI='"),
        ([("amqp.types", b'{"n":"bool=Wg=="}'), ("n", b"false")], "is not a field"),
        ([("amqp.types", b"[]")], "is not JSON of types by name"),
        ([("amqp.types", b'{"n":{}}')], "is not JSON of types by name"),
        ([("n" * 256, b"")], "header name .* has 256 bytes"),
        ([("amqp.header-hex.6", b"")], "is not hexadecimal"),
        ([("amqp.flags", b"4")], "is not 1, 2 or 3"),
        ([("amqp.routing_key", b"k" * 256)], "routing key .* has 256 bytes"),
    ],
)
def test_a_record_that_carries_no_valid_message_is_refused_with_the_reason(headers: list[Header], reason: str) -> None:
    with pytest.raises(Unmappable, match=reason):
        to_amqp(Record("t", None, b"", [("amqp.routing_key", b"k"), *headers]))


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"x-kafka-topic": 1}, "x-kafka-topic: it is a long, not a longstr"),
        ({"x-kafka-topic": "t", "x-kafka-timestamp": "now"}, "x-kafka-timestamp: it is a longstr, not a long"),
        ({"x-kafka-topic": "t", "x-kafka-timestamp-type": "new"}, "'new' is not CreateTime or LogAppendTime"),
        ({"x-kafka-topic": "t", "x-kafka-order": "{}"}, "is not JSON of names"),
        ({"x-kafka-topic": "t", "x-kafka-order": "[1]"}, "is not JSON of names"),
    ],
)
def test_a_message_that_carries_no_valid_record_is_refused_with_the_reason(
    headers: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Unmappable, match=reason):
        to_kafka(Message("", "", headers), "t")


def test_a_malformed_header_is_an_error() -> None:
    with pytest.raises(MalformedHeader):
        to_kafka(build_lazy_message("", "", ContentHeader.encode().with_table(b"\x01aZ"), b""), "t")


def test_kafka_answers_a_request_of_amqp() -> None:
    request = Message("orders", "price.of", {}, {"reply_to": "amq.rabbitmq.reply-to.g1", "correlation_id": "c1"}, b"?")
    asked = to_kafka(request, "requests")
    named = [("amqp.exchange", b""), ("amqp.routing_key", find_last_header(asked.headers, "amqp.reply_to"))]
    correlation = ("amqp.correlation_id", find_last_header(asked.headers, "amqp.correlation_id"))
    answer = to_amqp(Record("answers", None, b"!", [*named, correlation]))
    assert (answer.exchange, answer.routing_key) == ("", "amq.rabbitmq.reply-to.g1")
    assert (answer.properties, answer.body) == ({"correlation_id": "c1"}, b"!")


def test_amqp_answers_a_request_of_kafka() -> None:
    headers: list[Header] = [
        ("amqp.exchange", b"orders"), ("amqp.routing_key", b"price.of"), ("amqp.reply_to", b"answers-to-kafka"),
        ("amqp.correlation_id", b"c2"),
    ]  # fmt: skip
    request = to_amqp(Record("requests", None, b"?", headers))
    assert (request.exchange, request.routing_key) == ("orders", "price.of")
    reply_to, correlation = request.properties["reply_to"], request.properties["correlation_id"]
    answer = to_kafka(Message("", reply_to, {}, {"correlation_id": correlation}, b"!"), "answers")
    assert find_last_header(answer.headers, "amqp.correlation_id") == b"c2"


@pytest.mark.parametrize("spelled", ["64fff8000000000007", "64ffffffffffffff07", "647ff0000000000001", "667fc00007"])
def test_a_nan_comes_home_with_its_bits(spelled: str) -> None:
    """There are many NaNs, with one text."""
    field = b"\x01n" + bytes.fromhex(spelled)
    raw = b"\x20\0" + len(field).to_bytes(4, "big") + field
    record = to_kafka(build_lazy_message("e", "k", ContentHeader(raw), b""), "t")
    assert get_content(to_amqp(record)).raw == raw
