"""Across and home: AMQP -> RocketMQ -> AMQP, RocketMQ -> AMQP -> RocketMQ, and Kafka's records by way of AMQP."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.interop import (
    IDENTITY,
    Unmappable,
    bind_identity,
    build_topic,
    convert_from_rocketmq,
    group_of,
    identify_stored,
    name_of,
    to_amqp,
    to_kafka,
    to_rocketmq,
)
from bridge.interop.kafka_guest import BROKER_HEADERS
from bridge.interop.rocketmq import PRODUCER_PROPERTIES
from bridge.rocketmq.remoting.message import RocketMessage, StoredMessage
from bridge.rocketmq.remoting.properties import (
    SYSTEM,
    IllegalMessage,
    decode_properties,
    encode_checked_properties,
    is_legal_name,
)
from exchange.amqp import ContentHeader, build_lazy_message, get_content
from exchange.errors import InputError
from exchange.rocketmq.stored_record import PACKED
from exchange.values.field_values import Typed
from exchange.values.message import Message
from tests.bridge.interop.test_mapping import parts, records
from tests.exchange.amqp.test_codec import parts_of, properties
from tests.support.bridge.identity import with_identity
from tests.support.bridge.wires import headers_wire, table_of, wires
from tests.support.cases import with_each

texts = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=9)
odd_names = st.sampled_from([
    "amqp.", "amqp.exchange", "amqp.types", "amqp.values", "amqp.order", "amqp.header.x", "amqp.earlier-1.a", "a",
    "amqp.header-hex.6", "amqp.body", "x-rocketmq-queue", "x-rocketmq-TAGS", "x-rocketmq-property-a", "x-kafka-topic",
    "x-kafka-key", "x-hashstar-id", "__RMQ.TRANSIENT.x", "\x01", "a\x02b", *sorted(BROKER_HEADERS), *sorted(SYSTEM),
])  # fmt: skip
amqp_names = (odd_names | texts).filter(lambda name: name != "x-kafka-topic").map(str.encode) | st.binary(max_size=6)
amqp_tables = headers_wire | st.lists(st.tuples(amqp_names, wires), max_size=8).map(table_of)
keys = st.binary(max_size=255).map(lambda raw: raw.decode("utf-8", "surrogateescape"))


@st.composite
def messages(draw: st.DrawFn) -> Message:
    content = ContentHeader.from_parts(
        dict(parts_of(draw(properties))), draw(st.none() | amqp_tables), draw(st.integers(0, 3))
    )
    return build_lazy_message(draw(keys), draw(keys), content, draw(st.binary(max_size=20)))


@st.composite
def stored(draw: st.DrawFn) -> StoredMessage:
    names = odd_names.filter(lambda name: "\x01" not in name and "\x02" not in name) | texts
    names = names.filter(lambda name: not name.startswith("amqp.") and name != "__LITE_TOPIC")
    given = draw(st.dictionaries(names, texts, max_size=8))
    return StoredMessage(
        draw(st.sampled_from(["orders", "orders%2Eeu", "%RETRY%g", "%DLQ%g"])), draw(st.binary(max_size=20)), given,
        draw(st.integers(-(2**31), 2**31 - 1)), "broker-a", draw(st.integers(0, 2**31 - 1)),
        draw(st.integers(0, 2**63 - 1)), 7, 0, draw(st.integers(0, 2**62)), bytes(8), draw(st.integers(0, 2**62)),
        bytes(8), 0,
    )  # fmt: skip


def as_sent(message: StoredMessage) -> RocketMessage:
    """Return the message that the producer sent, without the properties that were added on its way."""
    own = {
        name: value
        for name, value in message.properties.items()
        if name in PRODUCER_PROPERTIES or not (name in SYSTEM or name.startswith("__RMQ.TRANSIENT."))
    }
    return RocketMessage(message.topic, message.body, own, message.flag)


def through(message: RocketMessage, broker: str = "b", queue: int = 0, offset: int = 0) -> StoredMessage:
    """Return a message as a broker delivers it: properties went through bytes, in another order, with further ones."""
    wire = decode_properties(encode_checked_properties(message.properties))
    assert wire == message.properties
    assert message.body
    given = {name: wire[name] for name in sorted(wire, key=hash)} | {"CLUSTER": "c", "UNIQ_KEY": "0A" * 16}
    return StoredMessage(
        message.topic, message.body, given, message.flag, broker, queue, offset, 1, 0, 2, bytes(8), 3, bytes(8), 0
    )


@given(messages(), st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=9))
def test_a_message_comes_home_from_rocketmq_as_it_went(message: Message, key: bytes | None, tag: bytes | None) -> None:
    sent = to_rocketmq(message, "t", key, tag)
    assert sent.topic == "t"
    assert parts(convert_from_rocketmq(through(sent))) == parts(message)


@given(stored())
@example(StoredMessage("t", b"b", {"TAGS": "a", "DELAY": "3"}, 0, "b", 0, 0, 0, 0, 0, bytes(8), 0, bytes(8), 0))
def test_a_message_of_rocketmq_comes_home_from_amqp_as_it_went(message: StoredMessage) -> None:
    abroad = convert_from_rocketmq(message)
    assert (abroad.exchange, abroad.body) == (name_of(message.topic), message.body)
    assert to_rocketmq(abroad, message.topic, b"not its key", b"not its tag") == as_sent(message)


@given(stored(), texts)
def test_a_message_of_a_lite_topic_goes_to_amqp_and_kafka_and_is_refused_on_its_way_home(
    message: StoredMessage, lite: str
) -> None:
    """Not written to a topic, where no lite consumer would read it, nor to the queue of the lite topic it came from."""
    given = {**message.properties, "__LITE_TOPIC": lite, "INNER_MULTI_DISPATCH": f"%LMQ%$t${lite}"}
    abroad = convert_from_rocketmq(message._replace(properties=given))
    assert get_content(abroad).find("x-rocketmq-__LITE_TOPIC") is not None
    for crossed in (abroad, to_amqp(to_kafka(abroad, "t", b"k"))):
        with pytest.raises(Unmappable, match=r"of the lite topic .*: to write to lite topics takes"):
            to_rocketmq(crossed, message.topic)


@given(stored())
def test_a_message_of_rocketmq_comes_home_through_a_broker_that_sorts_headers(message: StoredMessage) -> None:
    abroad = convert_from_rocketmq(message)
    fields = list(get_content(abroad).fields())
    assert len({name for name, _ in fields}) == len(fields)
    content = get_content(abroad).with_table(table_of(sorted(fields)))
    assert to_rocketmq(build_lazy_message("e", "k", content, message.body), message.topic) == as_sent(message)


@given(stored())
def test_a_message_of_rocketmq_comes_home_from_kafka_as_it_went(message: StoredMessage) -> None:
    record = to_kafka(convert_from_rocketmq(message), "t", b"k")
    assert to_rocketmq(to_amqp(record), message.topic) == as_sent(message)


@given(records())
def test_a_record_of_kafka_comes_home_from_rocketmq_as_it_went(record: Any) -> None:
    abroad = to_rocketmq(to_amqp(record), "t", record.key)
    home = to_kafka(convert_from_rocketmq(through(abroad)), record.topic)
    assert home == record._replace(headers=list(record.headers), partition=None, offset=None)


@given(stored())
def test_a_stream_takes_every_header_of_a_message_of_rocketmq(message: StoredMessage) -> None:
    for _, wire in get_content(convert_from_rocketmq(message)).fields():
        assert wire[:1] in {b"S", b"I", b"l"}


@given(messages(), st.dictionaries(odd_names | texts, st.text(max_size=9), max_size=6))
def test_properties_of_rocketmq_never_crash(message: Message, more: dict[str, str]) -> None:
    sent = to_rocketmq(message, "t")
    with suppress(Unmappable):
        convert_from_rocketmq(through(sent)._replace(properties={**sent.properties, **more}))


@given(amqp_tables)
def test_headers_of_amqp_never_crash(table: bytes) -> None:
    marked = ContentHeader.encode({"x-rocketmq-topic": "t"}).table
    content = ContentHeader.encode({"x-rocketmq-topic": "t"})
    both = content.with_table(content.raw[marked[0] : marked[1]] + table)
    with suppress(Unmappable):
        home = to_rocketmq(build_lazy_message("", "", both, b"x"), "t")
        encode_checked_properties(home.properties)


def test_what_a_consumer_of_rocketmq_reads() -> None:
    headers = {
        "region": "eu", "count": Typed("signedint", -5), "ratio": 1.5, "price": Decimal("12.50"), "urgent": True,
        "raw": b"\x00\xff", "nothing": None, "empty": "", "list": [1, "zwei", None], "TAGS": "mine", "amqp.x": "mine",
    }  # fmt: skip
    message = to_rocketmq(
        Message("orders", "order.eu.new", headers, {"content_type": "text/plain", "delivery_mode": 2}, b"body"),
        "orders", b"k", b"TagA",
    )  # fmt: skip
    types = {
        "count": "signedint", "ratio": "double", "price": "decimal", "urgent": "bool", "raw": "binary", "list": "array",
    }  # fmt: skip
    told = dict(message.properties)
    assert json.loads(told.pop("amqp.types")) == types
    assert json.loads(told.pop("amqp.values")) == {"nothing": "null", "empty": "empty", "raw": "base64"}
    assert json.loads(told.pop("amqp.order")) == [
        "region", "count", "ratio", "price", "urgent", "raw", "nothing", "empty", "list", "amqp.header.TAGS",
        "amqp.header.amqp.x",
    ]  # fmt: skip
    assert told == {
        "amqp.exchange": "orders", "amqp.routing_key": "order.eu.new", "amqp.content_type": "text/plain",
        "amqp.delivery_mode": "2", "region": "eu", "count": "-5", "ratio": "1.5", "price": "12.50", "urgent": "true",
        "raw": "AP8=", "list": '[1,"zwei",null]', "amqp.header.TAGS": "mine", "amqp.header.amqp.x": "mine",
        "KEYS": "k", "TAGS": "TagA",
    }  # fmt: skip
    assert (message.topic, message.body, message.flag) == ("orders", b"body", 0)


def test_a_message_with_text_headers_needs_few_properties() -> None:
    message = to_rocketmq(Message("", "q", {"a": "1", "b": "2"}, {}, b"x"), "t")
    assert message.properties == {"amqp.routing_key": "q", "a": "1", "b": "2"}


@with_each("key", ["", "\x01", "\udcff", "k"])
@with_each("exchange", ["", "e", "\udcff"])
@with_each("body", [b"", b"\0", b"x"])
def test_values_that_rocketmq_cannot_hold_come_home(key: str, exchange: str, body: bytes) -> None:
    message = Message(exchange, key, {"": "", "a": "\x02", "b": "x"}, {"message_id": ""}, body)
    home = convert_from_rocketmq(through(to_rocketmq(message, "t")))
    assert (home.exchange, home.routing_key, home.body) == (exchange, key, body)
    assert (home.headers, home.properties) == (message.headers, message.properties)


@pytest.mark.parametrize("raw", [b"", b"\xff", b"a\x01"])
def test_a_key_or_tag_that_is_no_text_is_left_out(raw: bytes) -> None:
    assert to_rocketmq(Message("", "q", {}, {}, b"x"), "t", raw, raw).properties == {"amqp.routing_key": "q"}


def test_what_a_consumer_of_amqp_reads() -> None:
    message = StoredMessage(
        "orders%2Eeu", b"v",
        {"region": "eu", "TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": "0A", "CLUSTER": "c", "CC": "x",
         "x-kafka-topic": "y"},
        5, "broker-a", 3, 7, 99, 0, 1_700_000_000_123, bytes(8), 1_700_000_000_456, bytes(8), 0,
    )  # fmt: skip
    found = convert_from_rocketmq(message)
    assert (found.exchange, found.routing_key, found.body) == ("orders.eu", "k1", b"v")
    assert found.properties == {"delivery_mode": 2}
    assert found.headers == {
        "x-rocketmq-topic": "orders%2Eeu", "x-rocketmq-broker": "broker-a", "x-rocketmq-queue": Typed("signedint", 3),
        "x-rocketmq-offset": 7, "x-rocketmq-born": 1_700_000_000_123, "x-rocketmq-stored": 1_700_000_000_456,
        "x-rocketmq-flag": Typed("signedint", 5), "region": "eu", "x-rocketmq-TAGS": "TagA", "x-rocketmq-KEYS": "k1 k2",
        "x-rocketmq-UNIQ_KEY": "0A", "x-rocketmq-CLUSTER": "c", "x-rocketmq-property-CC": "x",
        "x-rocketmq-property-x-kafka-topic": "y",
    }  # fmt: skip
    home = to_rocketmq(found, "elsewhere")
    assert home == RocketMessage(
        "elsewhere", b"v",
        {"region": "eu", "TAGS": "TagA", "KEYS": "k1 k2", "UNIQ_KEY": "0A", "CC": "x", "x-kafka-topic": "y"}, 5,
    )  # fmt: skip


NATIVE = StoredMessage("t", b"v", {"a": "1", "KEYS": "k"}, 0, "b", 0, 1, 2, 0, 3, bytes(8), 4, bytes(8), 0)


def test_exchange_and_routing_key_can_be_given() -> None:
    message = convert_from_rocketmq(NATIVE, "e", "r")
    assert (message.exchange, message.routing_key) == ("e", "r")
    back = convert_from_rocketmq(through(to_rocketmq(Message("e", "r", {}, {}, b"x"), "t")), "f")
    assert (back.exchange, back.routing_key) == ("f", "r")


def test_headers_added_in_the_other_system_stay_with_the_message() -> None:
    sent = to_rocketmq(Message("e", "k", {"n": 1}, {}, b"x"), "t")
    traced = convert_from_rocketmq(through(sent.with_property("traceparent", "00-1").with_property("TRACE_ON", "true")))
    assert traced.headers == {"n": 1, "traceparent": "00-1"}

    abroad = get_content(convert_from_rocketmq(NATIVE))
    for name, value in {"x-death": [{"queue": "q"}], "void": None, "empty": "", "TAGS": "t", "\x01": "x"}.items():
        abroad = abroad.with_header(name, value)
    abroad = abroad.with_property("message_id", "m")
    home = to_rocketmq(build_lazy_message("", "", abroad, b"v"), "t")
    assert home.properties == {
        "a": "1", "KEYS": "k", "x-death": '[{"queue":"q"}]', "amqp.header.TAGS": "t", "amqp.message_id": "m"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"amqp.values": "[]"}, "amqp.values: '\\[\\]' is not JSON of texts by name"),
        ({"amqp.values": "{"}, "is not JSON"),
        ({"amqp.values": '{"a":1}'}, "is not JSON"),
        ({"amqp.values": '{"a":"base64"}', "a": "ü"}, "'ü' is not base64, as amqp.values says"),
        ({"amqp.routing_key": "k", "amqp.order": "[1]"}, "amqp.order: '\\[1\\]' is not JSON"),
        ({"amqp.routing_key": "k", "amqp.types": '{"n":"long"}', "n": "x"}, "'x' is not a long"),
        ({"amqp.routing_key": "k" * 256}, "routing key .* has 256 bytes"),
    ],
)
def test_a_message_of_rocketmq_that_carries_no_valid_message_is_refused_with_the_reason(
    properties: dict[str, str], reason: str
) -> None:
    with pytest.raises(Unmappable, match=reason):
        convert_from_rocketmq(NATIVE._replace(properties=properties))


def test_a_name_too_long_for_amqp_and_a_body_that_cannot_be_unpacked_are_refused() -> None:
    with pytest.raises(Unmappable, match=r"property name .* has 256 bytes"):
        convert_from_rocketmq(NATIVE._replace(properties={"n" * 256: "v"}))
    with pytest.raises(Unmappable, match="marked as packed"):
        convert_from_rocketmq(NATIVE._replace(system_flag=PACKED))


def test_a_key_too_long_for_a_routing_key_is_only_in_its_header() -> None:
    sent = NATIVE._replace(properties={"KEYS": "k" * 256 + " second"})
    message = convert_from_rocketmq(sent)
    assert message.routing_key == ""
    assert to_rocketmq(message, "t").properties == sent.properties
    assert convert_from_rocketmq(NATIVE._replace(properties={"KEYS": "k" * 255})).routing_key == "k" * 255


def test_a_message_of_amqp_that_carries_no_valid_message_of_rocketmq_is_refused_with_the_reason() -> None:
    with pytest.raises(Unmappable, match="x-rocketmq-queue: it is a longstr, not a signedint"):
        to_rocketmq(Message("", "", {"x-rocketmq-topic": "t", "x-rocketmq-queue": "1"}, {}, b"x"), "t")


def test_headers_that_exceed_rocketmqs_properties_are_refused() -> None:
    with pytest.raises(IllegalMessage, match=r"its properties are .* bytes; RocketMQ takes 32767"):
        encode_checked_properties(to_rocketmq(Message("", "q", {"a": "x" * 40_000}, {}, b"x"), "t").properties)


# Identity.


def test_a_message_of_rocketmq_is_identified_by_its_position_and_keeps_that_identity() -> None:
    identity = identify_stored("rocketmq/main/t/b/0/1", NATIVE)
    assert identity == bind_identity("rocketmq/main/t/b/0/1", NATIVE.keys[0].encode(), NATIVE.body)
    again = to_rocketmq(with_identity(convert_from_rocketmq(NATIVE), identity), "t")
    assert again.properties[IDENTITY] == identity
    assert identify_stored("rocketmq/second/t/b/0/9", through(again, offset=9)) == identity


# Topics.

words = st.text("ab.%2E5/| ü\udcff", max_size=12)


@given(words | st.text(st.characters(), max_size=9))
@example("%2E")
@example("%252E")
@example("%RETRY%g")
@example("%25RETRY%25g")
def test_a_name_comes_back_from_its_topic(name: str) -> None:
    try:
        topic = build_topic(name)
    except (InputError, UnicodeEncodeError):
        return
    assert is_legal_name(topic)
    assert name_of(topic) == name


@given(st.text("ab%2E5F|-", min_size=1, max_size=12))
@example("%25RETRY%25g")
@example("%2525")
def test_a_topic_comes_back_from_its_name(topic: str) -> None:
    assert build_topic(name_of(topic)) == topic


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("orders", "orders"), ("orders.eu", "orders%2Eeu"), ("a/b c", "a%2Fb%20c"), ("ü", "%C3%BC"),
        ("%RETRY%g", "%RETRY%g"), ("%2E", "%252E"), ("50%", "50%"), ("50%.", "50%25%2E"), ("a|b", "a|b"),
        ("%41", "%41"),
    ],
)  # fmt: skip
def test_names_and_their_topics(name: str, topic: str) -> None:
    assert build_topic(name) == topic
    assert name_of(topic) == name


def test_a_name_that_is_too_long_as_a_topic_is_refused() -> None:
    assert build_topic("x" * 127) == "x" * 127
    with pytest.raises(InputError, match="it has 128 characters; RocketMQ allows 127"):
        build_topic("x" * 128)
    with pytest.raises(InputError, match=r"it has 129 characters as '%2E.*'; RocketMQ allows 127"):
        build_topic("." * 43)
    # Each escape that is undone would be a call in a call.
    for name in ("%25" * 2_001, "x" * 1_000_000, "%" * 2_001, "%" + "25" * 2_000):
        with pytest.raises(InputError, match=rf"it has {len(name)} characters; RocketMQ allows 127") as refused:
            build_topic(name)
        assert len(str(refused.value)) < 1_000
        assert name_of(name) == name
    with pytest.raises(InputError, match=r"group 'x+': it has 121 characters; RocketMQ allows 120"):
        group_of("x" * 121)
    with pytest.raises(InputError, match="a topic has a name"):
        build_topic("")
