"""The window of a source: it bounds messages and bytes in flight, and gets all of them back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Disconnected, Failure
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.policy import Backoff, Policy
from bridge.pump.pump import Inlet, Pump
from bridge.pump.window import Window
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from tests.support.bridge.behaviour import Silent
from tests.support.tiers import examples
from tests.support.virtual_loop import pass_time, run_virtually

ROUTER = Router(
    Topology().declare_exchange(Exchange("in", "fanout")).declare_queue(Queue("q")).bind(Binding.to_queue("in", "q"))
)


def deliveries(*sizes: int, lane: object = "lane") -> list[Delivery]:
    return [Delivery(Message("in", "k"), lane, n, size=size) for n, size in enumerate(sizes)]


class Settled(Window):
    """A window that keeps the positions that it settles."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.settled: list[Any] = []
        super().__init__(most, most_bytes, lambda delivery: self.settled.append(delivery.position))


class Reads(MemorySource):
    """Keeps the limit of each read."""

    def __init__(self, messages: Sequence[Message]) -> None:
        super().__init__(messages)
        self.limits: list[int] = []

    async def read(self, limit: int) -> Sequence[Delivery]:
        self.limits.append(limit)
        return await super().read(limit)


class Breaking(MemorySource):
    """Shows that it is broken even while it is not read."""

    @property
    def lost(self) -> Disconnected | None:
        return Disconnected("broken") if self._broken else None


def bodies(*sizes: int) -> list[Message]:
    return [Message("in", "k", {"n": n}, body=bytes(size)) for n, size in enumerate(sizes)]


class Slow(MemoryTarget):
    """Answers a second later, one message at a time; ``look`` is called before each answer."""

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__("slow")
        self._look = look

    def _answer(self) -> None:
        asyncio.get_running_loop().call_later(1.0, self._answer_one)

    def _answer_one(self) -> None:
        self._look()
        if self._sent and self._receiver is not None:
            outgoing = self._sent.popleft()
            self.messages.append(outgoing)
            self._receiver.confirmed([outgoing])
        if self._sent:
            asyncio.get_running_loop().call_later(1.0, self._answer_one)


async def run_pump(source: MemorySource, target: MemoryTarget, policy: Policy, seconds: float = 100_000.0) -> None:
    source.end()
    pump = Pump([Inlet(source)], ROUTER, {"q": target}, Silent(), policy, random=random.Random(1).random)
    await asyncio.wait_for(pump.run(), seconds)


# The window by itself.


@pytest.mark.parametrize(("most", "most_bytes"), [(3, 1_000), (1_000, 30)])
def test_a_window_full_of_messages_or_of_bytes_is_full_until_there_is_room(most: int, most_bytes: int) -> None:
    window = Settled(most, most_bytes)
    pendings = window.admit(deliveries(10, 10), 1.0)
    assert (window.full_since, window.room > 0) == (None, True)
    pendings += window.admit(deliveries(10), 2.0)
    assert (window.full_since, window.room) == (2.0, 0)
    window.settle()
    assert (window.full_since, window.room) == (2.0, 0)
    window.finish_copy(pendings[0])
    window.settle()
    assert (window.full_since, window.room > 0) == (None, True)


def test_as_many_deliveries_as_fit_may_be_read_and_at_least_one() -> None:
    window = Settled(1_000, 100)
    assert window.room == 1_000  # nobody knows yet how large they are
    [pending, _] = window.admit(deliveries(10, 10), 0.0)
    assert window.room == 8
    window.finish_copy(pending)
    window.settle()
    assert window.room == 9
    window.admit(deliveries(85), 0.0)
    assert window.room == 1  # one as large as the last one does not fit, and a smaller one may
    window.admit(deliveries(5), 0.0)
    assert window.room == 0


def test_as_much_of_a_read_is_admitted_as_fits() -> None:
    window = Settled(1_000, 100)
    assert window.fitting(deliveries(40, 60)) == 2
    assert window.fitting(deliveries(40, 61)) == 1
    assert window.fitting(deliveries(500, 1)) == 1  # which would never fit
    window.admit(deliveries(40), 0.0)
    assert window.fitting(deliveries(60, 1)) == 1
    assert window.fitting(deliveries(61)) == 0


def test_dropped_deliveries_free_the_window_and_are_never_settled() -> None:
    window = Settled(3, 30)
    pendings = window.admit(deliveries(10, 10, 10), 0.0)
    window.drop()
    assert (window.messages, window.bytes, window.full_since) == (0, 0, None)
    for pending in pendings:
        window.finish_copy(pending)
    window.settle()
    assert window.settled == []
    assert window.room == 3


def test_a_window_knows_what_further_copies_would_settle() -> None:
    window = Settled(10, 1_000)
    first, second, third = window.admit(deliveries(1, 1, 1), 0.0)
    first.copies = second.copies = 2
    assert window.last_settleable("lane", {}) is None
    assert window.last_settleable("lane", {first: 1, second: 2}) is None
    assert window.last_settleable("lane", {first: 2, second: 1, third: 1}) is first.delivery
    assert window.last_settleable("lane", {first: 2, second: 2}) is second.delivery
    assert window.last_settleable("lane", {first: 2, second: 2, third: 1}) is third.delivery
    assert window.last_settleable("other", {}) is None


@examples(200)
@given(st.integers(1, 8), st.integers(1, 200), st.data())
def test_a_window_counts_unsettled_deliveries(most: int, most_bytes: int, data: st.DataObject) -> None:
    """In any order of admitting and finishing; when all is finished, nothing is left."""
    window = Settled(most, most_bytes)
    left: list[Any] = []
    draw: Any = data.draw
    for _ in range(draw(st.integers(1, 12))):
        if left and draw(st.booleans()):
            window.finish_copy(left.pop(draw(st.integers(0, len(left) - 1))))
            window.settle()
        elif window.room > 0:
            sizes = draw(st.lists(st.integers(0, 90), max_size=window.room))
            read = deliveries(*sizes)
            left += window.admit(read[: window.fitting(read)], 0.0)
        unsettled = [pending for lane in window._lanes.values() for pending in lane]
        assert window.messages == len(unsettled) <= most
        assert window.bytes == sum(pending.delivery.size for pending in unsettled)
        assert window.bytes <= most_bytes or window.messages == 1
        assert (window.full_since is None) == (window.messages < most and window.bytes < most_bytes)
    for pending in left:
        window.finish_copy(pending)
    window.settle()
    assert (window.messages, window.bytes) == (0, 0)
    assert not window._lanes


# The pump with it.


@pytest.mark.parametrize(
    "sizes",
    [[1_000] * 60, [0, 1, 2, *[9_000] * 12, *[10] * 200, *[2_500] * 30], [50_000, 10, 50_000, 10, 10, 20_000]],
    ids=["even", "small and large", "larger than all of it"],
)
def test_bytes_in_flight_are_bounded_and_all_messages_get_through(sizes: list[int]) -> None:
    """Also in the first read, whose sizes are unknown, and where sizes change."""
    seen: list[tuple[int, int]] = []

    async def run() -> None:
        source = Reads(bodies(*sizes))
        source.end()
        inlet = Inlet(source)
        target = Slow(lambda: seen.append((inlet.window.messages, inlet.window.bytes)))
        pump = Pump([inlet], ROUTER, {"q": target}, Silent(), Policy(window=5_000, window_bytes=10_000))
        await asyncio.wait_for(pump.run(), 10_000)
        assert [outgoing.message.headers["n"] for outgoing in target.messages] == list(range(len(sizes)))
        assert not source.unsettled
        assert min(source.limits) > 0

    run_virtually(run())
    assert max(size for messages, size in seen if messages > 1) <= 10_000
    assert max(messages for messages, _ in seen) > 1


def test_each_lost_connection_of_a_source_empties_its_window() -> None:
    """Deliveries of earlier connections are neither counted nor sent again."""

    async def run() -> None:
        taken: list[bool] = []
        target = MemoryTarget(fault=lambda _: None if taken else Failure("full", busy=True))
        source = Breaking(bodies(*[10] * 30))
        source.end()
        inlet = Inlet(source)
        policy = Policy(window=8, window_bytes=60, backoff=Backoff(0.1, 0.5), reconnect=Backoff(5.0, 5.0))
        pump = Pump([inlet], ROUTER, {"q": target}, Silent(), policy)
        running = asyncio.create_task(pump.run())
        for _ in range(5):
            await pass_time(10.0)
            assert (inlet.window.messages, inlet.window.bytes) == (6, 60)
            assert pump.in_flight == 6
            source.break_connection()
            await pass_time(1.0)
            assert (inlet.window.messages, inlet.window.bytes) == (0, 0)
        taken.append(True)
        await asyncio.wait_for(running, 1_000)
        assert not source.unsettled
        assert [outgoing.message.headers["n"] for outgoing in target.messages] == list(range(30))

    run_virtually(run())


@examples(200)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 5)), max_size=40))
def test_the_oldest_is_the_one_that_was_read_first_of_all_lanes(steps: list[tuple[bool, int, int]]) -> None:
    window, pending = Window(1_000, 1 << 30, lambda _: None), list[Any]()
    for now, (is_read, lane, which) in enumerate(steps):
        if is_read:
            pending += window.admit(deliveries(1, lane=lane), float(now))
        elif pending:
            first = next(each for each in pending if each.delivery.lane == pending[which % len(pending)].delivery.lane)
            pending.remove(first)
            window.finish_copy(first)
            window.settle()
        assert window.oldest() is (pending[0] if pending else None)
