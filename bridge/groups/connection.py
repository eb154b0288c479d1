"""Connections of groups to RabbitMQ, by aiormq, the protocol below aio-pika.

A member has two. On one it consumes and acknowledges; nothing is ever published on it, since RabbitMQ stops reading from
connections that publish while its memory or disk is short, and acknowledgements are what helps it then. The other one
carries what members announce.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from exchange.errors import HashstarError, InputError
from exchange.field_values import Typed
from exchange.message import BASIC_PROPERTIES, NO_FIELDS, Message, assemble_message

if TYPE_CHECKING:
    from aiormq.abc import DeliveredMessage
    from pamqp.commands import Basic

__all__ = [
    "ConnectionLost", "Lease", "build_properties", "close", "connect", "is_blocked", "losses", "read_message", "seconds",
]  # fmt: skip

CLOSING: Final = 3.0
"""Maximum number of seconds to wait for the broker when a connection is closed."""


class ConnectionLost(HashstarError):
    """The connection to the broker is lost, or may be by now."""


def import_aiormq() -> Any:
    """Import the client. Raises InputError, which names the extra, if it is not installed."""
    try:
        import aiormq  # not at the top: an extra
    except ImportError as error:
        raise InputError(f"consumer groups need {error.name}: pip install 'hashstar[aio-pika]'") from None
    return aiormq


def losses() -> tuple[type[BaseException], ...]:
    """Return the errors by which aiormq reports that a channel or connection is lost or was refused."""
    aiormq = import_aiormq()
    return (aiormq.AMQPError, ConnectionLost, OSError, TimeoutError, asyncio.InvalidStateError, RuntimeError)


async def connect(url: str, name: str, heartbeat: float) -> Any:
    """Connect to ``amqp://USER:PASSWORD@HOST:PORT/VHOST``, with a heartbeat in whole seconds.

    Raises InputError for what is no such address; ConnectionLost if there is no broker, or it refuses.
    """
    aiormq = import_aiormq()
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
            raise ValueError(url)
        query = f"{parts.query}&" * bool(parts.query) + f"heartbeat={round(heartbeat)}"
        address = urlunsplit(parts._replace(query=query))
    except ValueError:
        raise InputError("not an AMQP address; write amqp://USER:PASSWORD@HOST:PORT/VHOST") from None
    try:
        async with asyncio.timeout(30):
            return await aiormq.connect(address, client_properties={"connection_name": name, "product": "hashstar"})
    except losses() as error:
        raise ConnectionLost(f"no connection to {parts.hostname}: {error or type(error).__name__}") from error


async def close(connection: Any) -> None:
    """Close a connection or channel, whatever its state; wait for the broker for a few seconds only."""
    try:
        async with asyncio.timeout(CLOSING):
            await connection.close()
    except losses():
        pass
    except asyncio.CancelledError:
        # aiormq cancels what waits for a channel that is closed; only a cancellation of this task is one.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise


def is_blocked(connection: Any) -> bool:
    """Return whether the broker has stopped to read from the connection, as its memory or disk is short."""
    waiting = connection.ready()
    try:
        waiting.send(None)
    except StopIteration:
        return False
    waiting.close()
    return True


def seconds() -> float:
    """Return the time of a clock that never goes back and, where there is one, goes on while the machine sleeps."""
    return _CLOCK()


_CLOCK: Final[Callable[[], float]] = (
    (lambda: time.clock_gettime(time.CLOCK_BOOTTIME)) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)


class Lease:
    """The time for which the broker certainly keeps a connection, and so what was delivered on it.

    RabbitMQ gives a connection up when it has got nothing from it for two to three heartbeats. An answer to a request
    proves that the request arrived, so for two heartbeats after it was sent, nothing was given to anyone else. A process
    that was stopped, or whose event loop was blocked, finds its lease expired when it goes on: it starts nothing until a
    later request is answered, which on a connection that was given up never happens.
    """

    def __init__(self, heartbeat: float) -> None:
        self._length: Final = 1.75 * heartbeat  # the rest is for clocks that differ
        self._ends = seconds() + self._length
        self._renewed: Final = asyncio.Event()

    def is_valid(self) -> bool:
        """Return whether the broker certainly has the connection still."""
        return seconds() < self._ends

    def renew(self, sent: float) -> None:
        """Take note that the broker has answered a request that was sent at that time."""
        self._ends = max(self._ends, sent + self._length)
        self._renewed.set()

    async def wait(self) -> None:
        """Wait until the lease is valid."""
        while not self.is_valid():
            self._renewed.clear()
            await self._renewed.wait()


def read_message(delivered: DeliveredMessage, routing_key: str) -> Message:
    """Build the message of a delivery, with another routing key. Headers are as pamqp decodes them."""
    given = delivered.header.properties
    properties: dict[str, Any] = {}
    for name in BASIC_PROPERTIES:
        value = getattr(given, "message_type" if name == "type" else name)
        if value is not None:
            properties[name] = int(value.timestamp()) if isinstance(value, datetime) else value
    return assemble_message(
        delivered.exchange or "", routing_key, given.headers or NO_FIELDS, properties, delivered.body
    )


def build_properties(message: Message, **others: Any) -> Basic.Properties:
    """Build the properties and headers of a message as aiormq publishes them; ``others`` are set where it has none."""
    from pamqp.commands import Basic

    properties = {name: _plain(value) for name, value in {**others, **message.properties}.items()}
    if "type" in properties:
        properties["message_type"] = properties.pop("type")
    if "timestamp" in properties and not isinstance(properties["timestamp"], datetime):
        properties["timestamp"] = datetime.fromtimestamp(properties["timestamp"], UTC)
    return Basic.Properties(headers=_plain(message.headers) or None, **properties)


def _plain(value: Any) -> Any:
    """Return a field value as pamqp encodes it, which chooses types itself."""
    if isinstance(value, Typed):
        return datetime.fromtimestamp(value.value, UTC) if value.type == "timestamp" else value.value
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
