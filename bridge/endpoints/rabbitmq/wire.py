"""pika's connection on asyncio, with a faster path for the frequent frames, and a safe way to open it.

pika connects, authenticates, negotiates and sends heartbeats. The contents of channels with a `Contents` bypass pika,
and reading from the socket can be stopped for a while.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import pika
import pika.exceptions
import pika.frame
from pika.adapters.asyncio_connection import AsyncioConnection, _AsyncioIOServicesAdapter

from bridge.aside import call_aside, is_look_up_hanging, look_up
from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq.frames import OVERHEAD, Contents
from bridge.endpoints.rabbitmq.refusals import explain_connect_error
from bridge.endpoints.rabbitmq.tokens import forget_refused_token
from exchange.amqp.methods import END, HEAD, METHOD

RECEIVE_BYTES: Final = 1 << 18
"""Maximum number of bytes per read from a socket."""

WRITE_BYTES: Final = 1 << 18
"""Maximum number of bytes per write to a socket: the rest that the socket does not take at once is copied."""

FRAME_BYTES: Final = 16 << 20
"""Maximum size of a frame if the broker sets none, in bytes; RabbitMQ's own default is 128 KiB."""

SECONDS: Final = 30.0
"""Maximum number of seconds until a broker answers."""

OPEN_SECONDS: Final = 12.0
"""Maximum number of seconds for one address of a host, and half of that for all of them; RabbitMQ takes 10 at most."""

NAME_SECONDS: Final = 5.5
"""Maximum number of seconds for looking a host up; a resolver asks its next name server after 5, and pika sets none."""

CLOSE_SECONDS: Final = 2.0
"""Maximum number of seconds for closing."""

GONE_SECONDS: Final = 30.0
"""Seconds without an acknowledgement by TCP after which the broker's machine counts as gone, while nothing is read."""

T = TypeVar("T")

logging.getLogger("pika").setLevel(logging.CRITICAL + 1)  # what it would log is raised here


class _Services(_AsyncioIOServicesAdapter):  # type: ignore[misc]
    """What pika asks of the event loop."""

    def getaddrinfo(self, host: str, port: int, on_done: Callable[..., None], **_: Any) -> Any:
        """Look a host up on a thread that no other call waits for."""
        return self._schedule_and_wrap_in_io_ref(look_up(host, port), on_done)


class Wire(AsyncioConnection):  # type: ignore[misc]
    """pika's connection; frames of the channels in ``contents`` bypass it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.contents: dict[int, Contents] = {}
        self.after_data: Callable[[], None] = lambda: None
        self._frame_buffer = b""
        self.heard = time.monotonic()
        """Time when the broker last sent something, by the monotonic clock, in seconds."""
        super().__init__(*arguments, **named)

    def _on_data_available(self, data_in: bytes) -> None:
        self.heard = time.monotonic()
        if not self.contents:
            super()._on_data_available(data_in)
            return
        data = self._frame_buffer + data_in if self._frame_buffer else data_in
        self.bytes_received += len(data_in)
        try:
            at = self._read_frames(data)
        except (IndexError, struct.error):
            raise Disconnected("the broker sent a frame that ends too early") from None
        self._frame_buffer = data[at:]
        self.after_data()

    def _read_frames(self, data: bytes) -> int:
        """Decode all complete frames; return the position after them. Raises Disconnected, IndexError, struct.error."""
        at, end = 0, len(data)
        contents, unpack = self.contents, HEAD.unpack_from
        most = (self.params.frame_max or FRAME_BYTES) - OVERHEAD
        while end - at >= OVERHEAD:
            kind, channel, size = unpack(data, at)
            stop = at + OVERHEAD + size
            if stop > end:
                if size > most:  # waiting for the whole frame could fill the memory
                    raise Disconnected(f"the broker sent a frame of {size:,} bytes; {most:,} were agreed on")
                break
            listener = contents.get(channel)
            if listener is not None and kind == METHOD and (behind := listener.delivery(data, at, stop, end, channel)):
                at = behind
                continue
            if data[stop - 1] != END:
                raise Disconnected("the broker sent a frame without its end")
            if listener is None or not listener.feed(kind, data, at + 7, stop - 1):
                frame = _decode(data[at:stop])
                if frame is not None:
                    self._frame_buffer = b""
                    self._process_frame(frame)
            at = stop
        return at

    def _deliver_frame_to_channel(self, value: Any) -> None:
        """Raise Disconnected for a frame of a channel that is not open, which pika would only log."""
        if value.channel_number not in self._channels:
            raise Disconnected(f"the broker sent a frame for channel {value.channel_number}, which is not open")
        super()._deliver_frame_to_channel(value)

    def close(self, *arguments: Any, **named: Any) -> None:
        """Close the connection with its channels, and cancel no consumer before, which pika would do.

        What is on its way to a cancelled consumer loses its order: `bridge.endpoints.rabbitmq.consumer.ending`.
        """
        for channel in self._channels.values():
            channel._consumers.clear()
        super().close(*arguments, **named)

    def stop_reading(self) -> None:
        """Stop reading from the socket. TCP's user timeout finds a broker that is gone meanwhile."""
        sock = self._transport._sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(GONE_SECONDS * 1_000))
        self._transport._nbio.remove_reader(sock.fileno())

    def start_reading(self) -> None:
        """Read from the socket again, if it is still open."""
        transport = self._transport
        if self.is_closed or transport is None or transport._sock is None or transport._sock.fileno() < 0:
            return
        transport._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)
        transport._nbio.set_reader(transport._sock.fileno(), transport._on_socket_readable)
        if isinstance(transport._sock, ssl.SSLSocket) and transport._sock.pending():
            asyncio.get_running_loop().call_soon(
                transport._on_socket_readable
            )  # data that TLS has decoded already wakes no selector

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


def _decode(data: bytes) -> Any:
    """Decode a frame with pika. Raises Disconnected for an invalid one."""
    try:
        return pika.frame.decode_frame(data)[1]
    except Exception as error:  # noqa: BLE001  pika checks little, so any exception is possible
        raise Disconnected(f"the broker sent a frame that cannot be read: {type(error).__name__} {error}") from None


async def open_wire(parameters: pika.URLParameters) -> Wire:
    """Open a connection. Raises Disconnected. If it is cancelled, at whatever moment, no socket stays open."""
    where = f"{parameters.host}:{parameters.port}"
    try:
        socket.socket().close()
    except OSError as error:  # pika would never report that it has got no socket
        raise Disconnected(f"{where}: {error.strerror}") from None
    opened: asyncio.Future[Wire] = asyncio.get_running_loop().create_future()
    opened.add_done_callback(
        lambda future: future.cancelled() or future.exception()
    )  # retrieve the error even if nothing awaits it any more
    ended = asyncio.Event()

    ends: list[Disconnected] = []

    def fail(_: Any, error: BaseException) -> None:
        ended.set()
        ends.append(explain_connect_error(parameters, error))
        forget_refused_token(parameters, str(ends[0]))
        if not opened.done():
            opened.set_exception(ends[0])

    wire = Wire(
        parameters,
        on_open_callback=lambda wire: fulfil(opened, wire),
        on_open_error_callback=fail,
        on_close_callback=fail,
        custom_ioloop=_Services(),
    )
    done = False
    try:
        await asyncio.wait([opened], timeout=NAME_SECONDS)
        is_looking_up = not opened.done() and wire._transport is None  # or it connects by TCP
        if is_looking_up and await call_aside(is_look_up_hanging, parameters.host):
            raise Disconnected(f"{where}: no answer from name servers in {NAME_SECONDS:g} s")
        await asyncio.wait([opened], timeout=2 * OPEN_SECONDS - NAME_SECONDS)
        if not opened.done():
            raise Disconnected(f"{where}: no answer in {2 * OPEN_SECONDS:g} s")
        opened.result()
        if ends:  # it was opened and ended at once
            raise ends[0]
        done = True
    finally:
        if not done:
            await _abandon(wire, opened, ended)
    wire._transport._MAX_RECV_BYTES = RECEIVE_BYTES
    wire._transport._MAX_CONSUME_BYTES = 4 * RECEIVE_BYTES
    return wire


async def _abandon(wire: Wire, opened: asyncio.Future[Wire], ended: asyncio.Event) -> None:
    """Close a connection that will not be used, with its socket, even if this is cancelled as well.

    At certain moments of opening, pika would forget the socket if it were closed. So the connection is closed once it
    is open, which a healthy broker reaches at once, or torn down if it is not open after `CLOSE_SECONDS`.
    """
    loop = asyncio.get_running_loop()
    giving_up = loop.call_later(CLOSE_SECONDS, _tear_down, wire)
    opened.add_done_callback(lambda _: giving_up.cancel())
    opened.add_done_callback(lambda _: close_wire(wire))
    with suppress(TimeoutError):
        async with asyncio.timeout(2 * CLOSE_SECONDS):
            await ended.wait()


def close_wire(wire: Wire) -> None:
    """Close a connection that will not be used, if it is open; its socket is closed after `CLOSE_SECONDS` at most."""
    if wire.is_open:
        wire.close()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, _tear_down, wire)


def _tear_down(wire: Wire) -> None:
    """Close the socket by force, if it is still open."""
    if wire.is_closed:
        return
    if wire._transport is not None:
        wire._terminate_stream(pika.exceptions.AMQPConnectionError("given up"))
    elif not wire.is_closing:
        wire.close()


def fulfil(future: asyncio.Future[T], value: T) -> None:
    """Set the result of a future, unless it is done, for instance cancelled."""
    if not future.done():
        future.set_result(value)
