"""The behaviour of every endpoint, whatever its system is: the contract of `bridge.endpoint`, as tests.

An endpoint's own test module subclasses `SourceBehaviour` and `TargetBehaviour`, and defines a fixture ``place``: an
empty `Place`, new for each test, that nothing else uses.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ParamSpec

import pytest

from bridge.endpoint import Delivery, Disconnected, EndOfStream, Failure, Outgoing, Source, Target
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.policy import Backoff, Policy
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from tests.support.waiting import find_limit, until

P = ParamSpec("P")


KEYS = 7
QUICK = Policy(window=100, backoff=Backoff(0.01, 0.1), reconnect=Backoff(0.01, 0.2), drain=10.0)


@dataclass
class Place:
    """A place to write to and read from: a queue, a topic, a folder.

    It keeps key and body of messages; the endpoint's own tests check what else it keeps.
    """

    make_source: Callable[[], Source]
    """Make a source of the messages of ``put``; all are one reader to the system: one queue, group, file of offsets."""
    make_target: Callable[[], Target]
    """Make a target that writes the messages of the topology's queue `queue`, which ``read_all`` reads."""
    put: Callable[[Sequence[Message]], None]
    """Add messages for the source, in order, and wait until they are stored. Called on the event loop's thread."""
    read_all: Callable[[int], Sequence[Message]]
    """Wait for a number of written messages, and read all, in order for each key. Called on the loop's thread."""
    queue: str = "queue"
    end: Callable[[], None] | None = None
    """Let sources end after all was read; None: they never end."""
    cut: Callable[[], None] | None = None
    """Cut all present connections; None: there are none."""
    refused: tuple[str, Message] | None = None
    """A queue of the topology, and a message for it that the target always refuses."""
    longest: int = 1_000_000
    """Size of a large body that the place accepts, in bytes."""
    settles_to_read_on: bool = False
    """Whether the source gives what came later only when all that it gave before is settled."""

    def go_on(self, source: Source, deliveries: Sequence[Delivery]) -> None:
        """Settle what was read where nothing else is read before."""
        if self.settles_to_read_on:
            for delivery in deliveries:
                source.settle(delivery)


def on_a_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Make a test of a coroutine function, which is cancelled before the time of the whole test is over."""

    @functools.wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(test(*arguments, **named), find_limit(math.inf))

        asyncio.run(bounded())

    return run


def make_messages(first: int, stop: int) -> list[Message]:
    """Make messages whose bodies are their numbers."""
    return [Message("", f"key.{n % KEYS}", body=b"%d" % n) for n in range(first, stop)]


def router_to(queue: str) -> Router:
    """Make a router that routes everything published to ``in`` to this queue."""
    topology = Topology().declare_exchange(Exchange("in", "topic")).declare_queue(Queue(queue))
    return Router(topology.bind(Binding.to_queue("in", queue, "#")))


def router_of_parity() -> Router:
    """Make a router that routes ``even.#`` and ``odd.#`` published to ``in`` to the queues ``even`` and ``odd``."""
    topology = Topology([Exchange("in", "topic")], [Queue("even"), Queue("odd")])
    return Router(topology.bind(Binding.to_queue("in", "even", "even.#")).bind(Binding.to_queue("in", "odd", "odd.#")))


async def eventually_many(targets: Mapping[str, MemoryTarget], count: int) -> None:
    """Wait until these targets have ``count`` messages together."""
    await until(lambda: sum(len(target.messages) for target in targets.values()) >= count)


def bodies(carriers: Sequence[Delivery | Outgoing]) -> list[bytes]:
    """Return the bodies."""
    return [each.message.body for each in carriers]


def by_key(messages: Sequence[Message]) -> dict[str, list[int]]:
    """Return key -> numbers of its messages, in their order."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for message in messages:
        numbers[message.routing_key].append(int(message.body))
    return numbers


def read_different(place: Place, count: int) -> list[Message]:
    """Read until ``count`` different messages were written; return each once, at its first position."""
    written = place.read_all(count)
    while len(first := {(m.routing_key, m.body): m for m in written}) < count:
        more = place.read_all(len(written) + 1)
        if len(more) <= len(written):
            break
        written = more
    return list(first.values())


async def read_all_of(source: Source, count: int) -> list[Delivery]:
    """Read ``count`` deliveries."""
    deliveries: list[Delivery] = []
    while len(deliveries) < count:
        deliveries += await asyncio.wait_for(source.read(count - len(deliveries)), find_limit())
    return deliveries


async def check_nothing_more(source: Source) -> None:
    """Check that the source waits or has ended."""
    with suppress(TimeoutError, EndOfStream):
        more = await asyncio.wait_for(source.read(10), 0.5)
        pytest.fail(f"there is more: {bodies(more)}")


class SourceBehaviour:
    """The tests of a source."""

    @on_a_loop
    async def test_all_messages_are_read_once_and_in_order(self, place: Place) -> None:
        place.put(make_messages(0, 500))
        source = place.make_source()
        await source.open()
        deliveries = await read_all_of(source, 500)
        assert by_key([d.message for d in deliveries]) == by_key(make_messages(0, 500))
        await check_nothing_more(source)
        await source.close()

    @on_a_loop
    async def test_messages_that_come_later_are_read_too(self, place: Place) -> None:
        source = place.make_source()
        await source.open()
        for n in range(5):
            reading = asyncio.ensure_future(source.read(10))
            await asyncio.sleep(0.01 * n)
            place.put(make_messages(n, n + 1))
            deliveries = await reading
            assert bodies(deliveries) == [b"%d" % n]
            place.go_on(source, deliveries)
        await source.close()

    @on_a_loop
    async def test_a_read_returns_at_least_one_delivery_and_at_most_its_limit(self, place: Place) -> None:
        place.put(make_messages(0, 50))
        source = place.make_source()
        await source.open()
        count = 0
        while count < 50:
            deliveries = await source.read(7)
            assert 1 <= len(deliveries) <= 7
            count += len(deliveries)
        await source.close()

    @on_a_loop
    async def test_a_delivery_has_its_origin_and_its_size(self, place: Place) -> None:
        place.put([Message("", "key.0", body=bytes(10_000))])
        source = place.make_source()
        await source.open()
        [delivery] = await source.read(10)
        assert delivery.origin
        assert delivery.size >= 10_000
        await source.close()

    @on_a_loop
    async def test_unsettled_messages_come_again(self, place: Place) -> None:
        place.put(make_messages(0, 100))
        for source in [place.make_source()] * 2 + [place.make_source()]:
            await source.open()
            deliveries = await read_all_of(source, 100)
            assert by_key([d.message for d in deliveries]) == by_key(make_messages(0, 100))
            await source.close()

    @on_a_loop
    async def test_a_redelivered_message_has_the_same_identity(self, place: Place) -> None:
        place.put(make_messages(0, 20))
        deliveries: list[Mapping[bytes, str | None]] = []
        for source in (place.make_source(), place.make_source()):
            await source.open()
            deliveries.append({d.message.body: d.identity for d in await read_all_of(source, 20)})
            await source.close()
        assert deliveries[0] == deliveries[1]
        identities = [identity for identity in deliveries[0].values() if identity is not None]
        assert len({*identities}) == len(identities)

    @on_a_loop
    async def test_a_prefix_of_a_lane_is_settled_by_its_last_delivery_and_does_not_come_again(
        self, place: Place
    ) -> None:
        place.put(make_messages(0, 100))
        source = place.make_source()
        await source.open()
        deliveries = await read_all_of(source, 100)
        lanes: dict[Any, list[Delivery]] = defaultdict(list)
        for delivery in deliveries:
            lanes[delivery.lane].append(delivery)
        left: list[Delivery] = []
        for lane in lanes.values():
            half = len(lane) // 2
            if half:
                source.settle(lane[half - 1])
            left += lane[half:]
        await source.close()
        again = place.make_source()
        await again.open()
        assert sorted(bodies(await read_all_of(again, len(left)))) == sorted(bodies(left))
        await check_nothing_more(again)
        await again.close()

    @on_a_loop
    async def test_nothing_comes_again_after_everything_was_settled_step_by_step(self, place: Place) -> None:
        place.put(make_messages(0, 60))
        source = place.make_source()
        await source.open()
        for delivery in await read_all_of(source, 60):
            source.settle(delivery)
            await asyncio.sleep(0)
        await source.close()
        place.put(make_messages(60, 61))
        await source.open()
        assert bodies(await source.read(10)) == [b"60"]
        await source.close()

    @on_a_loop
    async def test_deliveries_of_a_lost_connection_cannot_be_settled(self, place: Place) -> None:
        place.put(make_messages(0, 20))
        source = place.make_source()
        await source.open()
        old = await read_all_of(source, 20)
        await source.close()
        source.settle(old[-1])
        await source.open()
        for delivery in old:
            source.settle(delivery)
        deliveries = await read_all_of(source, 20)
        for delivery in old:
            source.settle(delivery)
        await source.close()
        await source.open()
        assert sorted(bodies(await read_all_of(source, 20))) == sorted(bodies(deliveries))
        await source.close()

    @on_a_loop
    async def test_a_read_that_is_cancelled_loses_nothing(self, place: Place) -> None:
        source = place.make_source()
        await source.open()
        deliveries: list[Delivery] = []
        for n in range(0, 200, 10):
            reading = asyncio.ensure_future(source.read(3))
            await asyncio.sleep(0)
            place.put(make_messages(n, n + 10))
            for _ in range(n % 7):
                await asyncio.sleep(0)
            if not reading.done():
                reading.cancel()
            with suppress(asyncio.CancelledError):
                deliveries += await reading
            place.go_on(source, deliveries)
        while len(deliveries) < 200:
            deliveries += await source.read(200 - len(deliveries))
            place.go_on(source, deliveries)
        assert by_key([d.message for d in deliveries]) == by_key(make_messages(0, 200))
        await source.close()

    @on_a_loop
    async def test_empty_and_large_bodies_are_read_unchanged(self, place: Place) -> None:
        texts = [b"", bytes(range(256)) * (place.longest // 256), b"", b"x"]
        place.put([Message("", "key.0", body=body) for body in texts])
        source = place.make_source()
        await source.open()
        assert bodies(await read_all_of(source, 4)) == texts
        await source.close()

    @on_a_loop
    async def test_close_never_raises(self, place: Place) -> None:
        source = place.make_source()
        await source.close()
        await source.open()
        await source.close()
        await source.close()

    @on_a_loop
    async def test_the_stream_ends_after_all_was_read(self, place: Place) -> None:
        if place.end is None:
            pytest.skip("this source never ends")
        place.put(make_messages(0, 30))
        place.end()
        source = place.make_source()
        await source.open()
        await read_all_of(source, 30)
        with pytest.raises(EndOfStream):
            await source.read(1)
        await source.close()

    @on_a_loop
    async def test_a_cut_connection_is_reported_and_unsettled_messages_come_again(self, place: Place) -> None:
        if place.cut is None:
            pytest.skip("nothing to cut")
        place.put(make_messages(0, 50))
        source = place.make_source()
        await source.open()
        found = await read_all_of(source, 50)
        reading = asyncio.ensure_future(source.read(1))
        await asyncio.sleep(0.01)
        place.cut()
        with pytest.raises(Disconnected):
            await reading
        await source.close()
        await open_again(source)
        assert sorted(bodies(await read_all_of(source, 50))) == sorted(bodies(found))
        await source.close()

    @on_a_loop
    async def test_a_pump_empties_a_source_whatever_connection_is_cut(self, place: Place) -> None:
        place.put(make_messages(0, 1_000))
        target = MemoryTarget()
        source = place.make_source()
        pump = Pump([Inlet(source, "in")], router_to("queue"), {"queue": target}, Silent(), QUICK)
        running = asyncio.ensure_future(pump.run())
        for seconds in (0.05, 0.15):
            await asyncio.sleep(seconds)
            if place.cut is not None:
                place.cut()
        await until(lambda: len({*bodies(target.messages)}) == 1_000)
        pump.stop()
        await running
        arrived = {*bodies(target.messages)}
        first = dict.fromkeys((o.message.routing_key, int(o.message.body)) for o in target.messages)
        assert by_key([Message("", key, body=b"%d" % n) for key, n in first]) == by_key(make_messages(0, 1_000))
        again = place.make_source()
        await open_again(again)
        with suppress(TimeoutError, EndOfStream):  # deliveries settled over a connection that was just cut come again
            while True:
                for delivery in await asyncio.wait_for(again.read(100), 1.0):
                    assert delivery.message.body in arrived
                    again.settle(delivery)
        await again.close()
        await again.open()
        await check_nothing_more(again)
        await again.close()


@dataclass
class Reports:
    """A receiver that keeps the reports of a target."""

    confirmations: list[Outgoing] = field(default_factory=list)
    failures: list[tuple[Outgoing, Failure]] = field(default_factory=list)
    losses: list[Disconnected] = field(default_factory=list)
    sending: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        assert not self.sending
        self.confirmations += messages
        self._news.set()

    def failed(self, message: Outgoing, failure: Failure) -> None:
        assert not self.sending
        self.failures.append((message, failure))
        self._news.set()

    def lost(self, error: Disconnected) -> None:
        assert not self.sending
        self.losses.append(error)
        self._news.set()

    async def answers(self, count: int) -> None:
        """Wait until ``count`` messages have an answer."""
        while len(self.confirmations) + len(self.failures) < count:
            assert not self.losses
            await self._next()

    async def answers_or_loss(self, count: int) -> None:
        """Wait until ``count`` messages have an answer, or the connection was reported as lost."""
        while not self.losses and len(self.confirmations) + len(self.failures) < count:
            await self._next()

    async def loss(self) -> None:
        """Wait until the connection was reported as lost."""
        while not self.losses:
            await self._next()

    async def _next(self) -> None:
        self._news.clear()
        await asyncio.wait_for(self._news.wait(), find_limit())


def send_to(
    target: Target, reports: Reports, messages: Sequence[Message], queue: str, first: int = 1
) -> list[Outgoing]:
    """Send messages to a target, and return them with their numbers."""
    outgoing = [Outgoing(m, Delivery(m), queue, None, n) for n, m in enumerate(messages, first)]
    reports.sending = True
    target.send(outgoing)
    reports.sending = False
    return outgoing


async def open_again(endpoint: Source | Target, *receiver: Reports) -> None:
    """Open an endpoint, and try again as the pump would."""

    async def opens() -> bool:
        try:
            await endpoint.open(*receiver)
        except Disconnected:
            await endpoint.close()
            return False
        return True

    await until(opens, lambda: f"{endpoint.name} cannot be opened again")


class TargetBehaviour:
    """The tests of a target."""

    @on_a_loop
    async def test_each_message_is_written_and_confirmed_once(self, place: Place) -> None:
        target, reports = place.make_target(), Reports()
        await target.open(reports)
        outgoing = []
        for n in range(0, 500, 50):
            outgoing += send_to(target, reports, make_messages(n, n + 50), place.queue, n + 1)
            await asyncio.sleep(0)
        await reports.answers(500)
        assert not reports.failures
        assert sorted(o.number for o in reports.confirmations) == [o.number for o in outgoing]
        await target.close()
        assert by_key(place.read_all(500)) == by_key(make_messages(0, 500))
        assert len(reports.confirmations) == 500
        assert not reports.losses

    @on_a_loop
    async def test_sending_nothing_is_answered_by_nothing(self, place: Place) -> None:
        target, reports = place.make_target(), Reports()
        await target.open(reports)
        send_to(target, reports, [], place.queue)
        send_to(target, reports, make_messages(0, 1), place.queue)
        await reports.answers(1)
        await target.close()

    @on_a_loop
    async def test_empty_and_large_bodies_are_written_unchanged(self, place: Place) -> None:
        texts = [b"", bytes(range(256)) * (place.longest // 256), b"", b"x"]
        target, reports = place.make_target(), Reports()
        await target.open(reports)
        send_to(target, reports, [Message("", "key.0", body=body) for body in texts], place.queue)
        await reports.answers(4)
        await target.close()
        assert [message.body for message in place.read_all(4)] == texts

    @on_a_loop
    async def test_a_refused_message_fails_and_the_others_pass(self, place: Place) -> None:
        if place.refused is None:
            pytest.skip("nothing is refused")
        queue, refused = place.refused
        target, reports = place.make_target(), Reports()
        await target.open(reports)
        wrong, count = [], 0
        for n in range(0, 100, 10):
            send_to(target, reports, make_messages(n, n + 10), place.queue, count + 1)
            wrong += send_to(target, reports, [refused], queue, count + 11)
            count += 11
        await reports.answers(count)
        assert {outgoing.number for outgoing, _ in reports.failures} == {outgoing.number for outgoing in wrong}
        assert len(reports.failures) == len(wrong)
        assert all(failure.reason for _, failure in reports.failures)
        assert sorted(int(o.message.body) for o in reports.confirmations) == list(range(100))
        await target.close()
        assert by_key(place.read_all(100)) == by_key(make_messages(0, 100))

    @on_a_loop
    async def test_close_never_raises(self, place: Place) -> None:
        target = place.make_target()
        await target.close()
        await target.open(Reports())
        await target.close()
        await target.close()

    @on_a_loop
    async def test_it_can_be_opened_again(self, place: Place) -> None:
        target = place.make_target()
        for n in range(3):
            reports = Reports()
            await target.open(reports)
            send_to(target, reports, make_messages(n, n + 1), place.queue)
            await reports.answers(1)
            await target.close()
        assert sorted(int(m.body) for m in place.read_all(3)) == [0, 1, 2]

    @on_a_loop
    async def test_a_cut_connection_is_reported_once_and_unanswered_messages_may_be_sent_again(
        self, place: Place
    ) -> None:
        if place.cut is None:
            pytest.skip("nothing to cut")
        target, reports = place.make_target(), Reports()
        await target.open(reports)
        outgoing = send_to(target, reports, make_messages(0, 200), place.queue)
        place.cut()
        await reports.loss()
        assert not reports.failures
        answered = {o.number for o in reports.confirmations}
        assert len(answered) == len(reports.confirmations)
        await asyncio.sleep(0.05)
        assert len(reports.losses) == 1
        assert len(reports.confirmations) == len(answered)
        await target.close()
        again = Reports()
        await open_again(target, again)
        left = [o for o in outgoing if o.number not in answered]
        target.send(left)
        await again.answers(len(left))
        await target.close()
        assert {int(m.body) for m in read_different(place, 200)} == {*range(200)}

    @on_a_loop
    async def test_a_pump_fills_a_target_whatever_connection_is_cut(self, place: Place) -> None:
        source = MemorySource(make_messages(0, 1_000))
        source.end()
        pump = Pump([Inlet(source, "in")], router_to(place.queue), {place.queue: place.make_target()}, Silent(), QUICK)
        running = asyncio.ensure_future(pump.run())
        for _ in range(2):
            await asyncio.sleep(0.05)
            if place.cut is not None:
                place.cut()
        await running
        assert not source.unsettled
        assert by_key(read_different(place, 1_000)) == by_key(make_messages(0, 1_000))


class Silent:
    """Events of a pump that are ignored."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None
