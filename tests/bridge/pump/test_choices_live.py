"""Messages without a key on real brokers: the partitions are those of the clients, not those of the copies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from random import Random

from bridge.endpoint import Target
from bridge.endpoints.kafka.config import KafkaTarget
from bridge.endpoints.memory import MemorySource
from bridge.endpoints.rocketmq.config import RocketmqTarget
from bridge.endpoints.topics import TopicDestination
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.partition.partitioning import Partitioning
from tests.support.bridge.events import Events
from tests.support.kafka import topics as kafka_topics
from tests.support.rocketmq import topics as rocketmq_topics
from tests.support.servers import Server
from tests.support.waiting import find_limit

COUNT = 400


def carry(spread: str, target: Target, queues: str, count: int = COUNT) -> None:
    """Send messages without a key through a fanout exchange to these queues; the first is partitioned, if so named."""
    topology = Topology(
        [Exchange("f", "fanout")],
        [Queue(name, partitioning=Partitioning.parse(spread) if name == "p" else None) for name in queues],
        [Binding.to_queue("f", name) for name in queues],
    )
    source = MemorySource([Message("f", "", body=b"%04d" % n + b"x" * 800) for n in range(count)])
    source.end()
    targets: Mapping[str, Target] = dict.fromkeys(queues, target)
    pump = Pump([Inlet(source)], Router(topology), targets, Events(), random=Random(7).random)
    asyncio.run(asyncio.wait_for(pump.run(), find_limit()))


def test_turns_at_rocketmq_are_those_of_the_topic(rocketmq: Server) -> None:
    """One of four queues got all of them, as each message had four copies; an unpartitioned topic used one, by ""."""
    with rocketmq_topics.topics_at(rocketmq.url) as topics:
        spread, plain = topics.make(4), topics.make(4)
        destinations = {"p": TopicDestination(spread), **dict.fromkeys("qrs", TopicDestination(plain))}
        carry("rocketmq.round_robin over 4", RocketmqTarget("t", topics.settings, destinations), "pqrs")
        found = {int(message.body[:4]): message.queue_id for message in topics.read(spread, COUNT)}
        assert found == {n: (found[0] + n) % 4 for n in range(COUNT)}
        copies = Counter(message.queue_id for message in topics.read(plain, 3 * COUNT))
        assert copies == dict.fromkeys(range(4), 3 * COUNT // 4)


def test_turns_at_kafka_are_those_of_the_topic(kafka: Server) -> None:
    """KIP-794: a partition until a batch of 16 KB is full. All of them were in the partition of the key ""."""
    count = 1200  # 60 batches: in one run of eight million, one of four partitions is never drawn
    with kafka_topics.topics_at(kafka.url) as topics:
        spread, plain = topics.make(4), topics.make(4)
        destinations = {"p": TopicDestination(spread), "q": TopicDestination(plain)}
        carry("kafka.round_robin over 4", KafkaTarget("t", topics.settings, destinations), "pq", count)
        found = {int(message.value()[:4]): message.partition() for message in topics.read(spread, count)}
        assert found == {n: n % 4 for n in range(count)}
        records = topics.read(plain, count)
        assert {message.key() for message in records} == {None}
        in_order = [p for _, p in sorted((int(message.value()[:4]), message.partition()) for message in records)]
        *runs, _ = [len(list(run)) for _, run in groupby(in_order)]  # the last batch is not full
        assert set(in_order) == set(range(4))
        # 20 of these records fit into a batch; a partition may be drawn several times in a row.
        assert all(19 * (run // 19) <= run <= 21 * (run // 19) for run in runs), runs
