"""A topic that is made anew is read from its beginning by a source that has read the one before, also with ``last``."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from bridge.endpoint import Disconnected
from bridge.endpoints.rocketmq.source import RocketmqSource
from bridge.rocketmq.consumer.pulling import BROKER_SUSPEND_MAX_TIME
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting.message import RocketMessage
from tests.simulation.loop import simulate
from tests.simulation.plan import Plan
from tests.simulation.rocketmq import Host, rocketmq_simulated
from tests.simulation.rocketmq_broker import GROUP, ModelBroker
from tests.simulation.world import World
from tests.support.virtual_loop import pass_time

TOPIC = "t"
AGAIN = 0.2
"""Seconds after which a source that was lost is opened again."""


def make(*numbers: int) -> list[RocketMessage]:
    return [RocketMessage(TOPIC, b"%d" % number, {}) for number in numbers]


async def keep_reading(source: RocketmqSource, got: list[int]) -> None:
    """Read and settle all that comes, over one connection after the other, as the pump does."""
    while True:
        try:
            await source.open()
            while True:
                for delivery in await source.read(100):
                    got.append(int(delivery.message.body))
                    source.settle(delivery)
        except Disconnected:
            await source.close()
            await pass_time(AGAIN)


@pytest.mark.parametrize(("queues", "is_heard"), [(1, True), (3, True), (1, False)])
@pytest.mark.parametrize("read", [0, 5])
@pytest.mark.parametrize("old", [0, 3])
def test_all_of_a_topic_made_anew_is_read_where_a_new_group_begins_at_the_end(
    old: int, read: int, queues: int, is_heard: bool
) -> None:
    """Its broker does not take it for new, as it has not the first messages in its memory any more."""

    async def live() -> list[int]:
        broker = ModelBroker(TOPIC, 1)
        broker.keeps_first = False
        host = Host("read", World(Plan(0), Random(2)), broker)
        source = RocketmqSource("read", host.settings, GROUP, [Subscription.to_tags(TOPIC)], from_last=True)
        broker.append(0, make(*range(100, 100 + old)))  # before the group: it passes over them
        got: list[int] = []
        reading = asyncio.create_task(keep_reading(source, got))
        await pass_time(5)
        broker.append(0, make(*range(read)))
        await pass_time(2 * BROKER_SUSPEND_MAX_TIME)  # what is read is committed, as is the end of what is not
        assert got == [*range(read)]
        if not is_heard:  # as in a pause
            reading.cancel()
            await source.close()
        broker.delete()
        if is_heard:  # by a pull that waits
            await pass_time(2 * BROKER_SUSPEND_MAX_TIME)
        broker.remake(queues)
        for queue in range(queues):
            broker.append(queue, make(*range(10 + 10 * queue, 20 + 10 * queue)))
        if not is_heard:
            reading = asyncio.create_task(keep_reading(source, got))
        await pass_time(60)
        reading.cancel()
        await source.close()
        return sorted(got)

    with rocketmq_simulated():
        got, _ = simulate(live(), Random(1))
    assert got == [*range(read), *range(10, 10 + 10 * queues)]
