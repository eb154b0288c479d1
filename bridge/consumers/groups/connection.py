"""Connections of groups to RabbitMQ, by aiormq, the protocol below aio-pika.

A member has two. On one it consumes and acknowledges; nothing is ever published on it, since RabbitMQ stops reading
from connections that publish while its memory or disk is short, and acknowledgements are what frees them. The other
one carries the announcements of members.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bindings.sources.address import parse_address
from bridge.client_errors import explain
from exchange.errors import HashstarError, InputError
from exchange.files.names import AMQP
from exchange.text.site import build_install_command
from exchange.values.field_values import to_plain
from exchange.values.message import BASIC_PROPERTIES, NO_FIELDS, Message, assemble_message

if TYPE_CHECKING:
    from aiormq.abc import DeliveredMessage
    from pamqp.commands import Basic

CONNECTING: Final = 30.0
"""Maximum number of seconds to connect."""
CLOSING: Final = 5.0
"""Maximum number of seconds to wait for the broker when a connection or channel is closed."""


class GroupConnectionLost(HashstarError):
    """The connection to the broker is lost, or may be lost."""


def import_aiormq() -> Any:
    """Import the client. Raises InputError, which names the extra, if it is not installed."""
    try:
        import aiormq  # not at the top: an extra
    except ImportError as error:
        raise InputError(f"consumer groups need {error.name}: {build_install_command('aio-pika')}") from None
    return aiormq


@contextmanager
def translate_losses(what: str) -> Iterator[None]:
    """Raise GroupConnectionLost, with ``what`` before its reason, where aiormq reports a channel or connection as lost.

    It reports a loss by many errors, by a bare Exception, and by cancelling tasks that wait.
    """
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise GroupConnectionLost(f"{what}: the connection is lost") from None
    except HashstarError:
        raise
    except Exception as error:
        if not isinstance(error, list_loss_errors()) and type(error) is not Exception:
            raise
        raise GroupConnectionLost(f"{what}: {explain(str(error) or 'the connection is lost')}") from error


def list_loss_errors() -> tuple[type[BaseException], ...]:
    """Return the errors by which aiormq reports that a channel or connection is lost or was refused."""
    aiormq = import_aiormq()
    return (aiormq.AMQPError, OSError, TimeoutError, asyncio.InvalidStateError, RuntimeError)


def is_missing(error: BaseException) -> bool:
    """Return whether the broker has closed a channel because there is no such queue or exchange."""
    return isinstance(error, import_aiormq().exceptions.ChannelNotFoundEntity)


async def connect(url: str, name: str, heartbeat: float) -> Any:
    """Connect to ``amqp://USER:PASSWORD@HOST:PORT/VHOST``, with a heartbeat in whole seconds.

    Raises InputError for an address of another form; GroupConnectionLost if no broker answers, or it refuses.
    """
    aiormq = import_aiormq()
    address = parse_address(url, AMQP, "amqp://USER:PASSWORD@HOST:PORT/VHOST")
    host = address.hosts.partition(",")[0]
    query = f"{address.query}&" * bool(address.query) + f"heartbeat={round(heartbeat)}"
    url = f"{address.scheme}://{address.login}{host}{address.path or '/'}?{query}"
    with translate_losses(f"no connection to {host}"):
        async with asyncio.timeout(CONNECTING):
            return await aiormq.connect(url, client_properties={"connection_name": name, "product": "hashstar"})


async def close(connection: Any) -> None:
    """Close a connection, whatever its state; wait for the broker for a few seconds only."""
    with suppress(GroupConnectionLost), translate_losses("closing"):
        async with asyncio.timeout(CLOSING):
            await connection.close()


async def close_channel(channel: Any) -> None:
    """Close a channel, whatever its state, and wait until the broker has closed it, for some seconds only.

    The close of aiormq gives up after a heartbeat, or when it is cancelled, and closes once more: the broker ends the
    whole connection for that.
    """
    from pamqp.commands import Channel

    if not channel.is_closed:
        request = Channel.Close(reply_code=200, reply_text="", class_id=0, method_id=0)
        closing = asyncio.ensure_future(channel.rpc(request))
        # It ends with the error that the channel is closed, which is expected here.
        closing.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait([closing], timeout=CLOSING)


def is_blocked(connection: Any) -> bool:
    """Return whether the broker has stopped to read from the connection, as its memory or disk is short."""
    waiting = connection.ready()
    try:
        waiting.send(None)
    except StopIteration:
        return False
    waiting.close()
    return True


def read_clock() -> float:
    """Return the time of a clock that never goes back and, where there is one, goes on while the machine sleeps."""
    return _CLOCK()


_CLOCK: Final[Callable[[], float]] = (
    (lambda: time.clock_gettime(time.CLOCK_BOOTTIME)) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)


class Lease:
    """The time for which the broker certainly keeps a connection, and so does not redeliver its messages.

    RabbitMQ gives a connection up when it has got nothing from it for two to three heartbeats. An answer to a request
    proves that the request arrived, so for two heartbeats after it was sent, no other member gets its messages. A
    process that was stopped, or whose event loop was blocked, finds its lease expired when it goes on: it starts
    nothing until a later request is answered, which on a connection that was given up never happens.
    """

    def __init__(self, heartbeat: float) -> None:
        self._length: Final = 1.75 * heartbeat  # a margin for clocks that differ
        self._ends = read_clock() + self._length
        self._renewed: Final = asyncio.Event()

    def is_valid(self) -> bool:
        """Return whether the broker certainly has the connection still."""
        return read_clock() < self._ends

    def renew(self, sent: float) -> None:
        """Note that the broker has answered a request that was sent at this time."""
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
        if value is not None and (value or name != "cluster_id"):  # which pamqp has as "" where it is not set
            properties[name] = int(value.timestamp()) if isinstance(value, datetime) else value
    return assemble_message(
        delivered.exchange or "", routing_key, given.headers or NO_FIELDS, properties, delivered.body
    )


def build_properties(message: Message, **others: Any) -> Basic.Properties:
    """Build the properties of a message for aiormq; ``others`` are used where the message has none."""
    from pamqp.commands import Basic

    properties = {name: to_plain(value) for name, value in {**others, **message.properties}.items()}
    if "type" in properties:
        properties["message_type"] = properties.pop("type")
    if "timestamp" in properties and not isinstance(properties["timestamp"], datetime):
        properties["timestamp"] = datetime.fromtimestamp(properties["timestamp"], UTC)
    return Basic.Properties(headers=to_plain(message.headers) or None, **properties)
