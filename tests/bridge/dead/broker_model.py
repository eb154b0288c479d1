"""A model of a broker: what the two connections of a replay see of one, and what is to go wrong."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from bridge.dead import held
from bridge.dead.choices import Order, Outcome
from bridge.dead.ledger import Ledger
from bridge.dead.replaying import User, replay
from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq import target
from bridge.endpoints.rabbitmq.frames import ACK, GET, NACK, PUBLISH, Acked, Arrived, Event, NothingLeft, Returned
from bridge.endpoints.rabbitmq.refusals import Refused
from exchange import Message
from exchange.amqp import get_content
from exchange.amqp.methods import BODY, HEADER
from exchange.errors import BrokerError, NotFound, PreconditionFailed
from tests.support.virtual_loop import end_all, pass_time, run_virtually

DEAD: Final = "dead"
SECONDS: Final = 0.01
"""Maximum number of seconds until something has arrived."""


@dataclass
class Box:
    """A broker with queues, and what is to go wrong."""

    random: Random
    nacks: int = 0
    """Number of publishes that are refused for now."""
    losses: int = 0
    """Number of connections that are lost, at any write."""
    queues: dict[str, deque[Arrived]] = field(default_factory=dict)
    channels: int = 1 << 16
    """Maximum number of open channels of all connections."""
    page: int = held.PAGE
    """Number of messages that one channel is to hold."""
    alive: bool = True
    connections: list[Connection] = field(default_factory=list)
    places: int = 0
    """Number of messages that were put into queues."""

    def put(self, queue: str, message: Message) -> None:
        exchange, key = message.exchange.encode(), message.routing_key.encode()
        self.append(queue, exchange, key, get_content(message).raw, message.body)

    def append(self, queue: str, *content: bytes) -> None:
        """Put a message into a queue, with its place there as tag."""
        self.places += 1
        self.queues[queue].append(Arrived(self.places, False, *content))

    def kill(self) -> None:
        """End the process that is connected."""
        self.alive = False
        for each in self.connections:
            each.end()

    def bodies(self, queue: str) -> list[bytes]:
        return [each.body for each in self.queues[queue]]


class Connection:
    """A connection with one channel of interest."""

    frame_max, user, silence, blocked, blocked_reason, parameters = 131_072, "guest", None, False, "", None
    box: Box

    def __init__(self, on_lost: Callable[[Disconnected], None]) -> None:
        self.on_lost = on_lost
        self.on_unblocked: Callable[[], None] = lambda: None
        self.is_over = False
        self.channels: list[Channel] = []
        self.published = 0
        self.free_at = 0.0
        self.parts: list[Any] = []
        """Exchange, key, content header, size and bodies of the publish that is not complete."""

    @classmethod
    async def open(cls, _: object, on_lost: Callable[[Disconnected], None]) -> Connection:
        await pass_time(SECONDS)
        if not cls.box.alive:
            raise Disconnected("killed")
        made = cls(on_lost)
        cls.box.connections.append(made)
        return made

    async def pass_answer(self) -> None:
        """Wait for an answer behind what was written. Raises Disconnected."""
        answered = asyncio.Event()
        self.later(answered.set)
        while not answered.is_set():
            if self.is_over:
                raise Disconnected("lost")
            await pass_time(SECONDS)

    async def look(self, _: str, queue: str) -> object:
        await self.pass_answer()
        if queue not in self.box.queues:
            raise NotFound(f"no queue '{queue}' in vhost '/'")
        return SimpleNamespace(method=SimpleNamespace(message_count=len(self.box.queues[queue])))

    async def channel(self, **_: Any) -> Channel:
        await self.pass_answer()
        alive = [channel for each in self.box.connections if not each.is_over for channel in each.channels]
        if self.box.channels <= sum(not each.is_closed for each in alive):
            self.lose(Refused(530, "NOT_ALLOWED - number of channels opened for user 'guest'"))
            raise Refused(530, "NOT_ALLOWED - number of channels opened for user 'guest'")
        self.channels.append(Channel(self, len(self.channels) + 1))
        return self.channels[-1]

    def write(self, data: bytes) -> None:
        if self.is_over:
            return
        if self.box.losses and self.box.random.random() < 0.05:
            self.box.losses -= 1
            asyncio.get_running_loop().call_soon(self.lose)
            if self.box.random.random() < 0.5:
                return
        self.later(lambda: self.take(data))

    def later(self, act: Callable[[], None]) -> None:
        """Do something after all that was written before, unless the connection is over then."""
        loop = asyncio.get_running_loop()
        self.free_at = max(self.free_at + 1e-6, loop.time() + self.box.random.random() * SECONDS)
        loop.call_at(self.free_at, lambda: None if self.is_over else act())

    def take(self, data: bytes) -> None:
        events: dict[int, list[Event]] = {}
        for kind, channel, payload in split(data):
            events.setdefault(channel, []).extend(self.answer(self.channels[channel - 1], kind, payload))
        for channel, made in events.items():
            if made:
                self.later(lambda: self.channels[channel - 1].on_events(made))  # noqa: B023

    def answer(self, channel: Channel, kind: int, payload: bytes) -> Iterable[Event]:
        if kind == HEADER:
            self.parts += [payload[12:], int.from_bytes(payload[4:12])]
        elif kind == BODY:
            self.parts.append(payload)
        else:
            method = int.from_bytes(payload[:4])
            if method == GET:
                yield channel.get(self.box.queues[payload[7 : 7 + payload[6]].decode()])
            elif method in (ACK, NACK):
                channel.settle(*struct.unpack(">QB", payload[4:13]), is_ack=method == ACK)
            else:
                assert method == PUBLISH
                exchange, rest = payload[7 : 7 + payload[6]], payload[7 + payload[6] :]
                self.parts = [exchange, rest[1 : 1 + rest[0]]]
        if len(self.parts) >= 4 and self.parts[3] == sum(map(len, self.parts[4:])):
            yield from self.publish()
            self.parts = []

    def publish(self) -> Iterator[Event]:
        self.published += 1
        exchange, key, raw, _, *bodies = self.parts
        body = b"".join(bodies)
        is_nacked = self.box.nacks > 0
        self.box.nacks -= is_nacked
        if exchange or key.decode() not in self.box.queues:
            yield Returned(312, b"NO_ROUTE", exchange, key, raw, body)
            is_nacked = False
        elif not is_nacked:
            self.box.append(key.decode(), exchange, key, raw, body)
        yield Acked(self.published, False, is_nacked)

    def lose(self, error: Disconnected | None = None) -> None:
        if not self.is_over:
            self.end()
            self.on_lost(error or Disconnected("lost"))

    def end(self) -> None:
        self.is_over = True
        for each in reversed(self.channels):
            each.give_back()

    async def close(self) -> None:
        await pass_time(self.free_at - asyncio.get_running_loop().time() + 1e-6)  # what was written arrives
        if not self.is_over:
            self.end()


class Channel:
    """A channel."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.on_events: Callable[[list[Event]], None] = lambda _: None
        self.given: dict[int, tuple[deque[Arrived], Arrived]] = {}
        self.tag = 0
        self.is_closed = False

    def get(self, ready: deque[Arrived]) -> Event:
        if not ready:
            return NothingLeft()
        self.tag += 1
        self.given[self.tag] = ready, ready.popleft()
        return self.given[self.tag][1]._replace(tag=self.tag)

    def settle(self, tag: int, bits: int, *, is_ack: bool) -> None:
        if is_ack:
            assert not bits
            del self.given[tag]
        else:
            self.give_back()

    def give_back(self) -> None:
        """Put messages where they were; each has its place, so that it does not matter what is put back first."""
        for queue in {id(queue): queue for queue, _ in self.given.values()}.values():
            back = [message for ready, message in self.given.values() if ready is queue]
            ordered = sorted([*queue, *back], key=lambda each: each.tag)
            queue.clear()
            queue.extend(ordered)
        self.given.clear()

    async def ask(self, *_: object, **__: object) -> None:
        await self.connection.pass_answer()

    async def enable_confirms(self) -> None:
        await self.connection.pass_answer()

    async def consume(self, *_: object, **__: object) -> None:
        await self.connection.pass_answer()
        self.is_closed = True
        refusal = BrokerError("invalid arg 'x-stream-offset' for queue 'q' of queue type rabbit_classic_queue")
        refusal.code = PreconditionFailed.code
        raise refusal

    def close(self) -> None:
        self.is_closed = True


def split(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield kind, channel and payload of each frame."""
    while data:
        kind, channel, size = struct.unpack_from(">BHI", data)
        yield kind, channel, data[7 : 7 + size]
        data = data[8 + size :]


class Paper(Ledger):
    """A ledger of a process that may be killed."""

    box: Box

    def _write(self, entries: Iterable[Mapping[str, object]]) -> None:
        if self.box.alive:
            super()._write(entries)


def run(box: Box, path: Path, order: Order, work: Callable[..., Any] = replay, kill_at: float | None = None) -> Any:
    """Run a replay to its end, or until it is killed; return its outcome, or None."""

    async def live() -> Outcome | None:
        ledger = Paper(path, "queue")
        task: asyncio.Task[Outcome] = asyncio.ensure_future(work(order, ledger, User(lambda _: None)))
        try:
            done, _ = await asyncio.wait([task], timeout=kill_at)
            if done:
                return task.result()
            box.kill()
            return None
        finally:
            task.cancel()
            await end_all()
            ledger.close()

    box.alive, box.connections = True, []
    with ExitStack() as stack:
        for module in (held, target):
            stack.enter_context(patch.object(module, "Connection", Connection))
        stack.enter_context(patch.object(held, "PAGE", box.page))
        for kind in (Connection, Paper):
            stack.enter_context(patch.object(kind, "box", box, create=True))
        return run_virtually(live())
