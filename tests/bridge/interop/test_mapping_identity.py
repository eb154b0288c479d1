"""Identities: the same for every delivery of a message, and different for different messages."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.interop import IDENTITY, Record, compute_fingerprint, identify_message, identify_record, to_amqp, to_kafka
from exchange.amqp import ContentHeader
from exchange.values.field_values import Typed
from exchange.values.message import Message
from tests.support.bridge.identity import with_identity

SENT = ContentHeader.encode({"b": 1, "a": 2}, {"message_id": "m"})


def test_a_record_is_identified_by_its_position() -> None:
    record = Record("orders", None, b"", partition=3, offset=7)
    assert identify_record("main/eu", record) == "kafka/main%2Feu/orders/3/7/00000000"
    assert identify_record("main", record._replace(offset=None)) is None


def test_a_message_of_a_stream_is_identified_by_its_offset() -> None:
    content = ContentHeader.encode({"x-stream-offset": 12}, {"message_id": "m"})
    assert identify_message("main", "events", b"", content, b"v") == "stream/main/events/12/6b643b84"


def test_a_message_of_a_queue_is_identified_by_its_message_id_if_it_has_one() -> None:
    content = ContentHeader.encode(None, {"message_id": "a b"})
    assert identify_message("main", "q", b"", content, b"") == "message/main/q/a%20b/00000000"
    assert identify_message("main", "q", b"", content, b"v") == "message/main/q/a%20b/6b643b84"
    assert identify_message("main", "q", b"", ContentHeader.encode(None, {"message_id": ""}), b"") is None
    assert identify_message("main", "q", b"", ContentHeader.encode(), b"") is None


def test_an_identity_stays_with_its_message_on_all_bridges() -> None:
    record = Record("orders", b"k", b"v", [("a", b"1")], partition=0, offset=1)
    identity = identify_record("main", record)
    message = with_identity(to_amqp(record), identity)
    assert message.headers[IDENTITY] == identity
    content = ContentHeader.encode(message.headers, {"message_id": "other"})
    assert identify_message("rabbit", "q", b"q", content, b"v") == identity
    again = to_kafka(message, "elsewhere")
    assert identify_record("second", again._replace(partition=5, offset=9)) == identity
    assert IDENTITY not in with_identity(message, None).headers


@pytest.mark.parametrize("wrong", [1, None, b"x"])
def test_a_header_that_is_no_text_is_no_identity(wrong: Any) -> None:
    assert (
        identify_message("main", "q", b"", ContentHeader.encode({IDENTITY: wrong, "x-stream-offset": "1"}), b"v")
        is None
    )


def test_a_fingerprint_survives_what_the_broker_does() -> None:
    again = ContentHeader.encode(
        {"a": 2, "b": 1, "x-delivery-count": 3, "x-death": [{"count": 1}]}, {"message_id": "m"}
    )
    assert compute_fingerprint("s", "q", "k", SENT, b"body") == compute_fingerprint("s", "q", "k", again, b"body")


OTHERS: tuple[tuple[str, str, str, ContentHeader, bytes], ...] = (
    ("t", "q", "k", SENT, b"body"),
    ("s", "r", "k", SENT, b"body"),
    ("s", "q", "l", SENT, b"body"),
    ("s", "q", "k", SENT, b"other"),
    ("s", "q", "k", SENT.with_header("a", Typed("byte", 2)), b"body"),
    ("s", "q", "k", SENT.without_header("a"), b"body"),
    ("s", "q", "k", SENT.with_property("message_id", None), b"body"),
    ("s", "q", "k", SENT.with_property("message_id", None).with_property("type", "m"), b"body"),
    ("s", "q", "kb", SENT, b"ody"),
)


def test_different_messages_have_different_fingerprints() -> None:
    all_of_them = [
        compute_fingerprint("s", "q", "k", SENT, b"body"),
        *(compute_fingerprint(*other) for other in OTHERS),
    ]
    assert len(set(all_of_them)) == len(all_of_them)


def test_a_message_of_plain_values_gets_an_identity() -> None:
    message = with_identity(Message("e", "k", {"a": 1}, {"type": "t"}, b"b"), "id")
    assert message.headers == {"a": 1, IDENTITY: "id"}
    assert (message.exchange, message.routing_key, message.properties, message.body) == ("e", "k", {"type": "t"}, b"b")
