"""Records that real producers send to a real Kafka are read from the partitions that our strategies choose."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from exchange.partition import Partitions
from exchange.partition.clients.librdkafka import Librdkafka
from exchange.partition.partitioning.strategies import build_partitioner
from tests.recorders.jvm import PROGRAMS, QUICK, ask, find_classpath
from tests.recorders.keys import KEYS
from tests.support.servers import Server, missing
from tests.support.unique import unique_name
from tests.support.waiting import find_limit

PRODUCE: Final = Path(__file__).parents[3] / "support" / "java" / "Produce.java"
COUNTS: Final = (12, 7)
CLIENTS: Final = ("2.4.1", "4.4.0")
"""Versions of kafka-clients, before and after KIP-794; brokers from 4.0 on know none before 2.1."""


def _keys(count: int) -> list[bytes]:
    """Build different keys: those of the recordings, among them the empty one; long ones; and arbitrary bytes."""
    random = Random(0)
    keys = dict.fromkeys([key.encode() for key in KEYS])
    keys |= dict.fromkeys([random.randbytes(length) for length in (10_000, 100_000, 500_000)])
    while len(keys) < count:
        keys[random.randbytes(random.randrange(1, 64))] = None
    return list(keys)


MANY: Final = _keys(10_000)


@pytest.fixture(scope="module", params=CLIENTS)
def java_client(request: pytest.FixtureRequest) -> str:
    """Return the class path of one version of Kafka's own client."""
    for program in PROGRAMS:
        if shutil.which(program) is None:
            missing(f"there is no {program} to run Kafka's own producer with")
    try:
        return find_classpath(f"org.apache.kafka:kafka-clients:{request.param}")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as reason:
        missing(f"Maven cannot fetch kafka-clients {request.param} ({reason})")


@contextmanager
def topics(server: Server, *counts: int) -> Iterator[list[str]]:
    """Create topics with this number of partitions."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": server.url})
    names = [unique_name(f"partitions-{count}") for count in counts]
    wanted = [NewTopic(name, count, 1) for name, count in zip(names, counts, strict=True)]
    for created in admin.create_topics(wanted).values():
        created.result(find_limit())
    try:
        yield names
    finally:
        for deleted in admin.delete_topics(names).values():
            deleted.result(find_limit())


def consumed(server: Server, topic: str, count: int) -> list[tuple[bytes | None, int]]:
    """Return key and partition of each record, by the number in its value."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": server.url, "group.id": topic, "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        read: dict[int, tuple[Any, int]] = {}
        seen = 0
        while seen < count:
            messages = consumer.consume(min(1000, count - seen), 30)
            assert messages, f"{seen} of {count} records came"
            for message in messages:
                assert message.error() is None
                read[int(message.value() or b"")] = (message.key(), message.partition() or 0)
            seen += len(messages)
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, each), timeout=30) for each in partitions]
        assert sum(high - low for low, high in ends) == count
    finally:
        consumer.close()
    assert sorted(read) == list(range(count))
    return [read[place] for place in range(count)]


def produced_by_java(jars: str, server: Server, names: Sequence[str], keys: Sequence[bytes | None]) -> list[list[int]]:
    """Return the partitions that the broker acknowledged to Kafka's own producer, a list for each topic."""
    texts = [None if key is None else base64.b64encode(key).decode() for key in keys]
    options = (*QUICK, f"-Dbootstrap={server.url}", f"-Dtopics={','.join(names)}")
    answers: list[list[int]] = ask(PRODUCE, jars, texts, *options)
    return answers


@cache
def chosen_by_us(count: int) -> list[tuple[bytes, int | None]]:
    """Return the keys, each with its partition."""
    murmur2, partitions = build_partitioner("kafka.murmur2"), Partitions.from_count(count)
    return [(key, murmur2.choose(key, partitions).partition) for key in MANY]


def test_keys_of_the_java_producer_are_in_the_partitions_we_choose(
    kafka_servers: list[Server], java_client: str
) -> None:
    """10,000 keys, whatever version the producer and the broker are of."""
    assert len(MANY) == 10_000
    for server in kafka_servers:
        with topics(server, *COUNTS) as names:
            acknowledged = produced_by_java(java_client, server, names, MANY)
            for name, count, partitions in zip(names, COUNTS, acknowledged, strict=True):
                ours = chosen_by_us(count)
                assert consumed(server, name, len(MANY)) == ours
                assert [partition for _, partition in ours] == partitions


@pytest.mark.parametrize("java_client", CLIENTS[-1:], indirect=True)
def test_records_of_the_java_producer_without_a_key_stay_for_a_batch_of_bytes(kafka: Server, java_client: str) -> None:
    """No key decides; producers from 3.3 on leave a partition when 16,384 bytes went to it (KIP-794)."""
    count = 20_000
    with topics(kafka, COUNTS[0]) as names:
        (acknowledged,) = produced_by_java(java_client, kafka, names, [None] * count)
        assert consumed(kafka, names[0], count) == [(None, partition) for partition in acknowledged]
    assert build_partitioner("kafka.murmur2").choose(None, Partitions.from_count(COUNTS[0])).partition is None
    changes = sum(before != after for before, after in pairwise(acknowledged))
    # A record takes its value of up to five digits and at most 21 bytes more, a batch 61 bytes.
    assert 0 < changes <= count * (5 + 21 + 61) / 16_384


@pytest.mark.parametrize(
    "name", ["random", "consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"]
)
def test_records_of_librdkafkas_producer_are_in_the_partitions_we_choose(
    kafka_servers: list[Server], name: str
) -> None:
    """2,000 keys, and where the key does not decide, one sticky partition for none and others for all."""
    from tests.recorders.librdkafka import partitions_of

    partitioner = Librdkafka(name, 900_000)
    keys = [*MANY[:2000], *[None] * 100]
    for server in kafka_servers:
        with topics(server, COUNTS[0]) as (topic,):
            partitions_of(server.url, topic, keys, partitioner=name, sticky_partitioning_linger_ms=900_000)
            read = consumed(server, topic, len(keys))
        choices = [partitioner.choose(key, Partitions.from_count(COUNTS[0])).partition for key in keys]
        assert [key for key, _ in read] == keys
        decided = [(key, ours) for key, ours in zip(keys, choices, strict=True) if ours is not None]
        theirs = [record for record, ours in zip(read, choices, strict=True) if ours is not None]
        assert theirs == decided
        assert len({partition for key, partition in read if key is None}) == 1
        undecided = {partition for (key, partition), ours in zip(read, choices, strict=True) if key and ours is None}
        assert undecided == (set(range(COUNTS[0])) if name == "random" else set())
