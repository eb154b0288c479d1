"""A delivery is a message with ways to answer it: typed headers, replies, and one settlement."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from exchange import HashstarError, InputError, Message, Typed
from exchange.dispatch import Delivery, Dispatcher


def test_a_delivery_is_its_message() -> None:
    """Equal in both directions, with its hash; copied and pickled it is the message alone."""
    message = Message("orders", "order.eu", {"n": 1}, {"message_id": "17"}, b"body")
    delivery = Delivery.from_message(message)
    assert delivery == message
    assert message == delivery
    assert delivery == Delivery.from_message(message)
    assert hash(delivery) == hash(message)
    assert delivery != Message("orders", "order.us")
    assert delivery != "order.eu"
    pickled = pickle.loads(pickle.dumps(delivery))  # noqa: S301
    for other in (delivery.message, pickled, copy.copy(delivery)):
        assert type(other) is Message
        assert other == message
    with pytest.raises(AttributeError):
        delivery.routing_key = "order.us"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("headers", "redelivered", "count"),
    [
        ({}, False, 0),
        ({}, True, 1),
        ({"x-delivery-count": 3}, True, 3),
        ({"x-acquired-count": 5, "x-delivery-count": 1}, True, 5),
        ({"x-delivery-count": "three"}, True, 1),
    ],
)
def test_the_delivery_count_is_the_brokers_as_far_as_it_counts(
    headers: dict[str, Any], redelivered: bool, count: int
) -> None:
    assert Delivery(headers=headers, redelivered=redelivered).delivery_count == count


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (5, int, 5),
        (5, float, 5.0),
        ("text", str, "text"),
        (True, bool, True),
        (Typed("short", 5), int, 5),
        (b"raw", bytes, b"raw"),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime, datetime(2026, 1, 1, tzinfo=UTC)),
        (True, int, "header 'h' is a bool, not a int: True"),
        ("5", int, "header 'h' is a str, not a int: '5'"),
        (None, str, "header 'h' is a NoneType, not a str: None"),
    ],
)
def test_a_header_has_the_type_that_is_asked_for_or_is_refused(value: Any, kind: type, expected: Any) -> None:
    delivery = Delivery(headers={"h": value})
    if (isinstance(expected, str) and kind is not str) or value is None:
        with pytest.raises(InputError) as raised:
            delivery.header("h", kind)
        assert str(raised.value) == expected
    else:
        assert delivery.header("h", kind) == expected
        assert type(delivery.header("h", kind)) is type(expected)


def test_a_header_that_is_missing_has_the_default_or_is_an_error() -> None:
    assert Delivery().header("h", int, 7) == 7
    assert Delivery().header("h", int, None) is None
    with pytest.raises(InputError, match="the message has no header 'h'"):
        Delivery().header("h", int)


@pytest.mark.parametrize(
    ("answer", "settled"),
    [
        (Delivery.ack, "ack"),
        (Delivery.nack, "requeue"),
        (lambda delivery: delivery.nack(requeue=False), "reject"),
        (Delivery.reject, "reject"),
    ],
)
def test_a_delivery_is_settled_once(answer: Any, settled: str) -> None:
    delivery = Delivery()
    before = delivery.settled
    answer(delivery)
    assert (before, delivery.settled) == (None, settled)
    with pytest.raises(HashstarError, match=f"settled already: {settled}"):
        delivery.ack()


def test_copies_with_words_are_settled_together() -> None:
    delivery = Delivery("orders", "order.eu")
    copied = delivery.with_words({"region": "eu"})
    copied.ack()
    assert (copied, delivery.settled, copied.words) == (delivery, "ack", {"region": "eu"})


@pytest.mark.parametrize(
    ("value", "body", "properties"),
    [
        (b"raw", b"raw", {}),
        (bytearray(b"raw"), b"raw", {}),
        ("größer", "größer".encode(), {"content_type": "text/plain; charset=utf-8"}),
        ({"sum": 3}, b'{"sum":3}', {"content_type": "application/json"}),
        (0, b"0", {"content_type": "application/json"}),
        (Message("", "ignored", {"a": 1}, {"type": "sum"}, b"m"), b"m", {"type": "sum"}),
    ],
)
def test_a_reply_goes_to_the_address_with_the_correlation_of_its_request(
    value: object, body: bytes, properties: dict[str, Any]
) -> None:
    delivery = Delivery("", "sum", properties={"reply_to": "answers", "correlation_id": "17", "message_id": "m"})
    delivery.reply(value, headers={"b": 2})
    headers = {"a": 1, "b": 2} if isinstance(value, Message) else {"b": 2}
    expected = Message("", "answers", headers, {**properties, "correlation_id": "17"}, body)
    assert delivery.replies == (expected,)


def test_a_reply_without_correlation_has_that_of_the_message_id_and_one_without_address_is_refused() -> None:
    delivery = Delivery(properties={"reply_to": "answers", "message_id": "m"})
    delivery.reply(1)
    assert delivery.replies[0].properties["correlation_id"] == "m"
    with pytest.raises(HashstarError, match="asks for no reply"):
        Delivery().reply(1)
    with pytest.raises(TypeError, match="not JSON serializable"):
        delivery.reply(object())
    with pytest.raises(ValueError, match="Out of range"):
        delivery.reply(float("nan"))


def test_the_first_value_that_a_handler_returns_is_the_reply() -> None:
    """Only of a message that asks for one, and only if no handler has replied by hand."""
    dispatcher = Dispatcher()
    dispatcher.add("sum.#", lambda _: None)
    dispatcher.add("sum.#", lambda _: {"sum": 3})
    dispatcher.add("#", lambda _: "second")
    delivery = Delivery("", "sum.two", properties={"reply_to": "answers"})
    assert dispatcher.dispatch(delivery) == 3
    assert [reply.body for reply in delivery.replies] == [b'{"sum":3}']
    silent = Delivery("", "sum.two")
    assert dispatcher.dispatch(silent) == 3
    assert silent.replies == ()

    @dispatcher.on("hand")
    def by_hand(delivery: Delivery) -> str:
        delivery.reply("by hand")
        return "by value"

    replied = Delivery("", "hand", properties={"reply_to": "answers"})
    dispatcher.dispatch(replied)
    assert [reply.body for reply in replied.replies] == [b"by hand"]


def test_each_handler_gets_the_words_of_its_own_pattern() -> None:
    seen: list[tuple[str, dict[str, str]]] = []
    dispatcher = Dispatcher()

    @dispatcher.on("order.{region}.created")
    @dispatcher.on("{kind}.#")
    def first(delivery: Delivery) -> None:
        seen.append(("first", dict(delivery.words)))

    @dispatcher.on("*.{area}.{what}")
    def second(delivery: Delivery) -> None:
        seen.append(("second", dict(delivery.words)))

    @dispatcher.on("#")
    def third(message: Message) -> None:
        seen.append(("third", dict(getattr(message, "words", {}))))

    assert [pattern.text for pattern in dispatcher.patterns] == ["*.#", "order.*.created", "*.*.*", "#"]
    dispatcher.dispatch(Message("orders", "order.eu.created"))  # a message becomes a delivery where words are asked for
    assert seen == [("first", {"kind": "order"}), ("second", {"area": "eu", "what": "created"}), ("third", {})]


def test_names_belong_to_the_registration() -> None:
    """The same pattern with other names is refused, and removed by any names; records of other clients have no words."""
    dispatcher = Dispatcher()
    assert dispatcher.add("a.{x}", print)
    assert not dispatcher.add("a.{x}", print)
    with pytest.raises(ValueError, match=r"registered for a\.\* with other names"):
        dispatcher.add("a.*", print)
    assert dispatcher.remove("a.*", print)
    assert not dispatcher.patterns
    records: Dispatcher[Any] = Dispatcher(key=str)
    with pytest.raises(ValueError, match="names only where messages are"):
        records.add("a.{x}", print)


def test_a_delivery_that_was_made_by_hand_says_who_names_its_words() -> None:
    with pytest.raises(
        KeyError, match=r"'area': give Delivery\(\.\.\., words=\{'area': \.\.\.\}\), or call Dispatcher\.deliver"
    ):
        Delivery("orders", "order.eu.created").words["area"]
    assert Delivery("orders", "order.eu.created").words.get("area") is None
    assert dict(Delivery("orders", "order.eu.created").words) == {}
    assert Delivery("orders", "order.eu.created", words={"area": "eu"}).words["area"] == "eu"
