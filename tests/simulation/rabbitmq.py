"""A small model of RabbitMQ below the real endpoints: `RabbitmqSource` and `RabbitmqTarget` run on its connections.

A connection takes the place of `bridge.endpoints.rabbitmq.connection.Connection`: it is asked the same, and given the
same bytes of acknowledgements and publishes. The queue of a source may be deleted and declared anew, with another type.
The exchange of a target loses bindings, its queues are full or gone, a message ends the connection.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq.consumer import reading
from bridge.endpoints.rabbitmq.consumer.reading import RabbitmqSource
from bridge.endpoints.rabbitmq.frames import ACK, PUBLISH, Acked, Arrived, Event, Returned
from bridge.endpoints.rabbitmq.refusals import Refused
from bridge.endpoints.rabbitmq.routes import PublishAddress
from bridge.endpoints.rabbitmq.target import RabbitmqTarget
from exchange.amqp import ContentHeader, get_content
from exchange.amqp.methods import BODY, HEADER
from exchange.amqp.streams import STREAM_OFFSET
from exchange.errors import BrokerError, PreconditionFailed
from exchange.values.field_values import Typed
from exchange.values.message import Message
from tests.simulation.plan import Fault
from tests.simulation.sources import Broker, Client
from tests.simulation.world import World
from tests.support.virtual_loop import pass_time

SECONDS: Final = 0.02
"""Maximum number of seconds until something has arrived."""


class Connection:
    """A connection, and its channels, as the endpoints see them."""

    frame_max = 131_072
    user = "guest"
    silence = None
    server: Mapping[str, Any] = {}

    def __init__(self, host: Host, on_lost: Callable[[Disconnected], None]) -> None:
        self.host = host
        self.on_lost = on_lost
        self.is_over = False
        self.blocked = False
        self.blocked_reason = ""
        self.on_unblocked: Callable[[], None] = lambda: None
        self.is_paused = False
        self._channels = 0

    @classmethod
    async def open(cls, hosts: Sequence[Host], on_lost: Callable[[Disconnected], None]) -> Connection:
        [host] = hosts
        await host.reach()
        if host.is_dead:
            raise Disconnected("dead")
        host.connection = cls(host, on_lost)
        return host.connection

    @property
    def parameters(self) -> Host:
        return self.host

    async def channel(self, *, apart: bool = False, on_end: Callable[[BaseException], None] | None = None) -> Channel:
        await self.answer()
        self._channels += 1
        return Channel(self, self._channels)

    async def answer(self) -> None:
        """Wait for an answer. Raises Disconnected."""
        await pass_time(self.host.world.delay(SECONDS))
        if self.is_over:
            raise Disconnected("the connection is closed")

    async def look(self, kind: str, name: str) -> Any:
        await self.answer()
        return SimpleNamespace(method=SimpleNamespace(message_count=self.host.count_ready(), consumer_count=1))

    def write(self, data: bytes) -> None:
        if not self.is_over:
            asyncio.get_running_loop().call_at(self.host.after(SECONDS), self._arrive, data)

    def _arrive(self, data: bytes) -> None:
        if not self.is_over:
            self.host.take(data)

    def lose(self, error: Disconnected) -> None:
        if not self.is_over:
            self.is_over = True
            self.host.end()
            self.on_lost(error)

    async def close(self) -> None:
        if not self.is_over:
            await pass_time(self.host.after(0.0) - self.host.world.now)  # what was written arrives
            self._close()

    def _close(self) -> None:
        if not self.is_over:
            self.is_over = True
            self.host.end()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False


class Channel:
    """A channel."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.number = number
        self.on_events: Callable[[list[Event]], None] = lambda _: None
        self.connection = connection
        self.prefetch = 0
        self.arrived = 0
        """Delivery tag of the last delivery that has arrived."""
        self.taken_back: set[int] = set()
        """Delivery tags of what was on its way when the consumer was cancelled."""

    async def enable_confirms(self) -> None:
        await self.connection.answer()
        self.connection.host.channel = self

    async def consume(self, queue: str, *, exclusive: bool, arguments: Mapping[str, Any], prefetch: int) -> None:
        await self.connection.answer()
        self.prefetch = prefetch
        self.connection.host.consume(self, arguments, prefetch)
        await self.connection.answer()

    def cancel(self) -> None:
        """Cancel its consumer."""
        self.connection.host.cancel(self)

    def mark(self, arrived: Callable[[], object]) -> None:
        """Call ``arrived`` behind what its consumer was sent before."""
        due = self.connection.host.after(SECONDS)
        asyncio.get_running_loop().call_at(due, lambda: None if self.connection.is_over else arrived())

    def close(self) -> None:
        """Close it alone."""
        if not self.connection.is_over:
            self.connection.host.end(self.number)

    def report(self, events: list[Event], routed: Collection[bytes] = ()) -> None:
        """Have events arrive, by some of which the endpoint knows that routing keys were routed."""

        def arrive() -> None:
            if self.connection.is_over:
                return
            self.connection.host.known |= {*routed}
            there = [each for each in events if not isinstance(each, Arrived) or each.tag not in self.taken_back]
            self.arrived = max([self.arrived, *(each.tag for each in there if isinstance(each, Arrived))])
            if there:
                self.on_events(there)

        asyncio.get_running_loop().call_at(self.connection.host.after(SECONDS), arrive)


class Host(Client):
    """A broker, as one endpoint of one process sees it."""

    def __init__(self, name: str, world: World) -> None:
        super().__init__()
        self.name = name
        self.world = world
        self.connection: Connection | None = None
        self.channel: Channel | None = None
        self.known: set[bytes] = set()
        """Routing keys of which the endpoint knows that they were routed."""
        self._free_at = 0.0

    def after(self, seconds: float) -> float:
        """Return a time behind those of what was sent before."""
        self._free_at = max(self._free_at + 1e-6, self.world.now + self.world.delay(seconds))
        return self._free_at

    def count_ready(self) -> int:
        """Return how many messages wait in its queue."""
        return 0

    def consume(self, channel: Channel, arguments: Mapping[str, Any], prefetch: int) -> None:
        """Begin a consumer. Raises BrokerError."""
        raise NotImplementedError

    def cancel(self, channel: Channel) -> None:
        """Give the consumer of a channel nothing more."""
        raise NotImplementedError

    def take(self, data: bytes) -> None:
        """Take what an endpoint has written."""
        raise NotImplementedError

    def end(self, channel: int | None = None) -> None:
        """Take note that the connection, or a channel, is over."""

    def lose(self) -> None:
        if self.connection is not None:
            self.connection.lose(Disconnected("cut"))
        self.news.set()

    def kill(self) -> None:
        """End the process of the endpoint."""
        self.is_dead = True
        if self.connection is not None:
            self.connection._close()


class Consumer:
    """A consumer."""

    def __init__(self, channel: Channel, prefetch: int, position: int) -> None:
        self.channel = channel
        self.prefetch = prefetch
        self.position = position
        """Offset of the next message, of a stream."""
        self.tag = 0
        self.given: deque[tuple[int, int]] = deque()
        """Delivery tags, and numbers of messages or offsets of a stream."""


class RabbitmqQueue(Host):
    """A queue, or a stream, which a `RabbitmqSource` reads. What outlives the process is in a `Broker`."""

    def __init__(self, name: str, world: World, broker: Broker) -> None:
        super().__init__(name, world)
        self.broker = broker
        hosts: Any = [self]
        self.endpoint = RabbitmqSource(name, hosts, "q", prefetch=world.plan.window)
        self.consumers: dict[int, Consumer] = {}
        """Channel -> its consumer."""
        self.was_stream: bool | None = None
        """Whether it was a stream when it was consumed last."""

    # Of a stream, `ready` has all messages; `committed` is the number of those that were acknowledged.

    @property
    def is_stream(self) -> bool:
        """Whether the queue is a stream now."""
        return self.broker.is_stream

    @property
    def is_empty(self) -> bool:
        """Whether all is acknowledged."""
        if self.is_stream:
            return self.broker.committed[0] == len(self.broker.ready)
        return not self.broker.ready and not any(each.given for each in self.consumers.values())

    def count_ready(self) -> int:
        return len(self.broker.ready)

    def put(self, number: int) -> None:
        """Add a message."""
        self.broker.ready.append(number)
        self._deliver_soon()

    def note_put(self) -> None:
        self._deliver_soon()

    def strike(self, fault: Fault) -> None:
        super().strike(fault)
        if fault.what == "remade":
            self._remake()

    def _remake(self) -> None:
        """Delete the queue and declare it with another type; its owner moves what was in it to the new one."""
        if self.connection is not None:
            self.connection.lose(Disconnected("the broker cancelled the consumer: is the queue still there?"))
        left = [*self.broker.ready][self.broker.committed[0] if self.is_stream else 0 :]
        self.broker.ready = deque(left)
        self.broker.committed[0] = 0
        self.broker.is_stream = not self.is_stream
        if self.broker.is_stream == self.was_stream:  # nothing shows that it is another one: the guide says to forget
            self.endpoint._offsets.forget()

    def consume(self, channel: Channel, arguments: Mapping[str, Any], prefetch: int) -> None:
        if STREAM_OFFSET in arguments and not self.is_stream:
            refusal = BrokerError(
                f"invalid arg '{STREAM_OFFSET}' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
            )
            refusal.code = PreconditionFailed.code
            raise refusal
        self.was_stream = self.is_stream
        offset = arguments.get(STREAM_OFFSET, "next")
        position = 0 if offset == "first" else len(self.broker.ready) if offset == "next" else int(offset)
        self.consumers[channel.number] = Consumer(channel, prefetch, position)
        if self not in self.broker.clients:
            self.broker.clients.append(self)
        self._deliver_soon()

    def cancel(self, channel: Channel) -> None:
        """Cancel it; what is on its way to it comes back behind what waits, as in a quorum queue."""
        consumer = self.consumers[channel.number]
        consumer.prefetch = 0
        back: deque[int] = deque()
        while consumer.given and consumer.given[-1][0] > channel.arrived:
            tag, number = consumer.given.pop()
            channel.taken_back.add(tag)
            back.appendleft(number)
        self.broker.ready += back

    def _deliver_soon(self) -> None:
        asyncio.get_running_loop().call_later(self.world.delay(SECONDS), self._deliver)

    def _deliver(self) -> None:
        if self.is_dead:
            return
        if self.has("quiet"):
            asyncio.get_running_loop().call_later(1.0, self._deliver)
            return
        ready = self.broker.ready
        for consumer in self.consumers.values():
            events: list[Event] = []
            while len(consumer.given) < consumer.prefetch and (
                consumer.position < len(ready) if self.is_stream else ready
            ):
                consumer.tag += 1
                at = consumer.position
                number = ready[at] if self.is_stream else ready.popleft()
                consumer.position += 1
                consumer.given.append((consumer.tag, at if self.is_stream else number))
                message = self.world.make_message(number)
                headers = {STREAM_OFFSET: Typed("long", at)} if self.is_stream else {}
                raw = get_content(Message("", "", headers)).raw
                events.append(Arrived(consumer.tag, False, b"in", message.routing_key.encode(), raw, message.body))
            if events:
                consumer.channel.report(events)

    def take(self, data: bytes) -> None:
        for at in range(0, len(data), 21):
            _, number, _, method, tag, multiple = struct.unpack_from(">BHIIQB", data, at)
            assert method == ACK
            assert multiple
            given = self.consumers[number].given
            while given and given[0][0] <= tag:
                _, offset = given.popleft()
                if self.is_stream:
                    self.broker.committed[0] = max(self.broker.committed[0], offset + 1)
        self._deliver_soon()

    def end(self, channel: int | None = None) -> None:
        for number in [*self.consumers] if channel is None else [channel]:
            consumer = self.consumers.pop(number, None)
            if consumer is not None and not self.is_stream:
                self.broker.ready.extendleft(reversed([each for _, each in consumer.given]))
        if not self.consumers:
            self.broker.leave(self)


class RabbitmqServer(Host):
    """Exchanges and queues that a `RabbitmqTarget` writes to."""

    ADDRESSES: Final = {
        "all": {"all": PublishAddress("x")}, "odd": {"odd": PublishAddress.queue("q")},
        "dead": {"": PublishAddress.queue("dead")},
    }  # fmt: skip

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name, world)
        hosts: Any = [self]
        self.endpoint = RabbitmqTarget(name, hosts, self.ADDRESSES[name])
        self.number = 0
        self._routed: list[bytes] = []
        """Routing keys that were routed since the last report."""

    def strike(self, fault: Fault) -> None:
        super().strike(fault)
        loop = asyncio.get_running_loop()
        if fault.what == "mute":
            loop.call_later(fault.seconds, self.lose)
        elif fault.what == "block" and self.connection is not None:
            self.connection.blocked, self.connection.blocked_reason = True, "low on memory"
            loop.call_later(fault.seconds, self._unblock, self.connection)

    def _unblock(self, connection: Connection) -> None:
        if connection.blocked and not connection.is_over:
            connection.blocked = False
            connection.on_unblocked()

    def is_at_fault(self, number: int) -> bool:
        """Return whether a message may become a dead letter: it is wrong, or no such one was routed before."""
        key = self.world.key_of(number).encode()
        return self.world.odd.get(number) == "refused" or (self.name == "all" and key not in self.known)

    def take(self, data: bytes) -> None:
        events: list[Event] = []
        for exchange, key, raw, body in decode_publishes(data):
            self.number += 1
            events += self._answer(exchange, key, raw, body)
            if self.connection is None or self.connection.is_over:
                return
        if not self.has("mute") and self.channel is not None:
            self.channel.report(events, self._routed)
        self._routed = []

    def _answer(self, exchange: bytes, key: bytes, raw: bytes, body: bytes) -> list[Event]:
        world, number, queue = self.world, int(body), "" if self.name == "dead" else self.name
        if queue and world.odd.get(number) == "refused" and not world.well and self.connection is not None:
            world.note_judged(queue, number)
            self.connection.lose(Refused(PreconditionFailed.code, "PRECONDITION_FAILED - it is wrong"))
            return []
        confirmed = Acked(self.number, False, False)
        is_unbound = exchange and self.has("wait") and key.endswith(b"%d" % (self.numbers["wait"] % world.plan.keys))
        if is_unbound or (not exchange and self.has("refuse")):
            world.note_judged(queue, number)
            return [Returned(312, b"NO_ROUTE", exchange, key, raw, body), confirmed]
        if self.has("push back"):
            world.note_judged(queue, number)
            return [Acked(self.number, False, True)]
        self._routed.append(key)
        dead_queue = "" if queue else str(ContentHeader(raw).header("hashstar-queue"))
        world.store(queue, number, dead_queue)
        return [confirmed]

    def end(self, channel: int | None = None) -> None:
        self.channel, self.number = None, 0


def decode_publishes(data: bytes) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """Yield exchange, routing key, content header and body of each publish."""
    frames = []
    at = 0
    while at < len(data):
        kind, _, size = struct.unpack_from(">BHI", data, at)
        frames.append((kind, data[at + 7 : at + 7 + size]))
        at += size + 8
    publish: tuple[bytes, bytes] = b"", b""
    properties, missing, body = b"", 0, b""
    for kind, payload in frames:
        if kind == HEADER:
            missing, properties, body = struct.unpack_from(">Q", payload, 4)[0], payload[12:], b""
        elif kind == BODY:
            body += payload
            missing -= len(payload)
        else:
            assert struct.unpack_from(">I", payload)[0] == PUBLISH
            end = 7 + payload[6]
            publish = payload[7:end], payload[end + 1 : end + 1 + payload[end]]
            continue
        if not missing:
            yield *publish, properties, body


@contextmanager
def rabbitmq_simulated() -> Iterator[None]:
    """Have the endpoints connect to the model."""
    with (
        patch.object(reading, "Connection", Connection),
        patch("bridge.endpoints.rabbitmq.target.Connection", Connection),
    ):
        yield
