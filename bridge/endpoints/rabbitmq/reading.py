"""A queue or a stream as a source.

Deliveries of a connection are one lane, acknowledged as a prefix with one basic.ack. Of a stream, where
acknowledgements only ask for more, the offset is kept in `bridge.endpoints.rabbitmq.offsets`, and reading goes on
behind it. The broker sends as much as the prefetch allows, however large; so when more has arrived than the pump may
soon take, the socket is not read until it has. Messages keep their content header as the bytes it came as, see
`exchange.amqp`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

import pika

from bridge.endpoint import Delivery, Disconnected, Finding, Place, Source, known_time
from bridge.endpoints.rabbitmq.checking import SourceSettings, check_source, places_of_queue
from bridge.endpoints.rabbitmq.connection import Channel, Connection
from bridge.endpoints.rabbitmq.frames import Arrived, Event, ack
from bridge.endpoints.rabbitmq.offsets import Offsets
from bridge.endpoints.rabbitmq.redeliveries import Redeliveries, count_deliveries
from bridge.interop import identity_of_message
from exchange.amqp import ContentHeader, MalformedHeader, content_of, message_of
from exchange.errors import BrokerError
from exchange.field_values import type_and_value

__all__ = ["RabbitmqSource"]

LOG: Final = logging.getLogger(__name__)

NO_ACCESS: Final = 403
NOT_FOUND: Final = 404

PASSING: Final = ("in exclusive use", "exclusive access", "RESOURCE_LOCKED")
"""Words of refusals that say that somebody else consumes exclusively."""

FIXED_BYTES: Final = 512
"""What a delivery takes beside its body, about."""

OFFSET: Final = "x-stream-offset"

FIND_SECONDS: Final = 10.0
"""How long a stream may take to give the message that was settled last."""

WRITE_SECONDS: Final = 1.0
"""The file of offsets is behind by so much at most."""

COUNT_EVERY: Final = 10.0
"""Seconds between looks at how many messages wait in the queue."""

BUFFER_BYTES: Final = 8 << 20
"""Maximum size of what has arrived and was not given to the pump, in bytes, plus what one read of the socket brings."""


class RabbitmqSource(Source):
    """A queue, or a stream.

    ``prefetch`` deliveries are unacknowledged at most; the pump's window should not be larger. A stream is read from
    behind what was settled, or else from ``offset`` on: ``first``, ``last``, ``next``, a number, an age as ``1h``.
    ``offsets`` is the file that remembers what was settled; without it, each start begins at ``offset``.
    ``window_bytes`` is that of the pump's window, ``management`` the address of the management API, for `check`.
    """

    def __init__(
        self,
        name: str,
        brokers: Sequence[pika.URLParameters],
        queue: str,
        *,
        prefetch: int = 2_000,
        exclusive: bool = False,
        offsets: Path | None = None,
        offset: str | int = "first",
        arguments: Mapping[str, Any] | None = None,
        window_bytes: int = 256 << 20,
        management: str | None = None,
    ) -> None:
        self.name = name
        self._management = management
        self._brokers = brokers
        self._buffer_bytes: Final = min(BUFFER_BYTES, window_bytes // 4)
        self._queue = queue
        self._prefetch = prefetch
        self._exclusive = exclusive
        self._offsets: Final = Offsets(offsets)
        self._offset = offset
        self._arguments = arguments or {}
        self._origin: Final = f"queue {queue}"
        self._connection: Connection | None = None
        self._channel: Channel | None = None
        self._redeliveries: Final = Redeliveries(queue)
        self._arrived: deque[Arrived] = deque()
        self._arrived_bytes = 0
        self._news = asyncio.Event()
        self._trouble: Disconnected | None = None
        self._is_stream: bool | None = None
        """None: not known yet. RabbitMQ before 4 does not tell, and then they are all taken for streams."""
        self._epoch = 0
        self._settled = 0
        self._acked = 0
        self._writing: asyncio.TimerHandle | None = None
        self._ready: int | None = None
        self._counting: asyncio.Task[None] | None = None

    @property
    def lost(self) -> Disconnected | None:
        return self._trouble

    @property
    def trouble(self) -> str | None:
        now = asyncio.get_running_loop().time()
        if self._redeliveries.in_danger(now):
            return self._redeliveries.warning
        return None if self._connection is None else self._connection.silence

    @property
    def most_deliveries(self) -> int:
        return self._redeliveries.most

    @property
    def lag(self) -> int | None:
        return self._ready

    @property
    def places(self) -> frozenset[Place]:
        return places_of_queue(self._brokers, self._queue)

    async def check(self) -> Sequence[Finding]:
        settings = SourceSettings(self._queue, self._exclusive, self._offsets.has_file)
        found = list(await check_source(self._brokers, settings, self._management))
        if (problem := self._offsets.problem) is not None:
            found.append(Finding("error", problem, "offsets"))
        return found

    async def open(self) -> None:
        self._epoch += 1
        self._forget()
        self._news.clear()
        self._trouble = None
        self._settled = self._acked = 0
        wait = self._redeliveries.wait(asyncio.get_running_loop().time())
        if wait:
            raise Disconnected(f"is not read for another {wait:.0f} s: {self._redeliveries.warning}")
        if (problem := self._offsets.problem) is not None:  # what is settled would be forgotten
            raise Disconnected(problem)
        try:
            await self._consume()
        except BaseException:
            await self.close()
            raise
        self._counting = asyncio.create_task(self._count())

    async def _count(self) -> None:
        """Count the messages that wait in the queue, from time to time, as long as the broker lets us."""
        connection = self._connection
        with suppress(Disconnected, BrokerError):  # a right that is missing, or the end, of which others hear
            while connection is not None:
                found = await connection.look("queue", self._queue)
                self._ready = int(found.method.message_count)
                await asyncio.sleep(COUNT_EVERY)

    def _forget(self) -> None:
        """Forget what has arrived; it will be delivered again."""
        self._arrived.clear()
        self._arrived_bytes = 0

    async def _consume(self) -> None:
        arguments = dict(self._arguments)
        if self._is_stream is not False:
            last = self._offsets.last
            arguments.setdefault(OFFSET, self._offset if last is None else last)
        self._connection = await Connection.open(self._brokers, self._lost)
        self._channel = await self._connection.channel()
        self._channel.on_events = self._take
        try:
            prefetch = self._redeliveries.prefetch(self._prefetch, asyncio.get_running_loop().time())
            await self._channel.consume(self._queue, exclusive=self._exclusive, arguments=arguments, prefetch=prefetch)
        except BrokerError as error:
            await self._connection.close()
            if OFFSET in str(error) and self._is_stream is None:
                self._is_stream = False
                self._trouble = None
                await self._consume()
                return
            raise Disconnected(explain_refusal(error, f"queue {self._queue!r}")) from None
        self._is_stream = self._is_stream is not False
        if self._is_stream and self._offsets.last is not None:
            await self._find(self._offsets.last)

    async def _find(self, last: int) -> None:
        """Pass over the message that was settled last. Raises Disconnected when there is neither it nor a later one.

        A stream keeps its newest segment, so then it is another stream of this name, of which a consumer at a large
        offset would be given nothing until it has grown as large: all of that would be lost.
        """
        try:
            async with asyncio.timeout(FIND_SECONDS):
                await self._arrival()
        except TimeoutError:
            raise Disconnected(
                f"{self.name}: stream {self._queue!r} has nothing from offset {last} on, which was settled; if it was "
                f"deleted and declared anew, {self._offsets.way_out}"
            ) from None
        first = self._arrived[0]
        if _offset(ContentHeader(first.properties)) == last:
            known = self._offsets.fingerprint
            if known and known != _fingerprint(first.exchange, first.routing_key, first.body):
                raise Disconnected(
                    f"{self.name}: stream {self._queue!r} has another message at offset {last} than the one that was "
                    f"settled: it was deleted and declared anew; {self._offsets.way_out} to read it from its beginning"
                )
            self._arrived.popleft()
            self._arrived_bytes -= len(first.body) + FIXED_BYTES
            self._settled = first.tag
            self._ack()

    def _take(self, events: list[Event]) -> None:
        arrived = cast("list[Arrived]", events)  # a channel that publishes nothing hears nothing else
        self._arrived += arrived
        self._arrived_bytes += sum([len(event.body) for event in arrived]) + FIXED_BYTES * len(arrived)
        if self._arrived_bytes > self._buffer_bytes and self._connection is not None:
            self._connection.pause()
        self._news.set()

    def _lost(self, error: Disconnected) -> None:
        self._trouble = error
        self._news.set()

    async def _arrival(self) -> None:
        """Wait until something has arrived that was not read. Raises Disconnected."""
        while not self._arrived or self._trouble is not None:
            if self._trouble is not None:
                raise self._trouble
            if self._connection is None:
                raise Disconnected(f"{self.name}: closed")
            self._news.clear()
            await self._news.wait()

    async def read(self, limit: int) -> Sequence[Delivery]:
        await self._arrival()
        arrived, epoch, origin = self._arrived, self._epoch, self._origin
        deliveries = []
        taken = 0
        for _ in range(min(limit, len(arrived))):
            tag, redelivered, exchange, key, properties, body = arrived.popleft()
            content = ContentHeader(properties)
            message = message_of(text(exchange), text(key), content, body)
            size = len(body) + len(properties) + FIXED_BYTES
            taken += len(body)
            if redelivered:
                self._look_at(content)
            identity = time = None
            if properties[1] & TOLD_BEHIND or (properties[0] & HEADERS and b"x-" in properties):
                identity, time = self._told(content)
            deliveries.append(Delivery(message, epoch, tag, identity, time, redelivered, size, origin))
        self._arrived_bytes -= taken + FIXED_BYTES * len(deliveries)
        if self._arrived_bytes <= self._buffer_bytes // 2 and self._connection is not None:
            self._connection.resume()
        return deliveries

    def _look_at(self, content: ContentHeader) -> None:
        """Look how often a message was delivered before."""
        if self._redeliveries.see(count_deliveries(content), asyncio.get_running_loop().time()):
            LOG.error("%s: %s", self.name, self._redeliveries.warning)

    def _told(self, content: ContentHeader) -> tuple[str | None, int | None]:
        """Identity and time of a message, as far as its header can be read."""
        with suppress(MalformedHeader):
            stamp = content.property("timestamp")
            time = None if stamp is None else known_time(stamp.value * 1_000_000)
            return identity_of_message(self.name, self._queue, content), time
        return None, None

    def settle(self, delivery: Delivery) -> None:
        if delivery.lane != self._epoch:
            return
        if self._settled == self._acked:
            asyncio.get_running_loop().call_soon(self._ack)
        self._settled = delivery.position
        if self._is_stream:
            self._note(delivery)

    def _note(self, delivery: Delivery) -> None:
        """Remember the offset of a stream's delivery."""
        offset = _offset(content_of(delivery.message))
        if offset is not None:
            message = delivery.message
            self._offsets.settle(
                offset,
                lambda: _fingerprint(
                    message.exchange.encode("utf-8", "surrogateescape"),
                    message.routing_key.encode("utf-8", "surrogateescape"),
                    message.body,
                ),
            )
            if self._writing is None:
                self._writing = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._write)

    def _write(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        try:
            self._offsets.write()
        except OSError as error:
            trouble = Disconnected(f"offsets cannot be written: {error}")
            if self._connection is not None:
                self._connection.lose(trouble)
            else:
                LOG.error("%s: what was settled last will be read again: %s", self.name, trouble)  # noqa: TRY400

    def _ack(self) -> None:
        if self._settled > self._acked and self._channel is not None and self._connection is not None:
            self._connection.write(ack(self._channel.number, self._settled, multiple=True))
            self._acked = self._settled

    async def close(self) -> None:
        if self._counting is not None:
            self._counting.cancel()
            self._counting = None
        self._ready = None
        connection = self._connection
        if connection is not None:
            self._ack()
            self._connection = None
            await connection.close()
        self._write()
        self._channel = None
        self._epoch += 1
        self._forget()
        self._news.set()


def _fingerprint(exchange: bytes, routing_key: bytes, body: bytes) -> str:
    """Return what tells a message from others: its headers a broker may write anew from one release to the next."""
    return sha256(b"\0".join([exchange, routing_key, body])).hexdigest()[:32]


def explain_refusal(error: BrokerError, what: str) -> str:
    """Return a broker's refusal to consume, in words that say what is to be done."""
    text = str(error)
    if any(each in text for each in PASSING):
        return f"{what}: another consumer has it for itself alone"
    if error.code == NOT_FOUND:
        return f"{what}: there is none; declare it"
    if error.code == NO_ACCESS:
        return f"{what}: this user may not read it; give it the right to read"
    return f"{what}: {error.code} {text}"


def _offset(content: ContentHeader) -> int | None:
    kind, offset = type_and_value(content.header(OFFSET))
    return offset if kind == "long" else None


HEADERS: Final = 0x20
"""In the first byte of a content header."""

TOLD_BEHIND: Final = 0x80 | 0x40
"""In the second: message_id, timestamp."""


def text(name: bytes) -> str:
    """A short string as the project writes it."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name.decode("utf-8", "surrogateescape")
