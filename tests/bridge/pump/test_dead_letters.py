"""Dead letters: what they keep of their message, and what they must not have under its own name."""

from __future__ import annotations

import pytest

from bridge.endpoint import Delivery
from bridge.interop import Record, to_amqp, to_kafka
from bridge.pump.dead_letters import build_dead_letter, is_packed, pack
from exchange import Message
from exchange.values.field_json import decode_message_line
from exchange.values.field_values import Typed

HEADERS = {"CC": ["a"], "BCC": ["b"], "own": 1}
PROPERTIES = {"user_id": "guest", "expiration": "1000", "priority": 3}
MESSAGE = Message("x", "key", HEADERS, PROPERTIES, b"body")


def letter(message: Message = MESSAGE) -> Message:
    return build_dead_letter(Delivery(message, origin="queue orders"), "nack", "target", "q", 2, 1_700_000_000.9)


@pytest.mark.parametrize("name", ["user_id", "expiration", "CC", "BCC"])
def test_properties_that_change_how_brokers_treat_a_dead_letter_get_other_names(name: str) -> None:
    """An expiration above all: a dead letter that expires is lost."""
    made = letter()
    assert name not in made.properties
    assert name not in made.headers
    assert made.headers[f"hashstar-{name}"] == {**HEADERS, **PROPERTIES}[name]


def test_a_dead_letter_has_the_unchanged_message_and_the_reason() -> None:
    made = letter()
    assert (made.exchange, made.routing_key, made.body) == ("x", "key", b"body")
    assert made.properties == {"priority": 3}
    assert made.headers["own"] == 1
    assert made.headers["hashstar-time"] == Typed("timestamp", 1_700_000_000)
    named = ("reason", "origin", "exchange", "routing-key", "queue", "target", "attempts")
    said = [made.headers[f"hashstar-{name}"] for name in named]
    assert said == ["nack", "queue orders", "x", "key", "q", "target", 2]
    assert MESSAGE.properties == PROPERTIES  # which is not changed


def test_a_packed_dead_letter_has_the_whole_message_in_its_body() -> None:
    made = letter()
    packed = pack(made)
    assert is_packed(packed)
    assert not is_packed(made)
    assert set(packed.headers) == {name for name in made.headers if name.startswith("hashstar-")} | {"hashstar-packed"}
    whole = decode_message_line(packed.body)
    assert (dict(whole.headers), dict(whole.properties), whole.body) == (made.headers, made.properties, b"body")


@pytest.mark.parametrize("key", [b"\x80", b"\x00\x00\x00\x00\x07Avro\xff"])
def test_a_key_that_is_no_text_is_in_the_dead_letter_as_its_bytes(key: bytes) -> None:
    dead = build_dead_letter(Delivery(to_amqp(Record("orders", key, b"v"))), "too large", "t", "q", 1, 0.0)
    for each in (dead, pack(dead)):
        headers = dict(to_kafka(each, "dead", key).headers)
        assert headers["hashstar-routing-key"] == key
