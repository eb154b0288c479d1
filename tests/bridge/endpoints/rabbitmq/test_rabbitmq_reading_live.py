"""Reading at a live broker: how much is read off the socket, lost connections, and redelivered messages."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from bridge.endpoint import Disconnected, EndOfStream, Outgoing
from bridge.endpoints.memory import MemoryTarget
from bridge.endpoints.rabbitmq.addresses import parse_broker
from bridge.endpoints.rabbitmq.config import RabbitmqSource
from bridge.endpoints.rabbitmq.consumer.redeliveries import CAREFUL_PREFETCH, Redeliveries, count_deliveries
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from exchange.amqp import get_content
from tests.support.bridge.behaviour import Silent, on_a_loop, read_all_of, router_to
from tests.support.bridge.live_rabbitmq import Broker
from tests.support.bridge.relay import relay_to
from tests.support.servers import missing
from tests.support.waiting import find_limit, until

LARGE = 900_000
NEAR = Redeliveries("q").near
WINDOW_BYTES = 16 << 20
"""Size of the window; a quarter of it may wait between the socket and the pump."""


def fill_queue(broker: Broker, count: int, **arguments: Any) -> str:
    queue = broker.queue(**arguments)
    broker.put(queue, *[b"%d" % n + bytes(LARGE) for n in range(count)])
    return queue


def at(url: str, queue: str, **options: Any) -> RabbitmqSource:
    return RabbitmqSource("from", [parse_broker(url)], queue, window_bytes=WINDOW_BYTES, **options)


@on_a_loop
async def test_no_more_is_read_off_the_socket_than_a_quarter_of_the_window(broker: Broker) -> None:
    """Heartbeats, which cannot be read meanwhile, do not end the connection."""
    queue = fill_queue(broker, 60)
    source = at(f"{broker.server.url}?heartbeat=2", queue)
    await source.open()
    await until(lambda: source._arrived_bytes > WINDOW_BYTES // 4)
    for _ in range(60):
        await asyncio.sleep(0.1)
        assert source._arrived_bytes < WINDOW_BYTES // 4 + (3 << 20)
        assert source.lost is None
    found: list[bytes] = []
    async with asyncio.timeout(find_limit()):
        while len(found) < 60:
            some = await source.read(1_000)
            assert sum(len(delivery.message.body) for delivery in some) < WINDOW_BYTES // 4 + (3 << 20)
            found += [delivery.message.body for delivery in some]
    assert found == [b"%d" % n + bytes(LARGE) for n in range(60)]
    await source.close()
    assert len(broker.bodies(queue)) == 60


@on_a_loop
async def test_a_connection_that_ends_while_nothing_is_read_is_lost(broker: Broker) -> None:
    queue = fill_queue(broker, 40)
    with relay_to(broker.host, broker.port) as relay:
        parts = urlsplit(broker.server.url)
        source = at(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{relay.port}").geturl(), queue)
        await source.open()
        await until(lambda: source._arrived_bytes > WINDOW_BYTES // 4)
        relay.cut()
        await until(lambda: source.lost is not None)
        with pytest.raises(Disconnected):
            await source.read(1)
        await source.close()


@on_a_loop
async def test_a_lost_connection_is_noticed_while_the_window_is_full(broker: Broker) -> None:
    """With a target that takes nothing, and an operator who closes all connections."""
    queue = broker.queue()
    broker.put(queue, *[b"%d" % n for n in range(50)])
    events = Noted()
    stuck = Never()
    source = RabbitmqSource("from", [broker.address], queue)
    pump = Pump([Inlet(source)], router_to(queue), {queue: stuck}, events, Policy(window=10))
    running = asyncio.create_task(pump.run())
    await until(lambda: pump.in_flight == 10)
    # The bridge's connection, which is the one with this name.
    await asyncio.to_thread(close_connection_of, broker, "hashstar")
    await until(lambda: events.disconnected_from)
    assert pump.waiting_for(pump._inlets[0]) == "waits until stuck has answered for what was read before"
    stuck.confirm_all()
    await until(lambda: pump.in_flight == 10)  # opened again, and read again from the first
    pump.stop()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@on_a_loop
async def test_a_broker_that_sends_no_heartbeat_is_called_silent_until_it_sends_something(broker: Broker) -> None:
    queue = broker.queue()
    source = at(f"{broker.server.url}?heartbeat=10", queue)
    await source.open()
    connection = source._connection
    assert connection is not None
    assert connection.trouble is None
    connection._wire.heard -= 12  # as if so many seconds had passed
    assert source.trouble == "the broker is silent for 12 s"
    broker.put(queue, b"a sign of life")
    await until(lambda: source.trouble is None)
    await source.close()


def close_connection_of(broker: Broker, name: str) -> None:
    lines = broker.control("-q", "list_connections", "pid", "client_properties").splitlines()
    for line in lines:
        if name in line:
            broker.control("close_connection", line.split()[0], "a test")


@on_a_loop
async def test_messages_near_the_delivery_limit_are_reported_and_delayed(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    if tuple(map(int, broker.server.version.split(".")[:2])) < (4, 0):
        pytest.skip("before RabbitMQ 4 there is no limit unless a policy sets one")
    queue = broker.queue(x_queue_type="quorum")
    broker.put(queue, *[b"%d" % n for n in range(30)])
    for _ in range(NEAR):
        source = RabbitmqSource("from", [broker.address], queue)
        await source.open()
        await source.read(1)
        await source.close()
    source = RabbitmqSource("from", [broker.address], queue)
    await source.open()
    await source.read(100)
    assert source.most_deliveries >= NEAR
    assert source.trouble is not None
    assert "delivery-limit" in source.trouble
    assert "delivery-limit" in caplog.text
    await source.close()
    with pytest.raises(Disconnected, match="not read for another"):
        await source.open()
    source._redeliveries._seen_at -= 120  # as if that time had passed
    await source.open()
    await until(lambda: len(source._arrived) >= CAREFUL_PREFETCH)
    await asyncio.sleep(0.2)
    assert len(source._arrived) == CAREFUL_PREFETCH
    await source.close()
    assert len(broker.bodies(queue)) == 30


@on_a_loop
async def test_reading_can_be_cancelled_at_any_moment_while_the_socket_is_paused_and_resumed(broker: Broker) -> None:
    queue = fill_queue(broker, 30)
    source = at(broker.server.url, queue)
    await source.open()
    chance = random.Random(1)
    found: list[bytes] = []
    async with asyncio.timeout(find_limit()):
        while len(found) < 30:
            reading = asyncio.create_task(_read(source))
            await asyncio.sleep(chance.random() * 0.02)
            reading.cancel()
            await asyncio.wait([reading])
            if not reading.cancelled():
                found += reading.result()
    assert found == [b"%d" % n + bytes(LARGE) for n in range(30)]
    await source.close()


async def _read(source: RabbitmqSource) -> list[bytes]:
    return [delivery.message.body for delivery in await source.read(3)]


class Never(MemoryTarget):
    """A target that answers when the test asks for it."""

    def __init__(self) -> None:
        super().__init__("stuck")
        self.waiting: list[Outgoing] = []

    def send(self, messages: Any) -> None:
        self.waiting += messages

    def confirm_all(self) -> None:
        waiting, self.waiting = self.waiting, []
        assert self._receiver is not None
        self._receiver.confirmed(waiting)


class Noted(Silent):
    """Events that keep the names of lost endpoints."""

    def __init__(self) -> None:
        self.disconnected_from: list[str] = []

    def disconnected(self, name: str, error: Exception, wait: float) -> None:
        self.disconnected_from.append(name)


@on_a_loop
async def test_a_queue_that_was_made_anew_as_another_type_is_read_from_its_first_message(broker: Broker) -> None:
    queue = broker.queue()
    source = RabbitmqSource("from", [broker.address], queue)
    number = 0
    for kind in ("classic", "stream", "quorum", "stream", "classic"):
        broker.channel.queue_delete(queue)
        broker.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
        expected = [b"%d" % n for n in range(number, number + 40)]
        number += 40
        broker.put(queue, *expected)
        await source.open()
        found = await read_all_of(source, 40)
        assert [each.message.body for each in found] == expected
        source.settle(found[-1])
        await source.close()


@pytest.mark.parametrize("limit", [3, 20])
@on_a_loop
async def test_a_loop_of_crashes_loses_no_message_but_the_one_it_is_due_to(broker: Broker, limit: int) -> None:
    """Each process dies of one message, or when it has settled 25, with a prefetch of 100."""
    management = broker.server.management_url or missing("the broker has no management API")
    graveyard = broker.queue()
    dead = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": graveyard}
    queue = broker.queue(x_queue_type="quorum", x_delivery_limit=limit, **dead)
    broker.put(queue, *[b"%d" % n for n in range(150)])
    settled: list[int] = []
    while len(set(settled)) < 149 or not broker.ready(graveyard):
        source = RabbitmqSource("from", [broker.address], queue, prefetch=100, management=management)
        await source.open()
        with suppress(TimeoutError, Disconnected):
            done = 0
            while True:
                async with asyncio.timeout(0.5):
                    deliveries = await source.read(1_000)
                for delivery in deliveries:
                    number = int(delivery.message.body)
                    if number == 77 or done == 25:
                        assert source._connection is not None
                        source._connection._wire._transport.abort()  # as the end of a process does
                        raise Disconnected("killed")
                    source.settle(delivery)
                    settled.append(number)
                    done += 1
                await asyncio.sleep(0)
        await source.close()
        await until(lambda: not broker.consumers(queue))
    assert set(settled) == set(range(150)) - {77}
    assert broker.bodies(graveyard) == [b"77"]


@on_a_loop
async def test_messages_stay_in_order_while_the_prefetch_grows(broker: Broker) -> None:
    management = broker.server.management_url or missing("the broker has no management API")
    for count in (5, 100, 400):
        queue = broker.queue(x_queue_type="quorum", x_delivery_limit=10)
        broker.put(queue, *[b"%d" % n for n in range(count)])
        source = RabbitmqSource("from", [broker.address], queue, prefetch=150, management=management)
        await source.open()
        found: list[int] = []
        while len(found) < count:
            deliveries = await source.read(1_000)
            found += [int(delivery.message.body) for delivery in deliveries]
            source.settle(deliveries[-1])
        assert found == list(range(count))
        assert source._pacing is not None
        assert count < 400 or source._pacing.prefetch >= 16
        await source.close()
    assert set(found) == set(range(400))
    assert source.most_deliveries == 0


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@on_a_loop
async def test_what_a_queue_is_just_sending_when_its_source_stops_keeps_its_order(broker: Broker, kind: str) -> None:
    queue = broker.queue(x_queue_type=kind)
    broker.put(queue, *[b"%d" % n for n in range(3_000)])
    source, found = broker.source(queue, prefetch=100), list[int]()
    stops = 0
    while len(found) < 3_000:
        await source.open()
        with suppress(EndOfStream):
            for turn in itertools.count():
                deliveries = await asyncio.wait_for(source.read(40), find_limit())
                found += [int(each.message.body) for each in deliveries]
                source.settle(deliveries[-1])
                if turn == 3:
                    assert await source.stop_taking()
                    stops += 1
                elif len(found) == 3_000:
                    break
        await source.close()
    assert found == list(range(3_000))
    assert stops > 1


@pytest.mark.parametrize("limit", [3, 20])
@on_a_loop
async def test_what_a_quorum_queue_had_sent_before_a_stop_is_read_and_counts_as_no_delivery(
    broker: Broker, limit: int
) -> None:
    queue = broker.queue(**{"x-queue-type": "quorum", "x-delivery-limit": limit})
    broker.put(queue, *[b"%d" % n for n in range(300)])
    found: list[int] = []
    while len(found) < 300:  # as after each reload
        source = broker.source(queue, prefetch=40, management=broker.server.management_url)
        await source.open()
        assert source._pacing is not None
        is_ending = False
        with suppress(EndOfStream):
            while True:
                deliveries = await asyncio.wait_for(source.read(1_000), find_limit())
                assert not any(count_deliveries(get_content(each.message)) for each in deliveries)
                found += [int(each.message.body) for each in deliveries]
                source.settle(deliveries[-1])
                if not is_ending and (len(deliveries) > 3 or len(found) == 300):
                    is_ending = await source.stop_taking()
        await source.close()
        await until(lambda: not broker.consumers(queue))
    assert found == list(range(300))
    assert not broker.bodies(queue)
