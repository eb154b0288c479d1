"""What a producer does when one of two live brokers is slow, silent, cut off or dead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bridge.rocketmq.producer.producer import Producer
from bridge.rocketmq.producer.publishing import ProducerSettings
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.errors import ClientError, RemotingTimeout
from bridge.rocketmq.remoting.message import RocketMessage
from exchange.partition.clients.rocketmq.faults import FaultStrategy
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.clients.rocketmq.send import SendSettings
from tests.support.rocketmq_cluster import Cluster
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, until

SLOW = 500.0
"""Bytes a second through the relay: what a message of some 350 bytes and its answer need more than a second for."""
PATIENT = SendSettings(send_msg_timeout=20_000)
HASTY = SendSettings(version="5.3.3", send_msg_timeout=20_000, send_msg_max_timeout_per_request=500)
AVOIDING = FaultStrategy("5.3.3")


def run(cluster: Cluster, test: Callable[[Client, Producer, str], Awaitable[None]], **settings: Any) -> None:
    """Run a scenario with a producer and a topic of two queues on each broker, after a message to each broker."""

    async def work() -> None:
        group, topic = (unique_name(f"faults-{what}") for what in ("group", "topic"))
        async with (
            Client(ClientSettings(cluster.server.url)) as client,
            Producer(client, ProducerSettings(group, **settings)) as producer,
        ):
            await admin.create_topic(client, admin.TopicConfig(topic, 2, 2))
            for queue in await producer.queues(topic):
                await producer.send(RocketMessage.build(topic, b"x"), queue=queue)
            await test(client, producer, topic)

    try:
        asyncio.run(asyncio.wait_for(work(), find_limit()))
    finally:
        cluster.broker_b.relay.go_on()


async def send_until_tried(producer: Producer, topic: str, broker: str) -> list[str]:
    """Send messages until a try at this broker has failed, and return their brokers: each begins at any broker."""
    found: list[str] = []
    while broker not in producer.faults:
        found += await brokers_of(producer, topic, 1)
    return found


def now() -> int:
    """Return the milliseconds since 1970, as in the table of faults."""
    return time.time_ns() // 1_000_000


async def send_to_each(producer: Producer, topic: str, *brokers: str) -> None:
    """Send until all of these brokers got a message: on a busy machine one may be slow, and avoided for seconds."""
    missing = set(brokers)
    while missing:
        missing -= set(await brokers_of(producer, topic, 1))


async def brokers_of(producer: Producer, topic: str, count: int) -> list[str]:
    return [(await producer.send(RocketMessage.build(topic, b"y" * 100))).queue.broker for _ in range(count)]


def test_a_slow_broker_is_avoided_and_returned_to(rocketmq_cluster: Cluster) -> None:
    async def test(client: Client, producer: Producer, topic: str) -> None:
        relay = rocketmq_cluster.broker_b.relay
        await send_to_each(producer, topic, "broker", "broker-b")
        relay.slow(SLOW)
        while (await brokers_of(producer, topic, 1)) != ["broker-b"]:
            pass
        # It was slow once: for some seconds nothing goes there.
        fault = producer.faults["broker-b"]
        assert fault.latency >= 550
        relay.go_on()
        while not (faults := producer.faults)["broker-b"].is_available(now() + 200):
            asked = now()
            (broker,) = await brokers_of(producer, topic, 1)
            # But where the other was slow as well, as on a busy machine, either will do.
            assert broker == "broker" or not faults["broker"].is_available(asked)
        await send_to_each(producer, topic, "broker", "broker-b")
        assert producer.faults["broker-b"] != fault

    run(rocketmq_cluster, test, sending=PATIENT, faults=AVOIDING)


def test_without_the_strategy_a_slow_broker_is_waited_for_again_and_again(rocketmq_cluster: Cluster) -> None:
    async def test(client: Client, producer: Producer, topic: str) -> None:
        rocketmq_cluster.broker_b.relay.slow(SLOW)
        assert (await brokers_of(producer, topic, 4)).count("broker-b") == 2
        assert producer.faults == {}

    run(rocketmq_cluster, test, sending=PATIENT)


def test_a_broker_that_does_not_answer_costs_a_try(rocketmq_cluster: Cluster) -> None:
    async def test(client: Client, producer: Producer, topic: str) -> None:
        relay = rocketmq_cluster.broker_b.relay
        relay.stall()
        # Four queues taking turns: broker-b's are among them.
        assert set(await brokers_of(producer, topic, 4)) == {"broker"}
        relay.go_on()
        # Where the queue was chosen, no other is tried.
        relay.stall()
        with pytest.raises(RemotingTimeout):
            await producer.send(RocketMessage.build(topic, b"x"), queue=MessageQueue("broker-b", 0), timeout_ms=300)
        relay.go_on()

    run(rocketmq_cluster, test, sending=HASTY)


def test_the_detector_finds_a_broker_again(rocketmq_cluster: Cluster) -> None:
    async def test(client: Client, producer: Producer, topic: str) -> None:
        relay = rocketmq_cluster.broker_b.relay
        relay.stall()
        assert set(await send_until_tried(producer, topic, "broker-b")) == {"broker"}
        assert not producer.faults["broker-b"].reachable
        relay.go_on()
        async with asyncio.timeout(find_limit()):
            await until(lambda: producer.faults["broker-b"].reachable)

    detecting = SendSettings("5.3.3", send_msg_timeout=20_000, send_msg_max_timeout_per_request=500,
                             start_detector_enable=True)  # fmt: skip
    run(rocketmq_cluster, test, sending=detecting, faults=AVOIDING)


def test_what_was_under_way_over_a_lost_connection_is_sent_to_another_broker(rocketmq_cluster: Cluster) -> None:
    async def test(client: Client, producer: Producer, topic: str) -> None:
        relay = rocketmq_cluster.broker_b.relay
        relay.stall()
        futures = [await producer.send_async(RocketMessage.build(topic, b"%d" % at)) for at in range(20)]
        await asyncio.sleep(0.2)
        assert {future.done() for future in futures} == {True, False}
        relay.cut()
        relay.go_on()
        await producer.flush()
        assert {future.result().queue.broker for future in futures} == {"broker"}

    run(rocketmq_cluster, test, sending=PATIENT)


def test_a_dead_broker_is_left_and_found_again_when_it_is_back(rocketmq_cluster: Cluster) -> None:
    async def test(client: Client, producer: Producer, topic: str) -> None:
        broker_b = rocketmq_cluster.broker_b
        broker_b.kill()
        assert set(await brokers_of(producer, topic, 4)) == {"broker"}
        # The name server has noticed.
        async with asyncio.timeout(find_limit()):
            while len(await producer.queues(topic)) > 2:
                await client.update_route(topic)
        await client.refresh()
        with pytest.raises(ClientError, match="not exist"):
            await producer.send(RocketMessage.build(topic, b"x"), queue=MessageQueue("broker-b", 0))
        await asyncio.to_thread(broker_b.start)
        async with asyncio.timeout(find_limit()):
            while len(await producer.queues(topic)) < 4:
                await client.update_route(topic)
        assert set(await brokers_of(producer, topic, 4)) == {"broker", "broker-b"}

    run(rocketmq_cluster, test, sending=PATIENT)
