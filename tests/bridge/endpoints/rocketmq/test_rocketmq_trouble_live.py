"""A broker or name server that is frozen, stopped or cut off is reported, and no more once it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from bridge.endpoint import Disconnected, Source, Target
from bridge.endpoints.rocketmq.source import RocketmqSource
from bridge.endpoints.rocketmq.target import RocketmqTarget
from bridge.endpoints.topics import TopicDestination
from bridge.rocketmq.consumer.subscription import Subscription
from bridge.rocketmq.remoting import admin
from bridge.rocketmq.remoting.client import Client, ClientSettings
from bridge.rocketmq.remoting.message import RocketMessage
from exchange import Message
from tests.support.bridge.behaviour import Reports, send_to
from tests.support.rocketmq.broker import Broker, broker
from tests.support.rocketmq.groups import queues_of, send
from tests.support.rocketmq_cluster import Cluster
from tests.support.unique import unique_name
from tests.support.waiting import find_limit, until


@pytest.fixture(scope="module")
def own() -> Iterator[Broker]:
    with broker() as started:
        yield started


REFRESH = 0.5
"""Seconds until a client looks routes up again, in place of Java's 30."""


class Watched:
    """An open source and an open target of one topic, and their troubles."""

    def __init__(self, settings: ClientSettings, topic: str, group: str = "g") -> None:
        self.topic = topic
        self.source = RocketmqSource("s", settings, f"{group}-{topic}", [Subscription.to_tags(topic)])
        self.target = RocketmqTarget("t", settings, {"q": TopicDestination(topic)})
        self.told = Reports()

    async def open(self) -> None:
        await self.source.open()
        await self.target.open(self.told)

    async def close(self) -> None:
        await self.source.close()
        await self.target.close()

    def troubles(self) -> tuple[str | None, str | None]:
        return self.source.trouble, self.target.trouble

    async def moves(self, body: bytes) -> None:
        """Write a message and read it back."""
        before = len(self.told.confirmations)
        send_to(self.target, self.told, [Message("", "k", body=body)], "q")
        await until(lambda: len(self.told.confirmations) != before or self.told.losses)
        assert not self.told.losses
        while True:
            for delivery in await self.source.read(100):
                self.source.settle(delivery)
                if delivery.message.body == body:
                    return


def run(url: str, test: Callable[[Watched], Awaitable[None]]) -> None:
    async def work() -> None:
        settings = ClientSettings(url)
        topic = unique_name("trouble")
        async with Client(settings) as client:
            await admin.create_topic(client, admin.TopicConfig(topic, 1, 1))
        watched = Watched(settings, topic)
        await watched.open()
        try:
            async with asyncio.timeout(find_limit()):
                await watched.moves(b"before")
                assert watched.troubles() == (None, None)
                await test(watched)
        finally:
            await watched.close()

    asyncio.run(work())


def test_a_frozen_broker_and_name_server_are_reported_until_they_go_on(own: Broker) -> None:
    async def test(watched: Watched) -> None:
        await asyncio.to_thread(own.pause)
        try:
            both = ("no sign of life from the name server", "no sign of life from broker")
            await until(lambda: all(text in str(trouble) for trouble in watched.troubles() for text in both))
        finally:
            await asyncio.to_thread(own.unpause)
        await until(lambda: watched.troubles() == (None, None))
        await watched.moves(b"after")

    run(own.url, test)


def test_a_stopped_broker_is_reported_until_it_is_started(own: Broker) -> None:
    async def test(watched: Watched) -> None:
        await asyncio.to_thread(own.stop, kill=True)
        try:
            await until(lambda: all(watched.troubles()))
        finally:
            await asyncio.to_thread(own.start)
            await asyncio.to_thread(own.wait)
        await until(lambda: watched.troubles() == (None, None))
        assert not watched.told.losses
        await watched.moves(b"after")

    run(own.url, test)


@pytest.fixture
def cluster(rocketmq_cluster: Cluster) -> Iterator[Cluster]:
    yield rocketmq_cluster
    rocketmq_cluster.broker_b.relay.go_on()


@pytest.mark.parametrize("how", ["stall", "cut"])
def test_one_broker_of_two_that_is_cut_off_is_reported_by_its_name(cluster: Cluster, how: str) -> None:
    async def test(watched: Watched) -> None:
        relay = cluster.broker_b.relay
        relay.stall()
        if how == "cut":
            relay.cut()
        await until(lambda: all(watched.troubles()))
        for trouble in watched.troubles():
            assert "broker 'broker-b'" in str(trouble)
            assert "name server" not in str(trouble)
        relay.go_on()
        await until(lambda: watched.troubles() == (None, None))

    run(cluster.server.url, test)


def test_a_connection_on_which_data_stops_is_made_again(cluster: Cluster) -> None:
    """So it is after a break of the network that only one side has noticed."""

    async def test(watched: Watched) -> None:
        relay = cluster.broker_b.relay
        settings = ClientSettings(cluster.server.url)
        relay.stall()
        await until(lambda: all(watched.troubles()))
        client = watched.source._client
        assert client is not None
        address = cluster.broker_b.address
        old = client.open_channel(address)
        await until(lambda: old is None or old.closed)
        relay.go_on()
        await until(lambda: watched.troubles() == (None, None))
        async with Client(settings) as sender:
            for queue in await queues_of(sender, watched.topic):
                await send(sender, [RocketMessage.build(watched.topic, queue.broker.encode())], queue)
        missing = {b"broker", b"broker-b"}
        while missing:
            for delivery in await watched.source.read(100):
                missing.discard(delivery.message.body or b"")

    run(cluster.server.url, test)


def test_a_killed_broker_stays_trouble_of_a_source_that_cannot_read_it(cluster: Cluster) -> None:
    async def test(watched: Watched) -> None:
        client = watched.source._client
        assert client is not None
        await asyncio.to_thread(cluster.broker_b.kill)
        try:
            await until(lambda: all(watched.troubles()))

            def has_left() -> bool:
                return all(data.broker != "broker-b" for data in client.routes()[watched.topic].queues)

            # The name server unregisters it; the target goes on without it, the source cannot.
            async with asyncio.timeout(find_limit()):
                while not has_left():
                    await asyncio.sleep(0.2)
                    await client.refresh()
            await asyncio.sleep(0.6)
            assert "broker-b" in str(watched.source.trouble)
        finally:
            await asyncio.to_thread(cluster.broker_b.start)
            await client.refresh()
        await until(lambda: watched.source.trouble is None)

    run(cluster.server.url, test)


def test_source_and_target_close_in_time_while_their_broker_hangs(own: Broker) -> None:
    async def test(watched: Watched) -> None:
        await watched.close()
        loop = asyncio.get_running_loop()
        others = asyncio.all_tasks()
        again = Watched(watched.source._settings, watched.topic, "another")
        await again.open()
        try:
            await again.moves(b"one")
            await asyncio.to_thread(own.pause)
            send_to(again.target, again.told, [Message("", "k", body=b"two")], "q")
            await asyncio.sleep(0)
            began = loop.time()
            await again.close()
            assert loop.time() - began < 8
            assert asyncio.all_tasks() - others == set()
        finally:
            await asyncio.to_thread(own.unpause)
            await again.close()

    run(own.url, test)


def test_an_endpoint_whose_cluster_hangs_cannot_be_opened_and_is_closed_in_time(own: Broker) -> None:
    async def test(watched: Watched) -> None:
        loop = asyncio.get_running_loop()
        settings, topic = ClientSettings(own.url), watched.topic
        await asyncio.to_thread(own.pause)
        try:
            other: list[tuple[Source | Target, Awaitable[None]]] = []
            source = RocketmqSource("s", settings, "g", [Subscription.to_tags(topic)])
            target = RocketmqTarget("t", settings, {"q": TopicDestination(topic)})
            other = [(source, source.open()), (target, target.open(Reports()))]
            for endpoint, opening in other:
                with pytest.raises(Disconnected, match=r"no name server answers|no answer"):
                    await opening
                began = loop.time()
                await endpoint.close()
                assert loop.time() - began < 8
        finally:
            await asyncio.to_thread(own.unpause)

    run(own.url, test)


def test_a_topic_that_becomes_read_only_or_smaller_is_written_as_its_route_says(own: Broker) -> None:
    async def test(watched: Watched) -> None:
        settings, topic, told = ClientSettings(own.url, poll_name_server_interval=REFRESH), watched.topic, Reports()
        target = RocketmqTarget("t", settings, {"q": TopicDestination(topic)})
        async with Client(settings) as client:
            await admin.create_topic(client, admin.TopicConfig(topic, 4, 4))
            await target.open(told)
            keys = [f"k{number}" for number in range(40)]

            async def write(number: int, queues: int) -> None:
                await until(
                    lambda: target._writing and target._writing.writer.spreads[topic].partitions.count == queues
                )
                send_to(target, told, [Message("", key, body=b"%d" % number) for key in keys], "q")
                await until(lambda: len(told.confirmations) == number * len(keys) or told.losses)
                assert not told.losses

            try:
                await write(1, 4)
                await admin.create_topic(client, admin.TopicConfig(topic, 4, 2))
                await write(2, 2)
                await admin.create_topic(client, admin.TopicConfig(topic, 4, 4, perm=4))
                await until(lambda: told.losses)
                assert "perm 4 lets nobody write to it" in str(told.losses[0])
                await target.close()
                with pytest.raises(Disconnected, match="perm 4 lets nobody write to it"):
                    await target.open(told)
                await target.close()
                await admin.create_topic(client, admin.TopicConfig(topic, 4, 4))
                told.losses.clear()
                await target.open(told)
                await write(3, 4)
            finally:
                await target.close()

    run(own.url, test)
