"""What waits in queues and streams, and what is given to other consumers, as live brokers have it."""

from __future__ import annotations

import pytest

from bridge.endpoints.rabbitmq.config import RabbitmqSource
from exchange.amqp import get_content
from exchange.amqp.streams import read_offset
from tests.support.bridge.behaviour import on_a_loop, read_all_of
from tests.support.bridge.live_rabbitmq import Broker
from tests.support.servers import missing
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.endpoints.rabbitmq.consumer.backlog.COUNT_EVERY", 0.2)


async def read_and_settle(source: RabbitmqSource, count: int) -> None:
    for _ in range(count):
        [delivery] = await read_all_of(source, 1)
        source.settle(delivery)


@on_a_loop
async def test_a_stream_that_was_read_to_its_end_has_no_lag(broker: Broker) -> None:
    queue = broker.queue(**{"x-queue-type": "stream"})
    source = RabbitmqSource("from", [broker.address], queue, prefetch=100)
    await source.open()
    await until(lambda: source.lag == 0, lambda: source.lag)
    broker.put(queue, *[b"%d" % n for n in range(500)])
    await until(lambda: source.lag == 500, lambda: source.lag)
    await read_and_settle(source, 200)
    await until(lambda: source.lag == 300, lambda: source.lag)
    await read_and_settle(source, 300)
    await until(lambda: source.lag == 0, lambda: source.lag)
    assert (source.withheld, source.trouble) == (0, None)
    broker.put(queue, b"more")
    await until(lambda: source.lag == 1, lambda: source.lag)
    await source.close()


@on_a_loop
async def test_the_lag_is_right_while_nothing_is_read_off_the_socket(broker: Broker) -> None:
    queue = broker.queue()
    broker.put(queue, *[bytes(100_000)] * 60)
    source = RabbitmqSource("from", [broker.address], queue, window_bytes=4 << 20)
    await source.open()
    await until(lambda: source._connection is not None and source._connection.is_paused)
    broker.put(queue, *[b"%d" % n for n in range(2_500)])
    await until(lambda: source.lag is not None and source.lag >= 560, lambda: source.lag)
    before = source.lag
    broker.channel.queue_purge(queue)
    await until(lambda: source.lag is not None and source.lag < (before or 0), lambda: source.lag)
    assert source.lag == len(source._arrived)
    await source.close()


@on_a_loop
async def test_a_foreign_single_active_consumer_is_named(broker: Broker) -> None:
    if broker.server.management_url is None:
        missing("no management API")
    queue = broker.queue(**{"x-single-active-consumer": True})
    broker.channel.basic_qos(prefetch_count=1)
    broker.channel.basic_consume(queue, lambda *_: None, consumer_tag="foreign")
    broker.put(queue, *[b"%d" % n for n in range(1_000)])
    source = RabbitmqSource("from", [broker.address], queue, management=broker.server.management_url)
    await source.open()
    await until(lambda: source.trouble is not None, lambda: source.lag)
    assert "999 messages are not given to this bridge: the single active consumer is 'foreign' of user" in str(
        source.trouble
    )
    assert (source.lag, source.withheld) == (999, 999)
    broker.channel.basic_cancel("foreign")
    broker.channel.basic_nack(0, multiple=True, requeue=True)
    await read_and_settle(source, 1_000)
    await until(lambda: (source.lag, source.withheld, source.trouble) == (0, 0, None), lambda: source.trouble)
    await source.close()


@on_a_loop
async def test_another_bridge_that_is_active_is_no_trouble_and_without_the_api_only_one_that_stands_still_is(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broker.server.management_url is None:
        missing("no management API")
    monkeypatch.setattr("bridge.endpoints.rabbitmq.consumer.backlog.PASSED_OVER", 2.0)
    queue = broker.queue(**{"x-single-active-consumer": True})
    active = RabbitmqSource("active", [broker.address], queue, prefetch=10)
    await active.open()
    broker.put(queue, *[b"%d" % n for n in range(100)])
    standby = RabbitmqSource("standby", [broker.address], queue, management=broker.server.management_url)
    unknowing = RabbitmqSource("unknowing", [broker.address], queue)
    await standby.open()
    await unknowing.open()
    await until(lambda: unknowing.trouble is not None, lambda: unknowing.lag)
    assert "90 messages are ready, and this bridge is given none of them" in str(unknowing.trouble)
    # The management API knows who is active a little later.
    await until(lambda: (standby.withheld, standby.trouble) == (90, None), lambda: standby.trouble)
    assert (active.withheld, active.trouble) == (0, None)
    await read_and_settle(active, 100)
    await until(lambda: unknowing.trouble is None)
    for each in (active, standby, unknowing):
        await each.close()


async def until_counted(source: RabbitmqSource, lag: int, vanished: int = 0) -> None:
    """Wait until this many messages wait, and this many are gone."""
    await until(lambda: (source.lag, source.vanished) == (lag, vanished), lambda: (source.lag, source.vanished))


async def until_known(source: RabbitmqSource) -> None:
    """Wait until it is known how many messages wait."""
    await until(lambda: source.lag is not None)


@on_a_loop
async def test_what_a_queue_drops_while_nothing_is_read_waits_no_more_and_is_counted(broker: Broker) -> None:
    """A TTL, and a length with which the oldest go."""
    for arguments, waits, vanished in (({"x_message_ttl": 2_000}, 0, 490), ({"x_max_length": 100}, 100, 0)):
        queue = broker.queue(**arguments)
        source = broker.source(queue, prefetch=10, management=broker.server.management_url)
        await source.open()
        broker.put(queue, *[b"%d" % n for n in range(10)])  # are delivered at once, before they expire
        await read_all_of(source, 10)
        await until_counted(source, 0)
        broker.put(queue, *[b"%d" % n for n in range(490)])
        await until_counted(source, waits, vanished)
        if broker.server.management_url is not None:
            found = await source.find_removals()
            assert [each.what.startswith(f"queue '{queue}' drops") for each in found or ()] == [True]
            waiting = broker.source(queue, management=broker.server.management_url)  # as before its targets are open
            assert await waiting.find_removals() == await waiting.find_removals() == found
        await source.close()


@on_a_loop
async def test_what_a_stream_removed_unread_is_counted(broker: Broker) -> None:
    small = {"x-max-length-bytes": 100_000, "x-stream-max-segment-size-bytes": 50_000}
    queue = broker.queue(**{"x-queue-type": "stream", **small})
    broker.put(queue, *[b"first"] * 10)
    source = broker.source(queue, prefetch=10)
    await source.open()
    await read_and_settle(source, 10)
    await until(lambda: source.lag == 0, lambda: source.lag)
    await source.close()
    for n in range(200):
        broker.put(queue, b"%d" % n + bytes(5_000))  # each in a chunk of its own, and some ten of these in each file
    await source.open()
    [delivery] = await read_all_of(source, 1)
    first = read_offset(get_content(delivery.message))
    assert first is not None
    assert first > 10
    await until(lambda: source.vanished == first - 10, lambda: source.vanished)
    source.settle(delivery)
    while not delivery.message.body.startswith(b"199"):
        [delivery] = await read_all_of(source, 1)
        source.settle(delivery)
    await until(lambda: source.lag == 0, lambda: source.lag)
    assert source.vanished - (first - 10) <= 2, "each file begins with an entry of the broker's own"
    await source.close()


@on_a_loop
async def test_nothing_waits_as_soon_as_all_is_read(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count of some seconds ago was shown: 18,000 after all 20,000 were settled."""
    monkeypatch.setattr("bridge.endpoints.rabbitmq.consumer.backlog.COUNT_EVERY", 60.0)
    for kind in ("classic", "stream"):
        queue = broker.queue(**{"x-queue-type": kind})
        broker.put(queue, *[b"x"] * 400)
        source = broker.source(queue, prefetch=20)
        await source.open()
        await until_known(source)
        left = 400
        while left:
            deliveries = await source.read(20)
            source.settle(deliveries[-1])
            left -= len(deliveries)
            assert source.lag is not None
            assert source.lag <= left
        assert source.lag == 0
        await source.close()
