"""The requester over a broker in memory: every call ends once, with its own reply or with an error that tells why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, Literal

import aio_pika
import pytest
from aio_pika.exceptions import ChannelNotFoundEntity, ConnectionClosed, DeliveryError, PublishError
from aiormq import spec
from hypothesis import given
from hypothesis import strategies as st

from bridge.consumers.requests import (
    ConnectionLost,
    Refused,
    ReplyTimeout,
    Requester,
    RequesterClosed,
    RequestError,
    Unroutable,
)
from exchange.values.field_values import Typed
from exchange.values.message import Message
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually
from tests.support.waiting import find_limit

Server = Callable[["Broker", aio_pika.Message, str], None]


class Broker:
    """A broker with the interface of aio-pika that a requester uses; ``server`` gets each message that is published."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connections: list[Connection] = []
        self.probes: list[str] = []
        """Exchanges of which it was asked whether they exist."""
        self.refuses = 0
        """Number of connections that it refuses."""

    async def connect(self) -> Any:
        if self.refuses:
            self.refuses -= 1
            raise ConnectionError("refused")
        self.connections.append(Connection(self))
        return self.connections[-1]

    def reply(self, request: aio_pika.Message, body: bytes, correlation: str | None = None, **headers: Any) -> None:
        """Deliver a reply over the connection whose address the request has, if that lives."""
        for connection in self.connections:
            if connection.reply_to == request.reply_to and not connection.closed:
                properties = aio_pika.Message(
                    body, correlation_id=correlation or request.correlation_id, headers=headers
                )
                asyncio.get_running_loop().create_task(connection.take(incoming(properties)))

    def lose(self) -> None:
        """Break all connections."""
        for connection in self.connections:
            if not connection.closed:
                connection.end(ConnectionClosed(320, "CONNECTION_FORCED"))


def incoming(message: aio_pika.Message) -> Any:
    """Return a message as aio-pika delivers it."""
    names = (
        "content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "message_id",
        "type", "user_id", "app_id", "headers", "body", "expiration",
    )  # fmt: skip
    values = {name: getattr(message, name) for name in names}
    return SimpleNamespace(exchange="", routing_key="x", timestamp=None, properties=message.properties, **values)


class Callbacks(list[Any]):
    """Callbacks, to which aio-pika adds as to a set."""

    add = list.append


class Probe:
    """A channel on which it is asked whether an exchange exists."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def get_exchange(self, name: str) -> None:
        self.broker.probes.append(name)
        await pass_time(0.001)
        if name == "missing":
            raise ChannelNotFoundEntity(404, "NOT_FOUND - no exchange 'missing'")

    async def close(self) -> None:
        pass


class Connection:
    """A connection, its only channel, its default exchange and its reply queue in one."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.close_callbacks = Callbacks()
        self.closed = False
        self.name = ""
        self.reply_to = ""
        self.take: Callable[[Any], Coroutine[Any, Any, None]]

    async def channel(self, **options: Any) -> Any:
        return self if options else Probe(self.broker)

    async def get_queue(self, name: str, *, ensure: bool) -> Connection:
        self.name = name
        # The broker replaces the address of direct reply-to by one of its own.
        self.reply_to = name
        return self

    async def declare_queue(self, **_: Any) -> Connection:
        self.name = self.reply_to = f"amq.gen-{len(self.broker.connections)}"
        return self

    async def consume(self, take: Callable[[Any], Coroutine[Any, Any, None]], *, no_ack: bool) -> None:
        assert no_ack
        self.take = take

    async def get_exchange(self, name: str, *, ensure: bool = True) -> Connection:
        assert not ensure
        return self

    @property
    def default_exchange(self) -> Connection:
        return self

    async def publish(self, message: aio_pika.Message, routing_key: str, *, mandatory: bool) -> None:
        assert mandatory
        await asyncio.sleep(0)
        if self.closed:
            raise ConnectionClosed(320, "CONNECTION_FORCED")
        self.broker.server(self.broker, message, routing_key)

    async def close(self) -> None:
        if self.broker.connections and self.take is not None:
            self.closed = True

    def end(self, error: BaseException) -> None:
        self.closed = True
        for each in self.close_callbacks:
            each(self, error)


def echo(broker: Broker, message: aio_pika.Message, key: str) -> None:
    broker.reply(message, b"re:" + message.body)


def silent(broker: Broker, message: aio_pika.Message, key: str) -> None:
    pass


def run(
    server: Server,
    test: Callable[[Broker, Requester], Awaitable[None]],
    replies: Literal["direct", "queue"] = "direct",
    **options: Any,
) -> None:
    async def main() -> None:
        broker = Broker(server)
        async with Requester(broker.connect, replies=replies, **options) as requester:
            await test(broker, requester)

    run_virtually(asyncio.wait_for(main(), find_limit()))


@pytest.mark.parametrize("replies", ["direct", "queue"])
def test_each_of_many_calls_gets_its_own_reply(replies: Literal["direct", "queue"]) -> None:
    async def test(_: Broker, requester: Requester) -> None:
        bodies = [b"%d" % n for n in range(500)]
        got = await asyncio.gather(*[requester.request(Message("", "rpc", body=body)) for body in bodies])
        assert [each.body for each in got] == [b"re:" + body for body in bodies]
        assert requester.counts == (500, 500, 0, 0, 0, 0)

    run(echo, test, replies)


def test_at_most_the_given_number_of_calls_is_under_way() -> None:
    waiting: list[aio_pika.Message] = []
    most = 0

    def hold(broker: Broker, message: aio_pika.Message, key: str) -> None:
        nonlocal most
        waiting.append(message)
        most = max(most, len(waiting))

    async def test(broker: Broker, requester: Requester) -> None:
        calls = [asyncio.create_task(requester.request(Message("", "rpc", body=b"%d" % n))) for n in range(30)]
        while not all(call.done() for call in calls):
            await pass_time(0.001)
            while waiting:
                broker.reply(waiting.pop(), b"")
        assert most == 7

    run(hold, test, most_in_flight=7)


def test_headers_and_properties_arrive_in_both_directions() -> None:
    def check(broker: Broker, message: aio_pika.Message, key: str) -> None:
        assert message.headers == {"n": 5, "list": [1, None], "at": message.headers["at"]}
        assert (message.app_id, message.delivery_mode, message.message_id) == ("shop", 2, "m1")
        broker.reply(message, b"", status="ok", count=3)

    async def test(_: Broker, requester: Requester) -> None:
        headers = {"n": Typed("short", 5), "list": [1, None], "at": Typed("timestamp", 1_700_000_000)}
        properties = {"app_id": "shop", "delivery_mode": 2, "message_id": "m1"}
        reply = await requester.request(Message("", "rpc", headers, properties))
        assert reply.headers == {"status": "ok", "count": 3}

    run(check, test)


def test_a_call_without_a_reply_times_out_and_its_late_reply_is_dropped() -> None:
    asked: list[aio_pika.Message] = []

    async def test(broker: Broker, requester: Requester) -> None:
        with pytest.raises(ReplyTimeout, match=r"no reply from '' 'rpc' within 0.05 s"):
            await requester.request(Message("", "rpc", body=b"1"), timeout=0.05)
        broker.reply(asked[0], b"too late")
        broker.server = echo
        assert (await requester.request(Message("", "rpc", body=b"2"))).body == b"re:2"
        assert requester.counts == (2, 1, 1, 0, 1, 0)

    run(lambda broker, message, key: asked.append(message), test)


def test_a_request_expires_with_its_call_unless_it_says_otherwise() -> None:
    seen = []

    def note(broker: Broker, message: aio_pika.Message, key: str) -> None:
        seen.append(float(str(message.expiration)))
        broker.reply(message, b"")

    async def test(_: Broker, requester: Requester) -> None:
        await requester.request(Message("", "rpc"), timeout=3)
        await requester.request(Message("", "rpc", {}, {"expiration": "60000"}), timeout=3)

    run(note, test)
    assert 2.5 < seen[0] <= 3
    assert seen[1] == 60


def test_a_call_that_waits_longer_than_brokers_let_messages_live_is_published() -> None:
    seen = []

    def note(broker: Broker, message: aio_pika.Message, key: str) -> None:
        seen.append(float(str(message.expiration)))
        broker.reply(message, b"")

    async def test(_: Broker, requester: Requester) -> None:
        await requester.request(Message("", "rpc"), timeout=10**9)
        await requester.request(Message("", "rpc"), timeout=float("inf"))

    run(note, test)
    assert seen == [4294966, 4294966]


def test_a_request_that_every_broker_refuses_is_refused_before_it_ends_the_channel_of_all_calls() -> None:
    async def test(broker: Broker, requester: Requester) -> None:
        with pytest.raises(Refused, match="PRECONDITION_FAILED"):
            await requester.request(Message("", "rpc", {"CC": "no array"}))
        assert (await requester.request(Message("", "rpc", body=b"2"))).body == b"re:2"
        assert requester.counts == (1, 1, 0, 1, 0, 0)

    run(echo, test)


def test_a_call_that_is_cancelled_does_not_cancel_its_publish() -> None:
    """A broker that returns its message in that moment would end aiormq's reader, and all calls of the connection."""
    published: list[bytes] = []

    async def test(broker: Broker, requester: Requester) -> None:
        call = asyncio.create_task(requester.request(Message("", "rpc", body=b"1")))
        while not requester.counts.sent:  # noqa: ASYNC110  # step by step
            await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await pass_time(0.01)
        assert published == [b"1"]
        assert requester.counts.in_flight == 0

    run(lambda broker, message, key: published.append(message.body), test)


def test_of_many_first_calls_at_once_one_asks_whether_the_exchange_exists() -> None:
    async def test(broker: Broker, requester: Requester) -> None:
        calls = [asyncio.create_task(requester.request(Message("shop", "rpc"))) for _ in range(50)]
        await asyncio.sleep(0)
        calls[0].cancel()  # the others wait for its answer
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(each, Message) for each in ended) == 49
        refused = await asyncio.gather(
            *[requester.request(Message("missing", "rpc")) for _ in range(50)], return_exceptions=True
        )
        assert {type(each) for each in refused} == {Refused}
        with pytest.raises(Refused, match="no exchange 'missing'"):
            await requester.request(Message("missing", "rpc"))
        assert broker.probes == ["shop", "missing", "missing"]

    run(echo, test)


def test_another_event_loop_is_refused_without_harm_to_the_requester() -> None:
    async def test(_: Broker, requester: Requester) -> None:
        def ask() -> None:
            with pytest.raises(RuntimeError, match="from the event loop that opened it"):
                asyncio.run(requester.request(Message("", "rpc")))

        with ThreadPoolExecutor(1) as pool:
            pool.submit(ask).result()
        assert (await requester.request(Message("", "rpc", body=b"2"))).body == b"re:2"

    run(echo, test)


@pytest.mark.parametrize("timeout", [0, -1, "3", float("nan")])
def test_a_timeout_that_is_none_is_refused(timeout: Any) -> None:
    with pytest.raises(ValueError, match="timeout is a number of seconds above 0"):
        Requester("amqp://127.0.0.1", timeout=timeout)

    async def test(_: Broker, requester: Requester) -> None:
        with pytest.raises(ValueError, match="timeout is a number of seconds above 0"):
            await requester.request(Message("", "rpc"), timeout=timeout)

    run(echo, test)


def test_what_is_no_message_is_refused() -> None:
    async def test(_: Broker, requester: Requester) -> None:
        with pytest.raises(TypeError, match="a request is a Message, not str"):
            await requester.request("text")  # type: ignore[arg-type]

    run(echo, test)


RETURNED = PublishError(SimpleNamespace(delivery=spec.Basic.Return(312, "NO_ROUTE", "", "rpc")), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RETURNED, Unroutable),
        (DeliveryError(None, None), Refused),  # type: ignore[arg-type]
        (ConnectionClosed(320, "CONNECTION_FORCED"), ConnectionLost),
    ],
)
def test_what_the_broker_refuses_fails_at_once(error: Exception, expected: type[RequestError]) -> None:
    def refuse(broker: Broker, message: aio_pika.Message, key: str) -> None:
        raise error

    async def test(_: Broker, requester: Requester) -> None:
        with pytest.raises(expected):
            await requester.request(Message("", "rpc"), timeout=20)
        assert requester.counts.failed == 1

    run(refuse, test)


def test_a_missing_exchange_fails_only_the_call_that_names_it() -> None:
    async def test(broker: Broker, requester: Requester) -> None:
        with pytest.raises(Refused, match="no exchange 'missing'"):
            await requester.request(Message("missing", "rpc"))

    run(echo, test)


def test_a_lost_connection_fails_the_calls_under_way_and_later_ones_wait_for_the_next() -> None:
    async def test(broker: Broker, requester: Requester) -> None:
        calls = [asyncio.create_task(requester.request(Message("", "rpc"))) for _ in range(5)]
        await pass_time(0.01)
        assert requester.counts.sent == 5
        broker.refuses = 2
        broker.lose()
        broker.server = echo
        for call in calls:
            with pytest.raises(ConnectionLost, match=r"is not sent again: .*CONNECTION_FORCED"):
                await call
        assert not requester.connected
        assert (await requester.request(Message("", "rpc", body=b"x"))).body == b"re:x"
        assert len(broker.connections) == 2

    run(silent, test)


def test_a_call_times_out_while_there_is_no_connection() -> None:
    async def test(broker: Broker, requester: Requester) -> None:
        broker.refuses = 1_000
        broker.lose()
        with pytest.raises(ReplyTimeout):
            await requester.request(Message("", "rpc"), timeout=0.3)
        broker.refuses = 0

    run(echo, test)


def test_closing_waits_for_the_calls_under_way_and_refuses_new_ones() -> None:
    asked: list[aio_pika.Message] = []

    async def test(broker: Broker, requester: Requester) -> None:
        call = asyncio.create_task(requester.request(Message("", "rpc")))
        await pass_time(0.01)
        closing = asyncio.create_task(requester.close())
        await pass_time(0.01)
        assert not closing.done()
        with pytest.raises(RequesterClosed):
            await requester.request(Message("", "rpc"))
        broker.reply(asked[0], b"still")
        assert (await call).body == b"still"
        await closing
        with pytest.raises(RequesterClosed):
            await requester.open()

    run(lambda broker, message, key: asked.append(message), test)


def test_an_error_in_the_block_ends_the_calls_under_way_at_once() -> None:
    calls: list[asyncio.Task[Message]] = []

    async def fail(broker: Broker) -> None:
        async with Requester(broker.connect, timeout=60, most_in_flight=2) as requester:
            calls.extend([asyncio.create_task(requester.request(Message("", "rpc"))) for _ in range(4)])
            await pass_time(0.01)
            raise KeyError

    async def main() -> None:
        with pytest.raises(KeyError):
            await fail(Broker(silent))
        for call in calls:
            with pytest.raises(RequesterClosed):
                await call

    run_virtually(asyncio.wait_for(main(), find_limit()))


def test_two_requests_under_way_cannot_have_one_message_id() -> None:
    async def test(_: Broker, requester: Requester) -> None:
        message = Message("", "rpc", {}, {"message_id": "m"})
        first = asyncio.create_task(requester.request(message, timeout=0.1))
        await asyncio.sleep(0)
        with pytest.raises(ValueError, match="message_id 'm' is in progress"):
            await requester.request(message)
        with pytest.raises(ReplyTimeout):
            await first
        with pytest.raises(ReplyTimeout):
            await requester.request(message, timeout=0.01)

    run(silent, test)


@pytest.mark.parametrize("options", [{"replies": "other"}, {"timeout": 0}, {"most_in_flight": 0}])
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Requester("amqp://localhost", **options)


FATES = st.sampled_from(["reply", "reply twice", "late", "never", "refuse", "lose"])


@examples(40)
@given(st.lists(FATES, min_size=1, max_size=30), st.integers(1, 8))
def test_whatever_happens_every_call_ends_once_and_never_with_the_reply_of_another(fates: list[str], most: int) -> None:
    def serve(broker: Broker, message: aio_pika.Message, key: str) -> None:
        fate = fates[int(message.body)]
        if fate.startswith("reply"):
            for _ in fate.split():
                broker.reply(message, b"re:" + message.body)
        elif fate == "late":
            asyncio.get_running_loop().call_later(0.05, broker.reply, message, b"re:" + message.body)
        elif fate == "refuse":
            raise DeliveryError(None, None)  # type: ignore[arg-type]
        elif fate == "lose":
            asyncio.get_running_loop().call_soon(broker.lose)

    async def test(broker: Broker, requester: Requester) -> None:
        async def call(n: int) -> str:
            try:
                reply = await requester.request(Message("", "rpc", body=b"%d" % n), timeout=0.02)
            except RequestError as error:
                return type(error).__name__
            assert reply.body == b"re:%d" % n
            return "replied"

        ends = await asyncio.gather(*map(call, range(len(fates))))
        for fate, end in zip(fates, ends, strict=True):
            if end == "replied":
                assert fate.startswith("reply")
            if fate == "refuse":
                assert end in {"Refused", "ConnectionLost", "ReplyTimeout"}
        counts = requester.counts
        assert counts.answered + counts.timed_out + counts.failed == len(fates)
        assert counts.in_flight == 0

    run(serve, test, most_in_flight=most)
