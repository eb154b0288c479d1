"""One connection to a RabbitMQ on the running event loop, and channels of it whose contents are read here.

pika connects, authenticates, negotiates, keeps the heartbeat and does everything that is rare. Frames of deliveries and
publishes are read and written as in `bridge.rabbitmq.frames`, many at a time. Whatever ends the connection or a channel
ends both for their users: they are told once, by ``on_lost``.
"""

from __future__ import annotations

import asyncio
import logging
import re
import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypeVar

import pika
import pika.exceptions
import pika.frame
from pika.adapters.asyncio_connection import AsyncioConnection

from bridge.endpoint import Disconnected
from bridge.rabbitmq.frames import HEAD, METHOD, OVERHEAD, Contents, Event
from exchange.errors import BrokerError

__all__ = ["SECONDS", "Channel", "Connection", "Refused"]

RECEIVE_BYTES: Final = 1 << 18
"""What is read from a socket at once."""

SECONDS: Final = 30.0
"""How long a broker may take to answer."""

CLOSE_SECONDS: Final = 2.0
"""How long it may take to bid farewell."""

SILENT_SECONDS: Final = 10.0
"""Minimum number of seconds after which a broker is called silent; it sends something each half a heartbeat."""

LOOK_SECONDS: Final = 1.0
"""How often it is looked whether the broker is there, while nothing is read."""

GONE_SECONDS: Final = 30.0
"""After so long without an acknowledgement by TCP, the broker's machine is taken for gone while nothing is read."""

T = TypeVar("T")

logging.getLogger("pika").setLevel(logging.CRITICAL)  # what it would print is raised here


WRITE_BYTES: Final = 1 << 18
"""What is handed to the socket at once: what it does not take of a piece is copied."""


class Refused(Disconnected):
    """The broker has ended a channel or the connection over something that it was sent."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code: Final = code
        """AMQP's reply code."""


class _Wire(AsyncioConnection):  # type: ignore[misc]
    """pika's connection, with a way round it for the frames of channels that are listened to."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.contents: dict[int, Contents] = {}
        self.after_data: Callable[[], None] = lambda: None
        self._frame_buffer = b""
        self.heard = time.monotonic()
        """When the broker sent something, by the monotonic clock, in seconds."""
        super().__init__(*arguments, **named)

    def _on_data_available(self, data_in: bytes) -> None:
        self.heard = time.monotonic()
        if not self.contents:
            super()._on_data_available(data_in)
            return
        data = self._frame_buffer + data_in if self._frame_buffer else data_in
        self.bytes_received += len(data_in)
        at, end = 0, len(data)
        contents, unpack = self.contents, HEAD.unpack_from
        while end - at >= OVERHEAD:
            kind, channel, size = unpack(data, at)
            stop = at + OVERHEAD + size
            if stop > end:
                break
            listener = contents.get(channel)
            if listener is not None and kind == METHOD and (behind := listener.delivery(data, at, end)):
                at = behind
                continue
            if listener is None or not listener.feed(kind, data, at + 7, stop - 1):
                _, frame = pika.frame.decode_frame(data[at:stop])
                if frame is not None:
                    self._frame_buffer = b""
                    self._process_frame(frame)
            at = stop
        self._frame_buffer = data[at:]
        self.after_data()

    def stop_reading(self) -> None:
        """Leave what the broker sends in the socket. A broker that is gone is found out by what it does not confirm."""
        sock = self._transport._sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(GONE_SECONDS * 1_000))
        self._transport._nbio.remove_reader(sock.fileno())

    def start_reading(self) -> None:
        """Read from the socket again, if it is still there."""
        transport = self._transport
        if self.is_closed or transport is None or transport._sock is None or transport._sock.fileno() < 0:
            return
        transport._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)
        transport._nbio.set_reader(transport._sock.fileno(), transport._on_socket_readable)
        if isinstance(transport._sock, ssl.SSLSocket) and transport._sock.pending():
            asyncio.get_running_loop().call_soon(transport._on_socket_readable)  # of what is there no socket tells

    def hangs_up(self) -> bool:
        """Return whether the broker has closed its end, or the connection has failed."""
        poll = select.poll()
        poll.register(self._transport._sock, select.POLLRDHUP)
        return bool(poll.poll(0))

    def emit(self, data: bytes) -> None:
        """Write frames."""
        self.bytes_sent += len(data)
        if len(data) <= WRITE_BYTES:
            self._adapter_emit_data(data)
            return
        for start in range(0, len(data), WRITE_BYTES):
            self._adapter_emit_data(data[start : start + WRITE_BYTES])


class Connection:
    """An open connection; `open` makes one."""

    def __init__(self, wire: _Wire, on_lost: Callable[[Disconnected], None]) -> None:
        self._wire = wire
        self._on_lost = on_lost
        self._channels: list[Channel] = []
        self._waiting: set[asyncio.Future[Any]] = set()
        self._over = False
        self._watch: asyncio.TimerHandle | None = None
        self._looking: Channel | None = None
        self.blocked = False
        """Whether the broker has asked not to be written to (connection.blocked)."""
        self.blocked_reason = ""
        """Why, in the broker's words: ``low on memory``."""
        self.on_unblocked: Callable[[], None] = lambda: None
        wire.after_data = self._after_data
        wire.add_on_close_callback(lambda _, error: self.lose(error))
        wire.add_on_connection_blocked_callback(lambda _, frame: self._block(reason=str(frame.method.reason)))
        wire.add_on_connection_unblocked_callback(lambda *_: self._unblock())

    @classmethod
    async def open(cls, addresses: Sequence[pika.URLParameters], on_lost: Callable[[Disconnected], None]) -> Connection:
        """Connect to the first of these hosts that answers and lets us in. Raises Disconnected when none does."""
        troubles = []
        for parameters in addresses:
            try:
                return cls(await _opened(parameters), on_lost)
            except Disconnected as error:
                troubles.append(str(error))
        raise Disconnected("; ".join(troubles))

    @property
    def frame_max(self) -> int:
        """The size of the largest frame, in bytes."""
        return int(self._wire.params.frame_max)

    @property
    def server(self) -> Mapping[str, Any]:
        """What the broker says of itself."""
        return self._wire.server_properties or {}

    @property
    def silence(self) -> str | None:
        """That the broker is silent, although it should have sent a heartbeat; None: it is not.

        A connection is lost after two heartbeats without a sign of life; this says so earlier.
        """
        heartbeat = self._wire.params.heartbeat
        if self._watch is not None or not isinstance(heartbeat, int | float) or not heartbeat:
            return None
        seconds = time.monotonic() - self._wire.heard
        return f"the broker is silent for {seconds:.0f} s" if seconds > max(SILENT_SECONDS, 0.6 * heartbeat) else None

    @property
    def user(self) -> str:
        """The user that is logged in."""
        return str(getattr(self._wire.params.credentials, "username", ""))

    @property
    def parameters(self) -> pika.URLParameters:
        """The host that answered, and how it was asked."""
        return self._wire.params

    async def look(self, kind: Literal["queue", "exchange"], name: str) -> Any:
        """Declare a queue or an exchange passively, and return the broker's answer: nothing is made or changed.

        Raises BrokerError as the broker refuses it; the connection and its other channels stay as they are.
        """
        if self._looking is None:
            self._looking = await self.channel(apart=True)
        try:
            return await self._looking.ask(f"{kind}_declare", name, passive=True)
        except BrokerError:
            self._looking = None  # the broker has closed it
            raise

    async def channel(self, *, apart: bool = False) -> Channel:
        """A new channel. If it is apart, its end is not the connection's. Raises Disconnected."""
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            self._wire.channel(on_open_callback=lambda channel: _tell(opened, channel))
        except pika.exceptions.AMQPError as error:
            raise Disconnected(_words(error)) from None
        channel = Channel(self, await self.answer(opened, "channel.open"), apart=apart)
        self._channels.append(channel)
        return channel

    async def answer(self, future: asyncio.Future[T], what: str) -> T:
        """Wait for the broker's answer to a method. Raises as `Channel.ask`."""
        if self._over:
            raise Disconnected("the connection is closed")
        self._waiting.add(future)
        try:
            async with asyncio.timeout(SECONDS):
                return await future
        except TimeoutError:
            raise Disconnected(f"no answer to {what} in {SECONDS:.0f} s") from None
        finally:
            self._waiting.discard(future)

    def write(self, data: bytes) -> None:
        """Write whole frames."""
        if not self._over:
            self._wire.emit(data)

    def lose(self, error: BaseException) -> None:
        """It, or a channel of it, has ended: tell, once."""
        self._after_data()  # what was read before it is told before it
        if self._over:
            return
        self._over = True
        self.resume()
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(_asked(error))
        if not self._wire.is_closed and not self._wire.is_closing:
            self._wire.close()
        self._on_lost(_trouble(error))

    async def close(self) -> None:
        """Write what waits to be written, and end it; the owner is not told."""
        self._over = True
        self.resume()
        if self._wire.is_closed:
            return
        closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wire.add_on_close_callback(lambda *_: _tell(closed, None))
        if not self._wire.is_closing:
            self._wire.close()
        try:
            await asyncio.wait([closed], timeout=CLOSE_SECONDS)
        finally:  # also when this is cancelled: nobody else would close the socket
            if not closed.done():
                self._wire._adapter_disconnect_stream()
        if not closed.done():
            await asyncio.wait([closed], timeout=CLOSE_SECONDS)

    def pause(self) -> None:
        """Read nothing from the socket until `resume`. It is looked whether the broker hangs up meanwhile."""
        if self._watch is None and not self._over:
            self._wire.stop_reading()
            self._watch = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def resume(self) -> None:
        """Read from the socket again."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
            self._wire.heard = time.monotonic()
            self._wire.start_reading()

    def _look(self) -> None:
        """While nothing is read, no heartbeat is heard either: ask the socket whether its other end is there."""
        if self._wire.hangs_up():
            self.resume()  # which finds the end behind what is still to be read
            return
        self._wire.bytes_received += 1  # which pika takes for a sign of life
        self._watch = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def listen(self, number: int, contents: Contents) -> None:
        """Read the contents of a channel."""
        self._wire.contents[number] = contents

    def _after_data(self) -> None:
        if self._over:
            return
        for channel in self._channels:
            channel.dispatch()

    def _block(self, reason: str) -> None:
        self.blocked, self.blocked_reason = True, reason

    def _unblock(self) -> None:
        self.blocked, self.blocked_reason = False, ""
        self.on_unblocked()


class Channel:
    """A channel; operations that are rare are pika's, and wait for the broker's answer."""

    def __init__(self, connection: Connection, channel: Any, *, apart: bool = False) -> None:
        self.number: Final[int] = channel.channel_number
        self.on_events: Callable[[list[Event]], None] = lambda _: None
        """Told of deliveries, returns and confirms, as many as came together."""
        self._connection = connection
        self._channel = channel
        self._contents = Contents()
        self._asked: set[asyncio.Future[Any]] = set()
        if apart:  # what it is asked is all that its end concerns
            channel.add_on_close_callback(lambda _, error: self._refuse(error))
            return
        channel.add_on_close_callback(lambda _, error: connection.lose(error))
        channel.add_on_cancel_callback(
            lambda _: connection.lose(Disconnected("the broker cancelled the consumer: is the queue still there?"))
        )
        connection.listen(self.number, self._contents)

    async def ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of pika's channel that takes a callback, and wait for the answer.

        Raises BrokerError with the broker's words if it closes the channel instead, Disconnected if all ends.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            getattr(self._channel, method)(*arguments, **named, callback=lambda frame: _tell(answer, frame))
        except pika.exceptions.AMQPError as error:
            raise Disconnected(_words(error)) from None
        self._asked.add(answer)
        try:
            return await self._connection.answer(answer, method)
        finally:
            self._asked.discard(answer)

    def _refuse(self, error: BaseException) -> None:
        for answer in self._asked:
            if not answer.done():
                answer.set_exception(_asked(error))

    async def confirms(self) -> None:
        """Switch publisher confirms on; they come as events. Raises as `ask`."""
        await self.ask("confirm_delivery", lambda _: None)

    async def consume(self, queue: str, *, exclusive: bool, arguments: Mapping[str, Any], prefetch: int) -> None:
        """Have deliveries of a queue come as events, so many unacknowledged at most."""
        await self.ask("basic_qos", prefetch_count=prefetch)
        await self.ask(
            "basic_consume", queue, on_message_callback=lambda *_: None, exclusive=exclusive, arguments=dict(arguments)
        )

    def dispatch(self) -> None:
        """Tell what was read."""
        if self._contents.events:
            events, self._contents.events = self._contents.events, []
            self.on_events(events)


async def _opened(parameters: pika.URLParameters) -> _Wire:
    opened: asyncio.Future[_Wire] = asyncio.get_running_loop().create_future()
    opened.add_done_callback(lambda future: future.cancelled() or future.exception())  # nobody may be left to hear it
    ended = asyncio.Event()

    def fail(_: Any, error: BaseException) -> None:
        ended.set()
        if not opened.done():
            opened.set_exception(_connect_error(parameters, error))

    wire = _Wire(
        parameters,
        on_open_callback=lambda wire: _tell(opened, wire),
        on_open_error_callback=fail,
        on_close_callback=fail,
    )
    done = False
    try:
        await asyncio.wait([opened], timeout=SECONDS + 5)
        if not opened.done():
            raise Disconnected(f"{parameters.host}:{parameters.port}: no answer in {SECONDS:.0f} s")
        opened.result()
        done = True
    finally:
        if not done:
            await _end(wire, opened, ended)
    wire._transport._MAX_RECV_BYTES = RECEIVE_BYTES
    wire._transport._MAX_CONSUME_BYTES = 4 * RECEIVE_BYTES
    return wire


async def _end(wire: _Wire, opened: asyncio.Future[_Wire], ended: asyncio.Event) -> None:
    """Close a connection that is not to be used, and its socket, which nobody else will; also when cancelled again.

    pika forgets a socket that it is told to close at certain moments of opening it. So it is closed when it is open,
    which takes no time with a broker that is well, and torn down if it still is not after `CLOSE_SECONDS`.
    """
    loop = asyncio.get_running_loop()
    giving_up = loop.call_later(CLOSE_SECONDS, _tear_down, wire)
    opened.add_done_callback(lambda _: giving_up.cancel())
    opened.add_done_callback(lambda _: _close_open(wire))
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * CLOSE_SECONDS):
            await ended.wait()


def _close_open(wire: _Wire) -> None:
    if wire.is_open:
        wire.close()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, _tear_down, wire)


def _tear_down(wire: _Wire) -> None:
    """Close the socket, if it is still there."""
    if wire.is_closed:
        return
    if wire._transport is not None:
        wire._terminate_stream(pika.exceptions.AMQPConnectionError("given up"))
    elif not wire.is_closing:
        wire.close()


def _tell(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _connect_error(parameters: pika.URLParameters, error: BaseException) -> Disconnected:
    """Why no connection could be made, in words that name the way out."""
    where = f"{parameters.host}:{parameters.port}"
    found: list[BaseException] = []
    while error not in found:  # pika wraps what happened in what it was about
        found.append(error)
        inner = (*getattr(error, "exceptions", ()), getattr(error, "exception", None), *error.args)
        error = next((each for each in reversed(inner) if isinstance(each, BaseException)), error)
    shown = " ".join([repr(each) for each in found])
    closed = CLOSED.search(shown)
    if closed is not None and int(closed[1]) in NOT_ALLOWED:  # else pika only guesses, from how far it had come
        if any(isinstance(each, pika.exceptions.ProbableAuthenticationError) for each in found):
            user = getattr(parameters.credentials, "username", "")
            return Disconnected(f"{where}: the broker refuses user {user!r} with this password")
        return Disconnected(f"{where}: virtual host {parameters.virtual_host!r}: {_words(found[-1])}")
    for sign, words in SIGNS:
        if sign in shown:
            return Disconnected(f"{where}{words}")
    return Disconnected(f"{where}: {_words(found[-1])}")


SIGNS: Final = (
    ("WRONG_VERSION_NUMBER", ": the broker's port answers TLS with plain text: is this the amqps listener?"),
    ("certificate verify failed: unable to get", ": no authority in ca_file knows the broker's certificate"),
    ("certificate verify failed: self", ": no authority in ca_file knows the broker's certificate"),
    ("StreamLostError", " hung up during the handshake: is this an AMQP port?"),
    ("IncompatibleProtocolError", " hung up during the handshake: is this an AMQP port?"),
    ("ProtocolSyntaxError", " answered something else than AMQP: is this an AMQP port?"),
    ("InvalidFrameError", " answered something else than AMQP: is this an AMQP port?"),
)
"""What the exceptions of a connection that could not be made contain, and what it means."""

CLOSED: Final = re.compile(r"ConnectionClosedByBroker: \((\d+)\)")
"""The broker's own refusal, which is in what pika says of it, at times as text."""

NOT_ALLOWED: Final = (402, 403, 530)
"""Reply codes for a user or a virtual host that is not there or not allowed; one that is only down has others."""


def _trouble(error: BaseException) -> Disconnected:
    """The end of a connection or channel, as users are told."""
    if isinstance(error, Disconnected):
        return error
    if isinstance(error, pika.exceptions.ChannelClosedByBroker | pika.exceptions.ConnectionClosedByBroker):
        return Refused(error.reply_code, error.reply_text)
    return Disconnected(_words(error))


def _asked(error: BaseException) -> Exception:
    """The end of it, as those are told who wait for an answer."""
    if isinstance(error, pika.exceptions.ChannelClosedByBroker):
        refusal = BrokerError(error.reply_text)
        refusal.code = error.reply_code
        return refusal
    return _trouble(error)


def _words(error: BaseException) -> str:
    text = getattr(error, "reply_text", None) or str(error) or type(error).__name__
    return str(text)
