"""A queue of dead letters as a source that takes what is chosen, and leaves the rest where it is.

Messages are got with basic.get, as in `bridge.dead.rabbitmq`, and each is a lane of its own: it leaves the queue when
it is settled, whatever becomes of others. What is not chosen is given back when the source is closed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Final

from bridge.endpoint import Delivery, Disconnected, EndOfStream, Source
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.connection import Channel, Connection
from bridge.endpoints.rabbitmq.consumer.deliveries import FIXED_BYTES
from bridge.endpoints.rabbitmq.frames import Arrived, Event, NothingLeft, encode_ack, encode_gets, encode_return_all
from bridge.endpoints.rabbitmq.refusals import NOT_ALLOWED, NOT_FOUND, Refused, explain_refusal
from exchange.amqp import ContentHeader, build_lazy_message
from exchange.errors import BrokerError, HashstarError, NotImplementedByBroker, ResourceLocked
from exchange.values.message import Message

__all__ = ["Choice", "HeldQueue", "Unchosen"]

AT_ONCE: Final = 256
"""Maximum number of messages that are asked for and have not come."""
FINAL: Final = NOT_ALLOWED | {NOT_FOUND, NotImplementedByBroker.code, ResourceLocked.code}
"""Reply codes after which no other try goes better."""


class Unchosen(Enum):
    """What becomes of a message that is not published."""

    STAYS = "stays"
    """It is not selected."""
    GOES = "goes"
    """It was published by an earlier run, and is taken out of the queue."""


Choice = tuple[Message, str]
"""What is to be published in place of a dead letter, and its digest."""


class HeldQueue(Source):
    """The first ``limit`` messages of a queue. ``choose`` decides on each; it raises HashstarError for one that stays,
    and why is counted in `left`.
    """

    def __init__(self, url: str, queue: str, limit: int, choose: Callable[[Message], Choice | Unchosen]) -> None:
        self.name = f"queue {queue}"
        self.left: Final[dict[int, str]] = {}
        """Delivery tag -> why a message that was selected stays where it is."""
        self.is_settled = False
        """Whether the broker has taken all acknowledgements, and has the rest back; known when it is closed."""
        self.fault: str | None = None
        """Why the queue cannot be read, whatever is tried; None if it can be."""
        self._url: Final = url
        self._queue: Final = queue
        self._limit: Final = limit
        self._choose: Final = choose
        self._connection: Connection | None = None
        self._channel: Channel | None = None
        self._epoch = 0
        self._reset()

    def _reset(self) -> None:
        self._arrived: deque[Arrived] = deque()
        self._acks: list[int] = []
        self._news = asyncio.Event()
        self._trouble: Disconnected | None = None
        self._is_empty = False
        self._asked = self._got = 0

    @property
    def lost(self) -> Disconnected | None:
        return self._trouble

    async def open(self) -> None:
        self._reset()
        self._epoch += 1
        self.is_settled = False
        self.left.clear()
        connection = await Connection.open([parse_broker(self._url, "hashstar dead")], self._lose)
        try:
            await connection.look("queue", self._queue)
            channel = self._channel = await connection.channel()
        except BrokerError as error:
            await connection.close()
            self.fault = explain_refusal(error, f"queue '{self._queue}'")
            return
        except BaseException:
            await connection.close()
            raise
        channel.on_events = self._take
        self._connection = connection

    def _lose(self, error: Disconnected) -> None:
        if isinstance(error, Refused) and error.code in FINAL:
            self.fault = f"queue '{self._queue}': {error}"
        self._trouble = error
        self._news.set()

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, NothingLeft):
                self._is_empty = True
            elif isinstance(event, Arrived):
                self._got += 1
                self._arrived.append(event)
        self._news.set()

    async def read(self, limit: int) -> Sequence[Delivery]:
        while True:
            if self.fault is not None:
                raise EndOfStream
            if self._trouble is not None:
                raise self._trouble
            if self._arrived:
                count = min(limit, len(self._arrived))
                if deliveries := [*filter(None, [self._judge(self._arrived.popleft()) for _ in range(count)])]:
                    return deliveries
                continue
            if self._is_empty or self._got >= self._limit:
                raise EndOfStream
            self._ask()
            self._news.clear()
            await self._news.wait()

    def _ask(self) -> None:
        """Ask for more messages, if none is on its way."""
        if self._asked == self._got and self._connection is not None and self._channel is not None:
            count = min(AT_ONCE, self._limit - self._asked)
            self._asked += count
            name = self._queue.encode("utf-8", "surrogateescape")
            self._connection.write(encode_gets(self._channel.number, name, count))

    def _judge(self, event: Arrived) -> Delivery | None:
        exchange, key = (each.decode("utf-8", "surrogateescape") for each in (event.exchange, event.routing_key))
        try:
            message = build_lazy_message(exchange, key, ContentHeader(event.properties), event.body)
            chosen = self._choose(message)
        except (HashstarError, ValueError) as error:
            self.left[event.tag] = str(error)
            return None
        if isinstance(chosen, Unchosen):
            if chosen is Unchosen.GOES:
                self._ack(event.tag)
            return None
        size = len(event.body) + len(event.properties) + FIXED_BYTES
        return Delivery(chosen[0], (self._epoch, event.tag), event.tag, chosen[1], size=size, origin=self.name)

    def leave(self, delivery: Delivery, reason: str) -> None:
        """Leave a message in the queue, though it is settled."""
        if self._is_current(delivery):
            self.left[delivery.position] = reason

    def settle(self, delivery: Delivery) -> None:
        if self._is_current(delivery) and delivery.position not in self.left:
            self._ack(delivery.position)

    def _is_current(self, delivery: Delivery) -> bool:
        return delivery.lane == (self._epoch, delivery.position)

    def _ack(self, tag: int) -> None:
        if not self._acks:
            asyncio.get_running_loop().call_soon(self._write_acks)
        self._acks.append(tag)

    def _write_acks(self) -> None:
        if self._acks and self._connection is not None and self._channel is not None:
            number = self._channel.number
            self._connection.write(b"".join([encode_ack(number, tag, multiple=False) for tag in self._acks]))
        self._acks.clear()

    async def close(self) -> None:
        self._write_acks()
        connection, channel, self._connection, self._channel = self._connection, self._channel, None, None
        if connection is None:
            return
        if channel is not None and self._trouble is None:
            connection.write(encode_return_all(channel.number))
            with suppress(Disconnected, BrokerError):
                await channel.ask("basic_qos", prefetch_count=0)  # is answered after what was written before
                self.is_settled = True
        await connection.close()
