"""A process that copies a topic is killed in the middle, again and again: what is in the other topic at the end.

Both kinds of copies are made at the same time, as most of it is waiting until the broker misses who was killed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

from tests.support.kafka.broker import Broker
from tests.support.kafka.copy import Copying
from tests.support.kafka.topics import Topics, eventually, topics_at

pytestmark = pytest.mark.live

KEYS = 100
WINDOW = 500
KILLS = 4
COUNT = 40_000


@pytest.fixture(scope="module")
def copies(kafka_broker: Broker) -> Iterator[Mapping[bool, Future[list[Any]]]]:
    """Whether in transactions -> all that was copied."""
    with topics_at(kafka_broker.url) as topics, ThreadPoolExecutor(2) as pool:
        yield {each: pool.submit(copied_with_kills, topics, each) for each in (False, True)}


def done(topics: Topics, topic: str) -> int:
    """Up to where the group is, over all partitions."""
    return sum(max(0, offset) for offset in topics.committed(topic, topic).values())


def wait_for(topics: Topics, topic: str, count: int, process: Copying) -> None:
    def through() -> bool:
        process.check()
        return done(topics, topic) >= count

    eventually(through, lambda: f"{done(topics, topic)} of {count}; {process.said()[-5000:]}")


def copied_with_kills(topics: Topics, transactional: bool) -> list[Any]:
    """All records of the other topic, in the order of their partitions."""
    topic, written = topics.make(4), topics.make(4)
    topics.put(topic, [(b"%d" % (n % KEYS), b"%d" % n) for n in range(COUNT)])
    told = {
        "bootstrap": topics.settings["bootstrap.servers"], "read": topic, "written": written, "group": topic,
        "transactional": transactional, "window": WINDOW,
        # The next process waits until that of the one before is over.
        "settings": {"transaction.timeout.ms": 3_000} if transactional else {},
    }  # fmt: skip
    random = Random(5)
    for _ in range(KILLS):
        process = Copying(told)
        wait_for(topics, topic, done(topics, topic) + random.randrange(1_000, 4_000), process)
        time.sleep(random.random() / 5)
        process.kill()
        assert done(topics, topic) < COUNT, "it was killed when all was over"
    process = Copying(told)
    wait_for(topics, topic, COUNT, process)
    process.stop()
    return topics.read(written, COUNT)


def first_arrivals(found: list[Any]) -> dict[bytes, list[int]]:
    first: dict[bytes, dict[int, None]] = {}
    for message in found:
        first.setdefault(message.key(), {})[int(message.value())] = None
    return {key: list(numbers) for key, numbers in first.items()}


EXPECTED = {b"%d" % key: list(range(key, COUNT, KEYS)) for key in range(KEYS)}


def test_nothing_is_lost_or_out_of_order_and_at_most_a_window_comes_twice_for_each_kill(
    copies: Mapping[bool, Future[list[Any]]],
) -> None:
    found = copies[False].result()
    assert first_arrivals(found) == EXPECTED
    assert len(found) - COUNT <= KILLS * WINDOW


def test_in_transactions_each_message_arrives_exactly_once_and_in_order(
    copies: Mapping[bool, Future[list[Any]]],
) -> None:
    found = copies[True].result()
    assert len(found) == COUNT
    assert first_arrivals(found) == EXPECTED
