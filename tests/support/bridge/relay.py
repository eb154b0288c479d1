"""A TCP relay on 127.0.0.1 that can cut, stall, slow and encrypt the connections that pass through it."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.support.waiting import find_limit


class Relay:
    """Listens at ``port``, and connects each client to a server; with ``tls``, clients use TLS.

    ``listen`` is the port to listen at; 0 means any free one. It has its own thread, so that tests may block theirs.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None, listen: int = 0) -> None:
        self.port = listen
        self.accepted = 0
        """Number of connections that were accepted."""
        self._server = host, port
        self._tls = tls
        self._listening: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._abandoned: list[asyncio.Event] = []
        self._rate: float | None = None
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run(ready)), daemon=True)
        self._thread.start()
        ready.wait(find_limit())

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return bool(self._writers)

    def cut(self) -> None:
        """End all present connections."""
        self._call(self._abort)

    def stall(self) -> None:
        """Let nothing through, and keep all connections open."""
        self._call(self._flowing.clear)

    def abandon(self) -> None:
        """Let nothing through on the present connections, and keep them open; new ones work."""
        self._call(self._begin_anew)

    def slow(self, rate: float) -> None:
        """Let at most ``rate`` bytes per second through, on each connection and in each direction."""
        self._rate = rate

    def encrypt(self, tls: ssl.SSLContext | None, away: float = 0.0) -> None:
        """Have new connections use TLS with this context, or none; present ones are ended, and none is taken while the
        relay is ``away``, in seconds, as a server that is restarted.
        """
        self._tls = tls
        asyncio.run_coroutine_threadsafe(self._listen(away), self._loop).result(find_limit())

    def go_on(self) -> None:
        """Let everything through again, at full speed."""
        self._rate = None
        self._call(self._flow)

    def close(self) -> None:
        """End all connections, and stop listening."""
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(find_limit())
        self._loop.close()

    def _call(self, function: Callable[[], None]) -> None:
        done = threading.Event()

        def call() -> None:
            function()
            done.set()

        self._loop.call_soon_threadsafe(call)
        done.wait(find_limit())

    def _begin_anew(self) -> None:
        self._flowing.clear()
        self._abandoned.append(self._flowing)
        self._flowing = asyncio.Event()
        self._flowing.set()

    def _flow(self) -> None:
        for flowing in (self._flowing, *self._abandoned):
            flowing.set()
        self._abandoned.clear()

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _listen(self, away: float = 0.0) -> None:
        if self._listening is not None:
            self._listening.close()
            self._abort()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), away)
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._listening.sockets[0].getsockname()[1]

    async def _run(self, ready: threading.Event) -> None:
        await self._listen()
        ready.set()
        await self._ending.wait()
        if self._listening is not None:
            self._listening.close()
        self._abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(to_client)
        writers = [to_client]
        with suppress(OSError, asyncio.CancelledError):
            from_server, to_server = await asyncio.open_connection(*self._server)
            self._writers.add(to_server)
            writers.append(to_server)
            await asyncio.gather(self._copy(from_client, to_server), self._copy(from_server, to_client))
        for writer in writers:
            writer.transport.abort()
            self._writers.discard(writer)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        flowing = self._flowing
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await flowing.wait()
                if self._rate is not None:
                    await asyncio.sleep(len(data) / self._rate)
                writer.write(data)
                await writer.drain()
        await flowing.wait()  # a stalled relay also holds back the end of a connection
        if not writer.is_closing():
            writer.close()


@contextmanager
def relay_to(host: str, port: int, tls: ssl.SSLContext | None = None, listen: int = 0) -> Iterator[Relay]:
    """Yield a relay, and close it at the end."""
    relay = Relay(host, port, tls, listen)
    try:
        yield relay
    finally:
        relay.close()
