"""How many messages wait in the queue or stream of a source, and whether the broker gives them to another reader.

A queue's messages are counted by a passive declare: those that are ready. While the source's own socket is not read, as
its targets take nothing, the answer would not be read either, so another connection asks then. A stream keeps what was
read: what waits there reaches from the offset that was read last to the stream's end, which is its first offset and
the number of its messages. The first offset is that of the first message that a consumer is given.

Of a queue with a single active consumer, or with consumers of several priorities, one consumer may get everything.
AMQP does not show it: the others are just given nothing while messages are ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.consumer.offsets import OFFSET, offset_of
from bridge.endpoints.rabbitmq.frames import Arrived, Event
from bridge.endpoints.rabbitmq.management import ManagementClient, Unknown
from exchange.amqp import ContentHeader
from exchange.errors import BrokerError

__all__ = ["Backlog", "Reading"]

COUNT_EVERY: Final = 5.0
"""Seconds between counts."""

COUNT_SECONDS: Final = 5.0
"""Maximum number of seconds that a count takes: the source may stop reading before it has the answer."""

PASSED_OVER: Final = 30.0
"""Seconds without a delivery, while messages are ready and become no fewer, after which that is trouble even though it
is not known who gets them."""

OURS: Final = "hashstar"
"""Product of the connections of bridges, one of which may stand by for another."""


class Reading(NamedTuple):
    """How far a source has read, at a moment."""

    arrived: int
    """Number of messages that have arrived over this connection."""
    unread: int
    """Number of these that the pump has not read."""
    is_busy: bool
    """Whether messages are unacknowledged: no more may be due."""
    next_offset: int | None = None
    """Offset in the stream after the last message that arrived; None for a queue, or if it is not known."""
    is_stream: bool = False


class Backlog:
    """Counts what waits for one connection of a source, until it is cancelled.

    ``reading`` returns how far the source is; ``management`` is the address of the management API, if it is known.
    """

    def __init__(
        self, connection: Connection, queue: str, reading: Callable[[], Reading], management: str | None
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._reading = reading
        self._management = management
        self._other: Connection | None = None
        """Connection that asks while the own one is not read."""
        self._waiting: int | None = None
        """Number of messages that wait at the broker, at the last count."""
        self._before: tuple[int, int] | None = None
        """Messages that had arrived, and that waited, at the count before; of a stream, the next offset, and all."""
        self._passed_since: float | None = None
        """Since when nothing was given although messages waited, and were not taken by others; the loop's time."""
        self.withheld = 0
        """Number of messages that are ready and are given to other consumers."""
        self.trouble: str | None = None
        """Who gets the messages, if another program does."""

    @property
    def lag(self) -> int | None:
        """Number of messages that were not read; None if it is not known."""
        return None if self._waiting is None else self._waiting + self._reading().unread

    async def keep_counting(self) -> None:
        """Count every `COUNT_EVERY` seconds; a count that fails leaves the lag unknown, and the next is tried again."""
        try:
            while True:
                try:
                    async with asyncio.timeout(COUNT_SECONDS):
                        await self._count()
                except (Disconnected, BrokerError, TimeoutError):  # no permission, or the end, reported elsewhere
                    self._waiting = self._before = None
                    await self._close_other()
                await asyncio.sleep(COUNT_EVERY)
        finally:
            await self._close_other()

    async def _count(self) -> None:
        connection = await self._choose_connection()
        reading = self._reading()
        answer = await connection.look("queue", self._queue)
        count = int(answer.method.message_count)
        if reading.is_stream:
            self._waiting = await self._count_in_stream(connection, count, reading)
            return
        self._waiting = count
        await self._look_for_others(count, reading)

    async def _choose_connection(self) -> Connection:
        if not self._connection.is_paused:
            await self._close_other()
            return self._connection
        if self._other is None:
            self._other = await Connection.open([self._connection.parameters], lambda _: None)
        return self._other

    async def _close_other(self) -> None:
        other, self._other = self._other, None
        if other is not None:
            await other.close()

    # Streams.

    async def _count_in_stream(self, connection: Connection, count: int, reading: Reading) -> int | None:
        if not count:
            return 0
        if reading.next_offset is None:
            return None
        if self._before != (reading.next_offset, count):
            self._waiting = max(0, await self._find_first_offset(connection) + count - reading.next_offset)
            self._before = reading.next_offset, count
        return self._waiting

    async def _find_first_offset(self, connection: Connection) -> int:
        """Return the first offset of the stream, which is not empty."""
        channel = await connection.channel()
        first: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def take(events: list[Event]) -> None:
            event = events[0]
            if not first.done() and isinstance(event, Arrived):
                first.set_result(offset_of(ContentHeader(event.properties)) or 0)

        channel.on_events = take
        await channel.consume(self._queue, exclusive=False, arguments={OFFSET: "first"}, prefetch=1)
        try:
            return await first
        finally:
            channel.close()

    # Other consumers.

    async def _look_for_others(self, count: int, reading: Reading) -> None:
        """Find out whether messages are ready and this consumer is given none of them."""
        now = asyncio.get_running_loop().time()
        before, self._before = self._before, (reading.arrived, count)
        is_passed_over = before is not None and before[0] == self._reading().arrived and not reading.is_busy
        if not (is_passed_over and count and not self._connection.is_paused):
            self.withheld, self.trouble, self._passed_since = 0, None, None
            return
        self.withheld = count
        active = await self._find_active()
        if active is not None:
            self.trouble = None if active == OURS else f"{count:,} messages are not given to this bridge: {active}"
            return
        if before is not None and count < before[1]:  # another one takes them
            self._passed_since = None
        self._passed_since = self._passed_since or now
        is_trouble = now - self._passed_since >= PASSED_OVER
        self.trouble = (
            f"{count:,} messages are ready, and this bridge is given none of them: another consumer, the single active "
            "one or of a higher priority, does not take them either"
            if is_trouble
            else None
        )

    async def _find_active(self) -> str | None:
        """Return who the single active consumer is, `OURS` for a bridge; None if that is not known."""
        if self._management is None:
            return None
        management = ManagementClient(self._connection.parameters, self._management)
        try:
            known = await management.queue(self._queue)
            active = next((each for each in known.get("consumer_details") or () if _is_active(each)), None)
            if active is None:
                return None
            channel = active.get("channel_details") or {}
            name = str(channel.get("connection_name"))
            if await management.product(name) == OURS:
                return OURS
        except (Unknown, AttributeError):  # or an answer of another form
            return None
        return (
            f"the single active consumer is {active.get('consumer_tag')!r} of user {channel.get('user')!r}, connection "
            f"{name}; end it, or give the bridge a queue of its own"
        )


def _is_active(consumer: Mapping[str, Any]) -> bool:
    return consumer.get("activity_status") == "single_active"
