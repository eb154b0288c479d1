"""The codec of field tables and content headers, against the slow encoder of the tests and against bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.amqp import (
    ContentHeader,
    LazyHeaders,
    MalformedHeader,
    Properties,
    Repeated,
    Spelled,
    build_lazy_message,
    decode_table,
    encode_table,
    get_content,
)
from exchange.amqp.content import PROPERTIES
from exchange.amqp.fields import TAGS, decode_value, encode_short_string, encode_value
from exchange.entities.entities import Binding, Destination, Exchange, Queue
from exchange.limits import NESTING
from exchange.routing.router import Router
from exchange.topology.topology import Topology
from exchange.values.field_values import RANGES, TYPES, Typed, resolve_type
from exchange.values.message import Message
from tests.support.amqp_wire import encode_field
from tests.support.bridge.wires import headers_wire, long_string, table_of, wires

floats = st.floats(allow_nan=False)
names = st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace").decode())
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(*RANGES["long"]),
    floats,
    names,
    st.binary(max_size=20),
    st.binary(max_size=20).map(lambda raw: Typed("longstr", raw)),
    st.floats(allow_nan=False, width=32).map(lambda value: Typed("float", value)),
    st.tuples(st.integers(0, 255), st.integers(0, 2**32 - 1)).map(
        lambda pair: Decimal((0, tuple(map(int, str(pair[1]))), -pair[0]))
    ),
    *(st.integers(*limits).map(lambda value, kind=kind: Typed(kind, value)) for kind, limits in RANGES.items()),  # type: ignore[misc]
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
tables = st.dictionaries(names, values, max_size=6)
short = st.binary(max_size=255).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
properties = st.fixed_dictionaries(
    {},
    optional={
        name: {"shortstr": short, "octet": st.integers(0, 255)}.get(
            kind, st.integers(0, 2**64 - 1).map(lambda seconds: Typed("timestamp", seconds))
        )
        for name, kind in PROPERTIES.items()
        if name != "headers"
    },
)


def parts_of(given: dict[str, Any]) -> list[tuple[str, bytes]]:
    """Encode properties as on the wire."""
    writers: dict[str, Callable[[Any], bytes]] = {
        "octet": lambda value: bytes([value]),
        "timestamp": lambda value: value.value.to_bytes(8),
        "shortstr": encode_short_string,
    }
    return [(name, writers[PROPERTIES[name]](value)) for name, value in given.items()]


def sound(read: Callable[[], Any], size: int) -> Any:
    """Return the result of a function; None for a malformed header, after a check of its position."""
    position = None
    try:
        return read()
    except MalformedHeader as error:
        position = error.position
    assert 0 <= position <= size
    return None


@given(tables)
def test_encoded_values_are_decoded_with_their_types(table: dict[str, Any]) -> None:
    decoded = decode_table(encode_table(table))
    assert resolve_type(decoded) == resolve_type(table)
    assert list(decoded) == list(table)


@given(values)
def test_a_value_is_encoded_as_the_slow_encoder_does(value: Any) -> None:
    assert encode_value(value) == encode_field(value)


@given(st.lists(st.tuples(st.binary(max_size=4), wires), max_size=5).map(table_of))
def test_decoded_bytes_are_encoded_to_the_same_bytes(table: bytes) -> None:
    assert encode_table(decode_table(table)) == table


@given(st.lists(st.tuples(st.binary(max_size=3), wires), max_size=4).map(table_of) | st.binary(max_size=60), st.data())
def test_any_bytes_are_a_table_or_malformed(table: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(table)))
    damaged = table[:place] + data.draw(st.binary(max_size=3)) + table[place + data.draw(st.integers(0, 3)) :]
    for raw in (damaged, damaged[:place]):
        decoded = sound(partial(decode_table, raw), len(raw))
        assert decoded is None or encode_table(decoded) == raw


@given(tables | st.none(), properties)
def test_a_content_header_gives_back_headers_and_properties(
    headers: dict[str, Any] | None, given_properties: dict[str, Any]
) -> None:
    content = ContentHeader.encode(headers, given_properties)
    assert content.has_table == (headers is not None)
    assert resolve_type(content.headers()) == resolve_type(headers or {})
    assert content.properties() == given_properties
    again, size = ContentHeader.parse(content.payload(7))
    assert (again, size) == (content, 7)
    for name in PROPERTIES.keys() - {"headers"}:
        assert content.property(name) == given_properties.get(name)


@given(st.one_of(st.none(), headers_wire), properties, st.integers(0, 3))
def test_what_a_message_is_made_of_is_sent_again(
    table: bytes | None, given_properties: dict[str, Any], unused: int
) -> None:
    content = ContentHeader.from_parts(dict(parts_of(given_properties)), table, unused)
    message = build_lazy_message("e", "k", content, b"body")
    assert get_content(message) is content
    assert message.headers == content.headers()
    assert message.properties == content.properties()
    assert get_content(message).raw == content.raw
    changed = Message("e", "k", message.headers, dict(message.properties))
    assert get_content(changed).raw[2:] == content.raw[2:]
    assert get_content(changed).unused_flags == 0
    assert get_content(changed).has_table == content.has_table


@given(tables, properties, names, values)
def test_one_header_is_edited_and_the_rest_stays(
    headers: dict[str, Any], given_properties: dict[str, Any], name: str, value: Any
) -> None:
    content = ContentHeader.encode(headers, given_properties)
    edited = content.with_header(name, value)
    assert resolve_type(edited.headers()) == resolve_type({**headers, name: value})
    assert list(edited.headers()) == list({**headers, name: value})
    assert resolve_type(edited.header(name)) == resolve_type(value)
    assert edited.properties() == given_properties
    without = edited.without_header(name)
    assert resolve_type(without.headers()) == resolve_type({k: v for k, v in headers.items() if k != name})
    for one, expected in headers.items():
        assert resolve_type(content.header(one)) == resolve_type(expected)


@given(tables | st.none(), properties, properties)
def test_one_property_is_edited_and_the_rest_stays(
    headers: dict[str, Any] | None, given_properties: dict[str, Any], others: dict[str, Any]
) -> None:
    content = ContentHeader.encode(headers, given_properties)
    for name, value in others.items():
        content = content.with_property(name, value)
    assert content == ContentHeader.encode(headers, {**given_properties, **others})
    for name in given_properties:
        content = content.with_property(name, None)
    rest = {name: value for name, value in others.items() if name not in given_properties}
    assert content == ContentHeader.encode(headers, rest)


def test_a_header_is_found_by_its_whole_name_only() -> None:
    content = ContentHeader.encode({"xab": "\x02ab", "ab": 1, "abc": 2})
    assert content.header("ab") == 1
    assert content.header("abc") == 2
    assert content.header("b") is None
    assert content.header("x" * 300) is None


def test_a_field_of_a_nested_table_is_no_header_of_the_message() -> None:
    assert ContentHeader.encode({"outer": {"inner": 1}}).header("inner") is None


def test_a_message_without_a_table_gets_one_with_its_first_header() -> None:
    content = ContentHeader.encode(None, {"content_type": "a", "message_id": "b"}).with_header("id", "7")
    assert content == ContentHeader.encode({"id": "7"}, {"content_type": "a", "message_id": "b"})
    assert content.without_header("id").has_table


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (b"L" + b"\xff" * 8, Spelled("long", -1, b"L" + b"\xff" * 8)),
        (b"t\x02", Spelled("bool", True, b"t\x02")),
        (b"s\xff\xfe", Typed("short", -2)),
        (b"u\xff\xfe", Typed("unsignedshort", 65534)),
        (b"I\xff\xff\xff\xfe", Typed("signedint", -2)),
        (b"i\xff\xff\xff\xfe", Typed("unsignedint", 2**32 - 2)),
        (b"f?\xc0\0\0", Typed("float", 1.5)),
        (b"d?\xf8" + bytes(6), 1.5),
        (b"D\x02\xff\xff\xff\xff", Decimal("42949672.95")),
        (long_string(b"\xff"), Typed("longstr", b"\xff")),
    ],
)
def test_a_type_is_what_rabbitmq_takes_it_for(wire: bytes, expected: Any) -> None:
    value, end = decode_value(wire)
    assert (value, type(value), end) == (expected, type(expected), len(wire))
    assert encode_value(value) == wire


def test_a_nan_keeps_its_bits() -> None:
    wire = b"f\x7f\x80\x00\x01"
    assert encode_value(decode_value(wire)[0]) == wire


def test_a_name_that_is_there_twice_has_its_first_value() -> None:
    table = decode_table(b"\x01at\x01\x01bV\x01at\x00")
    assert isinstance(table, Repeated)
    assert table.pairs == (("a", True), ("b", None), ("a", False))
    assert dict(table) == {"a": True, "b": None}
    assert list(table) == ["a", "b"]


@pytest.mark.parametrize(
    ("raw", "reason", "position"),
    [
        (b"\x01aZ", "no field type b'Z'", 2),
        (b"\x01aU\0\0", "no field type b'U'", 2),
        (b"\x05a", "ends in the middle", 2),
        (b"\x01al\0", "ends in the middle", 4),
        (b"\x01aS\0\0\0\x09x", "a longstr reaches behind byte 8", 2),
        (b"\x01aA\0\0\0\x09t", "a array reaches behind byte 8", 2),
        (b"\x01aA\0\0\0\x01t\x01", "a bool reaches behind byte 8", 7),
        (b"\x01aF\0\0\0\x03\x05bV", "ends in the middle", 10),
        (b"\x01aF\0\0\0\x02\x01bV", "the name of a field reaches behind byte 9", 9),
    ],
)
def test_malformed_tables_are_errors_with_a_position(raw: bytes, reason: str, position: int) -> None:
    with pytest.raises(MalformedHeader, match=reason) as caught:
        decode_table(raw)
    assert caught.value.position == position


def test_a_length_of_four_gigabytes_takes_no_memory() -> None:
    with pytest.raises(MalformedHeader):
        decode_table(b"\x01aS\xff\xff\xff\xff")


def test_nesting_has_a_maximum() -> None:
    def nested(levels: int) -> bytes:
        wire = b""
        for _ in range(levels):
            wire = b"A" + struct.pack(">I", len(wire)) + wire
        return b"\x01a" + wire

    assert encode_table(decode_table(nested(NESTING))) == nested(NESTING)
    assert resolve_type(decode_table(nested(NESTING)))[0] == "table"
    for levels in (NESTING + 1, 20_000):
        with pytest.raises(MalformedHeader, match="more than 100 tables and arrays in one another"):
            decode_table(nested(levels))
    content = ContentHeader.encode().with_table(nested(20_000))
    assert content.header("b") is None
    assert content.with_header("b", 1).header("b") == 1


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "ends before its body's size"),
        (b"\0\x3c\0\0" + bytes(8), "no property flags"),
        (b"\0\x0a\0\0" + bytes(10), "of class 10"),
    ],
)
def test_a_payload_that_is_no_header_is_refused(payload: bytes, reason: str) -> None:
    with pytest.raises(MalformedHeader, match=reason):
        ContentHeader.parse(payload)


@given(st.binary(min_size=2, max_size=40))
def test_any_bytes_are_a_content_header_or_malformed(raw: bytes) -> None:
    content = ContentHeader(raw)
    reads: list[Any] = [content.properties, content.headers, lambda: content.find("a"), lambda: list(content.fields())]
    reads += [partial(content.property, name) for name in PROPERTIES if name != "headers"]
    for read in reads:
        sound(read, len(raw))


def test_a_field_that_amqp_cannot_hold_is_named() -> None:
    for headers in ({"a": 2**63}, {"a": object()}, {"x" * 256: 1}, {"a": {"b": [2**70]}}):
        with pytest.raises(ValueError, match=r"'a'|x{40}"):
            ContentHeader.encode(headers)
    with pytest.raises(ValueError, match="no property 'colour'"):
        ContentHeader.encode(None, {"colour": "red"})
    for wrong in ({"priority": 256}, {"priority": "1"}, {"message_id": 1}, {"timestamp": -1}, {"delivery_mode": True}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ContentHeader.encode(None, wrong)
    with pytest.raises(ValueError, match="has 256 bytes"):
        ContentHeader.encode(None, {"reply_to": "ü" * 128})


def test_routing_by_key_decodes_nothing() -> None:
    topology = Topology([Exchange("e", "topic")], [Queue("q")], [Binding("e", Destination("queue", "q"), "#")])
    content = ContentHeader.encode({"a": 1}, {"message_id": "m"})
    message = build_lazy_message("e", "k", content, b"")
    assert Router(topology).route(message).queues == ("q",)
    assert isinstance(message.headers, LazyHeaders)
    assert message.headers._decoded is None
    assert isinstance(message.properties, Properties)
    assert message.properties._decoded is None


def test_lazy_headers_are_a_mapping() -> None:
    headers = LazyHeaders(ContentHeader.encode({"a": 1, "CC": ["x"]}))
    assert headers
    assert "a" in headers
    assert "b" not in headers
    assert headers == {"a": 1, "CC": ["x"]}
    assert headers != {"a": 1}
    assert not LazyHeaders(ContentHeader.encode({}))
    assert len(headers) == 2
    message = build_lazy_message("", "k", headers.content, b"")
    assert message.routing_keys() == ("k", "x")


def test_every_type_of_rabbitmq_has_a_tag() -> None:
    assert TAGS.keys() == TYPES
