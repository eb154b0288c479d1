"""Kafka's endpoints on every Kafka of this run: what the protocol's versions may differ in, in a few seconds for each.

The tests of the endpoints themselves are run on the newest alone.
"""

from __future__ import annotations

import asyncio

from bridge.endpoints.kafka.config import KafkaSource, KafkaTarget
from bridge.endpoints.topics import TopicDestination
from bridge.pump.pump import Inlet, Pump
from tests.bridge.endpoints.kafka.test_kafka_transactions_live import SOON_HEARD, Copy
from tests.support.bridge.behaviour import QUICK, Silent, on_a_loop, router_to
from tests.support.kafka.topics import topics_at
from tests.support.servers import Server


@on_a_loop
async def test_two_bridges_share_a_group_and_nothing_is_lost(kafka_servers: list[Server]) -> None:
    for server in kafka_servers:
        with topics_at(server.url) as topics:
            copy = Copy(topics)

            def pump_of(copy: Copy = copy) -> Pump:
                settings = copy.topics.settings
                source = KafkaSource("read", {**settings, **SOON_HEARD, "group.id": copy.read}, [copy.read], window=300)
                target = KafkaTarget("written", settings, {"queue": TopicDestination(copy.written)})
                return Pump([Inlet(source, "in")], router_to("queue"), {"queue": target}, Silent(), QUICK)

            await asyncio.to_thread(copy.put, 1_000)
            pumps = [pump_of(), pump_of()]
            runs = [asyncio.ensure_future(pumps[0].run())]
            await asyncio.to_thread(copy.wait, 500)
            runs.append(asyncio.ensure_future(pumps[1].run()))
            await asyncio.to_thread(copy.put, 1_000)
            await asyncio.to_thread(copy.wait)
            for pump in pumps:
                pump.stop()
            await asyncio.gather(*runs)
            found = await asyncio.to_thread(topics.read, copy.written, copy.count)
            assert {int(message.value()) for message in found} == {*range(copy.count)}


@on_a_loop
async def test_in_transactions_each_message_arrives_once(kafka_servers: list[Server]) -> None:
    for server in kafka_servers:
        with topics_at(server.url) as topics:
            copy = Copy(topics)
            await asyncio.to_thread(copy.put, 500)
            pumps = [copy.pump(), copy.pump()]
            runs = [asyncio.ensure_future(pumps[0].run())]
            await asyncio.to_thread(copy.wait, 200)
            runs.append(asyncio.ensure_future(pumps[1].run()))
            await asyncio.to_thread(copy.put, 500)
            await asyncio.to_thread(copy.wait)
            for pump in pumps:
                pump.stop()
            await asyncio.gather(*runs)
            await asyncio.to_thread(copy.check)
