"""A source that takes no more leaves the queue as if the rest had never been sent: no message loses its place."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from bridge.endpoint import EndOfStream
from tests.simulation.loop import simulate
from tests.simulation.plan import Plan
from tests.simulation.rabbitmq import RabbitmqQueue, rabbitmq_simulated
from tests.simulation.sources import Broker
from tests.simulation.world import World
from tests.support.tiers import examples

PUBLISHED_FOR = 0.5
"""Seconds over which messages are published, while a source is stopped, at any moment."""


async def read_with_stops(seed: int, count: int, prefetch: int) -> list[int]:
    """Read all messages with a source that is stopped again and again, and return them as they were read."""
    random = Random(seed)
    world = World(Plan(seed, window=prefetch), random)
    queue, found = RabbitmqQueue("rabbitmq", world, Broker()), list[int]()
    loop = asyncio.get_running_loop()
    for number in range(count):
        loop.call_later(PUBLISHED_FOR * number / count, queue.put, number)
    source = queue.endpoint

    async def read() -> None:
        deliveries = await source.read(random.randint(1, 5))
        found.extend(int(each.message.body) for each in deliveries)
        source.settle(deliveries[-1])

    while len(found) < count:
        await source.open()
        with suppress(TimeoutError):
            async with asyncio.timeout(random.random() / 20):
                while True:
                    await read()
        assert await source.stop_taking()
        with suppress(EndOfStream):
            while True:
                await read()
        await source.close()
    return found


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 12))
@examples(300)
def test_sources_that_are_stopped_one_after_the_other_read_all_in_order_and_once(
    seed: int, count: int, prefetch: int
) -> None:
    with rabbitmq_simulated():
        found, _ = simulate(read_with_stops(seed, count, prefetch), Random(seed))
    assert found == list(range(count))
