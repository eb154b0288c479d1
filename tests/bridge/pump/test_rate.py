"""The maximum rate, by a virtual clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from bridge.endpoint import Delivery, Outgoing
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from tests.support.bridge.behaviour import Silent
from tests.support.virtual_loop import pass_time, run_virtually

ROUTER = Router(
    Topology().declare_exchange(Exchange("in", "fanout")).declare_queue(Queue("q")).bind(Binding.to_queue("in", "q"))
)


class Timed(MemorySource):
    """Keeps the time and number of messages of each read."""

    def __init__(self, count: int) -> None:
        super().__init__([Message("in", "k", {"n": n}) for n in range(count)])
        self.times: list[float] = []

    async def read(self, limit: int) -> Sequence[Delivery]:
        found = await super().read(limit)
        self.times += [asyncio.get_running_loop().time()] * len(found)
        return found


async def read_for(source: Timed, rate: float, seconds: float) -> None:
    pump = Pump([Inlet(source)], ROUTER, {"q": MemoryTarget()}, Silent(), Policy(5_000, rate=rate))
    running = asyncio.create_task(pump.run())
    await pass_time(seconds)
    pump.stop()
    await running


@pytest.mark.parametrize("rate", [3.0, 50.0, 200.0, 2_000.0])
def test_messages_are_read_evenly_at_the_rate(rate: float) -> None:
    source = Timed(50_000)
    run_virtually(read_for(source, rate, 20.0))
    assert len(source.times) == pytest.approx(20.0 * rate, rel=0.02, abs=1)
    at_once = max(1, rate / 10)
    for begin in range(19):
        within = len([time for time in source.times if begin <= time < begin + 1.0])
        assert within <= rate + at_once
    assert max(Counter(source.times).values()) <= at_once


def test_of_a_long_pause_one_second_of_the_rate_is_saved() -> None:
    source = Timed(0)
    source.times.clear()

    async def run() -> None:
        async def burst() -> None:
            await pass_time(100.0)
            for n in range(5_000):
                source.put(Message("in", "k", {"n": n}))

        filling = asyncio.create_task(burst())
        await read_for(source, 100.0, 105.0)
        await filling

    run_virtually(run())
    first = [time for time in source.times if time < 100.5]
    assert 100 <= len(first) <= 100 + 50 + 2 * 10
    assert len(source.times) == pytest.approx(600, abs=20)


class Prefetching(Timed):
    """A source whose system had sent all of its messages when it is told to send no more."""

    async def stop_taking(self) -> bool:
        self.end()
        return True


class Noting(MemoryTarget):
    """Keeps the time of each message."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def send(self, messages: Sequence[Outgoing]) -> None:
        self.times += [asyncio.get_running_loop().time()] * len(messages)
        super().send(messages)


@pytest.mark.parametrize(("rate", "count"), [(0.5, 3), (10.0, 200), (200.0, 4_000), (50.0, 5_000)])
def test_what_a_system_had_sent_before_a_stop_is_read_at_the_rate_and_for_as_long_as_it_may_take(
    rate: float, count: int
) -> None:
    """So it does not go back, which would count as a delivery; with nothing left the stop takes no time."""
    drain, before = 30.0, 1.0
    source, target = Prefetching(count), Noting()

    async def run() -> float:
        pump = Pump([Inlet(source)], ROUTER, {"q": target}, Silent(), Policy(5_000, rate=rate, drain=drain))
        loop = asyncio.get_running_loop()
        loop.call_later(before, pump.stop)
        await pump.run()
        return loop.time() - before

    seconds = run_virtually(run())
    needed = count / rate - before
    assert seconds == pytest.approx(min(drain, needed), abs=2.0 + 1.0 / rate)
    assert source.unsettled == pytest.approx(max(0.0, count - (drain + before) * rate), abs=2.0 * max(1.0, rate / 10))
    for begin in range(int(seconds)):
        within = len([time for time in target.times if begin <= time < begin + 1.0])
        assert within <= rate + max(1.0, rate / 10)
