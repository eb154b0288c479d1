"""Batches that live brokers refuse: the guilty become dead letters, and those beside them do not."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
from confluent_kafka import Producer

from bridge.endpoint import Delivery, Outgoing
from bridge.endpoints.kafka.config import KafkaTarget
from bridge.endpoints.topics import TopicDestination
from exchange import Message
from exchange.partition.partitioning.specification import parse_key_source
from tests.support.bridge.behaviour import Reports, on_a_loop
from tests.support.kafka.topics import Topics, topics_at
from tests.support.servers import Server
from tests.support.watchdog import LONGEST, watched

COUNT = 1_000
GUILTY = [n for n in range(COUNT) if n % 100 == 7]


@pytest.fixture(scope="module")
def topics(kafka: Server) -> Iterator[Topics]:
    with topics_at(kafka.url) as made:
        yield made


async def write(target: KafkaTarget, reports: Reports, messages: list[Message]) -> None:
    """Write messages as they come from a source, and wait for all answers."""
    all_outgoing = [Outgoing(each, Delivery(each), "queue", None, n) for n, each in enumerate(messages)]
    for at in range(0, COUNT, 50):
        target.send(all_outgoing[at : at + 50])
        await asyncio.sleep(0)
    await reports.answers(COUNT)
    await target.close()
    assert sorted(outgoing.number for outgoing, _ in reports.failures) == GUILTY
    assert all(failure.final for _, failure in reports.failures)


def assert_all_others_are_there_in_order(topics: Topics, topic: str) -> None:
    written = defaultdict(list)
    for record in topics.read(topic, COUNT - len(GUILTY)):
        written[record.partition()].append(int(record.value()))
    assert all(numbers == sorted(numbers) for numbers in written.values())
    assert sorted(chain(*written.values())) == [n for n in range(COUNT) if n not in GUILTY]


def make_slowly(*settings: Any, **named: Any) -> Producer:
    """Make a producer as long as a file of a certificate on a slow drive takes."""
    time.sleep(2 * LONGEST)
    return Producer(*settings, **named)


@pytest.mark.parametrize("make", [Producer, make_slowly])
@on_a_loop
async def test_records_without_a_key_are_refused_by_a_compacted_topic_and_those_beside_them_are_not(
    topics: Topics, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.endpoints.kafka.producer.target.Producer", make)
    topic = topics.make(2, config={"cleanup.policy": "compact"})
    destination = TopicDestination(topic, parse_key_source('header "k"'))
    target, reports = KafkaTarget("written", topics.settings, {"queue": destination}), Reports()
    await target.open(reports)
    headers = [{} if n in GUILTY else {"k": f"k{n % 10}"} for n in range(COUNT)]
    async with watched():
        await write(target, reports, [Message("", "r", headers[n], body=b"%d" % n) for n in range(COUNT)])
    assert {failure.reason.partition(":")[0] for _, failure in reports.failures} == {"INVALID_RECORD"}
    assert_all_others_are_there_in_order(topics, topic)


@on_a_loop
async def test_a_limit_that_was_lowered_since_makes_dead_letters_of_larger_messages_only(topics: Topics) -> None:
    topic = topics.make(2)
    target, reports = KafkaTarget("written", topics.settings, {"queue": TopicDestination(topic)}), Reports()
    await target.open(reports)
    topics.configure(topic, "max.message.bytes", 5_000)
    bodies = [(b"%d" % n).ljust(6_000 if n in GUILTY else 300) for n in range(COUNT)]
    await write(target, reports, [Message("", f"k{n % 10}", body=bodies[n]) for n in range(COUNT)])
    assert {failure.reason.partition(":")[0] for _, failure in reports.failures} == {"MSG_SIZE_TOO_LARGE"}
    assert_all_others_are_there_in_order(topics, topic)
