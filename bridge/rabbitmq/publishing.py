"""Exchanges and queues as a target.

What is published is mandatory and confirmed: a returned message is a failure that says so, a nack one that may be tried
again. A broker refuses some messages by closing the channel, or the connection, and does not say which it meant: a
user id that is not ours, a CC header that is no array. What was under way then is sent one by one when the target is
opened again, so that the one that ends the channel another time is known, and refused to the pump.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pika

from bridge.amqp import ContentHeader, content_of
from bridge.endpoint import Disconnected, Failure, Outgoing, Receiver, Target
from bridge.mapping import identified
from bridge.rabbitmq.connection import Channel, Connection, Refused
from bridge.rabbitmq.frames import Acked, Event, Returned, publish
from bridge.rabbitmq.returns import Sent, returned_ones
from exchange.errors import BrokerError, HashstarError, InputError

__all__ = ["Address", "RabbitmqTarget"]

NO_ROUTE: Final = 312
NO_ACCESS: Final = 403

ABOUT_A_MESSAGE: Final = frozenset({NO_ACCESS, 406, 501, 502, 503, 505, 506, 540, 541})
"""Reply codes that may be one message's fault: with others it is the exchange, the operator or the host."""

LONGEST_KEY: Final = 255
PERSISTENT: Final = 2
DELIVERY_MODE: Final = 0x10
"""In the first byte of a content header."""


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


Names: TypeAlias = Mapping[str, tuple[bytes, bytes | None]]
"""The topology's queue -> exchange and routing key on the wire."""


class RabbitmqTarget(Target):
    """Exchanges and queues of a broker; ``addresses`` maps the topology's queues to them.

    ``""`` among them is where messages of no queue are published: dead letters. Messages that do not say whether they
    are persistent are made so.
    """

    def __init__(self, name: str, brokers: Sequence[pika.URLParameters], addresses: Mapping[str, Address]) -> None:
        self.name = name
        self._brokers = brokers
        self._addresses = addresses
        self._names: Final[Names] = {
            queue: (_bytes(address.exchange), None if address.routing_key is None else _bytes(address.routing_key))
            for queue, address in addresses.items()
        }
        self._connection: Connection | None = None
        self._publishing: _Publishing | None = None
        self._was_open = False
        self._suspects = 0

    async def open(self, receiver: Receiver) -> None:
        def lost(error: Disconnected) -> None:
            publishing, self._publishing = self._publishing, None
            if publishing is not None and isinstance(error, Refused) and error.code in ABOUT_A_MESSAGE:
                self._suspects = publishing.accuse(error)
            receiver.lost(error)

        try:
            connection = self._connection = await Connection.open(self._brokers, lost)
            channel = await connection.channel()
            await self._look(channel)
            await channel.confirms()
        except (InputError, BrokerError) as error:
            await self.close()
            words = f"{self.name}: {error.code} {error}" if isinstance(error, BrokerError) else str(error)
            if self._was_open:  # it was right once, so that it may be so again
                raise Disconnected(words) from None
            raise InputError(words) from None
        except BaseException:
            await self.close()
            raise
        self._was_open = True
        self._publishing = _Publishing(connection, channel, receiver, self._names, self._suspects)
        self._suspects = 0

    async def _look(self, channel: Channel) -> None:
        """Ask for all exchanges and queues that are published to. Raises BrokerError for one that is not there."""
        for address in dict.fromkeys(self._addresses.values()):
            if address.exchange:
                await channel.ask("exchange_declare", address.exchange, passive=True)
            elif address.routing_key is not None:
                await channel.ask("queue_declare", address.routing_key, passive=True)

    def send(self, messages: Sequence[Outgoing]) -> None:
        if self._publishing is not None and messages:
            self._publishing.send(messages)

    async def close(self) -> None:
        connection, self._connection, self._publishing = self._connection, None, None
        if connection is not None:
            await connection.close()


class _Publishing:
    """The publishes of one connection. While there are ``suspects``, so many, only one is under way."""

    def __init__(
        self, connection: Connection, channel: Channel, receiver: Receiver, names: Names, suspects: int
    ) -> None:
        self._connection = connection
        self._channel = channel
        self._receiver = receiver
        self._names = names
        self._suspects = suspects
        self._number = 0  # of the last publish; the broker counts the same
        self._under_way: dict[int, Outgoing] = {}
        self._returned: dict[int, Failure] = {}
        self._waiting: deque[Outgoing] = deque()  # while the broker has blocked publishers, or one is suspected
        channel.on_events = self._hear
        connection.on_unblocked = self._write_waiting

    def send(self, messages: Sequence[Outgoing]) -> None:
        if self._connection.blocked or self._waiting or self._suspects:
            self._waiting += messages
            self._write_waiting()
        else:
            self._write(messages)

    def accuse(self, error: Refused) -> int:
        """The broker has ended it over one of the messages: refuse the one that it was, or say how many it may be."""
        if self._suspects and len(self._under_way) == 1:
            [outgoing] = self._under_way.values()
            self._receiver.failed(outgoing, Failure(str(error), final=error.code != NO_ACCESS))
            return self._suspects - 1
        return len(self._under_way)

    def _write_waiting(self) -> None:
        if self._connection.blocked:
            return
        if not self._suspects:
            messages = list(self._waiting)
            self._waiting.clear()
            self._write(messages)
        while self._suspects and self._waiting and not self._under_way:
            self._write([self._waiting.popleft()])

    def _write(self, messages: Sequence[Outgoing]) -> None:
        channel, frame_max, names = self._channel.number, self._connection.frame_max, self._names
        number, under_way = self._number, self._under_way
        frames, refused = [], []
        for outgoing in messages:
            try:
                exchange, routing_key = names[outgoing.queue]
                if routing_key is None:
                    routing_key = _bytes(outgoing.message.routing_key)
                    if len(routing_key) > LONGEST_KEY:
                        raise InputError(f"the routing key has more than {LONGEST_KEY} bytes")
                content = _content(outgoing)
                if not content.fits(frame_max):
                    raise InputError(f"the properties have {len(content.raw):,} bytes, a frame {frame_max:,}")
            except (HashstarError, TypeError, ValueError) as error:
                refused.append((outgoing, Failure(str(error), final=True)))
                continue
            number += 1
            under_way[number] = outgoing
            body = outgoing.message.body
            frames.append(publish(channel, exchange, routing_key, content.raw, body, frame_max, mandatory=True))
        self._number = number
        if frames:
            self._connection.write(b"".join(frames))
        for outgoing, failure in refused:
            # Not at once: whoever sends does not expect to be answered while it does.
            asyncio.get_running_loop().call_soon(self._refuse, outgoing, failure)

    def _refuse(self, outgoing: Outgoing, failure: Failure) -> None:
        self._receiver.failed(outgoing, failure)
        self._suspects -= self._suspects > 0
        self._write_waiting()

    def _hear(self, events: list[Event]) -> None:
        returns = [event for event in events if type(event) is Returned]
        if returns:
            self._return(returns)
        confirmed: list[Outgoing] = []
        failed: list[tuple[Outgoing, Failure]] = []
        for event in events:
            if type(event) is Acked:
                self._answered(event, confirmed, failed)
        if self._suspects:
            self._suspects = max(0, self._suspects - len(confirmed) - len(failed))
        if confirmed:
            self._receiver.confirmed(confirmed)
        for outgoing, failure in failed:
            self._receiver.failed(outgoing, failure)
        if self._waiting:
            self._write_waiting()

    def _return(self, events: list[Returned]) -> None:
        sent = {number: self._sent(outgoing) for number, outgoing in self._under_way.items()}
        for event, numbers in returned_ones(sent, events, self._returned):
            reason = f"returned: {event.code} {event.text.decode('utf-8', 'replace')}"
            if len(numbers) == 1:
                self._returned[numbers[0]] = Failure(reason, busy=event.code == NO_ROUTE and not event.exchange)
            else:
                unclear = Failure(f"{reason}, this message or one like it")
                self._returned.update(dict.fromkeys(numbers, unclear))

    def _sent(self, outgoing: Outgoing) -> Sent:
        exchange, routing_key = self._names[outgoing.queue]
        message = outgoing.message
        key = _bytes(message.routing_key) if routing_key is None else routing_key
        return Sent(exchange, key, message.body, lambda: _content(outgoing))

    def _answered(self, event: Acked, confirmed: list[Outgoing], failed: list[tuple[Outgoing, Failure]]) -> None:
        under_way, returned = self._under_way, self._returned
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
            failure = returned.pop(number, None) if returned else None
            if failure is None and event.nack:
                failure = Failure("nack", busy=True)
            if failure is None:
                confirmed.append(outgoing)
            else:
                failed.append((outgoing, failure))


def _content(outgoing: Outgoing) -> ContentHeader:
    """The content header as it is published. Raises as `content_of`."""
    content = identified(content_of(outgoing.message), outgoing.delivery.identity)
    return content if content.raw[0] & DELIVERY_MODE else content.with_property("delivery_mode", PERSISTENT)


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
