"""A queue or a stream as a source.

The deliveries of a connection are one lane: one basic.ack with ``multiple`` acknowledges all that are settled. For a
stream, acknowledgements only ask for more messages; the settled offset is kept by `bridge.endpoints.rabbitmq.offsets`,
and reading continues after it. The broker sends as many messages as the prefetch allows, however large they are. So
while more has arrived than the pump can soon take, the socket is not read. Messages keep their content header as the
bytes that were received, see `exchange.amqp`.
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
from bridge.endpoints.rabbitmq.frames import Arrived, Event, encode_ack
from bridge.endpoints.rabbitmq.offsets import Offsets
from bridge.endpoints.rabbitmq.redeliveries import Redeliveries, count_deliveries
from bridge.endpoints.rabbitmq.refusals import explain_refusal, refuses_argument
from bridge.interop import identity_of_message
from exchange.amqp import ContentHeader, MalformedHeader, content_of, message_of
from exchange.errors import BrokerError
from exchange.field_values import type_and_value

__all__ = ["RabbitmqSource"]

LOG: Final = logging.getLogger(__name__)

FIXED_BYTES: Final = 512
"""Approximate size of a delivery in memory besides its body and properties, in bytes."""

OFFSET: Final = "x-stream-offset"

FIND_SECONDS: Final = 10.0
"""Maximum number of seconds until a stream delivers the message that was settled last."""

WRITE_SECONDS: Final = 1.0
"""Seconds from settling until the file of offsets is written."""

COUNT_EVERY: Final = 10.0
"""Seconds between questions for the number of messages in the queue."""

BUFFER_BYTES: Final = 8 << 20
"""Maximum size of deliveries that have arrived and that the pump has not read, in bytes; one read of the socket may
exceed it."""


class RabbitmqSource(Source):
    """A queue or a stream of a broker.

    At most ``prefetch`` deliveries are unacknowledged; the pump's window should not be larger. A stream is read after
    the last settled message, or else from ``offset`` on: ``first``, ``last``, ``next``, a number, or an age as ``1h``.
    ``offsets`` is the file that keeps the last settled offset; without it, each start begins at ``offset``.
    ``window_bytes`` is the size of the pump's window, ``management`` the address of the management API, for `check`.
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
        self._is_stream = False
        """Whether the consumer of the present connection reads a stream: the queue may be another one at the next."""
        self._epoch = 0
        """Number of the lane, changed by `open` and `close`: deliveries of an earlier connection settle nothing."""
        self._settled = 0
        """Delivery tag of the last settled delivery."""
        self._acked = 0
        """Delivery tag up to which deliveries are acknowledged."""
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
        findings = list(await check_source(self._brokers, settings, self._management))
        if (problem := self._offsets.problem) is not None:
            findings.append(Finding("error", problem, "offsets"))
        return findings

    async def open(self) -> None:
        self._epoch += 1
        self._forget()
        self._news.clear()
        self._trouble = None
        self._settled = self._acked = 0
        wait = self._redeliveries.wait(asyncio.get_running_loop().time())
        if wait:
            raise Disconnected(f"is not read for another {wait:.0f} s: {self._redeliveries.warning}")
        if (problem := self._offsets.problem) is not None:  # the last settled offset would be lost
            raise Disconnected(problem)
        try:
            connection = self._connection = await Connection.open(self._brokers, self._lost)
            await self._consume(connection)
            if self._is_stream and self._offsets.last is not None:
                await self._skip_settled(self._offsets.last)
        except BrokerError as error:
            await self.close()
            raise Disconnected(explain_refusal(error, f"queue {self._queue!r}")) from None
        except BaseException:
            await self.close()
            raise
        self._counting = asyncio.create_task(self._count_ready())

    async def _count_ready(self) -> None:
        """Ask for the number of messages in the queue every `COUNT_EVERY` seconds, as long as the broker answers."""
        connection = self._connection
        with suppress(Disconnected, BrokerError):  # no permission, or the end, which is reported elsewhere
            while connection is not None:
                answer = await connection.look("queue", self._queue)
                self._ready = int(answer.method.message_count)
                await asyncio.sleep(COUNT_EVERY)

    def _forget(self) -> None:
        """Forget what has arrived; it will be delivered again."""
        self._arrived.clear()
        self._arrived_bytes = 0

    async def _consume(self, connection: Connection) -> None:
        """Consume from the queue, whatever it is now: a stream takes an offset, which queues of other types refuse.

        Raises BrokerError for other refusals, Disconnected.
        """
        last = self._offsets.last
        try:
            await self._begin(connection, {OFFSET: self._offset if last is None else last, **self._arguments})
        except BrokerError as error:
            if not refuses_argument(error, OFFSET):
                raise
            self._is_stream = False
            self._offsets.forget()  # of a stream that is gone; a later one of this name counts anew
            await self._begin(connection, self._arguments)
        else:
            self._is_stream = True

    async def _begin(self, connection: Connection, arguments: Mapping[str, Any]) -> None:
        """Consume on a new channel. Raises BrokerError, Disconnected."""
        channel = await connection.channel()
        channel.on_events = self._take
        prefetch = self._redeliveries.limit_prefetch(self._prefetch, asyncio.get_running_loop().time())
        await channel.consume(self._queue, exclusive=self._exclusive, arguments=arguments, prefetch=prefetch)
        self._channel = channel

    async def _skip_settled(self, last: int) -> None:
        """Skip the message that was settled last. Raises Disconnected if there is neither this message nor a later one.

        A stream always keeps its newest segment, so if both are missing, it is another stream with the same name. A
        consumer at the old offset would get nothing until the new stream is that long, and would miss all messages
        before.
        """
        try:
            async with asyncio.timeout(FIND_SECONDS):
                await self._wait_for_arrival()
        except TimeoutError:
            raise Disconnected(
                f"{self.name}: stream {self._queue!r} has nothing from offset {last} on, which was settled; if it was "
                f"deleted and declared anew, {self._offsets.way_out}"
            ) from None
        first = self._arrived[0]
        if _offset(ContentHeader(first.properties)) == last:
            known = self._offsets.fingerprint
            if known and known != _fingerprint(first.exchange, first.routing_key, first.body):
                self._offsets.forget()  # without a file, the next try begins as a new source would
                way_out = f"; {self._offsets.way_out} to read it from its beginning" if self._offsets.has_file else ""
                raise Disconnected(
                    f"{self.name}: stream {self._queue!r} has another message at offset {last} than the one that was "
                    f"settled: it was deleted and declared anew{way_out}"
                )
            self._arrived.popleft()
            self._arrived_bytes -= len(first.body) + FIXED_BYTES
            self._settled = first.tag
            self._ack()

    def _take(self, events: list[Event]) -> None:
        arrived = cast("list[Arrived]", events)  # a channel without publishes has no other events
        self._arrived += arrived
        self._arrived_bytes += sum([len(event.body) for event in arrived]) + FIXED_BYTES * len(arrived)
        if self._arrived_bytes > self._buffer_bytes and self._connection is not None:
            self._connection.pause()
        self._news.set()

    def _lost(self, error: Disconnected) -> None:
        self._trouble = error
        self._news.set()

    async def _wait_for_arrival(self) -> None:
        """Wait until there is a delivery that was not read. Raises Disconnected."""
        while not self._arrived or self._trouble is not None:
            if self._trouble is not None:
                raise self._trouble
            if self._connection is None:
                raise Disconnected(f"{self.name}: closed")
            self._news.clear()
            await self._news.wait()

    async def read(self, limit: int) -> Sequence[Delivery]:
        await self._wait_for_arrival()
        arrived, epoch, origin = self._arrived, self._epoch, self._origin
        deliveries = []
        taken = 0
        for _ in range(min(limit, len(arrived))):
            tag, redelivered, exchange, key, properties, body = arrived.popleft()
            content = ContentHeader(properties)
            message = message_of(decode_name(exchange), decode_name(key), content, body)
            size = len(body) + len(properties) + FIXED_BYTES
            taken += len(body)
            if redelivered:
                self._check_redelivery(content)
            identity = time = None
            if properties[1] & ID_OR_TIME or (properties[0] & HEADERS and b"x-" in properties):
                identity, time = self._read_identity_and_time(content)
            deliveries.append(Delivery(message, epoch, tag, identity, time, redelivered, size, origin))
        self._arrived_bytes -= taken + FIXED_BYTES * len(deliveries)
        if self._arrived_bytes <= self._buffer_bytes // 2 and self._connection is not None:
            self._connection.resume()
        return deliveries

    def _check_redelivery(self, content: ContentHeader) -> None:
        """Count the earlier deliveries of a message, and log a warning if it is in danger."""
        if self._redeliveries.see(count_deliveries(content), asyncio.get_running_loop().time()):
            LOG.error("%s: %s", self.name, self._redeliveries.warning)

    def _read_identity_and_time(self, content: ContentHeader) -> tuple[str | None, int | None]:
        """Return identity and time of a message; None for both if its header cannot be read."""
        with suppress(MalformedHeader):
            stamp = content.property("timestamp")
            time = None if stamp is None else known_time(stamp.value * 1_000_000)
            return identity_of_message(self.name, self._queue, content), time
        return None, None

    def settle(self, delivery: Delivery) -> None:
        if delivery.lane != self._epoch:
            return
        if self._settled == self._acked:  # no ack is due yet: one per turn of the loop, for all that is settled in it
            asyncio.get_running_loop().call_soon(self._ack)
        self._settled = delivery.position
        if self._is_stream:
            self._remember_offset(delivery)

    def _remember_offset(self, delivery: Delivery) -> None:
        """Remember the offset of a stream's settled delivery, and have it written soon."""
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
            self._connection.write(encode_ack(self._channel.number, self._settled, multiple=True))
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
    """Return a hash that identifies a message, without its headers, whose encoding differs between broker releases."""
    return sha256(b"\0".join([exchange, routing_key, body])).hexdigest()[:32]


def _offset(content: ContentHeader) -> int | None:
    kind, offset = type_and_value(content.header(OFFSET))
    return offset if kind == "long" else None


HEADERS: Final = 0x20
"""Flag of the headers in the first byte of a content header."""

ID_OR_TIME: Final = 0x80 | 0x40
"""Flags of message_id and timestamp in the second byte."""


def decode_name(name: bytes) -> str:
    """Decode a short string of AMQP; bytes that are not UTF-8 become surrogates."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name.decode("utf-8", "surrogateescape")
