"""What waits, and what was removed unread, as live brokers have it: retention, delays, transactions, a full window."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from random import Random

import pytest

from bridge.endpoints.rocketmq.config import RocketmqSource
from bridge.rocketmq.consumer.assigned import TopicQueue
from bridge.rocketmq.consumer.pulling import BrokerQueues
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.producer.transactions import Transactions
from bridge.rocketmq.remoting.admin import list_masters
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.errors import RemotingTimeout
from bridge.rocketmq.remoting.message import RocketMessage
from tests.support.bridge.behaviour import on_a_loop, read_all_of
from tests.support.rocketmq.broker import broker
from tests.support.rocketmq.topics import Topics, topics_at
from tests.support.servers import SERVERS
from tests.support.waiting import until

MESSAGES = 60
"""Number of messages of half a megabyte: several files of the brokers' commit log."""
HOURS = ";".join([f"{hour:02}" for hour in range(24)])


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    """Start a broker of each image: it removes everything for a moment, and nothing in its first minute."""
    with ExitStack() as stack:
        images = SERVERS["rocketmq"].images()
        yield {image: stack.enter_context(broker({"deleteWhen": HOURS}, image)).url for image in images}


@pytest.fixture(scope="module", params=SERVERS["rocketmq"].images())
def topics(request: pytest.FixtureRequest, addresses: dict[str, str]) -> Iterator[Topics]:
    with topics_at(addresses[request.param]) as made:
        yield made


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.endpoints.rocketmq.backlog.ASK_EVERY", 0.5)


def source_of(topics: Topics, topic: str, window: int = 2_000) -> RocketmqSource:
    return RocketmqSource("read", topics.settings, f"g-{topic}", [Subscription.to_tags(topic)], window=window)


async def reserve(client: Client, hours: int) -> None:
    """Have brokers keep messages for this many hours."""
    for address in (await list_masters(client)).values():
        await client.ask(address, RequestCode.UPDATE_BROKER_CONFIG, {}, f"fileReservedTime={hours}".encode())


@on_a_loop
async def test_messages_that_a_broker_removed_unread_are_counted_and_do_not_wait(topics: Topics) -> None:
    topic = topics.make()
    source = source_of(topics, topic)
    await asyncio.to_thread(topics.put, topic, [RocketMessage.build(topic, b"first")] * 20)
    waiting = await source.find_removals()  # as before its targets are open
    await source.open()
    for delivery in await read_all_of(source, 20):
        source.settle(delivery)
    await until(lambda: source.lag == 0, lambda: source.lag)
    assert waiting == await source.find_removals() is not None
    assert [each.seconds for each in waiting or ()] == [72 * 3_600.0]
    await source.close()
    large = [RocketMessage.build(topic, Random(n).randbytes(500_000)) for n in range(MESSAGES)]
    await asyncio.to_thread(topics.put, topic, large)
    topics.do(reserve(topics.client, 0))
    queues, queue = BrokerQueues(topics.client, f"g-{topic}"), TopicQueue(topic, "broker", 0)

    async def is_removed() -> bool:
        with suppress(RemotingTimeout):  # it is busy with its files
            return await asyncio.to_thread(topics.do, queues.min_offset(queue)) > 20
        return False

    await until(is_removed)  # a broker cleans each 10 s, from its first minute on
    topics.do(reserve(topics.client, 72))
    start = await asyncio.to_thread(topics.do, queues.min_offset(queue))
    await source.open()
    found = await read_all_of(source, 20 + MESSAGES - start)
    assert [each.position for each in found] == [*range(start, 20 + MESSAGES)]
    assert source.vanished == start - 20
    await until(lambda: source.lag == 0, lambda: source.lag)
    await source.close()
    fresh = RocketmqSource("fresh", topics.settings, f"f-{topic}", [Subscription.to_tags(topic)])
    await fresh.open()
    await read_all_of(fresh, 20 + MESSAGES - start)
    assert fresh.vanished == 0, "a group that begins has lost nothing"
    [kept] = [each for each in await fresh.check() if "fileReservedTime" in each.text]
    assert (kept.level, "it survives an outage of 3 d" in kept.text) == ("ok", True)
    await fresh.close()


@on_a_loop
async def test_the_lag_grows_while_nothing_is_read_and_has_neither_delayed_nor_half_messages(topics: Topics) -> None:
    topic = topics.make()
    source = source_of(topics, topic, window=10)
    await asyncio.to_thread(topics.put, topic, [RocketMessage.build(topic, b"%d" % n) for n in range(20)])
    await source.open()
    first = await read_all_of(source, 10)  # the window is full
    await until(lambda: source.lag == 10, lambda: source.lag)
    await asyncio.to_thread(topics.put, topic, [RocketMessage.build(topic, b"%d" % n) for n in range(20, 500)])
    await until(lambda: source.lag == 490, lambda: source.lag)
    source.settle(first[-1])
    count = 10
    while count < 500:
        deliveries = await source.read(100)
        count += len(deliveries)
        source.settle(deliveries[-1])
    await until(lambda: source.lag == 0, lambda: source.lag)

    async def leave_half() -> None:
        async with (
            Producer(topics.client, ProducerSettings(f"p-{topic}")) as producer,
            Transactions(producer, check=None) as transactions,
            transactions.begin(RocketMessage.build(topic, b"half")) as transaction,
        ):
            transaction.leave_open()

    await asyncio.to_thread(topics.do, leave_half())
    await asyncio.to_thread(topics.put, topic, [RocketMessage.build(topic, b"late", delay_level=8)])
    reading = asyncio.create_task(source.read(10))
    lags: list[int | None] = []

    def is_read() -> bool:
        lags.append(source.lag)
        return reading.done()

    await until(is_read)
    assert lags[:10] == [0] * 10
    assert {*lags} <= {0, 1}
    [late] = await reading
    await until(lambda: source.lag == 0, lambda: source.lag)
    assert (late.message.body, source.vanished) == (b"late", 0)
    await source.close()
