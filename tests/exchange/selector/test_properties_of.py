"""Messages of AMQP as a selector sees them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from exchange.selector import Selector, properties_of
from exchange.selector.amqp import to_text
from exchange.values.field_values import Typed
from exchange.values.message import Message
from tests.support.cases import with_each

MESSAGE = Message(
    "orders",
    "order.eu.paid",
    {"region": "eu", "price": 11, "x-tenant": "shop", "x_tenant2": "", "gone": None, "priority": "mine"},
    {"message_id": "m-1", "priority": 5, "timestamp": Typed("timestamp", 1_700_000_000)},
)


@with_each(
    ("value", "text"),
    [
        ("eu", "eu"),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (-5, "-5"),
        (2.5, "2.5"),
        (1e300, "1e+300"),
        (Typed("float", 0.5), "0.5"),
        (Typed("timestamp", 1_700_000_000), "1700000000"),
        (datetime(2026, 11, 21, tzinfo=UTC), "1795219200"),
        (Decimal("1.50"), "1.50"),
        (Typed("decimal", Decimal(-3)), "-3"),
        (b"\xc3\xbc\xff", "ü\ufffd"),
        (Typed("longstr", b"x"), "x"),
        ([1, "a"], '[1,"a"]'),
        ({"a": True}, '{"a":true}'),
        (None, None),
    ],
)
def test_each_field_type_has_a_text(value: Any, text: str | None) -> None:
    """As RocketMQ's properties are texts."""
    assert to_text(value) == text


def test_properties_of_returns_only_the_names_asked_for() -> None:
    """And no more than the message has."""
    assert properties_of(MESSAGE, ("region", "price", "missing", "gone", "x_tenant2", "exchange", "routing_key")) == {
        "region": "eu", "price": "11", "exchange": "orders", "routing_key": "order.eu.paid",
    }  # fmt: skip


def test_a_header_goes_before_a_property() -> None:
    """The basic properties have their AMQP names."""
    names = ("priority", "message_id", "timestamp")
    assert properties_of(MESSAGE, names) == {"priority": "mine", "message_id": "m-1", "timestamp": "1700000000"}


def test_a_header_that_sql_cannot_name_has_underscores() -> None:
    """Unless a header has that very name."""
    assert properties_of(MESSAGE, ("x_tenant",)) == {"x_tenant": "shop"}
    both = Message("", "", {"x-a": "1", "x_a": "2"})
    assert properties_of(both, ("x_a",)) == {"x_a": "2"}


def test_a_selector_filters_messages_of_amqp() -> None:
    """Header integers compare as such."""
    selector = Selector.parse("region = 'eu' AND price > 10 AND x_tenant = 'shop' AND routing_key STARTSWITH 'order.'")
    assert selector(properties_of(MESSAGE, selector.names))
    assert not selector(properties_of(Message("", "", {"region": "eu"}), selector.names))


def test_the_caller_names_further_headers_of_a_property() -> None:
    """A header of the very name has precedence."""
    message = Message("", "", {"x-KEYS": "k-1", "x-TAGS": "b", "TAGS": "a"})
    names = ("KEYS", "TAGS", "MISSING")
    assert properties_of(message, names, lambda name: (f"y-{name}", f"x-{name}")) == {"KEYS": "k-1", "TAGS": "a"}
    assert properties_of(message, names) == {"TAGS": "a"}
