"""aio-pika: the deliveries of its queues, on plain and on robust connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from exchange.dispatch.answers import AnswerFrame
from exchange.dispatch.delivery import Carrier, Delivery, Ticket, assemble_delivery
from exchange.dispatch.link import LinkLost, Unroutable, is_mandatory
from exchange.entities.entities import Binding, Exchange, Queue
from exchange.values.field_values import to_plain
from exchange.values.message import NO_FIELDS, Message

if TYPE_CHECKING:
    import asyncio

COPIED: Final = (
    "content_type", "content_encoding", "correlation_id", "reply_to", "message_id", "type", "user_id", "app_id",
)  # fmt: skip
"""Properties that aio-pika has as AMQP does: texts, None where they are not set."""


def convert_aio_pika_delivery(ticket: Ticket, message: Any) -> Delivery:
    """Build a delivery of an `IncomingMessage`.

    aio-pika does not distinguish a property that is not set from its default: a ``priority`` of 0 is left out, and
    ``delivery_mode`` is always there. Headers have the Python types that it decodes them to.
    """
    properties = {name: value for name in COPIED if (value := getattr(message, name)) is not None}
    properties["delivery_mode"] = int(message.delivery_mode)
    if message.cluster_id:
        properties["cluster_id"] = message.cluster_id
    if message.priority:
        properties["priority"] = message.priority
    if message.expiration is not None:
        properties["expiration"] = str(round(message.expiration * 1000))
    if message.timestamp is not None:
        properties["timestamp"] = message.timestamp
    return assemble_delivery(
        message.exchange or "",
        message.routing_key or "",
        message.headers or NO_FIELDS,
        properties,
        message.body,
        bool(message.redelivered),
        ticket,
    )


class AioPikaQueue:
    """A queue of aio-pika, as `Dispatcher.consume` consumes it.

    On a robust connection it goes on when the connection is back: a delivery belongs to the channel that it came on, so
    what came before is never answered on the new one. Replies and retries are published on a channel of its own.
    """

    def __init__(self, queue: Any) -> None:
        self.queue: str = queue.name
        self._aio_pika_queue = queue
        self._channel = queue.channel
        self._tag: str | None = None
        self._publisher: Any = None
        self._opening: asyncio.Lock | None = None
        self._forget: list[Callable[[], object]] = []  # what removes the callbacks at the application's channel
        self._properties: Callable[..., Any] | None = None  # aiormq's class, as the first delivery shows it

    async def open(
        self,
        carrier: Carrier,
        receive: Callable[[Delivery], None],
        ended: Callable[[BaseException | None], None],
        prefetch: int | None,
        options: Mapping[str, Any],
    ) -> None:
        """Begin to consume; ``options`` are those of ``Queue.consume``."""
        name = self.queue

        async def on_message(message: Any) -> None:
            if self._properties is None:
                self._properties = type(message.properties)
            try:
                channel = message.channel
            except Exception:  # noqa: BLE001  # aiormq's: the channel was closed meanwhile
                return
            receive(convert_aio_pika_delivery(Ticket(carrier, channel, message.delivery_tag, name), message))

        if prefetch is not None:
            await self._channel.set_qos(prefetch_count=prefetch)
        if not hasattr(self._channel, "restore"):  # not robust: what is lost stays lost
            underlay = await self._channel.get_underlay_channel()
            callbacks: set[Any] = getattr(underlay, "on_consumer_cancel_callbacks", set())

            def on_cancel(_: Any) -> None:
                ended(LinkLost(f"queue {name!r}: the broker cancelled the consumer: is the queue still there?"))

            def on_close(_: Any, error: BaseException | None) -> None:
                ended(self._describe_end(error))

            callbacks.add(on_cancel)
            self._channel.close_callbacks.add(on_close)
            self._forget += [
                lambda: callbacks.discard(on_cancel),
                lambda: self._channel.close_callbacks.discard(on_close),
            ]
        else:
            self._watch(ended)
        self._tag = await self._aio_pika_queue.consume(on_message, no_ack=False, **options)

    def _watch(self, ended: Callable[[BaseException | None], None]) -> None:
        """Report when the application closes a robust channel or its connection: nothing else ends these."""
        from asyncio import ensure_future  # not at the top: blocking consumers need none of it

        def on_close(_: Any) -> None:
            ended(None)

        for closed in (self._channel.closed(), self._channel._connection.closed()):
            watched = ensure_future(closed)  # in some releases the future of aio-pika itself: do not cancel it
            watched.add_done_callback(on_close)
            self._forget.append(partial(watched.remove_done_callback, on_close))

    def _describe_end(self, error: BaseException | None) -> LinkLost | None:
        """Return what to report of a plain channel that was closed: None if the application closed it."""
        if error is None or error.args == (None, None):  # aiormq: ChannelClosed, without a code of the broker
            return None
        if getattr(self._channel._connection, "close_called", False):
            return None
        return LinkLost(f"queue {self.queue!r}: {type(error).__name__} {error}".rstrip())

    async def cancel(self) -> None:
        """Cancel the consumer."""
        if self._tag is None or self._channel.is_closed:
            return
        try:
            await self._aio_pika_queue.cancel(self._tag)
        except Exception as error:
            raise LinkLost(f"queue {self.queue!r}: {error}") from error

    def is_open(self, channel: Any) -> bool:
        """Return whether the channel of aiormq is open."""
        return not channel.is_closed

    async def answer(self, channel: Any, frames: Sequence[AnswerFrame]) -> None:
        """Write the answers; the last one waits until the socket has taken all."""
        try:
            for at, (tag, answer, multiple) in enumerate(frames, 1):
                if answer == "ack":
                    await channel.basic_ack(tag, multiple=multiple, wait=at == len(frames))
                else:
                    await channel.basic_nack(tag, requeue=answer == "requeue", wait=at == len(frames))
        except Exception as error:
            raise LinkLost(f"queue {self.queue!r}: {error}") from error

    async def publish(self, message: Message) -> None:
        """Publish on a channel of its own, which is opened at the first message."""
        if self._properties is None:
            raise LinkLost(f"queue {self.queue!r}: nothing was delivered yet, so there is nothing to answer")
        properties = to_plain(message.properties)
        if "type" in properties:
            properties["message_type"] = properties.pop("type")
        headers = to_plain(message.headers)
        publisher = await self._open_publisher()
        try:
            confirmation = await publisher.basic_publish(
                message.body,
                exchange=message.exchange,
                routing_key=message.routing_key,
                properties=self._properties(headers=headers or None, **properties),
                mandatory=is_mandatory(message),
            )
        except Exception as error:
            raise LinkLost(f"queue {self.queue!r}: a message was not confirmed: {error}") from error
        if getattr(confirmation, "name", None) != "Basic.Ack":
            raise Unroutable(f"exchange {message.exchange!r}, key {message.routing_key!r}: no queue")

    async def declare(
        self, exchanges: Sequence[Exchange], queues: Sequence[Queue], bindings: Sequence[Binding]
    ) -> None:
        """Declare on the channel for publishing."""
        channel = await self._open_publisher()
        for exchange in exchanges:
            await channel.exchange_declare(exchange.name, exchange_type=exchange.type, durable=exchange.durable)
        for queue in queues:
            await channel.queue_declare(queue.name, durable=queue.durable, arguments=to_plain(queue.arguments))
        for source, destination, key, arguments in bindings:
            await channel.queue_bind(destination.name, source, key, arguments=to_plain(arguments))

    async def close(self) -> None:
        """Close the channel for publishing, and forget the application's: it may outlive many consumers."""
        while self._forget:
            self._forget.pop()()
        if self._publisher is not None and not self._publisher.is_closed:
            await self._publisher.close()

    async def _open_publisher(self) -> Any:
        from asyncio import Lock

        self._opening = self._opening or Lock()
        async with self._opening:  # of many replies at once, the first opens the channel
            if self._publisher is None or self._publisher.is_closed:
                if self._channel.is_closed:
                    raise LinkLost(f"queue {self.queue!r}: the channel is closed")
                underlay = await self._channel.get_underlay_channel()
                self._publisher = await underlay.connection.channel(publisher_confirms=True, on_return_raises=False)
            return self._publisher
