"""The dispatcher calls the right handlers in the right order, and no message is lost silently."""

from __future__ import annotations

import logging
from collections import namedtuple
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import pika
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import Message, Pattern, PatternError
from exchange.dispatch.dispatcher import Dispatcher, NoHandler, OnError, message_from_pika
from tests.support.cases import with_each


def message(key: str) -> Message:
    return Message("orders", key)


def recorder(dispatcher: Dispatcher[Any], calls: list[str], **patterns: str) -> None:
    """Register a handler of each name under the patterns in its text, which notes its name."""
    for name, text in patterns.items():

        def handler(_: object, name: str = name) -> None:
            calls.append(name)

        for pattern in text.split():
            dispatcher.add(pattern, handler)


def test_every_matching_handler_is_called_in_registration_order() -> None:
    """By default all handlers whose patterns match are called, in the order they were registered."""
    calls: list[str] = []
    dispatcher = Dispatcher()
    recorder(dispatcher, calls, third="#", first="order.*", other="invoice.#", second="order.created")
    assert dispatcher.dispatch(message("order.created")) == 3
    assert calls == ["third", "first", "second"]


def test_first_calls_only_the_handler_registered_first() -> None:
    """With matching="first" one handler is called, the earliest that matches, however general its pattern."""
    calls: list[str] = []
    dispatcher = Dispatcher(matching="first")
    recorder(dispatcher, calls, invoices="invoice.#", everything="#", exact="order.created")
    assert dispatcher.dispatch(message("order.created")) == 1
    assert calls == ["everything"]


def test_a_handler_under_two_matching_patterns_is_called_once_at_the_place_of_its_first() -> None:
    """Stacked decorators make one handler; its place is that of its first registration."""
    calls: list[str] = []
    dispatcher = Dispatcher()

    @dispatcher.on("order.#")
    @dispatcher.on("#.created")
    def both(_: Message) -> None:
        calls.append("both")

    recorder(dispatcher, calls, later="order.*")
    assert dispatcher.add("*.*", both)
    assert dispatcher.dispatch(message("order.created")) == 2
    assert calls == ["both", "later"]


def test_a_decorated_handler_is_the_function_itself() -> None:
    """The decorator gives the function back, to be called and tested as it is."""
    dispatcher = Dispatcher()

    @dispatcher.on("a")
    def shout(message: Message) -> str:
        return message.routing_key.upper()

    assert shout(message("a")) == "A"
    assert dispatcher.handlers("a") == [shout]


def test_a_removed_pattern_no_longer_calls_and_the_last_gives_up_the_place() -> None:
    """A handler keeps its place as long as it has a pattern; registered anew after that, it is the last."""
    calls: list[str] = []
    dispatcher = Dispatcher()

    def early(_: Message) -> None:
        calls.append("early")

    dispatcher.add("a.*", early)
    dispatcher.add("a.b", early)
    recorder(dispatcher, calls, late="#")
    assert dispatcher.remove("a.*", early)
    dispatcher.dispatch(message("a.b"))
    assert calls == ["early", "late"]
    assert dispatcher.remove("a.b", early)
    assert not dispatcher.remove("a.b", early)
    dispatcher.add("#", early)
    calls.clear()
    dispatcher.dispatch(message("a.b"))
    assert calls == ["late", "early"]


def test_adding_the_same_twice_returns_false() -> None:
    """A second registration of one handler under one pattern changes nothing and returns False."""
    dispatcher = Dispatcher()
    assert dispatcher.add("a", print)
    assert not dispatcher.add("a", print)
    assert dispatcher.handlers("a") == [print]


def test_bound_methods_are_handlers_and_equal_by_their_object() -> None:
    """Each look at a method makes a new object; the dispatcher still knows it, even when its owner is unhashable."""

    class Owner:
        __hash__ = None  # type: ignore[assignment]

        def handle(self, _: Message) -> None: ...

    owner, dispatcher = Owner(), Dispatcher()
    dispatcher.add("a", owner.handle)
    assert not dispatcher.add("a", owner.handle)
    assert dispatcher.remove("a", owner.handle)
    with pytest.raises(NoHandler):
        dispatcher.dispatch(message("a"))


def test_a_message_without_handler_is_an_error_by_default() -> None:
    """NoHandler names the key."""
    with pytest.raises(NoHandler, match=r"no handler for key 'a\.b'") as raised:
        Dispatcher().dispatch(message("a.b"))
    assert raised.value.key == "a.b"


def test_ignore_calls_nothing_and_a_callable_is_called_with_the_message() -> None:
    """The other two policies for a message without handler."""
    assert Dispatcher(no_handler="ignore").dispatch(message("a")) == 0
    seen: list[Message] = []
    dispatcher = Dispatcher(no_handler=seen.append)
    dispatcher.add("b", print)
    assert dispatcher.dispatch(message("a")) == 1
    assert seen == [message("a")]


def test_an_exception_ends_the_dispatch() -> None:
    """What a handler raises is what dispatch raises, and the handlers after it are not called."""
    calls: list[str] = []
    dispatcher = Dispatcher()
    recorder(dispatcher, calls, before="a")
    dispatcher.add("a", lambda _: 1 / 0)
    recorder(dispatcher, calls, after="a")
    with pytest.raises(ZeroDivisionError):
        dispatcher.dispatch(message("a"))
    assert calls == ["before"]


def test_a_wrong_pattern_is_reported_at_registration_with_its_caret() -> None:
    """The decorator line fails, before any function is registered."""
    dispatcher = Dispatcher(dialect="mqtt")
    with pytest.raises(PatternError) as raised:
        dispatcher.on("order/#/created")
    assert str(raised.value).endswith("order/#/created\n          ^")
    assert not dispatcher.patterns


def test_a_dispatcher_has_one_dialect() -> None:
    """Its patterns and keys are in it, and a pattern in another one is refused."""
    calls: list[str] = []
    dispatcher = Dispatcher(dialect="mqtt")
    recorder(dispatcher, calls, one="order/+", two="order/#")
    dispatcher.dispatch(message("order/a"))
    assert calls == ["one", "two"]
    with pytest.raises(ValueError, match="a pattern in amqp for keys in mqtt"):
        dispatcher.add(Pattern("order.*"), print)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dispatcher(dialect="stomp"),
        lambda: Dispatcher(matching="some"),  # type: ignore[call-overload]
        lambda: Dispatcher(no_handler="drop"),  # type: ignore[call-overload]
        lambda: Dispatcher().consume(Channel(), "q", on_error="drop"),  # type: ignore[call-overload]
    ],
)
def test_a_misspelt_choice_is_refused(make: Callable[[], object]) -> None:
    """No policy is taken for another."""
    with pytest.raises(ValueError, match=r"not 'some'|not 'drop'|no dialect 'stomp'"):
        make()


async def _handle(_: Message) -> None:
    raise AssertionError("nobody awaits it")


class _Handler:
    async def __call__(self, _: Message) -> None:
        raise AssertionError("nobody awaits it")


@pytest.mark.parametrize("handler", [_handle, _Handler(), partial(_handle)])
def test_where_nothing_awaits_a_coroutine_function_is_refused_before_any_call(
    handler: Callable[[Message], Any],
) -> None:
    """A call would not run it, and its message would count as handled."""
    calls: list[Message] = []
    dispatcher = Dispatcher()
    dispatcher.add("a", calls.append)
    dispatcher.add("a", handler)
    with pytest.raises(TypeError, match="is a coroutine function, which is not awaited here"):
        dispatcher.dispatch(message("a"))
    with pytest.raises(TypeError, match="is a coroutine function, which is not awaited here"):
        dispatcher.consume(Channel(), "billing")
    with pytest.raises(TypeError, match="is a coroutine function, which is not awaited here"):
        Dispatcher(no_handler=handler).dispatch(message("a"))
    assert calls == []


def test_a_queue_bound_with_the_patterns_feeds_the_dispatcher() -> None:
    """Each pattern once, handler by handler."""
    dispatcher = Dispatcher()
    recorder(dispatcher, [], first="a.* b", second="b c.#")
    assert [pattern.text for pattern in dispatcher.patterns] == ["a.*", "b", "c.#"]


WORDS = st.sampled_from(["a", "b", "", "*", "#"])
KEYS = st.lists(WORDS, max_size=4).map(".".join)


@given(st.lists(st.tuples(KEYS, st.integers(0, 3))), KEYS)
def test_handlers_are_those_whose_patterns_match_by_definition(registered: list[tuple[str, int]], key: str) -> None:
    """For any registrations, the handlers of a key are those that have a matching pattern, in first-seen order."""
    handlers = [SimpleNamespace(n=n).__eq__ for n in range(4)]
    dispatcher = Dispatcher()
    for pattern, n in registered:
        dispatcher.add(pattern, handlers[n])
    order = dict.fromkeys(n for _, n in registered)
    expected = [n for n in order if any(m == n and Pattern(pattern).matches(key) for pattern, m in registered)]
    assert list(dispatcher.handlers(key)) == [handlers[n] for n in expected]


# Records as the clients give them, in the shape their sources define.


class ConfluentMessage:
    """confluent_kafka.Message: everything is a method, keys are bytes or None."""

    def key(self) -> bytes | None:
        return b"order.created"

    def topic(self) -> str:
        return "shop.order.created"

    def value(self) -> bytes:
        return b"{}"


# kafka-python 2.2, kafka/consumer/fetcher.py
ConsumerRecord = namedtuple(  # noqa: PYI024  as there
    "ConsumerRecord", "topic partition leader_epoch offset timestamp timestamp_type key value headers checksum"
)


class RocketMessage4:
    """rocketmq-client-python 2.0, rocketmq/client.py: RecvMessage has bytes, or None, in plain attributes."""

    topic = "orders"
    tags: bytes | None = b"order.created"
    keys: bytes | None = b"order-17"
    body = b"{}"


class RocketMessage5:
    """rocketmq-python-client 5, rocketmq/v5/model/message.py: properties; keys are a set."""

    @property
    def tag(self) -> str:
        return "order.created"

    @property
    def keys(self) -> set[str]:
        return {"order-17"}


RECORD = ConsumerRecord("shop.order.created", 0, 0, 7, 0, 0, b"order.created", b"{}", [], None)
MAPPINGS: list[tuple[Callable[[Any], str], object, str]] = [
    (lambda record: record.key().decode(), ConfluentMessage(), "order.*"),
    (lambda record: record.topic(), ConfluentMessage(), "shop.order.*"),
    (lambda record: record.key.decode(), RECORD, "order.*"),
    (lambda record: record.topic, RECORD, "shop.#"),
    (lambda message: message.tag or "", RocketMessage5(), "order.*"),
    (lambda message: (message.tags or b"").decode(), RocketMessage4(), "order.*"),
]


@pytest.mark.parametrize(("key", "record", "pattern"), MAPPINGS)
def test_records_of_other_clients_are_dispatched_by_a_one_line_key(
    key: Callable[[Any], str], record: object, pattern: str
) -> None:
    """Each mapping of the docstring works on a stand-in of the client's shape, and handlers get the record itself."""
    seen: list[object] = []
    dispatcher: Dispatcher[Any] = Dispatcher(key=key)
    dispatcher.add(pattern, seen.append)
    assert dispatcher.dispatch(record) == 1
    assert seen == [record]


def test_a_key_that_is_no_string_is_refused() -> None:
    """Bytes, the likeliest mistake, are named, and do not count as a message without handler."""
    dispatcher: Dispatcher[Any] = Dispatcher(key=lambda record: record.key(), no_handler="ignore")
    with pytest.raises(TypeError, match=r"is a str, not b'order\.created'"):
        dispatcher.dispatch(ConfluentMessage())


# What pika gives.


def test_a_pika_delivery_becomes_a_message_with_the_properties_that_are_set() -> None:
    """All names are AMQP's; what the publisher did not set is not there; headers are apart."""
    method = pika.spec.Basic.Deliver("tag", 1, False, "orders", "order.created")
    properties = pika.BasicProperties(content_type="text/plain", priority=0, message_id="17", headers={"n": 1})
    assert message_from_pika(method, properties, b"body") == Message(
        "orders", "order.created", {"n": 1}, {"content_type": "text/plain", "priority": 0, "message_id": "17"}, b"body"
    )
    assert message_from_pika(method, pika.BasicProperties(), b"") == Message("orders", "order.created")


def test_every_basic_property_that_pika_knows_is_taken() -> None:
    """None is forgotten: a property of pika's that is neither ours nor the headers would fail here."""
    values = {name: name for name in vars(pika.BasicProperties()) if name != "headers"}
    method = pika.spec.Basic.GetOk(1, False, "", "q", 0)
    assert message_from_pika(method, pika.BasicProperties(**values), b"").properties == values


def test_a_key_that_is_not_utf8_has_surrogate_escapes() -> None:
    """In pika such a key is bytes."""
    method = pika.spec.Basic.Deliver("tag", 1, False, "orders", b"caf\xe9.x")
    assert message_from_pika(method, pika.BasicProperties(), b"").routing_key == "caf\udce9.x"


class Delivery(NamedTuple):
    """What `message_from_pika` reads of a Basic.Deliver."""

    exchange: str
    routing_key: str
    delivery_tag: int
    redelivered: bool = False


class Channel:
    """A channel of pika that records the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def basic_qos(self, prefetch_size: int = 0, prefetch_count: int = 0, global_qos: bool = False) -> None:
        self.calls.append(("qos", prefetch_count))

    def basic_consume(
        self, queue: str, on_message_callback: Callable[..., None], auto_ack: bool = False, **options: object
    ) -> str:
        self.calls.append(("consume", queue, auto_ack, options))
        self.receive = on_message_callback
        return "tag"

    def basic_ack(self, delivery_tag: int = 0, multiple: bool = False) -> None:
        self.calls.append(("ack", delivery_tag))

    def basic_nack(self, delivery_tag: int = 0, multiple: bool = False, requeue: bool = True) -> None:
        self.calls.append(("nack", delivery_tag, requeue))

    def deliver(self, key: str) -> None:
        self.calls.clear()
        self.receive(self, Delivery("orders", key, 7), pika.BasicProperties(), b"body")


def test_consume_sets_the_prefetch_and_returns_the_consumer_tag() -> None:
    """The prefetch is bounded unless it is None; options go to basic_consume; auto_ack is not one."""
    channel = Channel()
    assert Dispatcher().consume(channel, "billing", consumer_tag="me", arguments={"x-priority": 1}) == "tag"
    options = {"consumer_tag": "me", "arguments": {"x-priority": 1}}
    assert channel.calls == [("qos", 100), ("consume", "billing", False, options)]
    channel = Channel()
    Dispatcher().consume(channel, "billing", prefetch=None)
    assert channel.calls == [("consume", "billing", False, {})]
    with pytest.raises(TypeError):
        Dispatcher().consume(channel, "billing", auto_ack=True)


def test_a_delivery_is_acknowledged_after_its_handlers() -> None:
    """Not before any of them, and once."""
    channel, dispatcher = Channel(), Dispatcher()
    dispatcher.add("order.#", lambda _: channel.calls.append(("one",)))
    dispatcher.add("order.#", lambda _: channel.calls.append(("two",)))
    dispatcher.consume(channel, "billing")
    channel.deliver("order.created")
    assert channel.calls == [("one",), ("two",), ("ack", 7)]


def test_ignored_deliveries_are_acknowledged() -> None:
    """Who ignores messages without handler wants them gone from the queue."""
    channel = Channel()
    Dispatcher(no_handler="ignore").consume(channel, "billing")
    channel.deliver("order.created")
    assert channel.calls == [("ack", 7)]


def failing(_: Message) -> None:
    raise ZeroDivisionError("by zero")


@pytest.mark.parametrize(
    ("on_error", "answer", "word"),
    [
        ("raise", [], "not acknowledged"),
        ("dead-letter", [("nack", 7, False)], "rejected"),
        ("requeue", [("nack", 7, True)], "requeued"),
    ],
)
@pytest.mark.parametrize("handled", [True, False])
def test_a_failed_delivery_is_answered_as_chosen_and_logged(
    caplog: pytest.LogCaptureFixture, on_error: OnError, answer: list[object], word: str, handled: bool
) -> None:
    """Whether a handler raises or there is none, the log has exchange, key, handler and traceback."""
    channel, dispatcher = Channel(), Dispatcher()
    dispatcher.add("order.#" if handled else "invoice.#", failing)
    dispatcher.consume(channel, "billing", on_error=on_error)
    expected = ZeroDivisionError if handled else NoHandler
    with caplog.at_level(logging.ERROR, "exchange.dispatch.dispatcher"):
        if on_error == "raise":
            with pytest.raises(expected):
                channel.deliver("order.created")
        else:
            channel.deliver("order.created")
    assert channel.calls == answer
    (record,) = caplog.records
    place = "in failing" if handled else "before any handler"
    text = f"exchange 'orders', key 'order.created', failed {place}: {word}"
    if not handled:  # a traceback would show our code only
        assert record.getMessage().startswith(f"{text}: no handler for key 'order.created'")
        assert record.exc_info is None
        return
    assert record.getMessage() == text
    assert record.exc_info is not None
    assert record.exc_info[0] is expected


def test_raising_is_the_default_of_consume() -> None:
    """It alone loses nothing and loops nowhere, whatever the queue is."""
    channel, dispatcher = Channel(), Dispatcher()
    dispatcher.add("#", failing)
    dispatcher.consume(channel, "billing")
    with pytest.raises(ZeroDivisionError):
        channel.deliver("order.created")
    assert channel.calls == []


def test_a_failing_acknowledgement_is_not_taken_for_a_failing_handler() -> None:
    """A channel that closed meanwhile raises; nothing is rejected on it."""
    channel, dispatcher = Channel(), Dispatcher(no_handler="ignore")
    dispatcher.consume(channel, "billing", on_error="dead-letter")

    def closed(delivery_tag: int) -> None:
        raise pika.exceptions.ChannelWrongStateError("closed")

    channel.basic_ack = closed  # type: ignore[assignment, method-assign]
    with pytest.raises(pika.exceptions.ChannelWrongStateError):
        channel.deliver("order.created")
    assert channel.calls == []


async def _handle_later(_: object) -> None:
    raise AssertionError("nobody awaits it")


def _handle_lazily(_: object) -> Iterator[None]:
    yield


async def _handle_both(_: object) -> AsyncIterator[None]:
    yield


class _Awaited:
    def __await__(self) -> Iterator[None]:
        yield


@with_each("lazy", [_handle_later, _handle_lazily, _handle_both, lambda _: _Awaited()])
@with_each("place", ["handler", "no_handler"])
@with_each("on_error", ["raise", "requeue"])
def test_a_handler_that_only_returns_what_nobody_runs_has_failed(
    lazy: Callable[[object], object], place: str, on_error: OnError
) -> None:
    """An awaitable or a generator, whatever wraps the function that makes it: nothing is acknowledged."""
    calls: list[str] = []

    def wrapped(message: object) -> object:
        return lazy(message)

    if place == "handler":
        dispatcher = Dispatcher()
        dispatcher.add("#", wrapped)
        dispatcher.add("#", lambda _: calls.append("next"))
    else:
        dispatcher = Dispatcher(no_handler=wrapped)
    with pytest.raises(TypeError, match="the message was not handled"):
        dispatcher.dispatch(message("order"))
    channel = _Channel()
    dispatcher.consume(channel, "q", on_error=on_error)
    deliver = Delivery("orders", "order", 7)
    if on_error == "raise":
        with pytest.raises(TypeError, match="neither awaited nor iterated"):
            channel.receive(channel, deliver, pika.BasicProperties(), b"")
        assert channel.answers == []
    else:
        channel.receive(channel, deliver, pika.BasicProperties(), b"")
        assert channel.answers == ["requeued"]
    assert calls == []


class _Channel:
    """The part of pika's channel that a consumer needs; it records what is done with deliveries."""

    def __init__(self) -> None:
        self.answers: list[str] = []
        self.receive: Callable[..., None] = lambda *_: None

    def basic_qos(self, prefetch_count: int) -> None:
        pass

    def basic_consume(self, queue: str, receive: Callable[..., None], *, auto_ack: bool) -> str:
        self.receive = receive
        return "tag"

    def basic_ack(self, delivery_tag: int) -> None:
        self.answers.append("acknowledged")

    def basic_nack(self, delivery_tag: int, *, requeue: bool) -> None:
        self.answers.append("requeued" if requeue else "rejected")


@pytest.mark.parametrize("handler", [5, None, "text", [], _handle_lazily, _handle_both])
def test_a_handler_that_a_call_would_not_run_is_refused(handler: Any) -> None:
    """At registration, with what is wrong; nothing is registered."""
    dispatcher: Dispatcher[Any] = Dispatcher()
    with pytest.raises(TypeError, match=r"cannot be called|a handler is called"):
        dispatcher.add("#", handler)
    assert dispatcher.patterns == ()


def test_a_decorator_without_a_pattern_is_refused() -> None:
    """``@dispatcher.on`` without parentheses shows how it is written."""
    with pytest.raises(TypeError, match=r'write @dispatcher.on\("order.#"\)'):
        Dispatcher().on(lambda _: None)  # type: ignore[arg-type]


def test_a_handler_that_is_not_hashable_is_refused() -> None:
    """It could not be removed."""

    class Unhashable(list[object]):
        def __call__(self, _: object) -> None:
            pass

    with pytest.raises(TypeError, match="it has no hash"):
        Dispatcher().add("#", Unhashable())


def test_what_is_no_message_is_refused_unless_the_key_is_found_otherwise() -> None:
    for wrong in ("order.eu.created", None, [Message("orders", "a")]):
        with pytest.raises(TypeError, match="a Message is dispatched, not"):
            Dispatcher().dispatch(wrong)  # type: ignore[arg-type]
    by_name: Dispatcher[Any] = Dispatcher(key=lambda record: record.name)
    with pytest.raises(AttributeError, match="'str' object has no attribute 'name'"):
        by_name.dispatch("order.eu.created")
