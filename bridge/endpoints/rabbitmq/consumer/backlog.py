"""How many messages wait in the queue or stream of a source, and whether the broker gives them to another reader.

A queue's messages are counted by a passive declare: those that are ready. While the source's own socket is not read, as
its targets take nothing, the answer would not be read either, so another connection asks then. A stream keeps what was
read: what waits there reaches from the offset that was read last to the stream's end, which is its first offset and
the number of its messages. The first offset is that of the first message that a consumer is given.

A stream has entries of the broker's own, at least one for each of its files, with offsets like those of messages. So
what waits may be counted too high by some, until a reader that may be given more is given nothing.

A broker removes messages that nobody has read. Of a stream, these are offsets that were passed over; of a queue, only
this much can be known: when fewer messages are ready than before, nothing was given to this reader meanwhile, and it is
the only one, the others were removed. Those that go while it is not connected, or while it reads, are not counted.

Of a queue with a single active consumer, or with consumers of several priorities, one consumer may get everything.
AMQP does not show it: the others are just given nothing while messages are ready.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from bridge.endpoint import Disconnected, Removal
from bridge.endpoints.deletions import Deletions
from bridge.endpoints.outages import show_seconds
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.consumer.resuming import fetch_first, find_offset
from bridge.endpoints.rabbitmq.frames import Arrived
from bridge.endpoints.rabbitmq.management import ManagementClient, Unknown
from exchange.amqp import ContentHeader, MalformedHeader
from exchange.amqp.streams import read_offset
from exchange.errors import BrokerError
from exchange.text.display import count_noun

LOG: Final = logging.getLogger(__name__)

COUNT_EVERY: Final = 5.0
"""Seconds between counts."""

COUNT_SECONDS: Final = 5.0
"""Maximum number of seconds that a count takes: the source may stop reading before it has the answer."""

PASSED_OVER: Final = 30.0
"""Seconds without a delivery, while messages are ready and become no fewer, after which that is trouble even though it
is not known who gets them."""

OURS: Final = "hashstar"
"""Product of the connections of bridges, one of which may stand by for another."""


EXPIRATIONS: Final = 10
"""Number of minutes of reading whose messages' expirations count. An outage is no reading: what waits then may well
expire as what was read before it."""


class Removed:
    """The messages of a source that were, or may be, removed unread; it outlives the source's connections."""

    def __init__(self, name: str, queue: str) -> None:
        self._name = name
        self._queue = queue
        self.count = 0
        """Number of messages that were removed before they were read."""
        self.deletions = Deletions()
        """Offsets of the present stream that were passed over."""
        self.settings: Sequence[Removal] = ()
        """What removes messages by the queue's settings, as they were seen last."""
        self._minute = 0
        """Minute of the last read, by the loop's time."""
        self._shortest: dict[int, float] = {}
        """Minute -> shortest expiration of the messages that were read in it, in seconds."""

    def note_read(self, now: float) -> None:
        """Take note that messages are read now, and forget expirations that were seen too long before."""
        self._minute = int(now // 60)
        while self._shortest and (first := next(iter(self._shortest))) <= self._minute - EXPIRATIONS:
            del self._shortest[first]

    def see_expiration(self, content: ContentHeader) -> None:
        """Take note of a message just read that expires by itself: those behind it may, too."""
        with suppress(MalformedHeader, ValueError):
            seconds = int(content.property("expiration")) / 1_000
            self._shortest[self._minute] = min(seconds, self._shortest.get(self._minute, seconds))

    @property
    def expirations(self) -> Sequence[Removal]:
        """What removes messages that expire by themselves, if some of the latest that were read do."""
        if not self._shortest:
            return ()
        seconds = min(self._shortest.values())
        time = show_seconds(seconds)
        what = f"queue {self._queue!r} has messages that their publisher lets expire after {time} (expiration)"
        return (Removal(what, seconds),)

    def forget(self) -> None:
        """Forget the offsets of a stream that is gone."""
        self.deletions = Deletions()

    def pass_over(self, arrived: Sequence[Arrived], expected: int | None) -> int | None:
        """Take note of the offsets of a stream that were passed over; return that after the last message.

        ``expected`` is the offset after the message before these; None if it is not known.
        """
        last = read_offset(ContentHeader(arrived[-1].properties))
        if expected is None:
            expected = read_offset(ContentHeader(arrived[0].properties))
        if last is not None and expected is not None and last - expected >= len(arrived):
            for each in arrived:
                offset = read_offset(ContentHeader(each.properties))
                if offset is not None and offset > expected:
                    self.deletions.pass_over(expected, offset)
                expected = expected if offset is None else offset + 1
        return expected if last is None else last + 1

    def add(self, count: int, way_out: str) -> None:
        """Count messages that were removed, and log it."""
        if count > 0:
            self.count += count
            LOG.error(
                "%s: queue %r: RabbitMQ has removed %s messages before they were read; %s",
                self._name, self._queue, f"{count:,}", way_out,
            )  # fmt: skip


class Reading(NamedTuple):
    """How far a source has read, at a moment."""

    arrived: int
    """Number of messages that have arrived over this connection."""
    unread: int
    """Number of these that the pump has not read."""
    acked: int
    """Delivery tag up to which they are acknowledged."""
    next_offset: int | None = None
    """Offset in the stream after the last message that arrived; None for a queue, or if it is not known."""
    is_stream: bool = False

    @property
    def is_busy(self) -> bool:
        """Whether messages are unacknowledged: no more may be due."""
        return self.arrived > self.acked


class Backlog:
    """Counts what waits for one connection of a source, until it is cancelled.

    ``reading`` returns how far the source is; ``management`` is the address of the management API, if it is known.
    """

    def __init__(
        self,
        connection: Connection,
        queue: str,
        reading: Callable[[], Reading],
        management: str | None,
        removed: Removed,
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._reading = reading
        self._management = management
        self._removed = removed
        self._other: Connection | None = None
        """Connection that asks while the own one is not read."""
        self._end: int | None = None
        """Number of messages that have arrived and that wait at the broker, at the last count; of a stream, its end."""
        self._before: tuple[int, int] | None = None
        """Messages that had arrived, and that waited, at the count before; of a stream, the next offset, and all."""
        self._stood_at: tuple[int, int] | None = None
        """Messages that had arrived, and those that were acknowledged, at the count before; None if others read."""
        self._still: int | None = None
        """Number that waited at the count before, if nothing was read or acknowledged since the count before that."""
        self._passed_since: float | None = None
        """Since when nothing was given although messages waited, and were not taken by others; the loop's time."""
        self.withheld = 0
        """Number of messages that are ready and are given to other consumers."""
        self.trouble: str | None = None
        """Who gets the messages, if another program does."""

    @property
    def lag(self) -> int | None:
        """Number of messages that were not read; None if it is not known."""
        if self._end is None:
            return None
        reading = self._reading()  # what arrived since the count waits no more
        position = reading.next_offset if reading.is_stream else reading.arrived
        return reading.unread + max(0, self._end - (position or 0))

    async def keep_counting(self) -> None:
        """Count every `COUNT_EVERY` seconds; a count that fails leaves the lag unknown, and the next is tried again."""
        try:
            while True:
                try:
                    async with asyncio.timeout(COUNT_SECONDS):
                        await self._count()
                except (Disconnected, BrokerError, TimeoutError):  # no permission, or the end, reported elsewhere
                    self._end = self._before = self._stood_at = None
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
            self._end = await self._find_end_of_stream(connection, count, reading)
            return
        self._end = reading.arrived + count
        self._look_for_removed(count, reading, is_alone=answer.method.consumer_count <= 1)
        await self._look_for_others(count, reading)

    def _look_for_removed(self, count: int, reading: Reading, *, is_alone: bool) -> None:
        """Count what is gone of a queue, if neither this consumer nor another one was given it."""
        position = reading.arrived, reading.acked
        is_still = is_alone and not self._connection.is_paused and position == self._stood_at
        now = self._reading()
        if not is_still or (now.arrived, now.acked) != position:
            self._still = None
        else:  # what was on its way at the count before has arrived by now
            if self._still is not None:
                self._removed.add(self._still - count, "see its message-ttl and max-length; or it was purged")
            self._still = count
        self._stood_at = position if is_alone else None

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

    async def _find_end_of_stream(self, connection: Connection, count: int, reading: Reading) -> int | None:
        """Return the offset after the last message of the stream; None if it is not known how far it was read."""
        if reading.next_offset is None:
            return None if count else 0
        if not count:
            return reading.next_offset
        if self._before == (reading.next_offset, count):
            is_at_end = not (reading.is_busy or self._connection.is_paused)  # it would be given what there is
            return reading.next_offset if is_at_end else self._end
        first = find_offset(await fetch_first(connection, self._queue, "first")) or 0
        self._before = reading.next_offset, count
        removed = self._removed
        removed.add(
            removed.deletions.count(reading.next_offset, first, is_drained=not reading.is_busy),
            "see its max-age and max-length-bytes",
        )
        return first + count

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
        ready = count_noun(count, "message is", "messages are")
        active = await self._find_active()
        if active is not None:
            self.trouble = None if active == OURS else f"{ready} not given to this bridge: {active}"
            return
        if before is not None and count < before[1]:  # another one takes them
            self._passed_since = None
        self._passed_since = self._passed_since or now
        is_trouble = now - self._passed_since >= PASSED_OVER
        self.trouble = (
            f"{ready} ready, and this bridge is given none of them: another consumer, the single active "
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
