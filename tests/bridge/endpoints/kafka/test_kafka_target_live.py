"""What an idempotent producer promises as a target, on a live broker: where records go, and what is reported."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from bridge.endpoint import Delivery, Disconnected, Outgoing
from bridge.endpoints.kafka.config import KafkaTarget
from bridge.endpoints.kafka.producer.target import ASK_EVERY
from bridge.endpoints.topics import TopicDestination
from bridge.interop import IDENTITY, Record, to_amqp
from exchange import Message
from exchange.errors import InputError
from exchange.partition import Partitions
from exchange.partition.partitioning.specification import Partitioning, parse_key_source
from exchange.partition.partitioning.strategies import build_partitioner
from exchange.routing.route import Placement
from tests.support.bridge.behaviour import Reports, on_a_loop, send_to
from tests.support.kafka.topics import Topics, topics_at
from tests.support.servers import Server
from tests.support.waiting import find_limit


@pytest.fixture(scope="module")
def topics(kafka: Server) -> Iterator[Topics]:
    with topics_at(kafka.url) as made:
        yield made


def make_placed(message: Message, partitioning: Partitioning, number: int = 1) -> Outgoing:
    """Return a message of a queue that the topology partitions."""
    partition, hashed, rule = partitioning.choose(message)
    key = partitioning.key.read(message)
    placement = Placement("queue", partition, None, key, hashed, rule, partitioning)
    return Outgoing(message, Delivery(message), "queue", placement, number)


@pytest.mark.smoke
@on_a_loop
async def test_ten_thousand_keys_land_where_the_java_producer_puts_them(topics: Topics) -> None:
    """Its choices are those of ``kafka.murmur2``, which tests of partitions compare with a live Java producer."""
    random = Random(0)
    keys = [random.randbytes(random.randrange(64)).decode("utf-8", "surrogateescape") for _ in range(10_000)]
    topic = topics.make(7)
    target, reports = KafkaTarget("written", topics.settings, {"queue": TopicDestination(topic)}), Reports()
    await target.open(reports)
    send_to(target, reports, [Message("", key, body=b"%d" % n) for n, key in enumerate(keys)], "queue")
    await reports.answers(len(keys))
    await target.close()
    found = {int(message.value()): message for message in topics.read(topic, len(keys))}
    murmur2 = build_partitioner("kafka.murmur2")
    for n, key in enumerate(keys):
        raw = key.encode("utf-8", "surrogateescape") or None
        assert found[n].key() == raw
        assert raw is None or found[n].partition() == murmur2.choose(raw, Partitions.from_count(7)).partition


@on_a_loop
async def test_the_topologys_partitioning_decides_and_its_key_is_the_key_of_the_record(topics: Topics) -> None:
    topic = topics.make(5)
    partitioning = Partitioning.parse("librdkafka.consistent over 5 by word 2")
    target, reports = KafkaTarget("written", topics.settings, {"queue": TopicDestination(topic)}), Reports()
    await target.open(reports)
    messages = [Message("", f"order.{n}.paid", body=b"%d" % n) for n in range(50)]
    target.send([make_placed(message, partitioning, n) for n, message in enumerate(messages, 1)])
    await reports.answers(50)
    await target.close()
    for message in topics.read(topic, 50):
        n = int(message.value())
        assert message.key() == b"%d" % n
        assert message.partition() == partitioning.choose(messages[n]).partition


@on_a_loop
async def test_nothing_is_written_to_a_topic_with_other_partitions_than_the_topology_has(topics: Topics) -> None:
    topic = topics.make(3)
    target, reports = KafkaTarget("written", topics.settings, {"queue": TopicDestination(topic)}), Reports()
    await target.open(reports)
    target.send([make_placed(Message("", "k"), Partitioning.parse("kafka.murmur2 over 4"))])
    await reports.loss()
    assert f"topic '{topic}' has 3 partitions, and the topology spreads queue 'queue' over 4" in str(reports.losses[0])
    await target.close()
    assert not topics.read(topic, 0)


@on_a_loop
async def test_the_configured_key_decides(topics: Topics) -> None:
    topic = topics.make(5)
    destination = TopicDestination(topic, parse_key_source('header "tenant"'))
    target, reports = KafkaTarget("written", topics.settings, {"queue": destination}), Reports()
    await target.open(reports)
    send_to(target, reports, [Message("", "same", {"tenant": f"t{n}"}, body=b"%d" % n) for n in range(30)], "queue")
    send_to(target, reports, [Message("", "same", body=b"none") for _ in range(5)], "queue", 31)
    await reports.answers(35)
    await target.close()
    murmur2 = build_partitioner("kafka.murmur2")
    keyless = set()
    for message in topics.read(topic, 35):
        if message.key() is None:
            keyless.add(message.partition())
        else:
            assert message.key() == b"t%s" % message.value()
            assert message.partition() == murmur2.choose(message.key(), Partitions.from_count(5)).partition
    assert len(keyless) == 1, "until a batch is full"


@on_a_loop
async def test_records_return_as_they_were_and_messages_with_an_identity(topics: Topics) -> None:
    topic = topics.make(1)
    headers = [("b", b"1"), ("a", None), ("b", b"2")]
    records = [
        Record("elsewhere", key, value, headers, 1_700_000_000_123, partition=4, offset=7)
        for key, value in ((b"k", b"v"), (None, None), (b"", b""))
    ]
    target, reports = KafkaTarget("written", topics.settings, {"queue": TopicDestination(topic)}), Reports()
    await target.open(reports)
    send_to(target, reports, [to_amqp(record) for record in records], "queue")
    message = Message("", "k", {"n": 1}, {"message_id": "m"})
    target.send([Outgoing(message, Delivery(message, identity="message/s/q/m"), "queue", None, 9)])
    await reports.answers(4)
    await target.close()
    *home, last = topics.read(topic, 4)
    assert [(each.key(), each.value(), each.headers(), each.timestamp()[1]) for each in home] == [
        (record.key, record.value, [*headers, ("x-hashstar-hops", b"1")], record.timestamp) for record in records
    ]
    assert (IDENTITY, b"message/s/q/m") in last.headers()


@on_a_loop
async def test_a_message_that_is_too_large_is_refused_for_good_and_small_ones_beside_it_pass(topics: Topics) -> None:
    topic = topics.make(1, config={"max.message.bytes": "5000"})
    target, reports = KafkaTarget("written", topics.settings, {"queue": TopicDestination(topic)}), Reports()
    await target.open(reports)
    bodies = [bytes(1_000)] * 30
    bodies[10] = bytes(6_000)
    bodies[20] = bytes(2_000_000)
    outgoing = send_to(target, reports, [Message("", "k", body=body) for body in bodies], "queue")
    await reports.answers(30)
    await target.close()
    assert {o.number for o, _ in reports.failures} == {outgoing[10].number, outgoing[20].number}
    assert all(failure.final and "MSG_SIZE_TOO_LARGE" in failure.reason for _, failure in reports.failures)
    assert [len(message.value()) for message in topics.read(topic, 28)] == [1_000] * 28


@on_a_loop
async def test_a_limit_that_was_raised_since_the_opening_is_known_before_a_message_is_judged(topics: Topics) -> None:
    topic = topics.make(1)
    target, reports = KafkaTarget("written", topics.settings, {"queue": TopicDestination(topic)}), Reports()
    await target.open(reports)
    topics.configure(topic, "max.message.bytes", 5_000_000)
    connection = target._connection
    assert connection is not None
    connection.limits_asked_at -= ASK_EVERY
    sizes = [1_000, 2_000_000, 1_000, 2_000_000, 6_000_000, 1_000]
    outgoing = send_to(target, reports, [Message("", "k", body=bytes(size)) for size in sizes], "queue")
    await reports.answers(len(sizes))
    await target.close()
    assert [o.number for o, _ in reports.failures] == [outgoing[4].number]
    read = topics.read(topic, 5, **{"fetch.message.max.bytes": 6_000_000})
    assert [len(message.value()) for message in read] == [1_000, 2_000_000, 1_000, 2_000_000, 1_000]


@on_a_loop
async def test_a_full_queue_of_the_client_holds_messages_back(topics: Topics) -> None:
    topic = topics.make(1)
    settings = {**topics.settings, "queue.buffering.max.messages": 10}
    target, reports = KafkaTarget("written", settings, {"queue": TopicDestination(topic)}), Reports()
    await target.open(reports)
    send_to(target, reports, [Message("", "k", body=b"%d" % n) for n in range(500)], "queue")
    await reports.answers(500)
    await target.close()
    assert [int(message.value()) for message in topics.read(topic, 500)] == list(range(500))


@on_a_loop
async def test_a_partition_that_is_added_is_used_or_loses_the_target_of_a_partitioned_queue(topics: Topics) -> None:
    topic = topics.make(1)
    free, reports = KafkaTarget("written", topics.settings, {"queue": TopicDestination(topic)}), Reports()
    bound, told_too = KafkaTarget("written", topics.settings, {"queue": TopicDestination(topic)}), Reports()
    bound._partitioned = {"queue": (topic, 1)}
    await free.open(reports)
    await bound.open(told_too)
    for made in topics.admin.create_partitions([NewPartitions(topic, 3)]).values():
        made.result(find_limit())
    await told_too.loss()
    assert f"topic '{topic}' has 3 partitions, and the topology spreads queue 'queue' over 1" in str(told_too.losses[0])
    await bound.close()
    with pytest.raises(Disconnected, match="has 3 partitions, and the topology spreads"):
        await bound.open(told_too)
    await bound.close()
    number = 1
    while len({message.partition() for message in topics.read(topic, number - 1)}) < 3:
        send_to(free, reports, [Message("", f"k{n}") for n in range(20)], "queue", number)
        number += 20
        await reports.answers(number - 1)
        assert number < 1_000
    await free.close()


@on_a_loop
async def test_a_topic_that_is_missing_is_reported_and_not_made(topics: Topics) -> None:
    target = KafkaTarget("written", topics.settings, {"queue": TopicDestination("hashstar-none")})
    with pytest.raises(Disconnected, match="there is no topic 'hashstar-none'; create it"):
        await target.open(Reports())
    await target.close()
    assert "hashstar-none" not in topics.admin.list_topics(timeout=find_limit()).topics


@on_a_loop
async def test_a_topic_that_is_deleted_meanwhile_loses_the_target(topics: Topics) -> None:
    topic = topics.make(1)
    settings: dict[str, Any] = {
        **topics.settings, "topic.metadata.refresh.interval.ms": 300, "topic.metadata.propagation.max.ms": 500,
    }  # fmt: skip
    target, reports = KafkaTarget("written", settings, {"queue": TopicDestination(topic)}), Reports()
    await target.open(reports)
    topics.admin.delete_topics([topic])[topic].result(find_limit())
    topics.made.remove(topic)
    await asyncio.sleep(1.0)
    send_to(target, reports, [Message("", "k")], "queue")
    await reports.loss()
    assert "UNKNOWN" in str(reports.losses[0])
    await target.close()


@on_a_loop
async def test_settings_that_contradict_the_promises_are_errors(topics: Topics) -> None:
    target = KafkaTarget("written", {**topics.settings, "acks": 1}, {"queue": TopicDestination(topics.make(1))})
    with pytest.raises(InputError, match="acks"):
        await target.open(Reports())
    await target.close()
