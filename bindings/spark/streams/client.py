"""Streams of RabbitMQ read with pika: the broker, and its consumers, that `bindings.spark.streams.log` asks.

Content headers stay bytes, so that headers keep their types and none can end the connection. The socket is read only
while somebody waits for messages: what a slow reader has not taken waits in the broker, not in memory.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

from bindings.applying.amqp import BrokerConnection, Lost, OperationRefused
from bindings.sources.address import Address
from bindings.spark.streams.log import Position, StreamMessage
from exchange.amqp import ContentHeader, MalformedHeader
from exchange.amqp.methods import END, HEAD, HEADER
from exchange.amqp.streams import STREAM_OFFSET, read_offset
from exchange.errors import HashstarError, InputError
from exchange.limits import MESSAGE_BYTES

SECONDS: Final = 30.0
"""Maximum number of seconds until the broker answers."""
CANCELLED: Final = "the broker has cancelled the consumer: is the stream still there?"
PREFETCH: Final = 256
"""Maximum number of messages on their way, which the broker has in memory at once."""
BODY_SIZE_AT: Final = HEAD.size + 4
PROPERTIES_AT: Final = BODY_SIZE_AT + 8
"""Where in the frame of a content header the size of the body is, and where its properties are."""


@dataclass(frozen=True, slots=True)
class Login:
    """How a broker is reached: a value that goes to workers, and whose text shows no password."""

    address: Address
    user: str
    password: str = field(repr=False)
    vhost: str
    ca_file: str | None = None
    """File of certificates that the broker's is verified by; None: the system's."""
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    prefetch: int = PREFETCH

    def make_context(self) -> ssl.SSLContext | None:
        """Read the files of certificates; None without TLS. Raises InputError."""
        if self.address.scheme != "amqps":
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"{self.cert_file or self.ca_file}: cannot be used: {error.strerror or error}") from None
        return context

    def connect(self) -> StreamConnection:
        """Connect to the first of the hosts that accepts. Raises Lost or OperationRefused, as the last one does."""
        context = self.make_context()
        failure: HashstarError = Lost("no host")
        for host in self.address.hosts.split(","):
            try:
                return StreamConnection(self, host, context)
            except (Lost, OperationRefused) as error:
                failure = error
        raise failure


class StreamConnection(BrokerConnection):
    """A connection to one host; a context manager. Raises Lost or OperationRefused if it cannot be opened."""

    way_out = ""

    def __init__(self, login: Login, host: str, context: ssl.SSLContext | None) -> None:
        self._login: Final = login
        self._context: Final = context
        query = f"?{login.address.query}" if login.address.query else ""
        super().__init__(
            f"{login.address.scheme}://{host}/{query}", login.user, login.password, login.vhost, seconds=SECONDS,
            name="hashstar spark",
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _adopt(self, channel: Any) -> None:
        super()._adopt(channel)
        channel.add_on_cancel_callback(lambda _: self._fail(Lost(CANCELLED)))

    def _open(self, parameters: Any, **callbacks: Any) -> Any:
        import pika  # only needed to talk to a broker

        # A sink may take longer for a batch than any heartbeat: nobody reads meanwhile. Each wait has its own limit.
        if "heartbeat" not in self._login.address.query:
            parameters.heartbeat = 0
        if self._context is not None:
            name = self._login.server_name or parameters.host
            parameters.ssl_options = pika.SSLOptions(self._context, name)
        return _make_connection(parameters, **callbacks)

    @property
    def channel(self) -> Any:
        """The channel of the last call."""
        return self._channel

    def refuse(self, error: InputError) -> None:
        """Let the present wait fail with an error."""
        self._fail(error)

    def count(self, stream: str) -> int:
        """Return the number of messages that the broker counts."""
        answer = self.call(
            f"queue.declare {stream!r}",
            lambda channel, done: channel.queue_declare(stream, passive=True, callback=done),
        )
        return int(answer.method.message_count)

    def subscribe(self, stream: str, position: Position, *, prefetch: int | None = None) -> StreamSubscription:
        """Begin to read a stream."""
        return StreamSubscription(self, stream, position, prefetch or self._login.prefetch)


class StreamSubscription:
    """A consumer of a stream, on the channel of its connection."""

    def __init__(self, connection: StreamConnection, stream: str, position: Position, prefetch: int) -> None:
        self._connection: Final = connection
        self._stream: Final = stream
        self._ack_after: Final = max(1, prefetch // 2)
        self._arrived: list[StreamMessage] = []
        self._received = self._acknowledged = 0
        """Delivery tags."""
        connection.call("basic.qos", lambda channel, done: channel.basic_qos(prefetch_count=prefetch, callback=done))
        arguments = {STREAM_OFFSET: position}
        consumed = connection.call(
            f"basic.consume {stream!r}",
            lambda channel, done: channel.basic_consume(stream, self._take, arguments=arguments, callback=done),
        )
        self._tag: Final = consumed.method.consumer_tag
        self._channel: Final = connection.channel

    def receive(self, seconds: float) -> Sequence[StreamMessage]:
        """Return messages that have arrived, or wait for the first one."""
        if self._received - self._acknowledged >= self._ack_after:
            self._acknowledge()
        if not self._arrived:
            self._connection.listen(seconds)
        arrived, self._arrived = self._arrived, []
        return arrived

    def catch_up(self) -> Sequence[StreamMessage]:
        """Return what the stream has beyond.

        An acknowledgement lets the channel read the log on at once, before it answers what it is asked next: so the
        messages that the stream has come before that answer.
        """
        if not self._arrived:
            self._acknowledge()
            self._connection.count(self._stream)
        return self.receive(0) if self._arrived else ()

    def close(self) -> None:
        """Cancel the consumer, and acknowledge what it has got, so that the channel can be used again."""
        with suppress(HashstarError):
            if self._channel.is_open:
                self._connection.call(
                    "basic.cancel", lambda channel, done: channel.basic_cancel(self._tag, callback=done)
                )
                self._acknowledge()

    def _acknowledge(self) -> None:
        if self._received > self._acknowledged and self._channel.is_open:
            self._channel.basic_ack(self._received, multiple=True)
            self._acknowledged = self._received

    def _take(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self._received = method.delivery_tag
        content = ContentHeader(properties.content)
        try:
            offset = read_offset(content)
        except MalformedHeader:
            offset = None
        if offset is None:
            self._connection.refuse(InputError(f"'{self._stream}': a message has no offset: is it a stream?"))
            return
        exchange, key = (
            name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")
            for name in (method.exchange, method.routing_key)
        )
        self._arrived.append(StreamMessage(offset, exchange, key, content, body))
        self._connection.wake()


def _make_connection(parameters: Any, **callbacks: Any) -> Any:
    """Open a connection of pika that leaves content headers as bytes, in ``content`` of their properties."""
    import pika
    from pika import exceptions, frame

    class RawHeaderConnection(pika.SelectConnection):  # type: ignore[misc]  # pika has no types
        def _read_frame(self) -> tuple[int, Any]:
            data = self._frame_buffer
            if len(data) < PROPERTIES_AT or data[0] != HEADER:
                return super()._read_frame()  # type: ignore[no-any-return]
            _, channel, size = HEAD.unpack_from(data)
            end = HEAD.size + size
            if len(data) <= end:
                return 0, None
            body_size = int.from_bytes(data[BODY_SIZE_AT:PROPERTIES_AT])
            if data[end] != END or end < PROPERTIES_AT + 2 or body_size > MESSAGE_BYTES:
                raise exceptions.InvalidFrameError("a content header that is none")
            properties = pika.BasicProperties()
            properties.content = bytes(data[PROPERTIES_AT:end])
            return end + 1, frame.Header(channel, body_size, properties)

    return RawHeaderConnection(parameters, **callbacks)
