"""Look at the messages of a queue or stream of RabbitMQ, and leave them there.

A stream is read from its first offset up to where it ends; nothing changes. Other queues are held (`bridge.dead.held`)
with nothing chosen.
A classic queue puts messages where they were, and marks them as redelivered. A quorum queue counts that as a delivery
up to RabbitMQ 4.2, which brings each message nearer to a delivery limit: such a queue is not read unless the user
allows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from bridge.dead.held import Chooser, HeldQueue, find_type
from bridge.dead.reading import Bounds, Read, RowWriter, Take
from bridge.endpoint import Disconnected, EndOfStream, validate_time
from bridge.endpoints.rabbitmq.addresses import find_broker
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.consumer.queue_facts import fetch_facts
from bridge.endpoints.rabbitmq.frames import Arrived, Event, encode_ack
from bridge.endpoints.rabbitmq.management import ManagementClient, Unknown
from bridge.endpoints.rabbitmq.refusals import NOT_FOUND, explain_refusal
from exchange.amqp import ContentHeader, MalformedHeader, build_lazy_message, get_content
from exchange.amqp.streams import EMPTY_SECONDS, FIRST_SECONDS, STREAM_OFFSET, read_offset
from exchange.entities.releases import find_profile
from exchange.errors import BrokerError, InputError
from exchange.limits import SHORTSTR_BYTES
from exchange.values.message import Message

AT_ONCE: Final = 256
"""Maximum number of messages of a stream that have come and are not acknowledged."""


async def peek(
    url: str, queue: str, bounds: Bounds, take: Take, management: str | None = None, *, allow_counted: bool = False
) -> Read:
    """Read what is in a queue, and give it back. Raises InputError, Disconnected."""
    name = queue.encode("utf-8", "surrogateescape")
    if not 0 < len(name) <= SHORTSTR_BYTES:
        raise InputError(f"--queue: a name has 1 to {SHORTSTR_BYTES} bytes")
    read = Read()
    rows = RowWriter(f"queue {queue}", take, read)
    reader = _StreamReader(queue, rows)
    connection = await Connection.open(find_broker(url, "hashstar dead"), reader.lose)
    try:
        declared = await connection.look("queue", queue)
        total = int(declared.method.message_count)
        wanted = total if bounds.messages is None else min(total, bounds.messages)
        deadline = asyncio.get_running_loop().time() + bounds.seconds
        kind = await find_type(connection, queue)
        if kind == "stream":
            total = await reader.read(connection, total, bounds.messages, deadline)
        elif not allow_counted:
            await _check_uncounted(connection, queue, kind, management)
    except BrokerError as error:
        raise InputError(explain_refusal(error, f"queue '{queue}'")) from None
    finally:
        await connection.close()
    if kind == "stream":
        read.notes.append("a stream: reading it changes nothing")
    else:
        await _look(HeldQueue(url, queue, wanted, _Looked(rows)), deadline)
        read.notes.append("all messages were given back to the queue, which marks them as redelivered")
    rows.flush()
    read.left = max(total - rows.count, 0)
    return read


async def check_uncounted(url: str, queue: str, management: str | None) -> None:
    """Raise InputError for a queue where reading may count as a delivery; also Disconnected.

    A queue that is not there has nothing to look at.
    """
    connection = await Connection.open(find_broker(url, "hashstar dead"), lambda _: None)
    try:
        await _check_uncounted(connection, queue, await find_type(connection, queue), management)
    except BrokerError as error:
        if error.code == NOT_FOUND:
            return
        raise InputError(explain_refusal(error, f"queue '{queue}'")) from None
    finally:
        await connection.close()


async def _check_uncounted(connection: Connection, queue: str, kind: str, management: str | None) -> None:
    """Raise InputError for a queue where reading may count as a delivery."""
    version = str(connection.server.get("version", ""))
    if kind != "quorum" or find_profile(version).lives.failures_are_limited:
        return
    url = management or ManagementClient(connection.parameters).url
    way_out = "--allow-counted looks all the same"
    try:
        facts = await fetch_facts(connection.parameters, url, connection.server, queue)
    except Unknown as error:
        raise InputError(
            f"queue '{queue}': in a quorum queue of RabbitMQ {version} a look counts as a delivery, and it is not known"
            f" whether this one has a limit: {error}; --management URL names the API; {way_out}"
        ) from None
    if facts.delivery_limit is not None or facts.is_provisional:
        limit = (
            "it is not known yet whether this one has a limit: try again in some seconds"
            if facts.delivery_limit is None
            else f"this one has a limit of {facts.delivery_limit}; a message beyond it would be lost or dead-lettered"
        )
        raise InputError(
            f"queue '{queue}': a look counts as a delivery of each message in a quorum queue of RabbitMQ {version}, "
            f"and {limit}; {way_out}"
        )


class _Looked(Chooser):
    """Writes rows of the messages of a queue, and leaves all."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows: Final = rows

    def choose(self, message: Message) -> None:
        self._rows.add(message, _read_time(get_content(message)), self._rows.count + 1)


async def _look(source: HeldQueue, deadline: float) -> None:
    """Read a queue that nothing is chosen of. Raises InputError, Disconnected."""
    await source.open()
    try:
        with suppress(EndOfStream, TimeoutError):
            async with asyncio.timeout_at(deadline):
                await source.read(AT_ONCE)  # returns nothing, as nothing is chosen, and ends with the queue
    finally:
        await source.close()
    if source.fault is not None:
        raise InputError(source.fault)


def _read_time(content: ContentHeader) -> int | None:
    """Return when a message was published, if it says so, in microseconds since 1970."""
    with suppress(MalformedHeader):
        stamp = content.property("timestamp")
        return None if stamp is None else validate_time(stamp.value * 1_000_000)
    return None


class _StreamReader:
    """What arrives of a stream, and what is known of the end of the connection."""

    def __init__(self, queue: str, rows: RowWriter) -> None:
        self._queue: Final = queue
        self._rows: Final = rows
        self._begun: Final = asyncio.Event()
        """Set when the first message has come, or the connection is lost."""
        self._trouble: Disconnected | None = None
        self._most: int | None = None
        self._last = 0
        """The last delivery tag."""

    def lose(self, error: Disconnected) -> None:
        """Take note that the connection is lost."""
        self._trouble = error
        self._begun.set()

    async def read(self, connection: Connection, counted: int, most: int | None, deadline: float) -> int:
        """Read from the beginning, and return how many messages there are: exactly, if the end was reached, else at
        least, as far as is known. ``counted`` is what the broker counts, late, and with offsets that have no message.

        An acknowledgement lets the channel read the stream on before it answers what it is asked next. So if nothing
        has come before that answer, there is nothing more; only the first message is waited for. Raises BrokerError,
        Disconnected.
        """
        self._most = most
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                channel = await connection.channel()
                channel.on_events = self._take
                first = {STREAM_OFFSET: "first"}
                await channel.consume(self._queue, exclusive=False, arguments=first, prefetch=AT_ONCE)
                async with asyncio.timeout(FIRST_SECONDS if counted else EMPTY_SECONDS):
                    await self._begun.wait()
                if self._trouble is not None:
                    raise self._trouble
                acked = 0
                while acked < self._last == self._rows.count:
                    acked = self._last
                    connection.write(encode_ack(channel.number, acked, multiple=True))
                    await channel.ask("basic_qos", prefetch_count=AT_ONCE)
                if acked == self._last:
                    return self._rows.count
        return max(counted, self._last)

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Arrived):
                self._last = event.tag
                self._begun.set()
                if self._most is None or self._rows.count < self._most:
                    self._add(event)

    def _add(self, event: Arrived) -> None:
        content = ContentHeader(event.properties)
        exchange, key = (each.decode("utf-8", "surrogateescape") for each in (event.exchange, event.routing_key))
        message = build_lazy_message(exchange, key, content, b"")
        self._rows.add(message, _read_time(content), read_offset(content))
