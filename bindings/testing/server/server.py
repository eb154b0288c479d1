"""The test server: RabbitMQ's routing behind a socket of this machine, for any AMQP 0-9-1 client.

It runs on a thread of its own with an event loop, so that blocking clients, asyncio clients and several processes can
connect to it. What it has of a broker: exchanges, queues and bindings with RabbitMQ's refusals; confirms, mandatory
messages; consumers with prefetch, single active and exclusive consumers, basic.get, acknowledgements;
auto-delete and exclusive queues; direct replies; transactions; and queues of all types as `exchange.lifecycle` models
them: times to live, limits, priorities, redelivery and its limit, dead letters. Every user and password is accepted. It
has no policies but those of its topology, no permissions, and keeps everything in memory.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from random import randrange
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

from bindings.testing.server.broker import ServedBroker
from bindings.testing.server.connection import ServerConnection
from exchange.kinds import Choose
from exchange.topology.topology import Topology
from exchange.values.message import Message

Answer = TypeVar("Answer")


class AmqpServer:
    """A broker of one virtual host that clients connect to at `url`.

    >>> import pika
    >>> with AmqpServer(Topology(queues=[Queue("billing")])) as server:
    ...     with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
    ...         connection.channel().basic_publish("", "billing", b"x")
    ...     [message.body for message in server.messages("billing")]
    [b'x']

    ``port`` 0 means any free one. ``choose`` is as for `bindings.testing.virtual_broker.VirtualBroker`. Safe to use
    from several threads. Raises OSError, when it starts, if the address cannot be bound.
    """

    def __init__(
        self, topology: Topology | None = None, *, host: str = "127.0.0.1", port: int = 0, choose: Choose = randrange
    ) -> None:
        self._initial: Final = Topology() if topology is None else topology
        if not isinstance(self._initial, Topology):
            raise TypeError(f"a Topology is wanted, not {topology!r}: bindings.load reads one from a file")
        self._host: Final = host
        self._port = port
        self._broker: Final = ServedBroker(self._initial, choose=choose)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._connections: Final[set[asyncio.Task[None]]] = set()

    @property
    def url(self) -> str:
        """Address for clients, with the virtual host: ``amqp://guest:guest@127.0.0.1:40123/%2F``.

        Raises RuntimeError for a server with any free port that was not started yet.
        """
        if not self._port:
            raise RuntimeError("the server has no address before it is started")
        vhost = quote(self._initial.vhost, safe="")
        return f"amqp://guest:guest@{self._host}:{self._port}/{vhost}"

    @property
    def topology(self) -> Topology:
        """The present topology."""
        return self._ask(lambda broker: broker.life.topology)

    def messages(self, queue: str) -> list[Message]:
        """Return the messages of a queue that are ready, oldest first. Raises NotFound."""
        return self._ask(lambda broker: broker.life.messages(queue))

    def start(self) -> Self:
        """Start to listen, and return when clients can connect. Raises OSError, and RuntimeError if it runs already."""
        if self._loop is not None:
            raise RuntimeError("the server runs already")
        started = threading.Event()
        errors: list[OSError] = []

        def run() -> None:
            try:
                asyncio.run(self._run(started))
            except OSError as error:
                errors.append(error)
                started.set()

        self._thread = threading.Thread(target=run, name="hashstar-amqp", daemon=True)
        self._thread.start()
        started.wait()
        for error in errors:
            raise error
        return self

    def stop(self) -> None:
        """Close all connections, and stop to listen.

        The server can be started again, at the same address; its topology and messages are still there.
        """
        if self._loop is not None and self._stop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._loop = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    async def _run(self, started: threading.Event) -> None:
        server = await asyncio.start_server(self._accept, self._host, self._port)
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._port = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        server.close()
        for task in [*self._connections]:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        version = self._initial.profile.name.removeprefix("rabbitmq-")
        connection = ServerConnection(self._broker, version, reader, writer)
        task = asyncio.get_running_loop().create_task(connection.run())
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    def _ask(self, question: Callable[[ServedBroker], Answer]) -> Answer:
        """Ask the broker on the thread of its loop, and return or raise its answer."""
        if self._loop is None:
            raise RuntimeError("the server does not run")

        async def ask() -> Any:
            with self._broker.act():
                return question(self._broker)

        answer: Answer = asyncio.run_coroutine_threadsafe(ask(), self._loop).result()
        return answer
