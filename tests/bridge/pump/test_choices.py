"""The bridge chooses the partition that the engine predicts: by the key where it decides, else by a client's memory."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoint import Delivery, Outgoing
from bridge.endpoints.archive.writing import ArchiveTarget
from bridge.endpoints.kafka.cluster.lazy import convert_record
from bridge.endpoints.kafka.cluster.topics import KafkaTopic
from bridge.endpoints.kafka.producer import writer as kafka
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.endpoints.rabbitmq.routes import PublishAddress, PublishRoute
from bridge.endpoints.rocketmq import placing as rocketmq
from bridge.endpoints.topics import TopicDestination
from bridge.interop import Record
from bridge.interop.kafka_guest import to_amqp
from bridge.pump.placing import KeylessTurns
from bridge.pump.pump import Inlet, Pump
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.errors import InputError
from exchange.partition import Appended, NewBatch, Partitioner, Partitions, Producer
from exchange.partition.clients import kafka_batches
from exchange.partition.clients.kafka import build_default_3_3
from exchange.partition.clients.rocketmq.queues import BrokerData, QueueData, TopicRoute
from exchange.partition.clients.rocketmq.round_robin import RoundRobin
from exchange.partition.hashing.keys import serialize_key
from exchange.partition.hashing.librdkafka import murmur2_partition
from exchange.partition.partitioning import Partitioning
from exchange.partition.partitioning.strategies import STRATEGIES
from tests.support.archives.parts import find_parts
from tests.support.bridge.events import Events
from tests.support.partition_keys import PARAMETERS
from tests.support.tiers import examples
from tests.support.virtual_loop import run_virtually

NOW = 0.0
"""Seconds of the loop's clock in these tests, in which nothing waits."""

KEYS = st.sampled_from(["", "a", "b", "order.7", "x.y", "ü"])
BODIES = st.integers(0, 9_000).map(bytes)
MESSAGES = st.lists(
    st.builds(
        lambda key, body, headers: Message("in", key, headers, body=body),
        KEYS, BODIES, st.sampled_from([{}, {"h": 3}, {"h": "k"}, {"h": None}]),
    ),
    min_size=1, max_size=40,
)  # fmt: skip
PLACES = st.builds(
    lambda name, count, by: f"{name}{PARAMETERS.get(name, '')} over {count} by {by}",
    st.sampled_from(sorted(STRATEGIES)), st.integers(1, 7), st.sampled_from(["routing_key", 'header "h"', "word 1"]),
)  # fmt: skip
QUEUES = st.lists(st.tuples(st.none() | PLACES, st.integers(0, 1), st.sampled_from("tu")), min_size=1, max_size=5)
"""For each queue its partitioning, its target, and the topic that it has there."""


class TopicTarget(MemoryTarget):
    """A target in memory that has a topic for each queue, as Kafka and RocketMQ have."""

    def __init__(self, topics: dict[str, str]) -> None:
        super().__init__()
        self._topics = topics

    def view_for(self, message: Message, placement: Any) -> tuple[str, Any, Partitions]:
        return self._topics[placement.queue], placement.key, placement.partitioning.partitions


class Predicted:
    """What a producer of the engine answers, told of each batch that fills up: all is computed anew for each record."""

    def __init__(self, partitioner: Partitioner, random: Random) -> None:
        self._producer = Producer(partitioner, lambda n: int(random.random() * n), lambda: int(NOW * 1_000))
        self._stored: dict[tuple[str, int], list[kafka_batches.BatchedRecord]] = defaultdict(list)

    def next(self, topic: str, key: Any, partitions: Partitions, body: bytes) -> int | None:
        """Return the partition of the next record."""
        chosen = self._producer.choose(topic, key, partitions, body).partition
        if chosen is None or type(self._producer.partitioner).after is Partitioner.after:
            return chosen
        data = serialize_key(key)
        record = kafka_batches.BatchedRecord(None if data is None else len(data), len(body), 0)
        if not self._has_room(self._stored[topic, chosen], record):
            kept = self._producer._memories.get("" if self._producer.partitioner.one_memory else topic)
            self._producer.handle(topic, NewBatch(chosen), partitions)
            if kept != self._producer._memories.get("" if self._producer.partitioner.one_memory else topic):
                chosen = self._producer.choose(topic, key, partitions, body).partition
                assert chosen is not None
        stored = self._stored[topic, chosen]
        if not self._has_room(stored, record):
            stored.clear()
        before = self._size(stored) if stored else 0
        stored.append(record)
        self._producer.handle(topic, Appended(self._size(stored) - before), partitions)
        return chosen

    @staticmethod
    def _size(records: Sequence[kafka_batches.BatchedRecord]) -> int:
        return 61 + sum(record.size_after(at, 0) for at, record in enumerate(records))

    def _has_room(self, records: Sequence[kafka_batches.BatchedRecord], record: kafka_batches.BatchedRecord) -> bool:
        return bool(records) and self._size(records) < 16_384 and self._size([*records, record]) <= 16_384


@examples(300)
@given(QUEUES, MESSAGES, st.integers(0, 99))
@example([('rocketmq.round_robin over 4 by header "none"', 0, "t")] * 2, [Message("in", "k", body=b"x")] * 3, 0)
def test_the_pump_writes_what_the_engine_predicts_with_the_same_memory(
    spread: list[tuple[str | None, int, str]], messages: list[Message], seed: int
) -> None:
    """Any topology with any strategies: the copies of other queues and targets take no turns of these."""
    parsed = {f"q{at}": None if text is None else Partitioning.parse(text) for at, (text, _, _) in enumerate(spread)}
    topology = Topology(
        [Exchange("in", "fanout")],
        [Queue(name, partitioning=partitioning) for name, partitioning in parsed.items()],
        [Binding.to_queue("in", name) for name in parsed],
    )
    topics = {f"q{at}": topic for at, (_, _, topic) in enumerate(spread)}
    ends = [TopicTarget(topics), TopicTarget(topics)]
    source, targets = MemorySource(messages), {f"q{at}": ends[end] for at, (_, end, _) in enumerate(spread)}
    source.end()

    async def work() -> None:
        await Pump(
            [Inlet(source)], Router(topology), targets, Events(), random=Random(seed).random
        ).run()  # fmt: skip

    run_virtually(work())

    random, router = Random(seed), Router(topology)
    memories: list[tuple[TopicTarget, Partitioner, Predicted]] = []
    expected: dict[str, list[int | None]] = defaultdict(list)
    for message in messages:
        for queue, decided, _, key, *_ in router.route(message).placements:
            partitioning = parsed[queue]
            assert partitioning is not None
            by, partition = partitioning.partitioner, decided
            if partition is None or by.reads_record:
                known = [p for target, other, p in memories if target is targets[queue] and other == by]
                if not known:
                    known = [Predicted(by, random)]
                    memories.append((targets[queue], by, known[0]))
                try:
                    partition = known[0].next(topics[queue], key, partitioning.partitions, message.body)
                except InputError:
                    partition = None
            expected[queue].append(partition)
    written: dict[str, list[int | None]] = defaultdict(list)
    for outgoing in (*ends[0].messages, *ends[1].messages):
        if outgoing.placement is not None:
            assert outgoing.placement.queue == outgoing.queue
            written[outgoing.queue].append(outgoing.placement.partition)
    assert written == expected


def test_a_fanout_of_four_takes_no_turns_of_a_partitioned_queue() -> None:
    """Turns were those of the copies: two of four queues stayed empty, or three."""
    for strategy in ("rocketmq.round_robin", "kafka.round_robin", "kafka.default_0_9"):
        spread = Partitioning.parse(f'{strategy} over 4 by header "none"')
        topology = Topology(
            [Exchange("f", "fanout")],
            [Queue("p", partitioning=spread), Queue("q"), Queue("r"), Queue("s")],
            [Binding.to_queue("f", name) for name in "pqrs"],
        )
        source, target = MemorySource([Message("f", "k", body=b"x")] * 400), MemoryTarget()
        source.end()
        asyncio.run(_pump(source, topology, dict.fromkeys("pqrs", target)))
        chosen = Counter(o.placement.partition for o in target.messages if o.placement is not None)
        assert chosen == dict.fromkeys(range(4), 100), strategy


async def _pump(source: MemorySource, topology: Topology, targets: dict[str, MemoryTarget]) -> None:
    await Pump([Inlet(source)], Router(topology), targets, Events()).run()


def sent(message: Message) -> Outgoing:
    return Outgoing(message, Delivery(message), "q")


NOTHING = Record("t", None, b"v" * 900, [], 0, False, 0, 1)
EMPTY = NOTHING._replace(key=b"")


@examples(200)
@given(
    st.lists(st.sampled_from(["plain", "", "lazy", "eager", "empty"]), max_size=60), st.integers(1, 6),
    st.integers(0, 99),
)  # fmt: skip
def test_records_without_a_key_go_where_kafkas_producer_sends_them(kinds: list[str], count: int, seed: int) -> None:
    """KIP-794: one partition until a batch is full, whatever has a key in between. A record's empty key is one."""
    made = {
        "plain": Message("", "k", body=b"x"), "": Message("", "", body=b"v" * 700),
        "lazy": convert_record(NOTHING), "eager": to_amqp(NOTHING), "empty": convert_record(EMPTY),
    }  # fmt: skip
    writer = kafka.RecordWriter(
        {"q": TopicDestination("t")},
        {"t": KafkaTopic(count, None)},
        KeylessTurns(build_default_3_3(), Random(seed).randrange),
    )
    predicted = Producer(build_default_3_3(), Random(seed).randrange)
    partitions, stored = Partitions.from_count(count), dict[int, list[kafka_batches.BatchedRecord]]()
    for kind in kinds:
        outgoing = sent(made[kind])
        record, partition = writer.make_record(outgoing)
        assert writer.make_record(outgoing)[1] == partition, "another try"
        key = {"plain": b"k", "empty": b""}.get(kind)
        assert record.key == key
        if key is not None:
            assert partition == murmur2_partition(key, count)
            continue
        assert partition == predicted.choose("t", None, partitions).partition
        size = kafka_batches.BatchedRecord(None, len(record.value or b""), 0)
        batch = stored.setdefault(partition, [])
        if Predicted._size([*batch, size]) > 16_384:
            batch.clear()
        before = Predicted._size(batch) if batch else 0
        batch.append(size)
        predicted.handle("t", Appended(Predicted._size(batch) - before), partitions)


@examples(100)
@given(st.lists(st.sampled_from(["", "k", None]), max_size=40), st.integers(1, 6), st.integers(0, 99))
def test_messages_without_a_key_take_the_turns_of_rocketmqs_producer(
    keys: list[str | None], count: int, seed: int
) -> None:
    """`TopicPublishInfo.selectOneMessageQueue`; an empty routing key, and a null key of Kafka, are no keys."""
    turns = KeylessTurns(RoundRobin(), Random(seed).randrange)
    writer = rocketmq.MessageWriter({"q": TopicDestination("t")}, turns=turns)
    route = TopicRoute((QueueData("a", count, count),), (BrokerData("a", ((0, "a:10911"),)),))
    writer.spreads["t"] = rocketmq.WritableQueues.from_route("t", route)
    predicted = Producer(RoundRobin(), Random(seed).randrange)
    hashed = Partitioning("rocketmq.hash", writer.spreads["t"].partitions)
    for key in keys:
        outgoing = sent(convert_record(NOTHING) if key is None else Message("", key, body=b"x"))
        queue = writer.place(outgoing)[1]
        assert writer.place(outgoing)[1] == queue, "another try"
        chosen = hashed.partition_for(key) if key else predicted.choose("t", None, hashed.partitions).partition
        assert queue.queue_id == chosen


def test_a_record_without_a_key_has_none_where_the_topology_partitions_by_routing_key() -> None:
    """Its routing key in AMQP is "", which is a key of Java's producer, and a routing key of RabbitMQ's clients."""
    for made in (convert_record(NOTHING), to_amqp(NOTHING), Message("t", "", {"x-kafka-key": None})):
        message = Message("in", "", made.headers, made.properties, b"v" * 900)
        found = {}
        for strategy in ("kafka.murmur2", "rocketmq.hash", "rabbitmq.super_stream", "kafka.round_robin"):
            topology = Topology(
                [Exchange("in", "fanout")], [Queue("q", partitioning=Partitioning.parse(f"{strategy} over 64"))],
                [Binding.to_queue("in", "q")],
            )  # fmt: skip
            source, target = MemorySource([message] * 200), MemoryTarget()
            source.end()
            asyncio.run(_pump(source, topology, {"q": target}))
            found[strategy] = {o.placement.partition for o in target.messages if o.placement is not None}
        assert len(found["kafka.murmur2"]) > 2, "a new one for each batch of 16 KB"
        assert found["rocketmq.hash"] == {None}, "Java's selector throws: the target takes turns"
        assert len(found["rabbitmq.super_stream"]) == 1
        assert len(found["kafka.round_robin"]) == 64


def test_partitions_of_rabbitmq_take_turns_of_their_own() -> None:
    by_number = Partitioning.parse("kafka.explicit over 3")
    route = PublishRoute.spread("q", PublishAddress("", "q-{partition}"), by_number)
    router = Router(
        Topology([Exchange("in", "fanout")], [Queue("q", partitioning=by_number)], [Binding.to_queue("in", "q")])
    )
    keys = []
    for number in range(0, 18, 3):
        message = Message("in", "no number")
        outgoing = Outgoing(message, Delivery(message), "q", router.route(message).placements[0], number)
        keys.append(route.key_for(outgoing))
        assert route.key_for(outgoing) == keys[-1], "another try"
    assert keys == [b"q-0", b"q-1", b"q-2"] * 2


def test_an_archive_has_what_the_strategy_chooses(tmp_path: Path) -> None:
    """All of it was in ``partition=unknown``."""
    strategies = ("kafka.round_robin", "rocketmq.round_robin", "kafka.random", "kafka.uniform_sticky")
    queues = {f"q{at}": Partitioning.parse(f"{name} over 4") for at, name in enumerate(strategies)}
    topology = Topology(
        [Exchange("in", "fanout")],
        [Queue(name, partitioning=partitioning) for name, partitioning in queues.items()],
        [Binding.to_queue("in", name) for name in queues],
    )
    source = MemorySource([Message("in", "k", body=b"x" * 3_000)] * 200)
    source.end()
    target = ArchiveTarget("a", tmp_path, {name: name for name in queues})
    asyncio.run(Pump([Inlet(source)], Router(topology), dict.fromkeys(queues, target), Events()).run())
    wanted = {f"partition={number}" for number in range(4)}
    assert {path.parent.parent.name for path in find_parts(tmp_path)} == wanted
    for name in queues:
        assert {path.name for path in (tmp_path / name).iterdir()} == wanted, name
