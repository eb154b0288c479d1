"""pika: the messages and deliveries of its channels, and a queue on a channel of its asyncio connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from exchange.dispatch.answers import AnswerFrame
from exchange.dispatch.delivery import Carrier, Delivery, Ticket, assemble_delivery
from exchange.dispatch.link import LinkLost, Unroutable, is_mandatory
from exchange.entities.entities import Binding, Exchange, Queue
from exchange.values.field_values import Typed
from exchange.values.message import BASIC_PROPERTIES, NO_FIELDS, Message

if TYPE_CHECKING:
    import asyncio


def message_from_pika(method: Any, properties: Any, body: bytes) -> Message:
    """Build the message of a delivery of pika: a Basic.Deliver (or GetOk, or Return), BasicProperties and a body.

    Properties that are not set are left out. Headers are as pika decoded them, which is not always as they were sent:
    pika 1.x truncates floats and doubles to integers, and bytes may have been a long string that is not UTF-8. An
    exchange or key that is not UTF-8 has surrogate escapes, as everywhere in this package.
    """
    values = {name: getattr(properties, name) for name in BASIC_PROPERTIES}
    return Message(
        exchange=_decode(method.exchange),
        routing_key=_decode(method.routing_key),
        headers=properties.headers or {},
        properties={name: value for name, value in values.items() if value is not None},
        body=body,
    )


def convert_pika_delivery(ticket: Ticket, method: Any, properties: Any, body: bytes) -> Delivery:
    """Build a delivery from the arguments of pika's consumer callback, as `message_from_pika` but unchecked."""
    exchange, routing_key = method.exchange, method.routing_key
    values = {name: value for name, value in vars(properties).items() if value is not None}
    headers = values.pop("headers", None)
    return assemble_delivery(
        exchange if type(exchange) is str else _decode(exchange),
        routing_key if type(routing_key) is str else _decode(routing_key),
        headers or NO_FIELDS,
        values,
        body,
        method.redelivered,
        ticket,
    )


def build_pika_properties(kind: Callable[..., Any], message: Message) -> Any:
    """Build the BasicProperties of a message; ``kind`` is that class."""
    headers = {name: _to_pika(value) for name, value in message.headers.items()}
    return kind(headers=headers or None, **{name: _to_pika(value) for name, value in message.properties.items()})


def _decode(name: str | bytes) -> str:
    # pika decodes UTF-8, and leaves all else as bytes.
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name


def _encode(name: str) -> str | bytes:
    return name if name.isascii() else name.encode("utf-8", "surrogateescape")


class PikaQueue:
    """A queue on an open channel of pika's `AsyncioConnection`, to be consumed by `Dispatcher.consume`.

    The connection must run on the event loop that consumes. Replies and retries are published on a second channel of
    it, with publisher confirms. A connection of pika that is lost stays lost: the consumer ends with its error.
    """

    def __init__(self, channel: Any, queue: str) -> None:
        if not hasattr(channel, "add_on_close_callback") or not hasattr(channel.connection, "ioloop"):
            raise TypeError(f"{channel!r} is no channel of pika's AsyncioConnection")
        self.queue = queue
        self._channel = channel
        self._calls: _Calls | None = None
        self._tag: str | None = None
        self._publisher: _Publisher | None = None
        self._opening: asyncio.Lock | None = None
        self._forget: list[Callable[[], object]] = []  # what removes the callbacks at the application's channel
        self._properties: Callable[..., Any] | None = None  # pika's class, as the first delivery shows it

    async def open(
        self,
        carrier: Carrier,
        receive: Callable[[Delivery], None],
        ended: Callable[[BaseException | None], None],
        prefetch: int | None,
        options: Mapping[str, Any],
    ) -> None:
        """Begin to consume; ``options`` are those of ``basic_consume``."""
        queue, channel = self.queue, self._channel
        self._calls = calls = _Calls(channel)

        def on_message(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            self._properties = type(properties)
            receive(
                convert_pika_delivery(Ticket(carrier, channel, method.delivery_tag, queue), method, properties, body)
            )

        def on_close(_: Any, reason: BaseException) -> None:
            # 200 and 0: the application closed the channel or the connection itself.
            by_us = getattr(reason, "reply_code", None) in (0, 200)
            ended(None if by_us else LinkLost(f"queue {queue!r}: {reason}"))

        channel.add_on_close_callback(on_close)

        def on_cancel(_: Any) -> None:
            self._tag = None  # there is nothing to cancel any more
            ended(LinkLost(f"queue {queue!r}: the broker cancelled the consumer: is the queue still there?"))

        channel.add_on_cancel_callback(on_cancel)
        number, callbacks = channel.channel_number, channel.callbacks
        self._forget += [
            calls.forget,
            lambda: callbacks.remove(number, "_on_channel_close", on_close),
            lambda: callbacks.remove(number, "Basic.Cancel", on_cancel),
        ]
        if prefetch is not None:
            await calls.ask("basic_qos", prefetch_count=prefetch)
        frame = await calls.ask("basic_consume", queue, on_message, auto_ack=False, **options)
        self._tag = frame.method.consumer_tag

    async def cancel(self) -> None:
        """Cancel the consumer."""
        if self._channel.is_open and self._calls is not None and self._tag is not None:
            await self._calls.ask("basic_cancel", self._tag)

    def is_open(self, channel: Any) -> bool:
        """Return whether the channel is open."""
        return bool(channel.is_open)

    async def answer(self, channel: Any, frames: Sequence[AnswerFrame]) -> None:
        """Write the answers; pika buffers what the socket does not take yet."""
        if not channel.is_open:
            raise LinkLost(f"queue {self.queue!r}: the channel is closed")
        try:
            for tag, answer, multiple in frames:
                if answer == "ack":
                    channel.basic_ack(tag, multiple)
                else:
                    channel.basic_nack(tag, requeue=answer == "requeue")
        except Exception as error:
            raise LinkLost(f"queue {self.queue!r}: {error}") from error

    async def publish(self, message: Message) -> None:
        """Publish on a channel of its own, which is opened at the first message."""
        publisher = await self._open_publisher()
        if self._properties is None:
            raise LinkLost(f"queue {self.queue!r}: nothing was delivered yet, so there is nothing to answer")
        await publisher.publish(message, build_pika_properties(self._properties, message))

    async def declare(
        self, exchanges: Sequence[Exchange], queues: Sequence[Queue], bindings: Sequence[Binding]
    ) -> None:
        """Declare on the channel for publishing."""
        ask = (await self._open_publisher()).calls.ask
        for exchange in exchanges:
            await ask("exchange_declare", exchange.name, exchange.type, durable=exchange.durable)
        for queue in queues:
            await ask("queue_declare", queue.name, durable=queue.durable, arguments=_to_pika(queue.arguments))
        for source, destination, key, arguments in bindings:
            await ask("queue_bind", destination.name, source, key, arguments=_to_pika(arguments))

    async def close(self) -> None:
        """Close the channel for publishing, and forget the application's: it may outlive many consumers."""
        while self._forget:
            self._forget.pop()()
        if self._publisher is not None and self._publisher.channel.is_open:
            self._publisher.channel.close()

    async def _open_publisher(self) -> _Publisher:
        from asyncio import Lock

        self._opening = self._opening or Lock()
        async with self._opening:  # of many replies at once, the first opens the channel
            if self._publisher is None or not self._publisher.channel.is_open:
                connection = self._channel.connection
                if not connection.is_open:
                    raise LinkLost(f"queue {self.queue!r}: the connection is closed")
                opened = _future()

                def on_close(_: Any, reason: BaseException) -> None:
                    _fail(opened, LinkLost(str(reason)))

                connection.add_on_close_callback(on_close)
                try:
                    connection.channel(on_open_callback=lambda channel: _fulfil(opened, channel))
                    publisher = _Publisher(await opened)
                finally:
                    connection.callbacks.remove(0, connection.ON_CONNECTION_CLOSED, on_close)
                await publisher.calls.ask("confirm_delivery", publisher.on_confirm)
                self._publisher = publisher
            return self._publisher


@asynccontextmanager
async def open_channel(connection_class: Callable[..., Any], parameters: Any) -> AsyncIterator[Any]:
    """Connect on the running event loop, open a channel, and close the connection at the end.

    ``connection_class`` is pika's `AsyncioConnection`, ``parameters`` are its parameters. Raises LinkLost where the
    broker cannot be reached, or refuses.

    >>> async def main():
    ...     async with open_channel(AsyncioConnection, pika.URLParameters("amqp://localhost/")) as channel:
    ...         async with dispatcher.consume(PikaQueue(channel, "orders")) as consumer:
    ...             await consumer.wait()
    """
    opened, channel, closed = _future(), _future(), _future()

    def on_close(_: Any, reason: BaseException) -> None:
        _fail(channel, LinkLost(str(reason)))
        _fulfil(closed, reason)

    connection = connection_class(
        parameters,
        on_open_callback=lambda connection: _fulfil(opened, connection),
        on_open_error_callback=lambda _, error: _fail(opened, LinkLost(f"{type(error).__name__}: {error}")),
        on_close_callback=on_close,
    )
    await opened
    try:
        connection.channel(on_open_callback=lambda each: _fulfil(channel, each))
        yield await channel
    finally:
        if not connection.is_closed and not connection.is_closing:
            connection.close()
        await closed


class _Calls:
    """The methods of a channel that wait for the broker's answer."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._waiting: set[asyncio.Future[Any]] = set()
        channel.add_on_close_callback(self._lose)

    async def ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method, and return the frame that answers it. Raises LinkLost if the channel is closed instead."""
        answer = _future()
        self._waiting.add(answer)
        try:
            getattr(self._channel, method)(*arguments, **named, callback=lambda frame: _fulfil(answer, frame))
            return await answer
        finally:
            self._waiting.discard(answer)

    def forget(self) -> None:
        """Remove the callback at the channel."""
        self._channel.callbacks.remove(self._channel.channel_number, "_on_channel_close", self._lose)

    def _lose(self, _: Any, reason: BaseException) -> None:
        for answer in self._waiting:
            _fail(answer, LinkLost(str(reason)))


class _Publisher:
    """A channel with publisher confirms: each message is waited for."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.calls = _Calls(channel)
        self._published = 0
        self._unconfirmed: dict[int, tuple[Message, asyncio.Future[Any]]] = {}
        self._returned: set[int] = set()
        channel.add_on_close_callback(self._lose)
        channel.add_on_return_callback(self._on_return)

    async def publish(self, message: Message, properties: Any) -> None:
        if not self.channel.is_open:
            raise LinkLost("the channel for publishing is closed")
        confirmed = _future()
        exchange, key = _encode(message.exchange), _encode(message.routing_key)
        try:
            self.channel.basic_publish(exchange, key, message.body, properties, mandatory=is_mandatory(message))
        except Exception as error:  # pika encodes all of a message before it sends any: the broker counts none
            raise LinkLost(f"a message could not be sent: {error}") from error
        self._published += 1
        self._unconfirmed[self._published] = message, confirmed
        await confirmed

    def on_confirm(self, frame: Any) -> None:
        confirm = frame.method
        tags = [confirm.delivery_tag]
        if confirm.multiple:
            tags = [tag for tag in self._unconfirmed if tag <= confirm.delivery_tag]
        for tag in tags:
            message, confirmed = self._unconfirmed.pop(tag)
            if tag in self._returned:
                self._returned.discard(tag)
                _fail(confirmed, Unroutable(f"exchange {message.exchange!r}, key {message.routing_key!r}: no queue"))
            elif confirm.NAME == "Basic.Ack":
                _fulfil(confirmed, None)
            else:
                _fail(confirmed, LinkLost("the broker refused a message"))

    def _on_return(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        # A returned message has no number, but it comes before its confirm, and in the order of publishes.
        returned = _decode(method.exchange), _decode(method.routing_key), body
        for tag, (message, _confirmed) in self._unconfirmed.items():
            if tag not in self._returned and (message.exchange, message.routing_key, message.body) == returned:
                self._returned.add(tag)
                return

    def _lose(self, _: Any, reason: BaseException) -> None:
        for _message, confirmed in self._unconfirmed.values():
            _fail(confirmed, LinkLost(f"the channel for publishing was closed: {reason}"))
        self._unconfirmed.clear()


def _to_pika(value: Any) -> Any:
    """Return a field value as pika encodes it; of a `Typed` value the value alone, as pika has no types."""
    if isinstance(value, Mapping):
        return {name: _to_pika(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_to_pika(item) for item in value]
    return value.value if isinstance(value, Typed) else value


def _future() -> asyncio.Future[Any]:
    from asyncio import get_running_loop  # not at the top: blocking consumers need none of it

    return get_running_loop().create_future()


def _fulfil(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
