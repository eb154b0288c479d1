"""The test server of AMQP on the simulated loop: the bridge's real connections over pika reach it without a socket.

What is written arrives some virtual time later, in pieces that are cut anywhere. Of the bridge's side all is real from
pika's transport up, of the broker's side from its stream of bytes. And answers are late: whoever awaits one is resumed
some turns of the loop, or some time, after it has arrived, so that what came behind it may be seen first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from pika.adapters.utils.connection_workflow import AMQPConnectionWorkflowAborted

from bindings.testing.server import broker as served
from bindings.testing.server.broker import ServedBroker
from bindings.testing.server.connection import ServerConnection
from bridge.endpoints.rabbitmq import wire
from bridge.endpoints.rabbitmq.connection import Connection
from exchange import Message, Topology
from tests.support.virtual_loop import pass_time

URL: Final = "amqp://server"

SECONDS: Final = (0.0, 0.002, 0.02)
"""Maximum numbers of seconds until something has arrived, one for each connection."""

LATE_SECONDS: Final = (0.0, 0.001, 0.1, 0.5)
"""Maximum numbers of seconds by which whoever awaits an answer is resumed later, one for each life."""

TURNS: Final = 6
"""Maximum number of turns of the loop by which it is resumed later."""


class Server:
    """A broker, and the connections to it."""

    def __init__(self, topology: Topology, random: Random) -> None:
        self.random: Final = random
        self.late: Final = random.choice(LATE_SECONDS)
        self.broker: Final = ServedBroker(topology)
        self.transports: Final[list[Transport]] = []
        """Those of all connections so far."""
        self._serving: Final[set[asyncio.Task[None]]] = set()

    def publish(self, queue: str, body: bytes) -> None:
        """Publish a message to a queue."""
        with self.broker.act():
            self.broker.life.publish(Message("", queue, body=body))

    def bodies(self, queue: str) -> list[bytes]:
        """Return the bodies of the messages of a queue that are ready."""
        with self.broker.act():
            return [message.body for message in self.broker.life.messages(queue)]

    def cut(self) -> None:
        """Cut a connection, if there is one."""
        if transports := [each for each in self.transports if not each.is_lost]:
            self.random.choice(transports).lose(ConnectionResetError("cut"))

    def accept(self, transport: Transport) -> None:
        """Serve a client."""
        self.transports.append(transport)
        writer: Any = Writer(transport)
        task = asyncio.create_task(ServerConnection(self.broker, "4.3", transport.reader, writer).run())
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)


class Transport:
    """A connection in place of pika's transport, of its socket, and of the calls that watch that."""

    def __init__(self, client: wire.Wire, server: Server) -> None:
        self.reader: Final = asyncio.StreamReader()
        self.is_lost = False
        self._client = client
        self._random = server.random
        self._received = b""
        """What has arrived from the server and was not read."""
        self._reads = True
        self._seconds = server.random.choice(SECONDS)
        self._free_at = [0.0, 0.0]
        """Times when the last bytes of each direction arrive."""
        self._sock = self._nbio = self

    def _arrive(self, direction: int, call: Callable[[], None]) -> None:
        """Call a function behind what was sent in this direction before."""
        loop = asyncio.get_running_loop()
        arrives = loop.time() + self._random.random() * self._seconds
        self._free_at[direction] = max(self._free_at[direction] + 1e-6, arrives)
        loop.call_at(self._free_at[direction], call)

    # As pika's transport, and the bridge's wire, use it.

    def write(self, data: bytes) -> None:
        self._arrive(0, lambda: self.reader.feed_data(data))

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self.lose, None)

    def fileno(self) -> int:
        return 0

    def setsockopt(self, *_: int) -> None:
        pass

    def remove_reader(self, _: int) -> None:
        self._reads = False

    def set_reader(self, _: int, __: Callable[[], None]) -> None:
        self._reads = True
        asyncio.get_running_loop().call_soon(self._on_socket_readable)

    def _on_socket_readable(self) -> None:
        while self._reads and not self.is_lost and self._received:
            size = len(self._received)
            if self._random.random() < 0.2:  # else all of it: several frames are handled in one turn
                size = self._random.randint(1, size)
            data, self._received = self._received[:size], self._received[size:]
            try:
                self._client._proto_data_received(data)
            except Exception as error:  # noqa: BLE001  as pika's transport does
                self.lose(error)

    # As the server uses it.

    def receive(self, data: bytes) -> None:
        """Have bytes of the server arrive."""

        def arrive() -> None:
            self._received += data
            self._on_socket_readable()

        self._arrive(1, arrive)

    def end(self) -> None:
        """Have the end of what the server sends arrive."""
        self._arrive(1, lambda: self.lose(ConnectionResetError("ended by the server")))

    def lose(self, error: BaseException | None) -> None:
        """End it, for both sides."""
        if not self.is_lost:
            self.is_lost = True
            self._arrive(0, self.reader.feed_eof)
            self._client._proto_connection_lost(error)


class Writer:
    """The server's end of a connection, as a stream."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._is_closed = False

    def write(self, data: bytes) -> None:
        self._transport.receive(data)

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True
        self._transport.end()

    async def drain(self) -> None:
        await asyncio.sleep(0)


@contextmanager
def amqp_simulated(server: Callable[[], Server]) -> Iterator[None]:
    """Have the bridge's connections reach a server, and their answers be late."""
    answer = Connection.answer

    class MemoryWire(wire.Wire):
        def _adapter_connect_stream(self) -> None:
            transport = Transport(self, server())
            server().accept(transport)
            aborted = AMQPConnectionWorkflowAborted()
            self._connection_workflow = SimpleNamespace(abort=lambda: self._on_connection_workflow_done(aborted))

            def connect() -> None:
                if not self.is_closed:
                    self._proto_connection_made(transport)

            transport._arrive(1, connect)

        def hangs_up(self) -> bool:
            return self._transport is None or bool(self._transport.is_lost)

    async def answer_late(self: Connection, future: asyncio.Future[Any], what: str) -> Any:
        try:
            return await answer(self, future, what)
        finally:
            random = server().random
            for _ in range(random.randrange(TURNS)):
                await asyncio.sleep(0)
            await pass_time(random.random() * server().late)

    def read_clock() -> float:
        with suppress(RuntimeError):
            return asyncio.get_running_loop().time()
        return 0.0

    clock = SimpleNamespace(time=read_clock, monotonic=read_clock)
    with (
        patch.object(wire, "Wire", MemoryWire),
        patch.object(Connection, "answer", answer_late),
        patch.object(served, "time", clock),
    ):
        yield
