"""Look at the messages of a queue or stream of RabbitMQ, and leave them there.

A stream is read from its first offset; nothing changes. Messages of other queues are got with basic.get, which needs no
consumer: so no queue is deleted that goes with its last one. They are all given back with one basic.nack at the end. A
classic queue puts them where they were, and marks them as redelivered. A quorum queue counts that as a delivery up to
RabbitMQ 4.2, which brings each message nearer to a delivery limit: such a queue is not read unless the user allows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from bridge.dead.reading import Bounds, Read, RowWriter, Take
from bridge.endpoint import Disconnected, validate_time
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.consumer.offsets import OFFSET, read_offset
from bridge.endpoints.rabbitmq.frames import Arrived, Event, NothingLeft, encode_ack, encode_gets, encode_return_all
from bridge.endpoints.rabbitmq.management import ManagementClient, Unknown
from bridge.endpoints.rabbitmq.queue_facts import fetch_facts
from bridge.endpoints.rabbitmq.refusals import explain_refusal, refuses_argument
from exchange.amqp import ContentHeader, MalformedHeader, build_lazy_message
from exchange.entities.releases import find_profile
from exchange.errors import BrokerError, InputError
from exchange.limits import SHORTSTR_BYTES

__all__ = ["check_uncounted", "peek"]

AT_ONCE: Final = 256
"""Maximum number of messages that are asked for and have not come."""
IDLE_SECONDS: Final = 1.0
"""Seconds without a message after which a stream has ended, if it has fewer than its broker has counted."""


async def peek(
    url: str, queue: str, bounds: Bounds, take: Take, management: str | None = None, *, allow_counted: bool = False
) -> Read:
    """Read what is in a queue, and give it back. Raises InputError, Disconnected."""
    name = queue.encode("utf-8", "surrogateescape")
    if not 0 < len(name) <= SHORTSTR_BYTES:
        raise InputError(f"--queue: a name has 1 to {SHORTSTR_BYTES} bytes")
    reader = _Reader(queue, take)
    connection = await Connection.open([parse_broker(url, "hashstar dead")], reader.lose)
    try:
        declared = await connection.look("queue", queue)
        total = int(declared.method.message_count)
        wanted = total if bounds.messages is None else min(total, bounds.messages)
        deadline = asyncio.get_running_loop().time() + bounds.seconds
        if not await reader.consume_stream(connection, wanted, deadline):
            if not allow_counted:
                await _check_uncounted(connection, queue, management)
            await reader.get(connection, name, wanted, deadline)
    except BrokerError as error:
        raise InputError(explain_refusal(error, f"queue '{queue}'")) from None
    finally:
        await connection.close()
    reader.rows.flush()
    reader.read.left = max(total - reader.rows.count, 0)
    return reader.read


async def check_uncounted(url: str, queue: str, management: str | None) -> None:
    """Raise InputError for a queue in which a look counts as a delivery, or may do so; also Disconnected."""
    connection = await Connection.open([parse_broker(url, "hashstar dead")], lambda _: None)
    try:
        await _check_uncounted(connection, queue, management)
    finally:
        await connection.close()


async def _check_uncounted(connection: Connection, queue: str, management: str | None) -> None:
    """Raise InputError for a queue in which a look counts as a delivery, or may do so."""
    version = str(connection.server.get("version", ""))
    if find_profile(version).lives.failures_are_limited:
        return
    url = management or ManagementClient(connection.parameters).url
    way_out = "--allow-counted looks all the same"
    try:
        facts = await fetch_facts(connection.parameters, url, connection.server, queue)
    except Unknown as error:
        raise InputError(
            f"queue '{queue}': in a quorum queue of RabbitMQ {version} a look counts as a delivery, and it is not known"
            f" whether it is one: {error}; --management URL names the API; {way_out}"
        ) from None
    if facts.type == "quorum" and (facts.delivery_limit is not None or facts.is_provisional):
        limit = (
            "it is not known yet whether this one has a limit: try again in some seconds"
            if facts.delivery_limit is None
            else f"this one has a limit of {facts.delivery_limit}; a message beyond it would be lost or dead-lettered"
        )
        raise InputError(
            f"queue '{queue}': a look counts as a delivery of each message in a quorum queue of RabbitMQ {version}, "
            f"and {limit}; {way_out}"
        )


class _Reader:
    """What arrives, and what is known of the end of the connection."""

    def __init__(self, queue: str, take: Take) -> None:
        self.read: Final = Read()
        self.rows: Final = RowWriter(f"queue {queue}", take, self.read)
        self._queue: Final = queue
        self._news: Final = asyncio.Event()
        self._is_empty = False
        self._trouble: Disconnected | None = None
        self._is_stream = False
        self._wanted = 0
        self._last = 0
        """The last delivery tag."""

    def lose(self, error: Disconnected) -> None:
        """Take note that the connection is lost."""
        self._trouble = error
        self._news.set()

    async def consume_stream(self, connection: Connection, wanted: int, deadline: float) -> bool:
        """Read a stream from its beginning; return False, with nothing read, for a queue of another type."""
        channel = await connection.channel()
        channel.on_events = self._take
        self._is_stream, self._wanted = True, wanted
        try:
            await channel.consume(self._queue, exclusive=False, arguments={OFFSET: "first"}, prefetch=AT_ONCE)
        except BrokerError as error:
            if not refuses_argument(error, OFFSET):
                raise
            self._is_stream = False
            return False
        acked = 0
        while self.rows.count < wanted:
            if self._last - acked >= AT_ONCE // 2:
                acked = self._last
                connection.write(encode_ack(channel.number, acked, multiple=True))  # asks for more
            before = self.rows.count
            until = asyncio.get_running_loop().time() + IDLE_SECONDS
            if not await self._wait(min(deadline, until)) or self.rows.count == before:
                break
        self.read.notes.append("a stream: reading it changes nothing")
        return True

    async def get(self, connection: Connection, queue: bytes, wanted: int, deadline: float) -> None:
        """Get messages of a queue, and give them all back."""
        channel = await connection.channel()
        channel.on_events = self._take
        asked, self._wanted = 0, wanted
        try:
            while not self._is_empty and self.rows.count < wanted:
                room = AT_ONCE - (asked - self.rows.count)
                if asked < wanted and (room > AT_ONCE // 2 or asked == self.rows.count):
                    count = min(wanted - asked, room)
                    connection.write(encode_gets(channel.number, queue, count))
                    asked += count
                if not await self._wait(deadline):
                    break
        finally:  # also if it is interrupted: what only loses its channel may count as a failed delivery
            connection.write(encode_return_all(channel.number))
        await channel.ask("basic_qos", prefetch_count=0)  # is answered when all are given back
        self.read.notes.append("all messages were given back to the queue, which marks them as redelivered")

    async def _wait(self, until: float) -> bool:
        """Wait for news; return False when time is up. Raises Disconnected."""
        if self._trouble is not None:
            raise self._trouble
        self._news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._news.wait()
        if self._trouble is not None:
            raise self._trouble
        return self._news.is_set()

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, NothingLeft):
                self._is_empty = True
            elif isinstance(event, Arrived):
                self._last = event.tag
                if self.rows.count < self._wanted:
                    self._add(event)
        self._news.set()

    def _add(self, event: Arrived) -> None:
        content = ContentHeader(event.properties)
        exchange, key = (each.decode("utf-8", "surrogateescape") for each in (event.exchange, event.routing_key))
        message = build_lazy_message(exchange, key, content, b"")
        time = None
        with suppress(MalformedHeader):
            stamp = content.property("timestamp")
            time = None if stamp is None else validate_time(stamp.value * 1_000_000)
        offset = read_offset(content) if self._is_stream else None
        self.rows.add(message, time, event.tag if offset is None else offset)
