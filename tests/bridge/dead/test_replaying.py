"""A replay loses nothing and keeps the order, however often it is killed or loses a connection, on a model of a broker.

What is modelled is what the two connections of a replay see: gets, acknowledgements, publishes and confirms. What real
brokers do is in `tests.bridge.dead.test_replay_live`.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.dead import held
from bridge.dead.ledger import Ledger
from bridge.dead.replaying import WINDOW, Order, Outcome, User, replay, undo
from bridge.dead.restoring import REPLAY
from bridge.endpoint import Disconnected
from bridge.endpoints.rabbitmq import target
from bridge.endpoints.rabbitmq.frames import ACK, GET, NACK, PUBLISH, Acked, Arrived, Event, NothingLeft, Returned
from exchange import Message
from exchange.amqp import ContentHeader, get_content
from exchange.amqp.methods import BODY, HEADER
from exchange.selector import Selector
from tests.support.tiers import examples
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
    alive: bool = True
    connections: list[Connection] = field(default_factory=list)

    def put(self, queue: str, message: Message) -> None:
        raw = get_content(message).raw
        self.queues[queue].append(
            Arrived(0, False, message.exchange.encode(), message.routing_key.encode(), raw, message.body)
        )

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
        self.given: dict[int, tuple[str, Arrived]] = {}
        self.channels: list[Channel] = []
        self.tag = self.published = 0
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

    async def look(self, *_: str) -> object:
        await self.pass_answer()
        return SimpleNamespace()

    async def channel(self, **_: Any) -> Channel:
        await self.pass_answer()
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
            events.setdefault(channel, []).extend(self.answer(kind, payload))
        for channel, made in events.items():
            if made:
                self.later(lambda: self.channels[channel - 1].on_events(made))  # noqa: B023

    def answer(self, kind: int, payload: bytes) -> Iterable[Event]:
        if kind == HEADER:
            self.parts += [payload[12:], int.from_bytes(payload[4:12])]
        elif kind == BODY:
            self.parts.append(payload)
        else:
            method = int.from_bytes(payload[:4])
            if method == GET:
                yield self.get(payload[7 : 7 + payload[6]].decode())
            elif method in (ACK, NACK):
                self.settle(*struct.unpack(">QB", payload[4:13]), is_ack=method == ACK)
            else:
                assert method == PUBLISH
                exchange, rest = payload[7 : 7 + payload[6]], payload[7 + payload[6] :]
                self.parts = [exchange, rest[1 : 1 + rest[0]]]
        if len(self.parts) >= 4 and self.parts[3] == sum(map(len, self.parts[4:])):
            yield from self.publish()
            self.parts = []

    def get(self, queue: str) -> Event:
        ready = self.box.queues[queue]
        if not ready:
            return NothingLeft()
        self.tag += 1
        self.given[self.tag] = queue, ready.popleft()
        return self.given[self.tag][1]._replace(tag=self.tag)

    def settle(self, tag: int, bits: int, *, is_ack: bool) -> None:
        if is_ack:
            assert not bits
            del self.given[tag]
        else:
            self.give_back()

    def give_back(self) -> None:
        for queue, message in reversed(self.given.values()):
            self.box.queues[queue].appendleft(message)
        self.given.clear()

    def publish(self) -> Iterator[Event]:
        self.published += 1
        exchange, key, raw, _, *bodies = self.parts
        body = b"".join(bodies)
        is_nacked = self.box.nacks > 0
        self.box.nacks -= is_nacked
        if (ready := self.box.queues.get(key.decode())) is None:
            yield Returned(312, b"NO_ROUTE", exchange, key, raw, body)
        elif not is_nacked:
            ready.append(Arrived(0, False, exchange, key, raw, body))
        yield Acked(self.published, False, ready is not None and is_nacked)

    def lose(self) -> None:
        if not self.is_over:
            self.end()
            self.on_lost(Disconnected("lost"))

    def end(self) -> None:
        self.is_over = True
        self.give_back()

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

    async def ask(self, *_: object, **__: object) -> None:
        await self.connection.pass_answer()

    async def enable_confirms(self) -> None:
        await self.connection.pass_answer()

    def close(self) -> None:
        """Close it."""


def split(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield kind, channel and payload of each frame."""
    while data:
        kind, channel, size = struct.unpack_from(">BHI", data)
        yield kind, channel, data[7 : 7 + size]
        data = data[8 + size :]


class Paper(Ledger):
    """A ledger of a process that may be killed."""

    box: Box

    def _write(self, entries: Iterable[dict[str, str]]) -> None:
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
        for kind in (Connection, Paper):
            stack.enter_context(patch.object(kind, "box", box, create=True))
        return run_virtually(live())


def bury(number: int, key: str, *, with_id: bool, tenant: str) -> Message:
    death = {"queue": key, "reason": "rejected", "exchange": "", "routing-keys": [key], "count": 1}
    headers = {"x-death": [death], "x-first-death-queue": key, "x-first-death-reason": "rejected", "tenant": tenant}
    return Message("", DEAD, headers, {"message_id": str(number)} if with_id else {}, b"%d" % number)


MESSAGES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "gone"]), st.booleans(), st.sampled_from(["x", "x", "y"])), max_size=60
)


@examples(60)
@given(MESSAGES, st.lists(st.floats(0.02, 0.6), max_size=3), st.integers(0, 4), st.integers(0, 3), st.integers(0, 999))
def test_a_replay_loses_nothing_keeps_the_order_and_leaves_the_rest(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[str, bool, str]],
    kills: list[float],
    nacks: int,
    losses: int,
    seed: int,
) -> None:
    box = Box(Random(seed), nacks, losses, {"a": deque(), "b": deque(), DEAD: deque()})
    buried = [bury(at, key, with_id=is_named, tenant=tenant) for at, (key, is_named, tenant) in enumerate(drawn)]
    for each in buried:
        box.put(DEAD, each)
    path = tmp_path_factory.mktemp("replay") / "ledger"
    order = Order("amqp://h", DEAD, 1_000, where=Selector.parse("tenant = 'x'"))
    interrupted = losses
    for kill in kills:
        interrupted += run(box, path, order, kill_at=kill) is None
    last = run(box, path, order)
    stays = [each.body for each, (key, _, tenant) in zip(buried, drawn, strict=True) if key == "gone" or tenant == "y"]
    assert box.bodies(DEAD) == stays
    copies = 0
    for queue in ("a", "b"):
        wanted = [
            each.body for each, (key, _, tenant) in zip(buried, drawn, strict=True) if (key, tenant) == (queue, "x")
        ]
        found = Counter(box.bodies(queue))
        in_order = [*found] if not nacks else sorted(found, key=int)  # what is refused is passed by what is under way
        assert in_order == wanted
        copies += found.total() - len(wanted)
        for arrived in box.queues[queue]:
            content = ContentHeader(arrived.properties)
            assert content.find("x-death") is None
            assert content.header("tenant") == "x"
    assert copies <= min(interrupted * WINDOW, len(drawn) * interrupted)
    returned = sum([key == "gone" and tenant == "x" for key, _, tenant in drawn])
    assert last.left.total() == returned
    assert run(box, path, order).moved == 0


@given(MESSAGES, st.integers(0, 999))
def test_what_was_taken_back_is_published_and_taken_back_again(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, bool, str]], seed: int
) -> None:
    box = Box(Random(seed), 0, 0, {"a": deque(), "b": deque(), "gone": deque(), DEAD: deque()})
    for at, (key, is_named, tenant) in enumerate(drawn):
        box.put(DEAD, bury(at, key, with_id=is_named, tenant=tenant))
    path, order = tmp_path_factory.mktemp("replay") / "ledger", Order("amqp://h", DEAD, 1_000)
    before = sorted(box.bodies(DEAD))
    for _ in range(3):
        assert run(box, path, order).moved == len(drawn)
        assert not box.queues[DEAD]
        assert run(box, path, order, undo).moved == len(drawn)
        assert sorted(box.bodies(DEAD)) == before


@examples(30)
@given(MESSAGES, st.lists(st.floats(0.02, 0.6), max_size=2), st.integers(0, 3), st.integers(0, 999), st.data())
def test_undo_puts_back_what_was_not_consumed(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[str, bool, str]],
    kills: list[float],
    losses: int,
    seed: int,
    data: st.DataObject,
) -> None:
    box = Box(Random(seed), 0, 0, {"a": deque(), "b": deque(), "gone": deque(), DEAD: deque()})
    buried = [bury(at, key, with_id=is_named, tenant=tenant) for at, (key, is_named, tenant) in enumerate(drawn)]
    for each in buried:
        box.put(DEAD, each)
    path = tmp_path_factory.mktemp("replay") / "ledger"
    order = Order("amqp://h", DEAD, 1_000)
    assert run(box, path, order).moved == len(drawn)
    consumed: list[bytes] = []
    for queue in ("a", "b", "gone"):
        count = data.draw(st.integers(0, len(box.queues[queue])))
        consumed += [box.queues[queue].popleft().body for _ in range(count)]
        box.put(queue, Message("", queue, {REPLAY: "of another"}, {}, b"other"))
    box.losses = losses
    interrupted = losses
    for kill in kills:
        interrupted += run(box, path, order, undo, kill) is None
    run(box, path, order, undo)
    assert {*box.bodies(DEAD), *consumed} == {each.body for each in buried}
    assert len(box.queues[DEAD]) + len(consumed) <= len(buried) * (1 + interrupted)
    assert all(box.bodies(queue) == [b"other"] for queue in ("a", "b", "gone"))
    with suppress(IndexError):
        assert ContentHeader(box.queues[DEAD][0].properties).find("x-death") is not None
