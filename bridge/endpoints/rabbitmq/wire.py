"""pika's connection on asyncio, with a way round it for the frames that there are many of, and how one is opened.

pika connects, authenticates, negotiates and keeps the heartbeat. Frames of channels that are listened to pass by it,
and the socket may be left unread for a while.
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
from pika.adapters.asyncio_connection import AsyncioConnection

from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq.frames import END_OCTET, HEAD, METHOD, OVERHEAD, Contents
from bridge.endpoints.rabbitmq.refusals import connect_error

__all__ = ["CLOSE_SECONDS", "SECONDS", "Wire", "fulfil", "open_wire"]

RECEIVE_BYTES: Final = 1 << 18
"""Number of bytes that are read from a socket at once."""

WRITE_BYTES: Final = 1 << 18
"""Number of bytes that are given to the socket at once: what it does not take of a piece is copied."""

FRAME_BYTES: Final = 16 << 20
"""Maximum size in bytes of a frame where the broker sets none; RabbitMQ's own default is 128 KiB."""

SECONDS: Final = 30.0
"""How long a broker may take to answer."""

CLOSE_SECONDS: Final = 2.0
"""How long closing may take."""

GONE_SECONDS: Final = 30.0
"""Seconds without an acknowledgement by TCP after which the broker's machine is gone, while nothing is read."""

T = TypeVar("T")

logging.getLogger("pika").setLevel(logging.CRITICAL + 1)  # what it would print is raised here


class Wire(AsyncioConnection):  # type: ignore[misc]
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
        try:
            at = self._read_frames(data)
        except (IndexError, struct.error):
            raise Disconnected("the broker sent a frame that ends too early") from None
        self._frame_buffer = data[at:]
        self.after_data()

    def _read_frames(self, data: bytes) -> int:
        """Return where the first frame begins that is not all there. Raises Disconnected, IndexError, struct.error."""
        at, end = 0, len(data)
        contents, unpack = self.contents, HEAD.unpack_from
        most = (self.params.frame_max or FRAME_BYTES) - OVERHEAD
        while end - at >= OVERHEAD:
            kind, channel, size = unpack(data, at)
            stop = at + OVERHEAD + size
            if stop > end:
                if size > most:  # which would be collected until the memory is full
                    raise Disconnected(f"the broker sent a frame of {size:,} bytes; {most:,} were agreed on")
                break
            listener = contents.get(channel)
            if listener is not None and kind == METHOD and (behind := listener.delivery(data, at, stop, end, channel)):
                at = behind
                continue
            if data[stop - 1] != END_OCTET:
                raise Disconnected("the broker sent a frame without its end")
            if listener is None or not listener.feed(kind, data, at + 7, stop - 1):
                frame = _decoded(data[at:stop])
                if frame is not None:
                    self._frame_buffer = b""
                    self._process_frame(frame)
            at = stop
        return at

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


def _decoded(data: bytes) -> Any:
    """Return pika's frame of these bytes. Raises Disconnected for what is none."""
    try:
        return pika.frame.decode_frame(data)[1]
    except Exception as error:  # noqa: BLE001  pika checks little: its tables, structs and codecs raise what they raise
        raise Disconnected(f"the broker sent a frame that cannot be read: {type(error).__name__} {error}") from None


async def open_wire(parameters: pika.URLParameters) -> Wire:
    """Return an open connection. Raises Disconnected. Cancelled at any moment, it leaves no socket behind."""
    opened: asyncio.Future[Wire] = asyncio.get_running_loop().create_future()
    opened.add_done_callback(lambda future: future.cancelled() or future.exception())  # nobody may be left to hear it
    ended = asyncio.Event()

    def fail(_: Any, error: BaseException) -> None:
        ended.set()
        if not opened.done():
            opened.set_exception(connect_error(parameters, error))

    wire = Wire(
        parameters,
        on_open_callback=lambda wire: fulfil(opened, wire),
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


async def _end(wire: Wire, opened: asyncio.Future[Wire], ended: asyncio.Event) -> None:
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


def _close_open(wire: Wire) -> None:
    if wire.is_open:
        wire.close()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, _tear_down, wire)


def _tear_down(wire: Wire) -> None:
    """Close the socket, if it is still there."""
    if wire.is_closed:
        return
    if wire._transport is not None:
        wire._terminate_stream(pika.exceptions.AMQPConnectionError("given up"))
    elif not wire.is_closing:
        wire.close()


def fulfil(future: asyncio.Future[T], value: T) -> None:
    """Set the result of a future that may have been given up."""
    if not future.done():
        future.set_result(value)
