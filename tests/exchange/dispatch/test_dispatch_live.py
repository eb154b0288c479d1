"""A dispatcher on a real queue: handled messages are gone, failed ones go where the owner chose."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from exchange import Message
from exchange.dispatch.dispatcher import Dispatcher
from tests.support.servers import Server
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

EXCHANGE = "amq.topic"
SECONDS = 20.0


class Place:
    """A queue of our own on a real broker, bound for all keys below its name, with a queue for its dead letters."""

    def __init__(self, url: str, arguments: dict[str, Any]) -> None:
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        self.channel = self.connection.channel()
        self.queue = unique_name("dispatch")
        self.dead = f"{self.queue}-dead"
        dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.dead}
        self.channel.queue_declare(self.dead, exclusive=True)
        self.channel.queue_declare(self.queue, durable=True, arguments=dead_letters | arguments)
        self.channel.queue_bind(self.queue, EXCHANGE, f"{self.queue}.#")
        self.channel.confirm_delivery()

    def publish(self, key: str, body: bytes = b"", properties: pika.BasicProperties | None = None) -> None:
        self.channel.basic_publish(EXCHANGE, f"{self.queue}.{key}", body, properties, mandatory=True)

    def consume_until(self, done: Any) -> None:
        """Run the handlers until the condition holds."""
        deadline = time.monotonic() + find_limit()
        while not done():
            assert time.monotonic() < deadline, "nothing came"
            self.connection.process_data_events(time_limit=0.1)

    def left(self, queue: str) -> int:
        """Return the number of messages in a queue when no consumer holds any."""
        self.channel.close()
        self.channel = self.connection.channel()
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)


@pytest.fixture(params=["classic", "quorum"])
def place(rabbitmq: Server, request: pytest.FixtureRequest) -> Iterator[Place]:
    place = Place(rabbitmq.url, {"x-queue-type": request.param})
    yield place
    if place.channel.is_closed:
        place.channel = place.connection.channel()
    place.channel.queue_delete(place.queue)
    place.connection.close()


@pytest.mark.smoke
def test_handled_deliveries_are_acknowledged_and_carry_what_was_published(place: Place) -> None:
    """The handler gets exchange, key, headers, properties and body, and the queue is empty afterwards."""
    seen: list[Message] = []
    dispatcher = Dispatcher()
    dispatcher.add("*.order.#", seen.append)
    place.publish("order.eu", b"body", pika.BasicProperties(message_id="17", headers={"n": 1, "s": "text"}))
    dispatcher.consume(place.channel, place.queue)
    place.consume_until(lambda: seen)
    expected = Message(EXCHANGE, f"{place.queue}.order.eu", {"n": 1, "s": "text"}, {"message_id": "17"}, b"body")
    assert seen == [expected]
    assert place.left(place.queue) == 0
    assert place.left(place.dead) == 0


def test_the_acknowledgement_comes_after_the_handlers(place: Place) -> None:
    """While a handler runs, the broker has not had it: with a prefetch of 1 the next delivery waits."""
    order: list[str] = []
    dispatcher = Dispatcher()

    @dispatcher.on("#")
    def slow(message: Message) -> None:
        order.append(f"start {message.body.decode()}")
        place.connection.sleep(0.2)  # reads what the broker sends, and would get the next delivery
        order.append(f"end {message.body.decode()}")

    place.publish("a", b"1")
    place.publish("b", b"2")
    dispatcher.consume(place.channel, place.queue, prefetch=1)
    place.consume_until(lambda: len(order) == 4)
    assert order == ["start 1", "end 1", "start 2", "end 2"]
    assert place.left(place.queue) == 0


@pytest.mark.parametrize("handled", [True, False])
def test_dead_letter_sends_a_failed_delivery_to_the_dead_letter_exchange(place: Place, handled: bool) -> None:
    """One that fails and one that has no handler end in the queue for dead letters, and the good one does not."""
    seen: list[Message] = []
    dispatcher = Dispatcher()
    dispatcher.add("*.good", seen.append)
    if handled:
        dispatcher.add("*.bad", lambda _: 1 / 0)
    place.publish("bad", b"bad")
    place.publish("good")
    dispatcher.consume(place.channel, place.queue, on_error="dead-letter")
    place.consume_until(lambda: seen)
    dead: list[bytes] = []
    place.channel.basic_consume(place.dead, lambda _c, _m, _p, body: dead.append(body), auto_ack=True)
    place.consume_until(lambda: dead)
    assert dead == [b"bad"]
    assert place.left(place.queue) == 0


@pytest.mark.smoke
def test_requeue_delivers_a_failed_message_again(place: Place) -> None:
    """A handler that fails once gets the message a second time, and nothing is dead-lettered."""
    calls: list[bytes] = []
    dispatcher = Dispatcher()

    @dispatcher.on("#")
    def fails_once(message: Message) -> None:
        calls.append(message.body)
        if len(calls) == 1:
            raise ConnectionError("the database is away")

    place.publish("a", b"1")
    dispatcher.consume(place.channel, place.queue, on_error="requeue")
    place.consume_until(lambda: len(calls) == 2)
    assert calls == [b"1", b"1"]
    assert place.left(place.queue) == 0
    assert place.left(place.dead) == 0


def test_raise_leaves_the_message_in_the_queue(place: Place) -> None:
    """The handler's exception reaches who runs the connection, and the message is back once the channel closes."""
    dispatcher = Dispatcher()
    dispatcher.add("#", lambda _: 1 / 0)
    place.publish("a")
    dispatcher.consume(place.channel, place.queue, on_error="raise")
    with pytest.raises(ZeroDivisionError):
        place.consume_until(lambda: False)
    place.channel.close()
    place.channel = place.connection.channel()
    deadline = time.monotonic() + find_limit()
    while (back := place.channel.basic_get(place.queue))[0] is None:
        assert time.monotonic() < deadline, "the message did not come back"
        time.sleep(0.05)
    assert back[0].redelivered


def test_a_delivery_limit_ends_requeueing_up_to_rabbitmq_4_0(rabbitmq: Server) -> None:
    """A quorum queue with a limit dead-letters a message that always fails; RabbitMQ 4.3 delivers it for ever."""
    if (4, 0) < rabbitmq.version_info[:2] < (4, 3):
        pytest.skip("not known for RabbitMQ 4.1 and 4.2")
    limit, calls = 3, 0
    place = Place(rabbitmq.url, {"x-queue-type": "quorum", "x-delivery-limit": limit})
    dispatcher = Dispatcher()

    @dispatcher.on("#")
    def fails(_: Message) -> None:
        nonlocal calls
        calls += 1
        raise ValueError("poison")

    dead: list[bytes] = []
    try:
        place.publish("a", b"poison")
        place.channel.basic_consume(place.dead, lambda _c, _m, _p, body: dead.append(body), auto_ack=True)
        dispatcher.consume(place.channel, place.queue, on_error="requeue")
        if rabbitmq.version_info >= (4, 3):
            place.consume_until(lambda: calls > 10 * limit)
            assert not dead
        else:
            place.consume_until(lambda: dead)
            assert dead == [b"poison"]
            assert calls == limit + 1
    finally:
        place.channel.close()
        place.connection.channel().queue_delete(place.queue)
        place.connection.close()


def test_an_asynchronous_channel_consumes_as_well(place: Place) -> None:
    """With a SelectConnection, consume needs no answer from the broker, and the deliveries are acknowledged."""
    seen: list[Message] = []
    dispatcher = Dispatcher()
    dispatcher.add("#", seen.append)
    place.publish("a", b"1")
    place.publish("b", b"2")

    def ready(channel: Any) -> None:
        dispatcher.consume(channel, place.queue, prefetch=1)

    connection = pika.SelectConnection(
        place.connection._impl.params,
        on_open_callback=lambda connection: connection.channel(on_open_callback=ready),
        on_close_callback=lambda connection, _: connection.ioloop.stop(),
    )

    def check() -> None:
        if len(seen) == 2:
            connection.close()
        else:
            connection.ioloop.call_later(0.05, check)

    connection.ioloop.call_later(0.05, check)
    connection.ioloop.call_later(SECONDS, connection.ioloop.stop)
    connection.ioloop.start()
    connection.ioloop.close()
    assert [message.body for message in seen] == [b"1", b"2"]
    assert place.left(place.queue) == 0
