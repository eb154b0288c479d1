"""RabbitMQ: a queue as a source, exchanges and queues as targets.

Deliveries of a connection are one lane, acknowledged as a prefix with one basic.ack. What is published is mandatory and
confirmed: a returned message is a failure that says so, a nack one that may be tried again. Content headers pass as the
bytes they came as, see `bridge.amqp`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pika

from bridge.amqp.content import ContentHeader, content_of, message_of
from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing, Receiver, Source, Target
from bridge.policy import Policy
from bridge.rabbitmq.addresses import brokers_of
from bridge.rabbitmq.connection import Channel, Connection
from bridge.rabbitmq.frames import Acked, Arrived, Event, Returned, ack, publish
from bridge.rabbitmq.returns import Sent, returned_one
from bridge.table import Table
from exchange.errors import BrokerError, HashstarError, InputError

__all__ = ["Address", "RabbitmqSource", "RabbitmqTarget", "dead_letter_target", "source", "target"]


class RabbitmqSource(Source):
    """A queue. ``prefetch`` deliveries are unacknowledged at most; the pump's window should not be larger."""

    def __init__(
        self,
        name: str,
        addresses: Sequence[pika.URLParameters],
        queue: str,
        *,
        prefetch: int = 1_000,
        exclusive: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self._addresses = addresses
        self._queue = queue
        self._prefetch = prefetch
        self._exclusive = exclusive
        self._arguments = arguments or {}
        self._origin: Final = f"queue {queue}"
        self._connection: Connection | None = None
        self._channel: Channel | None = None
        self._arrived: deque[Arrived] = deque()
        self._news = asyncio.Event()
        self._trouble: Disconnected | None = None
        self._epoch = 0
        self._settled = 0
        self._acked = 0

    async def open(self) -> None:
        self._epoch += 1
        self._arrived.clear()
        self._news.clear()
        self._trouble = None
        self._settled = self._acked = 0
        self._connection = await Connection.open(self._addresses, self._lost)
        self._channel = await self._connection.channel()
        self._channel.on_events = self._take
        try:
            await self._channel.consume(
                self._queue, exclusive=self._exclusive, arguments=self._arguments, prefetch=self._prefetch
            )
        except BrokerError as error:
            await self._connection.close()
            if error.code == LOCKED:
                raise Disconnected(f"queue {self._queue}: {error}") from None
            raise InputError(f"{self.name}: queue {self._queue!r}: {error.code} {error}") from None

    def _take(self, events: list[Event]) -> None:
        self._arrived += [event for event in events if isinstance(event, Arrived)]
        self._news.set()

    def _lost(self, error: Disconnected) -> None:
        self._trouble = error
        self._news.set()

    async def read(self, limit: int) -> Sequence[Delivery]:
        while not self._arrived:
            if self._trouble is not None:
                raise self._trouble
            self._news.clear()
            await self._news.wait()
        arrived, epoch, origin = self._arrived, self._epoch, self._origin
        deliveries = []
        for _ in range(min(limit, len(arrived))):
            tag, redelivered, exchange, key, properties, body = arrived.popleft()
            message = message_of(text(exchange), text(key), ContentHeader(properties), body)
            size = len(body) + len(properties) + FIXED_BYTES
            deliveries.append(Delivery(message, epoch, tag, None, None, redelivered, size, origin))
        return deliveries

    def settle(self, delivery: Delivery) -> None:
        if delivery.lane != self._epoch:
            return
        if self._settled == self._acked:
            asyncio.get_running_loop().call_soon(self._ack)
        self._settled = delivery.position

    def _ack(self) -> None:
        if self._settled > self._acked and self._channel is not None and self._connection is not None:
            self._connection.write(ack(self._channel.number, self._settled, multiple=True))
            self._acked = self._settled

    async def close(self) -> None:
        if self._connection is not None:
            self._ack()
            await self._connection.close()
        self._connection = self._channel = None
        self._epoch += 1


LOCKED: Final = 405
"""Somebody else consumes exclusively; that passes."""

FIXED_BYTES: Final = 512
"""What a delivery takes beside its body, about."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where in a broker messages of a topology's queue are published."""

    exchange: str = ""
    routing_key: str | None = None
    """None: each message's own."""

    @classmethod
    def queue(cls, name: str) -> Address:
        """A queue, by way of the default exchange."""
        return cls("", name)


@dataclass(slots=True)
class _Publishing:
    """The state of one connection's publishing."""

    connection: Connection
    channel: Channel
    receiver: Receiver
    number: int = 0
    """Of the last publish; the broker counts the same."""
    last_returned: int = 0
    under_way: dict[int, Outgoing] = field(default_factory=dict)
    sent: dict[int, Sent] = field(default_factory=dict)
    returned: dict[int, Failure] = field(default_factory=dict)
    waiting: deque[Outgoing] = field(default_factory=deque)
    """Not written yet, as the broker has blocked publishers."""


class RabbitmqTarget(Target):
    """Exchanges and queues of a broker; ``addresses`` maps the topology's queues to them.

    ``""`` among them is where messages of no queue are published: dead letters. Messages are published mandatory.
    """

    def __init__(self, name: str, brokers: Sequence[pika.URLParameters], addresses: Mapping[str, Address]) -> None:
        self.name = name
        self._brokers = brokers
        self._addresses: Final = {
            queue: (
                address.exchange.encode("utf-8", "surrogateescape"),
                None if address.routing_key is None else address.routing_key.encode("utf-8", "surrogateescape"),
            )
            for queue, address in addresses.items()
        }
        self._state: _Publishing | None = None

    async def open(self, receiver: Receiver) -> None:
        connection = await Connection.open(self._brokers, receiver.lost)
        try:
            channel = await connection.channel()
            await channel.confirms()
        except BrokerError as error:
            await connection.close()
            raise InputError(f"{self.name}: {error.code} {error}") from None
        state = self._state = _Publishing(connection, channel, receiver)
        channel.on_events = lambda events: self._hear(state, events)
        connection.on_unblocked = lambda: self._write_waiting(state)

    def send(self, messages: Sequence[Outgoing]) -> None:
        state = self._state
        if state is None:
            return
        if state.connection.blocked or state.waiting:
            state.waiting += messages
        else:
            self._write(state, messages)

    def _write_waiting(self, state: _Publishing) -> None:
        messages = list(state.waiting)
        state.waiting.clear()
        self._write(state, messages)

    def _write(self, state: _Publishing, messages: Sequence[Outgoing]) -> None:
        channel, frame_max, addresses = state.channel.number, state.connection.frame_max, self._addresses
        number, under_way, sent = state.number, state.under_way, state.sent
        frames, refused = [], []
        for outgoing in messages:
            message = outgoing.message
            exchange, routing_key = addresses[outgoing.queue]
            try:
                content = content_of(message)
                if routing_key is None:
                    routing_key = message.routing_key.encode("utf-8", "surrogateescape")
                if len(routing_key) > LONGEST_KEY:
                    raise InputError(f"the routing key has more than {LONGEST_KEY} bytes")
                if not content.fits(frame_max):
                    raise InputError(f"the properties have {len(content.raw):,} bytes, a frame {frame_max:,}")
            except (HashstarError, TypeError, ValueError) as error:
                refused.append((outgoing, Failure(str(error), final=True)))
                continue
            properties = content.raw
            number += 1
            under_way[number] = outgoing
            sent[number] = Sent(exchange, routing_key, properties, message.body)
            frames.append(publish(channel, exchange, routing_key, properties, message.body, frame_max, mandatory=True))
        state.number = number
        state.connection.write(b"".join(frames))
        for outgoing, failure in refused:
            # Not at once: whoever sends does not expect to be answered while it does.
            asyncio.get_running_loop().call_soon(state.receiver.failed, outgoing, failure)

    def _hear(self, state: _Publishing, events: list[Event]) -> None:
        confirmed: list[Outgoing] = []
        failed: list[tuple[Outgoing, Failure]] = []
        for event in events:
            if isinstance(event, Acked):
                self._answered(state, event, confirmed, failed)
            elif isinstance(event, Returned):
                number = returned_one(state.sent, event, state.last_returned)
                if number is not None:
                    state.last_returned = number
                    reason = f"returned: {event.code} {event.text.decode('utf-8', 'replace')}"
                    state.returned[number] = Failure(reason, unroutable=event.code == NO_ROUTE)
        if confirmed:
            state.receiver.confirmed(confirmed)
        for outgoing, failure in failed:
            state.receiver.failed(outgoing, failure)

    def _answered(
        self, state: _Publishing, event: Acked, confirmed: list[Outgoing], failed: list[tuple[Outgoing, Failure]]
    ) -> None:
        under_way, sent = state.under_way, state.sent
        if event.multiple:
            numbers = []
            for number in under_way:
                if number > event.number:
                    break
                numbers.append(number)
        else:
            numbers = [event.number]
        for number in numbers:
            outgoing = under_way.pop(number, None)
            if outgoing is None:
                continue
            del sent[number]
            failure = state.returned.pop(number, None) or (Failure("nack") if event.nack else None)
            if failure is None:
                confirmed.append(outgoing)
            else:
                failed.append((outgoing, failure))

    async def close(self) -> None:
        if self._state is not None:
            await self._state.connection.close()
        self._state = None


def text(name: bytes) -> str:
    """A short string as the project writes it."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name.decode("utf-8", "surrogateescape")


NO_ROUTE: Final = 312
LONGEST_KEY: Final = 255


def source(name: str, url: str, table: Table, policy: Policy) -> RabbitmqSource:
    """The source of a configuration; see `bridge.endpoints`."""
    brokers = brokers_of(name, url, table)
    return RabbitmqSource(
        name,
        brokers,
        table.text("queue"),
        prefetch=min(table.integer("prefetch", policy.window, least=1), 65_535),
        exclusive=table.flag("exclusive", default=False),
    )


def target(name: str, url: str, table: Table) -> tuple[RabbitmqTarget, list[str]]:
    """The target of a configuration, and its queues; see `bridge.endpoints`."""
    addresses = table.mapping("queues", address_of, 'the name of a queue, or { exchange = "...", routing_key = "..." }')
    return RabbitmqTarget(name, brokers_of(name, url, table), addresses), list(addresses)


def dead_letter_target(name: str, url: str, table: Table) -> RabbitmqTarget:
    """The target of dead letters of a configuration; see `bridge.endpoints`."""
    queue, exchange = table.maybe("queue"), table.maybe("exchange")
    if (queue is None) == (exchange is None):
        raise table.error("queue", "say either the queue that takes dead letters, or an exchange")
    address = Address.queue(queue) if queue is not None else Address(exchange or "", table.maybe("routing_key"))
    return RabbitmqTarget(name, brokers_of(name, url, table), {"": address})


def address_of(value: Any) -> Address:
    """An address as a configuration has it. Raises ValueError."""
    if isinstance(value, str):
        return Address.queue(value)
    if not isinstance(value, dict) or not {*value} <= {"exchange", "routing_key"} or "exchange" not in value:
        raise ValueError
    if not all(isinstance(each, str) for each in value.values()):
        raise ValueError
    return Address(value["exchange"], value.get("routing_key"))
