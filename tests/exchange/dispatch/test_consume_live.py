"""The asyncio consumer on a real broker, with aio-pika, plain and robust, and with pika's asyncio connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aio_pika
import pika
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection

from exchange import Delivery, Dispatcher, Message, PikaQueue, Retry
from exchange.dispatch import LinkLost, open_channel
from tests.support.bridge.relay import Relay, relay_to
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, until

EXCHANGE = "amq.topic"


@dataclass
class Place:
    """A queue of our own, bound for all keys below its name, with a queue for its dead letters."""

    url: str
    kind: str = "quorum"
    queue: str = field(default_factory=lambda: unique_name("consume"))

    def __post_init__(self) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(self.url))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.dead = f"{self.queue}-dead"
        dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.dead}
        self.channel.queue_declare(self.dead, durable=True)
        self.channel.queue_declare(self.queue, durable=True, arguments={**dead_letters, "x-queue-type": self.kind})
        self.channel.queue_bind(self.queue, EXCHANGE, f"{self.queue}.#")

    def publish(self, key: str, body: bytes = b"", **properties: Any) -> None:
        self.channel.basic_publish(
            EXCHANGE, f"{self.queue}.{key}", body, pika.BasicProperties(**properties), mandatory=True
        )

    def get(self, queue: str, seconds: float | None = None) -> tuple[Any, Any, bytes]:
        """Take the next message of a queue, within so many seconds."""
        deadline = time.monotonic() + (find_limit() if seconds is None else seconds)
        while True:
            method, properties, body = self.channel.basic_get(queue, auto_ack=True)
            if method is not None:
                return method, properties, body
            assert time.monotonic() < deadline, f"nothing came into {queue}"
            time.sleep(0.02)

    def drain(self, queue: str) -> list[bytes]:
        """Take all messages of a queue that no consumer holds."""
        deadline = time.monotonic() + find_limit()
        while True:  # what a closed connection held is back a moment later
            state = self.channel.queue_declare(queue, passive=True).method
            if state.consumer_count == 0 or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        bodies = []
        for _ in range(3):
            while (got := self.channel.basic_get(queue, auto_ack=True))[0] is not None:
                bodies.append(got[2])
            time.sleep(0.1)
        return bodies

    def close(self) -> None:
        names = [self.queue, self.dead, *(f"{self.queue}.retry.{delay}" for delay in (100, 300))]
        for name in names:
            self.channel.queue_delete(name)
        for name in (f"{self.queue}.retry", f"{self.queue}.retried"):
            self.channel.exchange_delete(name)
        self.connection.close()


@pytest.fixture
def place(rabbitmq: Server) -> Iterator[Place]:
    place = Place(rabbitmq.url)
    yield place
    place.close()


Open = Callable[[Place], Any]


@asynccontextmanager
async def with_aio_pika(place: Place) -> AsyncIterator[Any]:
    connection = await aio_pika.connect(place.url)
    async with connection, connection.channel() as channel:
        yield await channel.get_queue(place.queue)


@asynccontextmanager
async def with_robust_aio_pika(place: Place) -> AsyncIterator[Any]:
    connection = await aio_pika.connect_robust(place.url, reconnect_interval=0.2)
    async with connection, connection.channel() as channel:
        yield await channel.get_queue(place.queue)


@asynccontextmanager
async def with_pika(place: Place) -> AsyncIterator[Any]:
    async with open_channel(AsyncioConnection, pika.URLParameters(place.url)) as channel:
        yield PikaQueue(channel, place.queue)


CLIENTS = {"aio-pika": with_aio_pika, "aio-pika robust": with_robust_aio_pika, "pika": with_pika}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Open:
    return CLIENTS[request.param]


def run(work: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(find_limit()):
            await work

    asyncio.run(bounded())


def test_async_and_plain_handlers_get_what_was_published(place: Place, client: Open) -> None:
    """Exchange, key, words, headers, properties, body; afterwards the queue is empty."""
    seen: list[Any] = []
    dispatcher = Dispatcher()

    @dispatcher.on("*.order.{region}.#")
    async def handle(delivery: Delivery) -> None:
        await asyncio.sleep(0)
        seen.append((delivery.message, dict(delivery.words), delivery.queue, delivery.delivery_count))

    @dispatcher.on("#")
    def plain(delivery: Message) -> None:
        time.sleep(0.01)  # in a thread: it may block
        seen.append(delivery.body)

    place.publish("order.eu.new", b"1", headers={"n": 1, "s": "text"}, message_id="17", delivery_mode=2, priority=3)

    async def work() -> None:
        async with client(place) as queue, dispatcher.consume(queue) as consumer:
            await until(lambda: consumer.counts.handled == 1)

    run(work())
    message, *others = seen[0]
    assert message == Message(
        EXCHANGE,
        f"{place.queue}.order.eu.new",
        {"n": 1, "s": "text"},
        {"message_id": "17", "delivery_mode": 2, "priority": 3},
        b"1",
    )
    assert others == [{"region": "eu"}, place.queue, 0]
    assert seen[1] == b"1"
    assert place.drain(place.queue) == []


def test_a_stop_finishes_what_runs_and_puts_back_the_rest(place: Place, client: Open) -> None:
    """With one at work and others waiting: the first is acknowledged, the others are in the queue, in order."""
    handled: list[bytes] = []
    dispatcher = Dispatcher()

    @dispatcher.on("#")
    async def slow(delivery: Delivery) -> None:
        await asyncio.sleep(0.3)
        handled.append(delivery.body)

    for number in range(5):
        place.publish("a", b"%d" % number)

    async def work() -> None:
        async with client(place) as queue:
            consumer = await dispatcher.consume(queue, concurrency=1)
            await until(lambda: consumer.counts.received == 5)
            await consumer.stop()
            assert (consumer.counts.handled, consumer.counts.released) == (1, 4)
            await consumer.wait()
            assert not consumer.running

    run(work())
    assert handled == [b"0"]
    assert place.drain(place.queue) == [b"1", b"2", b"3", b"4"]


def test_a_stop_with_a_timeout_cancels_what_still_runs_and_puts_it_back(place: Place, client: Open) -> None:
    dispatcher = Dispatcher()
    ends: list[str] = []

    @dispatcher.on("#")
    async def endless(_: Delivery) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    place.publish("a", b"1")

    async def work() -> None:
        async with client(place) as queue:
            consumer = await dispatcher.consume(queue)
            await until(lambda: consumer.in_flight == 1)
            await consumer.stop(timeout=0.1)
            assert (consumer.counts.handled, consumer.counts.released) == (0, 1)

    run(work())
    assert ends == ["cancelled"]
    assert place.drain(place.queue) == [b"1"]


def test_what_a_handler_returns_is_the_reply(place: Place, client: Open) -> None:
    """A reply to a queue that is not there is lost, and its request is handled all the same."""
    dispatcher = Dispatcher()

    @dispatcher.on("*.price.{product}")
    async def price(delivery: Delivery) -> dict[str, object]:
        return {"product": delivery.words["product"]}

    @dispatcher.on("*.stream")
    def stream(delivery: Delivery) -> None:
        for part in range(3):
            delivery.reply(b"%d" % part, headers={"part": part})

    answers = place.channel.queue_declare("", exclusive=True).method.queue
    place.publish("price.tea", reply_to=answers, correlation_id="17")
    place.publish("price.none", reply_to="nobody", correlation_id="18")
    place.publish("stream", reply_to=answers, correlation_id="19")

    async def work() -> None:
        async with client(place) as queue, dispatcher.consume(queue) as consumer:
            await until(lambda: consumer.counts.handled == 3)

    run(work())
    got = [place.get(answers) for _ in range(4)]
    assert {(properties.correlation_id, body) for _, properties, body in got} == {
        ("17", b'{"product":"tea"}'),
        ("19", b"0"),
        ("19", b"1"),
        ("19", b"2"),
    }
    assert place.drain(place.queue) == []


def test_a_reply_by_direct_reply_to_arrives_and_counts_as_taken(
    place: Place, client: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """RabbitMQ before 4.3 would return it, were it mandatory."""
    dispatcher = Dispatcher()
    dispatcher.add("#", lambda delivery: b"answer")
    got: list[bytes] = []
    place.channel.basic_consume("amq.rabbitmq.reply-to", lambda *delivery: got.append(delivery[3]), auto_ack=True)
    place.publish("ask", reply_to="amq.rabbitmq.reply-to", correlation_id="1")

    async def work() -> None:
        async with client(place) as queue, dispatcher.consume(queue) as consumer:
            await until(lambda: consumer.counts.handled == 1)

    run(work())
    place.channel.connection.process_data_events(time_limit=5)
    assert got == [b"answer"]
    assert "is gone" not in caplog.text


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_retry_comes_back_after_its_delay_and_at_last_the_dead_letters(
    rabbitmq: Server, client: Open, kind: Any
) -> None:
    """Key, exchange, headers and properties are those of the first publish at each try, and key and body at the end."""
    place = Place(rabbitmq.url, kind)
    tries: list[tuple[float, Message, int]] = []
    dispatcher = Dispatcher()

    @dispatcher.on("#")
    async def fail(delivery: Delivery) -> None:
        tries.append((time.monotonic(), delivery.message, delivery.retries))
        raise ConnectionError("the database is away")

    place.publish("order.eu", b"body", headers={"a": 1, "CC": ["other"]}, message_id="17", expiration="60000")

    async def work() -> None:
        async with client(place) as queue:
            policy = Retry((0.1, 0.3, 0.1), queue_type=kind)
            async with dispatcher.consume(queue, on_error=policy) as consumer:
                await until(lambda: consumer.counts.failed == 4)
                await until(lambda: consumer.counts.retried == 3)

    try:
        run(work())
        assert [count for _, _, count in tries] == [0, 1, 2, 3]
        waited = [later[0] - earlier[0] for earlier, later in pairwise(tries)]
        assert all(seconds >= delay for seconds, delay in zip(waited, (0.1, 0.3, 0.1), strict=True))
        assert {(message.exchange, message.routing_key, message.body) for _, message, _ in tries} == {
            (EXCHANGE, f"{place.queue}.order.eu", b"body")
        }
        assert all(message.headers["a"] == 1 for _, message, _ in tries)
        assert all(message.properties["message_id"] == "17" for _, message, _ in tries)
        _, properties, body = place.get(place.dead)
        assert (body, properties.headers["x-death"][0]["routing-keys"][0]) == (b"body", f"{place.queue}.order.eu")
        assert properties.headers["x-hashstar-retry"] == {"count": 3, "exchange": EXCHANGE}
        assert place.drain(place.queue) == []
    finally:
        place.close()


def test_an_error_ends_the_consumer_and_leaves_the_delivery_to_the_broker(place: Place, client: Open) -> None:
    dispatcher = Dispatcher()
    dispatcher.add("*.bad", lambda _: 1 / 0)
    dispatcher.add("*.good", lambda _: None)
    place.publish("good")
    place.publish("bad", b"bad")

    async def work() -> None:
        async with client(place) as queue:
            with pytest.raises(ZeroDivisionError):
                async with dispatcher.consume(queue, concurrency=1) as consumer:
                    await consumer.wait()

    run(work())
    assert place.drain(place.queue) == [b"bad"]


def test_order_per_key_holds_with_many_at_work(place: Place, client: Open) -> None:
    """Hundreds of messages of ten keys, handled in random times: each key in order, several keys at once."""
    at_work: set[str] = set()
    most = 0
    order: dict[str, list[int]] = {}
    dispatcher = Dispatcher()

    @dispatcher.on("*.{key}")
    async def handle(delivery: Delivery) -> None:
        nonlocal most
        key = delivery.words["key"]
        assert key not in at_work
        at_work.add(key)
        most = max(most, len(at_work))
        await asyncio.sleep(hash((key, delivery.body)) % 5 / 1000)
        at_work.remove(key)
        order.setdefault(key, []).append(int(delivery.body))

    for number in range(300):
        place.publish(str(number % 10), b"%d" % number)

    async def work() -> None:
        async with client(place) as queue, dispatcher.consume(queue, order_by="word 2", prefetch=200) as consumer:
            await until(lambda: consumer.counts.handled == 300)

    run(work())
    assert order == {str(key): list(range(key, 300, 10)) for key in range(10)}
    assert most == 10
    assert place.drain(place.queue) == []


def test_connections_that_are_cut_while_handlers_run_lose_nothing(rabbitmq: Server) -> None:
    """Robust: cut three times amid 500 messages of 20 keys; each is handled, each key in order but for repeats.

    Nothing is acknowledged on another channel than its own: the broker would close that, and with it all that it gave.
    """
    place = Place(rabbitmq.url)
    order: dict[str, list[int]] = {}
    closed: list[object] = []
    dispatcher = Dispatcher()

    @dispatcher.on("*.{key}")
    async def handle(delivery: Delivery) -> None:
        await asyncio.sleep(0.005)
        order.setdefault(delivery.words["key"], []).append(int(delivery.body))

    for number in range(500):
        place.publish(str(number % 20), b"%d" % number)

    async def work(relay: Relay) -> None:
        connection = await aio_pika.connect_robust(relayed(place.url, relay.port), reconnect_interval=0.1)
        async with connection, connection.channel() as channel:
            channel.close_callbacks.add(lambda _, error: closed.append(getattr(error, "reply_code", None)))
            queue = await channel.get_queue(place.queue)
            async with dispatcher.consume(queue, order_by="word 2", prefetch=50) as consumer:
                for part in (100, 200, 300):
                    await until(lambda part=part: sum(map(len, order.values())) >= part)  # type: ignore[misc]
                    relay.cut()
                await until(lambda: len({number for numbers in order.values() for number in numbers}) == 500)
                await until(lambda: not consumer.in_flight)
                assert consumer.counts.lost > 0

    address = urlsplit(place.url)
    with relay_to(str(address.hostname), address.port or 5672) as relay:
        run(work(relay))
    assert [code for code in closed if code == 406] == []
    for key, numbers in order.items():
        assert list(dict.fromkeys(numbers)) == list(range(int(key), 500, 20)), key
    assert place.drain(place.queue) == []
    place.close()


@pytest.mark.parametrize("client", [with_aio_pika, with_pika], ids=["aio-pika", "pika"])
def test_a_plain_connection_that_is_cut_ends_the_consumer_when_its_handlers_have_ended(
    rabbitmq: Server, client: Open
) -> None:
    """The delivery at work is finished but not acknowledged; a reply that waits fails, and nothing hangs."""
    place = Place(rabbitmq.url)
    ended: list[bytes] = []
    dispatcher = Dispatcher()

    async def work(relay: Relay) -> None:
        cut = asyncio.Event()

        @dispatcher.on("#")
        async def handle(delivery: Delivery) -> bytes:
            await cut.wait()
            await asyncio.sleep(0.2)
            ended.append(delivery.body)
            return b"reply"

        through: Any = SimpleNamespace(url=relayed(place.url, relay.port), queue=place.queue)
        async with client(through) as queue:
            consumer = await dispatcher.consume(queue, on_error="requeue")
            await until(lambda: consumer.in_flight == 2)
            relay.cut()
            cut.set()
            with pytest.raises(LinkLost):
                await consumer.wait()
            assert ended == [b"1", b"2"]
            assert consumer.counts.handled <= 1

    place.publish("a", b"1")
    place.publish("a", b"2", reply_to="answers")
    address = urlsplit(place.url)
    with relay_to(str(address.hostname), address.port or 5672) as relay:
        run(work(relay))
    assert place.drain(place.queue) == [b"1", b"2"]
    place.close()


@pytest.mark.parametrize("what", ["channel", "connection"])
def test_a_consumer_is_over_when_the_application_closes_what_it_consumes_from(
    place: Place, client: Open, what: str
) -> None:
    """No error: it is what the application wants; what was not handled is in the queue."""
    dispatcher = Dispatcher()
    dispatcher.add("#", lambda _: None)

    async def work() -> None:
        async with client(place) as queue:
            consumer = await dispatcher.consume(queue)
            channel = queue._channel if isinstance(queue, PikaQueue) else queue.channel
            closing = (
                channel if what == "channel" else getattr(channel, "connection", None) or channel._connection
            ).close()
            if closing is not None:
                await closing
            await consumer.wait()
            assert not consumer.running

    run(work())


def test_a_queue_that_is_not_there_raises(rabbitmq: Server, client: Open) -> None:
    place = Place(rabbitmq.url)

    async def work() -> None:
        async with client(place) as queue:
            place.channel.queue_delete(place.queue)
            with pytest.raises(Exception, match=r"NOT_FOUND|not_found|closed"):
                await Dispatcher().consume(queue)

    run(work())
    place.close()


def test_a_channel_that_cannot_be_opened_raises() -> None:
    async def work() -> None:
        parameters = pika.URLParameters("amqp://127.0.0.1:1/")
        parameters.connection_attempts = 1
        async with open_channel(AsyncioConnection, parameters):
            raise AssertionError("nobody listens there")

    with pytest.raises(LinkLost):
        run(work())


def relayed(url: str, port: int) -> str:
    """Return a URL of the same login, at a relay."""
    address = urlsplit(url)
    login = address.netloc.rpartition("@")[0]
    return urlunsplit(address._replace(netloc=f"{login}@127.0.0.1:{port}"))


def test_a_deleted_queue_ends_the_consumer(rabbitmq: Server) -> None:
    """On plain connections; a robust one declares the queue again."""
    for client in (with_aio_pika, with_pika):
        place = Place(rabbitmq.url)

        async def work(client: Open = client, place: Place = place) -> None:
            async with client(place) as queue:
                consumer = await Dispatcher().consume(queue)
                place.channel.queue_delete(place.queue)
                with pytest.raises(LinkLost, match="cancelled the consumer"):
                    await consumer.wait()

        run(work())
        place.close()
