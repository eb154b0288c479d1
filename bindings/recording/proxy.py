"""The proxy: bytes pass both ways unchanged, and a `Conversation` reads them before they are passed on.

Invariant: what is read has no influence on what passes. Of each direction at most one piece of `CHUNK` bytes and the
buffers of the two sockets are in memory: the proxy reads on only when the other side has taken the last piece.

The recording is written every few seconds and at the end. The file is replaced as a whole, so it is a complete
recording at any time: a process that is killed loses the last seconds. Traffic goes on if it cannot be written.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from bindings.recording.conversation import Conversation
from bindings.recording.ledger import Ledger
from bindings.sources.recording.file import format_recording
from bindings.sources.recording.model import Recording
from exchange.files.operating_system import raise_file_limit, read_file_limit
from exchange.files.replacing import replace_file
from exchange.text.numbers import write_time

LOG: Final = logging.getLogger(__name__)

CHUNK: Final = 1 << 16
"""Maximum number of bytes that are read at a time."""
CONNECTIONS: Final = 4_096
"""Maximum number of connections at a time; more are closed at once. Fewer where the process may open fewer files."""
FILES: Final = 512
"""Files that are kept free: for connections that are closed at once, and for the recording."""
OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors that say that there are too many connections for this process or machine, not that the broker is away."""
CONNECT_SECONDS: Final = 10.0
"""Maximum number of seconds until the broker takes a connection."""
LINGER_SECONDS: Final = 10.0
"""Maximum number of seconds that one side may still send after the other has ended."""
SAVE_SECONDS: Final = 5.0
"""Minimum number of seconds between two saves of a recording that has changed."""
SAVE_SHARE: Final = 20
"""A save that took long is followed by a pause that is this many times as long."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """The broker."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    """Name in the broker's certificate; None for the host."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Proxy:
    """Passes connections on to a broker, and records what they show in a ledger."""

    def __init__(self, upstream: Upstream, ledger: Ledger, warn: Callable[[str], None] = LOG.warning) -> None:
        """``warn`` is called when the broker is no longer reached, when it is again, and for too many connections."""
        self._upstream: Final = upstream
        self._ledger: Final = ledger
        self._warn: Final = warn
        self._is_reached = True
        self._has_refused = False
        self._most = CONNECTIONS
        self._connections: Final[set[asyncio.Task[None]]] = set()
        self._server: asyncio.Server | None = None
        self.unreached = 0
        """Number of connections that the broker did not take."""
        self.trouble = ""
        """Why it did not take the last one."""
        self.refused = 0
        """Number of connections that were closed because there were too many."""

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen at an address, with ``tls`` for clients that use TLS; return the port. Raises OSError."""
        raise_file_limit(2 * CONNECTIONS + FILES)
        files = read_file_limit()
        self._most = int(min(CONNECTIONS, (files - min(FILES, files / 2)) // 2))
        asyncio.get_running_loop().set_exception_handler(self._handle_trouble)
        self._server = await asyncio.start_server(self._accept, host, port, ssl=tls, limit=CHUNK)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop to listen, and close all connections."""
        if self._server is not None:
            self._server.close()
        for task in [*self._connections]:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= self._most:
            self._refuse()
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _carry(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Carry one connection until one of its sides has ended."""
        try:
            broker, to_broker = await self._connect()
        except (OSError, TimeoutError) as error:  # errors of TLS are OSErrors
            to_client.transport.abort()
            if isinstance(error, OSError) and error.errno in OUT_OF_FILES:
                self._refuse()
            else:
                self._miss(str(error) or "it did not take the connection in time")
            return
        except asyncio.CancelledError:
            to_client.transport.abort()
            raise
        if not self._is_reached:
            self._is_reached = True
            self._warn(f"the broker at {self._upstream} takes connections again")
        conversation = Conversation(self._ledger)
        ways = (
            asyncio.create_task(_pass_on(client, to_broker, conversation.from_client)),
            asyncio.create_task(_pass_on(broker, to_client, conversation.from_broker)),
        )
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if not any(way.done() and way.exception() is not None for way in ways):
                await asyncio.wait(ways, timeout=LINGER_SECONDS)
        finally:
            for way in ways:
                way.cancel()
            for ended in await asyncio.gather(*ways, return_exceptions=True):
                if not isinstance(ended, OSError | asyncio.CancelledError | None):
                    LOG.error("passing a connection on", exc_info=ended)
            conversation.end()
            for writer in (to_broker, to_client):
                writer.close()
                with suppress(OSError, TimeoutError):
                    await asyncio.wait_for(writer.wait_closed(), 1.0)

    def _miss(self, why: str) -> None:
        self.unreached += 1
        self.trouble = why
        if self._is_reached:
            self._is_reached = False
            self._warn(f"the broker at {self._upstream} does not take connections, so clients are cut off: {why}")

    def _refuse(self) -> None:
        self.refused += 1
        self._warn_of_refusals()

    def _warn_of_refusals(self) -> None:
        if not self._has_refused:
            self._has_refused = True
            self._warn(f"there are too many connections at a time: more than {self._most:,} are closed at once")

    def _handle_trouble(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Warn once of connections for which there are no files: asyncio would log each attempt with its traceback."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in OUT_OF_FILES:
            self._warn_of_refusals()
        else:
            loop.default_exception_handler(context)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        upstream = self._upstream
        name = None if upstream.tls is None else upstream.server_name or upstream.host
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncio.open_connection(
                upstream.host, upstream.port, ssl=upstream.tls, server_hostname=name, limit=CHUNK
            )


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, look: Callable[[bytes], None]) -> None:
    """Pass bytes on until there are no more. Raises OSError if one of the two connections is lost."""
    while data := await reader.read(CHUNK):
        look(data)  # before it is passed on, as its answer must be read after it
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
    else:
        writer.close()


def leads_back(host: str, port: int, upstream: Upstream) -> bool:
    """Return whether a proxy that serves at this address would be its own broker."""
    if port != upstream.port:
        return False
    try:
        own, brokers = ({each[4][0] for each in socket.getaddrinfo(name, port)} for name in (host, upstream.host))
    except OSError:
        return False
    serves_all = any(ip_address(each).is_unspecified for each in own)
    return bool(own & brokers) or (serves_all and any(map(_is_here, brokers)))


def _is_here(address: str | int) -> bool:
    """Return whether an IP address is one of this machine."""
    family = socket.AF_INET6 if ":" in str(address) else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.bind((address, 0))
    except OSError:
        return False
    return True


def read_clock() -> Callable[[], str]:
    """Return a function that returns the time in seconds, ``2026-05-01T12:00:00Z``; cheap to call for each message."""
    second, text = 0, ""

    def now() -> str:
        nonlocal second, text
        current = int(time.time())
        if current != second:
            second, text = current, write_time(current)
        return text

    return now


async def run_proxy(
    proxy: Proxy,
    ledger: Ledger,
    path: Path,
    address: tuple[str, int],
    *,
    tls: ssl.SSLContext | None = None,
    stop: asyncio.Event,
    listening: Callable[[int], None],
    warn: Callable[[OSError], None],
) -> None:
    """Serve until ``stop`` is set; ``listening`` is called with the port, ``warn`` for each save that failed.

    Raises OSError if the address cannot be served, or the file not be written at the beginning or the end.
    """
    _save_recording(ledger.copy_recording(), path)
    listening(await proxy.start(*address, tls))
    saved, pause = ledger.changes, SAVE_SECONDS
    try:
        while not await _is_set(stop, pause):
            if saved != ledger.changes:
                saved, begun = ledger.changes, time.monotonic()
                try:
                    await asyncio.to_thread(_save_recording, ledger.copy_recording(), path)  # traffic goes on
                except OSError as error:
                    warn(error)
                pause = max(SAVE_SECONDS, (time.monotonic() - begun) * SAVE_SHARE)
    finally:
        await proxy.stop()
        _save_recording(ledger.copy_recording(), path)


def _save_recording(recording: Recording, path: Path) -> None:
    """Write a recording. Raises OSError."""
    with replace_file(path) as file:
        file.writelines(format_recording(recording))


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    """Return whether an event is set before the seconds are over."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
