"""A dead letter becomes the message that was published, whether a bridge has buried it or a release of RabbitMQ."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.dead.restoring import REPLAY, digest, restore, stamp
from bridge.endpoint import Delivery
from bridge.endpoints.rabbitmq.consumer.deliveries import make_deliveries
from bridge.endpoints.rabbitmq.frames import Arrived
from bridge.interop.replayed import find_published
from bridge.pump.dead_letters import build_dead_letter, pack
from exchange import Message
from exchange.amqp import ContentHeader, build_lazy_message, get_content
from exchange.entities.releases import LATEST_PROFILE, PROFILES
from exchange.errors import InputError
from exchange.lifecycle.content import publish_content, record_death
from tests.bridge.dead.test_grouping import rejected

HEADERS = st.dictionaries(
    st.sampled_from(["tenant", "price", "CC", "BCC", "x-hashstar-id", "a"]),
    st.just(["k", "m"]),
    max_size=4,
) | st.dictionaries(st.sampled_from(["tenant", "price", "a"]), st.integers(-5, 5) | st.text(max_size=4), max_size=3)
PROPERTIES = st.fixed_dictionaries(
    {}, optional={"user_id": st.just("guest"), "expiration": st.just("60000"), "priority": st.integers(0, 9),
                  "message_id": st.text(max_size=5), "content_type": st.just("text/plain")},
)  # fmt: skip
MESSAGES = st.builds(
    Message, st.sampled_from(["", "orders"]), st.sampled_from(["a.b", "", "ü"]), HEADERS, PROPERTIES,
    st.binary(max_size=9),
)  # fmt: skip


def as_read(message: Message) -> Message:
    """Return a message as it comes from a broker, with its headers in bytes."""
    return build_lazy_message(message.exchange, message.routing_key, get_content(message), message.body)


def same(one: Message, other: Message) -> bool:
    return (one.exchange, one.routing_key, one.body, dict(one.headers), dict(one.properties)) == (
        other.exchange, other.routing_key, other.body, dict(other.headers), dict(other.properties),
    )  # fmt: skip


@given(MESSAGES, st.booleans(), st.sampled_from(["queue jobs", "orders-3 at 7"]))
def test_what_a_bridge_buries_is_restored(message: Message, packed: bool, origin: str) -> None:
    dead = build_dead_letter(Delivery(as_read(message), origin=origin), "nack", "to", "billing", 3, 1.0)
    dead = as_read(pack(dead) if packed else dead)
    assert same(restore(dead, "exchange"), message)
    if origin.startswith("queue "):
        back = restore(dead, "queue")
        assert (back.exchange, back.routing_key) == ("", "jobs")
        assert not {"CC", "BCC"} & back.headers.keys()
    else:
        with pytest.raises(InputError, match="no header names the queue"):
            restore(dead, "queue")


def deliver(message: Message) -> Message:
    """Return a message of the default exchange as the bridge that reads its queue takes it."""
    header, key = get_content(message), message.routing_key.encode()
    arrived = deque([Arrived(1, False, message.exchange.encode(), key, header.raw, message.body)])
    [delivery] = make_deliveries(
        arrived, 1, source="s", queue="jobs", epoch=0, on_redelivery=lambda _: None, on_expiration=lambda _: None
    )
    return delivery.message


@given(MESSAGES, st.lists(st.sampled_from(["bridge", "broker"]), min_size=1, max_size=3))
def test_a_bridge_takes_what_is_replayed_to_its_queue_as_it_was_published(
    message: Message, buried_by: list[str]
) -> None:
    """However often it died there; a broker that buries it takes the expiration away, one that gets it first BCC."""
    lives = LATEST_PROFILE.lives
    taken = message
    back = as_read(message)
    for number, who in enumerate(buried_by):
        if who == "bridge":
            dead = build_dead_letter(Delivery(as_read(taken), origin="queue jobs"), "nack", "to", "billing", 3, 1.0)
        else:
            content = publish_content(replace(back, headers={**back.headers}, properties={**back.properties}), lives)
            dead = record_death(content, "jobs", "rejected", ("dlx", None), 0, lives).as_message()
        counted = get_content(as_read(dead)).with_header("x-acquired-count", number + 1)
        back = restore(build_lazy_message(dead.exchange, dead.routing_key, counted, dead.body), "queue")
        assert (back.exchange, back.routing_key) == ("", "jobs")
        assert not {"CC", "BCC", "x-acquired-count"} & back.headers.keys()
        taken = deliver(back)
    headers = {name: value for name, value in message.headers.items() if name != "BCC" or buried_by[0] == "bridge"}
    lost = {"expiration"} if "broker" in buried_by else set()
    wanted = {name: value for name, value in message.properties.items() if name not in lost}
    assert same(taken, replace(message, headers=headers, properties=wanted))


def test_a_key_that_is_no_text_is_restored_to_the_bit() -> None:
    key = b"\x80".decode("utf-8", "surrogateescape")
    dead = build_dead_letter(Delivery(Message("x", key, {}, {}, b"b"), origin="queue q"), "r", "t", "q", 1, 0.0)
    over = build_lazy_message("", "dead", get_content(dead), b"b")
    assert restore(over, "exchange").routing_key == key
    replayed = restore(over, "queue")
    content = get_content(replayed)
    assert find_published(b"", b"q", content)[:2] == (b"x", b"\x80")


def test_a_header_that_no_bridge_could_read_is_restored_to_the_bit() -> None:
    raw = b"\x20\x00\x00\x00\x00\x05\x01a?xx"
    broken = build_lazy_message("orders", "k", ContentHeader(raw), b"x")
    dead = as_read(build_dead_letter(Delivery(broken, origin="queue jobs"), "unroutable", "from", "", 0, 1.0))
    assert get_content(restore(dead, "exchange")).raw == raw


@given(MESSAGES, st.sampled_from(sorted(PROFILES)), st.sampled_from(["rejected", "expired"]), st.booleans())
def test_what_a_broker_buries_is_restored(message: Message, release: str, reason: Any, twice: bool) -> None:
    lives = PROFILES[release].lives
    message = replace(message, headers={**message.headers}, properties={**message.properties})
    content = publish_content(message, lives)
    dead = record_death(content, "jobs", reason, ("dlx", None), 0, lives)
    if twice:
        dead = record_death(dead, "later", "expired", ("", "held"), 0, lives)
    arrived = as_read(dead.as_message())
    back = restore(arrived, "queue")
    assert (back.exchange, back.routing_key, back.body) == ("", "jobs", message.body)
    assert not any(name.startswith(("x-death", "x-first", "x-last")) for name in back.headers)
    there = restore(arrived, "exchange")
    assert (there.exchange, there.routing_key) == (message.exchange, message.routing_key)
    assert there.headers.get("CC") == message.headers.get("CC")
    kept = message.headers.keys() - {"CC", "BCC"}
    assert {name: there.headers[name] for name in kept} == {name: message.headers[name] for name in kept}


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "no header says where it died"),
        ({"x-death": []}, "x-death has no entry"),
        ({"x-death": "text"}, "x-death has no entry"),
        ({"x-death": [{"queue": "q", "reason": "rejected"}]}, "does not say how it was published"),
        ({"x-death": [{"queue": "q", "reason": "r", "exchange": "", "routing-keys": [5]}]}, "no text"),
        ({"hashstar-reason": "nack", "hashstar-content-header": 5}, "has no bytes"),
        ({"hashstar-reason": "nack", "hashstar-packed": True}, "its body is no message"),
        ({"x-original-exchange": "e"}, "no header names the queue"),
    ],
)
def test_what_cannot_be_restored_says_why(headers: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        restore(as_read(Message("", "dead", headers, {}, b"{")), "queue")


@given(MESSAGES)
def test_a_death_has_one_digest_and_the_next_death_another_one(message: Message) -> None:
    dead = as_read(rejected("order.1", 1))
    again = build_lazy_message(
        dead.exchange, dead.routing_key, get_content(dead).with_header("x-delivery-count", 3), dead.body
    )
    assert digest(dead) == digest(again)
    stamped = stamp(dead, digest(dead))
    assert stamped.headers[REPLAY] == digest(dead)
    assert digest(stamped) != digest(dead)
    read = as_read(message)
    assert digest(read) == digest(as_read(message))
    assert digest(replace(read, body=read.body + b"x")) != digest(read)
