"""A queue or a stream as a source.

The deliveries of a connection are one lane: one basic.ack with ``multiple`` acknowledges all that are settled. For a
stream, acknowledgements only ask for more messages; `offsets` keeps the settled offset, and reading continues after it.
The broker sends as many messages as the prefetch allows, however large they are. So while more has arrived than the
pump can soon take, the socket is not read. How many messages of a quorum queue are prefetched and given at once,
`pacing` decides; what waits, `backlog` counts. Messages keep their content header as received bytes: `exchange.amqp`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import pika

from bridge.aside import call_aside
from bridge.endpoint import Delivery, Disconnected, EndOfStream, Finding, Place, Removal, Source
from bridge.endpoints.rabbitmq.checking import SourceSettings, check_source, find_places
from bridge.endpoints.rabbitmq.connection import Channel, Connection
from bridge.endpoints.rabbitmq.consumer import resuming
from bridge.endpoints.rabbitmq.consumer.acknowledging import Acknowledging
from bridge.endpoints.rabbitmq.consumer.backlog import Backlog, Reading, Removed
from bridge.endpoints.rabbitmq.consumer.deliveries import FIXED_BYTES, find_breach, make_deliveries
from bridge.endpoints.rabbitmq.consumer.ending import ConsumerEnd
from bridge.endpoints.rabbitmq.consumer.filtering import StreamFilter
from bridge.endpoints.rabbitmq.consumer.offsets import StreamOffsets
from bridge.endpoints.rabbitmq.consumer.pacing import Pacing
from bridge.endpoints.rabbitmq.consumer.queue_facts import fetch_facts, find_host, look_up_removals
from bridge.endpoints.rabbitmq.consumer.redeliveries import Redeliveries
from bridge.endpoints.rabbitmq.frames import Arrived, Event, encode_ack
from bridge.endpoints.rabbitmq.management import Unknown
from bridge.endpoints.rabbitmq.refusals import explain_refusal, refuses_argument
from exchange.amqp.streams import STREAM_OFFSET
from exchange.errors import BrokerError

LOG: Final = logging.getLogger(__name__)

BUFFER_BYTES: Final = 8 << 20
"""Maximum size of deliveries that have arrived and were not read, in bytes; one read of the socket may exceed it."""


class RabbitmqSource(Source):
    """A queue or a stream of a broker.

    At most ``prefetch`` deliveries are unacknowledged; the pump's window, of ``window_bytes``, should not be larger. A
    stream is read after the last settled message, or else from ``offset`` on: ``first``, ``last``, ``next``, a number,
    or an age as ``1h``. ``offsets`` is the file that keeps the last settled offset; without it, each start begins anew.
    Each connection asks ``management``, that API's address, for the delivery limit of a queue, to be careful then.
    With a ``stream_filter`` it reads streams alone, and knows no lag: the broker does not report what it leaves out.
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
        stream_filter: StreamFilter | None = None,
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
        self._offsets: Final = StreamOffsets(offsets)
        self._offset = offset
        self.condition = self._filter = stream_filter
        self._title: Final = f"queue {queue!r}"
        self._connection: Connection | None = None
        self._channel: Channel | None = None
        self._redeliveries: Final = Redeliveries(queue, name)
        self._arrived: deque[Arrived] = deque()
        self._arrived_bytes = 0
        self._news = asyncio.Event()
        self._trouble: Disconnected | None = None
        self._ending: ConsumerEnd | None = None  # of the consumer, if no more messages are to be taken
        self._is_stream = False
        """Whether the consumer of the present connection reads a stream: the queue may be another one at the next."""
        self._was_stream = False
        """The same of the last consumer that the broker has answered: one that is begun is taken for a stream's."""
        self._epoch = 0
        """Number of the lane, changed by `open` and `close`: deliveries of an earlier connection settle nothing."""
        self._pacing: Pacing | None = None  # decides how many messages are given; None: as many as there are
        self._changing: asyncio.Task[None] | None = None  # begins a consumer with a larger prefetch
        self._last = 0  # delivery tag of the last delivery that has arrived
        self._given = 0  # delivery tag of the last delivery that was read
        self._settled = 0  # delivery tag of the last settled delivery
        self._acked = 0  # delivery tag up to which deliveries are acknowledged
        self._acknowledging = Acknowledging(self._ack)
        self._backlog: Backlog | None = None
        self._removed: Final = Removed(name, queue)
        self._host: tuple[pika.URLParameters, Mapping[str, Any]] | None = None
        """Host by which the management API is asked, and its properties."""
        self._counting: list[asyncio.Task[None]] = []
        self._next_offset: int | None = None
        """Offset after the last message of a stream that was settled before, or that has arrived; None: unknown."""

    @property
    def lost(self) -> Disconnected | None:
        return self._trouble

    @property
    def trouble(self) -> str | None:
        if self._redeliveries.in_danger(asyncio.get_running_loop().time()):
            return self._redeliveries.warning
        if self._connection is None or self._backlog is None:
            return None
        return self._connection.trouble or self._backlog.trouble

    @property
    def most_deliveries(self) -> int:
        return self._redeliveries.most

    @property
    def lag(self) -> int | None:
        return None if self._backlog is None else self._backlog.lag

    @property
    def withheld(self) -> int:
        return 0 if self._backlog is None else self._backlog.withheld

    @property
    def vanished(self) -> int:
        return self._removed.count

    async def find_removals(self) -> Sequence[Removal]:
        if self._management is not None:
            found, host = None, self._host
            with suppress(Disconnected):  # what was seen last counts, and what the messages have themselves
                host = host or await find_host(self._brokers)
                found = await look_up_removals(*host, self._management, self._queue)
            self._host = None if found is None and self._connection is None else host  # another one may answer
            self._removed.settings = self._removed.settings if found is None else found
        return [*self._removed.settings, *(() if self._is_stream else self._removed.expirations)]

    @property
    def places(self) -> frozenset[Place]:
        return find_places(self._brokers, self._queue)

    @property
    def settled_in(self) -> str | None:
        return None if self._was_stream and not self._offsets.has_file else str(self._offsets.path or "")

    async def check(self) -> Sequence[Finding]:
        settings = SourceSettings(
            self._queue, self._exclusive, self._offsets.has_file, self._management is not None, self._prefetch
        )
        findings = list(await check_source(self._brokers, settings, self._management))
        if (problem := self._offsets.problem) is not None:
            findings.append(Finding("error", problem, "offsets"))
        if not any(each.level == "error" for each in findings):
            findings += await resuming.check_position(
                self._brokers, self._queue, self._offsets, self._offset, is_filtered=self._filter is not None
            )
        return findings

    async def open(self) -> None:
        self._epoch += 1
        self._forget()
        self._news.clear()
        self._trouble = self._ending = None
        self._last = self._given = self._settled = self._acked = 0
        self._acknowledging = Acknowledging(self._ack)
        if (problem := await call_aside(lambda: self._offsets.problem)) is not None:  # what is settled would be lost
            raise Disconnected(problem)
        last = await call_aside(lambda: self._offsets.last)  # from the file; whether this is a stream is not known yet
        try:
            connection = self._connection = await Connection.open(self._brokers, self._lost)
            self._host = connection.parameters, connection.server
            await self._learn(connection)
            await self._consume(connection, last)
            if self._is_stream and last is not None:
                await self._skip_settled(connection, last)
        except BrokerError as error:
            await self.close()
            raise Disconnected(explain_refusal(error, self._title)) from None
        except BaseException:
            await self.close()
            raise
        self._backlog = Backlog(connection, self._queue, self._describe_reading, self._management, self._removed)
        if self._filter is None:  # else it would count what the broker leaves out as waiting, or as removed
            self._counting.append(asyncio.create_task(self._backlog.keep_counting()))

    async def _learn(self, connection: Connection) -> None:
        """Find out how carefully the queue is to be read now. Raises Disconnected if it is not to be read yet."""
        self._pacing = None
        if self._management is not None:
            try:
                facts = await fetch_facts(connection.parameters, self._management, connection.server, self._queue)
            except Unknown as error:
                LOG.warning("%s: %s: if its queue has a delivery limit, that is not known", self.name, error)
            else:
                self._redeliveries.learn(facts.delivery_limit)
                self._pacing = None if facts.alone_from is None else Pacing(facts.alone_from, self._prefetch)
        wait = self._redeliveries.wait(asyncio.get_running_loop().time())
        if wait:
            raise Disconnected(f"is not read for another {wait:.0f} s: {self._redeliveries.warning}")

    def _describe_reading(self) -> Reading:
        return Reading(self._last, len(self._arrived), self._acked, self._next_offset, self._is_stream)

    def _forget(self) -> None:
        """Forget what has arrived; it will be delivered again."""
        self._arrived.clear()
        self._arrived_bytes = 0

    async def _consume(self, connection: Connection, last: int | None) -> None:
        """Consume: from a stream what follows ``last``, otherwise what is next. Raises BrokerError, Disconnected."""
        self._is_stream, self._next_offset = True, None if last is None else last + 1  # messages come before the answer
        start = self._offset if last is None else last + (self._filter is not None)
        wanted = {} if self._filter is None else self._filter.arguments
        try:
            await self._begin(connection, {STREAM_OFFSET: start, **wanted})
        except (BrokerError, Disconnected) as error:
            if isinstance(error, Disconnected) or not refuses_argument(error, STREAM_OFFSET):
                self._is_stream = self._was_stream  # what it is now is not known
                raise
            self._is_stream = False
            if self._filter is not None:
                raise resuming.NoStream(self._queue) from None
            self._offsets.forget()  # of a stream that is gone; a later one of this name counts anew
            self._removed.forget()
            await self._begin(connection, {})
        self._was_stream = self._is_stream
        self.takes_back = not self._is_stream

    async def _begin(self, connection: Connection, arguments: Mapping[str, Any]) -> None:
        """Consume on a new channel. Raises BrokerError, Disconnected."""
        channel = await connection.channel()
        channel.on_events = self._take
        now = asyncio.get_running_loop().time()
        prefetch = self._redeliveries.limit_prefetch(self._prefetch, now) if self._pacing is None else 1
        await channel.consume(self._queue, exclusive=self._exclusive, arguments=arguments, prefetch=prefetch)
        self._channel = channel

    async def _pace(self, pacing: Pacing, limit: int) -> int:
        """Return how many messages may be read, 1 to ``limit``, as soon as that is so. Raises as `read`."""
        while True:
            self._check_connected()
            is_steady = self._changing is None and self._ending is None
            connection, channel = self._connection, self._channel
            if is_steady and connection and channel and pacing.may_start(self._arrived, self._given, self._settled):
                # In a task, which a read that is cancelled does not end.
                self._changing = asyncio.create_task(self._consume_more(pacing, connection, channel))
            if count := pacing.count_ready(self._arrived, limit, self._given, self._settled):
                return count
            if self._ending is not None and self._ending.is_over and not self._arrived:
                raise EndOfStream
            self._news.clear()
            await self._news.wait()

    async def _consume_more(self, pacing: Pacing, connection: Connection, channel: Channel) -> None:
        self._acknowledge()  # all of the consumer before
        pacing.start(self._settled)
        try:
            await channel.consume(self._queue, exclusive=self._exclusive, arguments={}, prefetch=pacing.prefetch)
        except BrokerError as error:
            connection.lose(Disconnected(explain_refusal(error, self._title)))
        except Disconnected as error:
            connection.lose(error)
        else:  # what was settled meanwhile waits for this: the consumer may have all that it gets until then
            asyncio.get_running_loop().call_soon(self._ack)
        finally:
            if connection is self._connection:  # else the source was closed, and may be open again
                self._changing = None
                self._end_consumer()
                self._news.set()

    async def _skip_settled(self, connection: Connection, last: int) -> None:
        """Skip the message that was settled last. Raises Disconnected if neither it nor a later one is there."""
        # With a filter, reading began behind it: what is wanted now may leave it out.
        seen = resuming.fetch_first(connection, self._queue, last) if self._filter else self._wait_for_arrival()
        first = await resuming.find_settled(seen, self._queue, self._offsets, self._removed.forget)
        if self._filter is None and resuming.find_offset(first) == last:
            self._arrived.popleft()
            self._arrived_bytes -= len(first.body) + FIXED_BYTES
            self._settled = first.tag
            self._ack()

    def _take(self, events: list[Event]) -> None:
        if (breach := find_breach(events, self._last)) is not None and self._connection is not None:
            self._connection.lose(Disconnected(breach))
            return
        arrived = cast("list[Arrived]", events)
        self._last = arrived[-1].tag
        if self._is_stream:
            self._next_offset = self._removed.pass_over(arrived, self._next_offset)
        self._arrived += arrived
        self._arrived_bytes += sum([len(event.body) for event in arrived]) + FIXED_BYTES * len(arrived)
        if self._arrived_bytes > self._buffer_bytes and self._connection is not None:
            self._connection.pause()
        if self._ending is not None and self._changing is None:
            self._ending.cancel_if_full(self._last - self._acked)
        self._news.set()

    def _lost(self, error: Disconnected) -> None:
        self._trouble = error
        self._news.set()

    async def _wait_for_arrival(self) -> Arrived:
        """Wait for the first delivery that was not read, and return it. Raises Disconnected."""
        self._check_connected()
        while not self._arrived:
            if self._ending is not None and self._ending.is_over:
                raise EndOfStream
            self._news.clear()
            await self._news.wait()
            self._check_connected()
        return self._arrived[0]

    async def stop_taking(self) -> bool:
        if self._channel is None or self._is_stream:  # a stream takes nothing back
            return False
        self._ending = self._ending or ConsumerEnd(self._channel, self._news)
        self._end_consumer()
        return True

    def _end_consumer(self) -> None:
        """Have the consumer end, if no more is to be taken and it does not change just now."""
        if self._ending is not None and self._changing is None:
            self._ending.begin(self._last - self._acked, has_consumer=not (self._pacing and self._pacing.is_stopped))

    def _check_connected(self) -> None:
        """Raise Disconnected if the connection is gone."""
        if self._trouble is not None:
            raise self._trouble
        if self._connection is None:
            raise Disconnected("closed")

    async def read(self, limit: int) -> Sequence[Delivery]:
        if self._pacing is None:
            await self._wait_for_arrival()
        else:
            limit = await self._pace(self._pacing, limit)
        self._removed.note_read(asyncio.get_running_loop().time())
        deliveries = make_deliveries(
            self._arrived, min(limit, len(self._arrived)), source=self.name, queue=self._queue, epoch=self._epoch,
            on_redelivery=self._redeliveries.look, on_expiration=self._removed.see_expiration,
        )  # fmt: skip
        self._given = deliveries[-1].position
        self._arrived_bytes -= sum([len(each.message.body) for each in deliveries]) + FIXED_BYTES * len(deliveries)
        if self._arrived_bytes <= self._buffer_bytes // 2 and self._connection is not None:
            self._connection.resume()
        return deliveries

    def settle(self, delivery: Delivery) -> None:
        if delivery.lane != self._epoch:
            return
        self._acknowledging.look_soon()
        self._settled = delivery.position
        if self._pacing is not None:
            self._news.set()
        if self._is_stream:
            self._offsets.settle_message(delivery.message, self._give_up_offsets)

    def _give_up_offsets(self, error: OSError) -> None:
        trouble = Disconnected(f"offsets cannot be written: {error}")
        if self._connection is not None:
            self._connection.lose(trouble)
        else:
            LOG.error("%s: what was settled last will be read again: %s", self.name, trouble)

    def _ack(self) -> None:
        """Acknowledge what is settled: soon, or when the consumer is cancelled, so that it gets no more before."""
        pacing, channel = self._pacing, self._channel
        if channel is None or not self._acknowledging.is_due(self._settled - self._acked, channel.prefetch):
            return
        if self._ending is not None:
            if self._ending.is_cancelled:
                self._acknowledge()
        elif pacing is None or not pacing.may_grow(self._settled, self._last - self._acked):
            self._acknowledge()
        elif self._changing is None:
            channel.cancel()
            pacing.stop()
            self._acknowledge()
            self._news.set()

    def _acknowledge(self) -> None:
        if self._settled > self._acked and self._channel is not None and self._connection is not None:
            self._connection.write(encode_ack(self._channel.number, self._settled, multiple=True))
            self._acked = self._settled
            self._acknowledging.note()

    async def close(self) -> None:
        for task in (*self._counting, self._changing):
            if task is not None:
                task.cancel()
        self._counting.clear()
        self._backlog = self._changing = None
        connection = self._connection
        if connection is not None:
            self._acknowledge()
            self._connection = None
            await connection.close()
        await self._offsets.write_now(self._give_up_offsets)
        self._channel = None
        self._epoch += 1
        self._forget()
        self._news.set()
