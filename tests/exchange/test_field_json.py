"""AMQP field values and messages in JSON: what is written is read again, types included."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.values.field_json import decode, decode_message, decode_table, encode, encode_message, encode_table
from exchange.values.field_values import RANGES, TYPES, FieldTable, Typed, resolve_type
from exchange.values.message import Message
from tests.support.cases import with_each

# Surrogates on purpose: JSON brings them.
TEXT = st.text(st.characters(), max_size=8)
KEYS = st.sampled_from(["", "!", "!table", "!long", "!x", "x-match", "a.b"]) | TEXT

INTEGERS = [st.builds(Typed, st.just(kind), st.integers(*limits)) for kind, limits in RANGES.items()]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(*RANGES["long"]),
    st.floats(),
    TEXT,
    st.binary(max_size=8),
    st.decimals(min_value=-(2**31), max_value=2**31, places=0),
    st.builds(
        lambda digits, scale: Decimal(digits).scaleb(-scale), st.integers(-(2**31), 2**31 - 1), st.integers(0, 255)
    ),
    st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001  hypothesis adds the zone
    st.builds(Typed, st.just("float"), st.floats(width=32)),
    st.builds(Typed, st.just("longstr"), st.binary(max_size=8)),
    *INTEGERS,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=2), max_leaves=8
)
PLAIN_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(*RANGES["long"]) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT.filter(lambda key: key[:1] != "!"), inner),
    max_leaves=8,
)


def meaning(value: Any) -> str:
    """Return the AMQP meaning of a value, in a form in which 1, 1.0, True and NaN compare as expected."""
    return repr(resolve_type(value))


def through_text(value: Any) -> Any:
    """Return a JSON value after it has been written as text and parsed again."""
    return json.loads(json.dumps(value, allow_nan=False))


@given(VALUES)
def test_decoding_undoes_encoding(value: Any) -> None:
    """Every field value comes back from JSON with its type, its order and its exact content."""
    assert meaning(decode(through_text(encode(value)))) == meaning(value)


@given(st.dictionaries(KEYS, VALUES, max_size=3))
def test_a_table_where_only_a_table_can_be_needs_no_escape(table: dict[str, Any]) -> None:
    """Headers and arguments come back whatever their keys."""
    written = encode_table(table)
    assert list(written) == list(table)
    assert meaning(decode_table(through_text(written))) == meaning(table)


@given(PLAIN_JSON)
def test_plain_json_stays_as_it_is(value: Any) -> None:
    """Without keys that begin with "!", JSON decodes to itself and is written as it was."""
    assert repr(decode(value)) == repr(value)
    assert repr(encode(decode(value))) == repr(value)


@given(VALUES)
def test_encoding_is_canonical(value: Any) -> None:
    """What encode writes is what encode would write for what was read."""
    written = through_text(encode(value))
    assert encode(decode(written)) == written


def test_plain_json_is_typed_as_rabbitmq_imports_it() -> None:
    """An integer is a long, a float a double, a string a longstr, null a void."""
    examples: list[Any] = [1, 1.0, "", True, None, [], {}]
    kinds = [resolve_type(decode(example))[0] for example in examples]
    assert kinds == ["long", "double", "longstr", "bool", "void", "array", "table"]


EXAMPLES: dict[str, tuple[Any, Any]] = {
    "void": (None, None),
    "bool": (True, True),
    "byte": (-1, Typed("byte", -1)),
    "unsignedbyte": (255, Typed("unsignedbyte", 255)),
    "short": (1, Typed("short", 1)),
    "unsignedshort": (1, Typed("unsignedshort", 1)),
    "signedint": (1, Typed("signedint", 1)),
    "unsignedint": (1, Typed("unsignedint", 1)),
    "long": (1, 1),
    "float": (1.5, Typed("float", 1.5)),
    "double": (1, 1.0),
    "decimal": ("1.25", Decimal("1.25")),
    "longstr": ("text", "text"),
    "binary": ("/w==", b"\xff"),
    "timestamp": (5, Typed("timestamp", 5)),
    "array": ([{"!short": 1}], [Typed("short", 1)]),
    "table": ({"!short": 1}, {"!short": 1}),
}


@with_each("kind", sorted(TYPES))
def test_every_amqp_type_can_be_written_out(kind: str) -> None:
    """Each of RabbitMQ's types has its "!type" form."""
    example = EXAMPLES[kind]
    assert meaning(decode({f"!{kind}": example[0]})) == meaning(example[1])


def test_bytes_is_another_name_of_binary() -> None:
    """Bytes are written as "!bytes" and read under both names."""
    assert encode(b"\xff") == {"!bytes": "/w=="}
    assert decode({"!bytes": "/w=="}) == decode({"!binary": "/w=="}) == b"\xff"


def test_a_real_table_that_looks_typed_is_wrapped_in_a_table() -> None:
    """The escape is unambiguous, also for the escape itself."""
    assert encode({"!x": 1}) == {"!table": {"!x": 1}}
    assert encode({"!table": {"a": 1}}) == {"!table": {"!table": {"a": 1}}}
    assert encode({"!x": 1, "y": 2}) == {"!x": 1, "y": 2}


def test_numbers_that_json_lacks_have_names() -> None:
    """Infinities and NaN are strings in their typed form."""
    assert encode(float("inf")) == {"!double": "Infinity"}
    assert encode(Typed("float", float("-inf"))) == {"!float": "-Infinity"}
    assert decode({"!double": "NaN"}) != decode({"!double": "NaN"})


def test_a_longstr_that_is_not_utf8_keeps_its_type() -> None:
    """Bytes in a longstr stay a longstr and do not become binary."""
    assert encode(Typed("longstr", b"\xff")) == {"!longstr": {"!bytes": "/w=="}}
    assert encode(Typed("longstr", b"text")) == "text"


@with_each(
    ("value", "words"),
    [
        ({"!tiem": 5}, ['"!tiem" is not an AMQP type', "!timestamp", '{"!table": {"!tiem": ...}}']),
        ({"!timestamp": "5"}, ["!timestamp", "an integer from 0"]),
        ({"!byte": 128}, ["!byte", "from -128 to 127"]),
        ({"!long": 2**63}, ["!long", "9223372036854775807"]),
        ({"!void": 0}, ["null"]),
        ({"!bool": 1}, ["true or false"]),
        ({"!float": 1e300}, ["!float", "1e+300"]),
        ({"!double": True}, ["a number"]),
        ({"!decimal": 1.25}, ['a number in a string, such as "1.25"']),
        ({"!decimal": "one"}, ['"one"', "a number in a string"]),
        ({"!decimal": "99999999999"}, ["32 bits"]),
        ({"!bytes": "?"}, ["!bytes"]),
        ({"!bytes": 5}, ["base64"]),
        ({"!longstr": 5}, ["a string"]),
        ({"!array": 5}, ["an array"]),
        ({"!table": 5}, ["5 is not an object"]),
        (2**63, ["9223372036854775808", "64 bits"]),
        ({"a": [{"b": {"!byte": 999}}]}, ["value.a[0].b.!byte"]),
        (object(), ["not a JSON value"]),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_with_its_place_and_a_fix(value: Any, words: list[str]) -> None:
    """Errors name the place, the value and what it should be."""
    with pytest.raises(InputError) as caught:
        decode(value)
    assert all(word in str(caught.value) for word in ["value", *words])


@pytest.mark.parametrize("value", [2**63, Decimal("NaN"), datetime(1960, 1, 1, tzinfo=UTC), {1: 2}, object()])
def test_a_value_that_amqp_cannot_hold_is_not_encoded(value: Any) -> None:
    """Encoding never writes what decoding would refuse."""
    with pytest.raises((TypeError, ValueError, OverflowError)):
        encode(value)


@given(
    st.builds(
        Message, TEXT, TEXT, st.dictionaries(KEYS, VALUES, max_size=2), st.dictionaries(KEYS, VALUES, max_size=2),
        st.binary() | TEXT.map(lambda text: text.encode("utf-8", "surrogatepass")),
    )
)  # fmt: skip
def test_messages_come_back_whole(message: Message) -> None:
    """message_from_json undoes message_to_json."""
    back = decode_message(through_text(encode_message(message)))
    assert (back.exchange, back.routing_key, back.body) == (message.exchange, message.routing_key, message.body)
    assert meaning(back.headers) == meaning(message.headers)
    assert meaning(back.properties) == meaning(message.properties)


def test_absent_and_null_fields_of_a_message_are_empty() -> None:
    """A message needs no field at all, and null is absence."""
    assert decode_message({}) == Message()
    nulls = {"exchange": None, "headers": None, "properties": None, "body": None}
    assert decode_message(nulls) == decode_message({"headers": {}, "properties": {}}) == Message()


def test_other_fields_of_a_message_are_ignored() -> None:
    """Archives carry more than routing needs."""
    record = {"exchange": "e", "routing_key": "k", "timestamp": None, "source": {"!x": 1}, "body_truncated": False}
    assert decode_message(record) == Message("e", "k")


def test_a_message_from_json_equals_one_from_the_constructor() -> None:
    """It is frozen and equal to one that its constructor made."""
    message = decode_message({"exchange": "e", "headers": {"h": {"!short": 1}}, "body": "é"})
    assert message == Message("e", "", {"h": Typed("short", 1)}, {}, "é".encode())
    with pytest.raises(AttributeError):
        message.exchange = "other"  # type: ignore[misc]


def test_headers_and_properties_are_field_values() -> None:
    """Both take the typed form, and a table with one key is not mistaken for it."""
    message = decode_message({"headers": {"!long": 1}, "properties": {"timestamp": {"!timestamp": 5}}})
    assert FieldTable(message.headers) == {"!long": 1}
    assert message.properties["timestamp"] == Typed("timestamp", 5)


def test_a_body_that_is_not_utf8_is_written_in_base64() -> None:
    """Any bytes are a body."""
    assert encode_message(Message(body=b"\xff"))["body"] == {"!bytes": "/w=="}
    assert decode_message({"body": {"!bytes": "/w=="}}).body == b"\xff"


def nested(depth: int) -> Any:
    """Return an array in an array in ..."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@with_each(
    ("value", "words"),
    [
        ([], "[] is not a message"),
        ("text", '"text" is not a message'),
        ({"exchange": 5}, "exchange: 5 is not a string"),
        ({"routing_key": None}, "routing_key: null is not a string"),
        ({"routing_key": ["a"]}, 'routing_key: ["a"] is not a string'),
        ({"headers": []}, "headers: [] is not an object"),
        ({"headers": {"n": 2**64}}, "headers.n: 18446744073709551616"),
        ({"headers": {"n": nested(5000)}}, "nested too deeply, beyond 100 arrays and tables"),
        ({"headers": {"n": nested(100)}}, "headers.n[0][0]"),
        ({"headers": {"n": {"!table": {"a": nested(99)}}}}, "headers.n.!table.a[0][0]"),
        ({"headers": {"n" * 10_000: {"m": 2**64}}}, "nnn.m: 18446744073709551616"),
        ({"properties": 0}, "properties: 0 is not an object"),
        ({"body": 5}, "body: 5 is neither a string nor"),
        ({"body": {"a": 1}}, 'body: {"a": 1} is neither a string nor'),
        ({"body": {"!bytes": 1}}, "body.!bytes"),
    ],
)
def test_a_wrong_field_of_a_message_is_named(value: Any, words: str) -> None:
    """Errors say which field is wrong and what it is."""
    with pytest.raises(InputError) as caught:
        decode_message(value)
    assert words in str(caught.value)


@pytest.mark.parametrize("convert", [bytearray, memoryview])
def test_all_byte_strings_are_binary(convert: Callable[[bytes], Any]) -> None:
    """Whatever holds the bytes, they are written alike."""
    assert encode(convert(b"\xff")) == {"!bytes": "/w=="}
