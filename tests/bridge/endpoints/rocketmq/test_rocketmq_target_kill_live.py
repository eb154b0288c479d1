"""A target of RocketMQ while one of two brokers is killed and comes back: nothing is lost, keys keep their order."""

from __future__ import annotations

import asyncio

from bridge.endpoints.memory import MemorySource
from bridge.endpoints.rocketmq.config import RocketmqTarget
from bridge.endpoints.topics import TopicDestination
from bridge.interop import convert_from_rocketmq
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.partition.partitioning.specification import Partitioning
from tests.support.bridge.behaviour import QUICK, Silent, by_key
from tests.support.rocketmq.topics import topics_at
from tests.support.rocketmq_cluster import Cluster
from tests.support.waiting import find_limit

COUNT = 600
MESSAGES = [Message("in", f"key.{n % 7}", body=b"%d" % n) for n in range(COUNT)]


def test_a_queue_whose_broker_is_killed_is_waited_for(rocketmq_cluster: Cluster) -> None:
    broker = rocketmq_cluster.broker_b
    with topics_at(rocketmq_cluster.server.url) as topics:
        topic = topics.make(2)
        brokers = sorted({data.broker for data in topics.do(topics.client.route(topic)).queues})
        assert broker.name in brokers
        partitioning = Partitioning.parse(f"rocketmq.hash over {','.join(f'{name}:2' for name in brokers)}")
        topology = Topology().declare_exchange(Exchange("in", "fanout"))
        topology = topology.declare_queue(Queue("q", partitioning=partitioning))
        router = Router(topology.bind(Binding.to_queue("in", "q", "")))

        async def fill() -> None:
            source = MemorySource(MESSAGES[: COUNT // 2])
            target = RocketmqTarget("written", topics.settings, {"q": TopicDestination(topic)})
            running = asyncio.ensure_future(Pump([Inlet(source, "in")], router, {"q": target}, Silent(), QUICK).run())
            await asyncio.sleep(0.3)
            await asyncio.to_thread(broker.kill)
            for message in MESSAGES[COUNT // 2 :]:
                source.put(message)
            source.end()
            await asyncio.sleep(2.0)
            assert not running.done()
            await asyncio.to_thread(broker.start)
            await asyncio.wait_for(running, find_limit())
            assert not source.unsettled

        asyncio.run(fill())
        found = [(message, convert_from_rocketmq(message)) for message in topics.read(topic, COUNT)]
    for message, home in found:
        chosen = partitioning.choose_for(home.routing_key).partition
        assert chosen is not None
        assert partitioning.partitions[chosen].name == f"{message.broker}:{message.queue_id}"
    first = dict.fromkeys((home.routing_key, int(home.body)) for _, home in found)
    assert by_key([Message("", key, body=b"%d" % n) for key, n in first]) == by_key(MESSAGES)
