"""A process that copies a topic is killed in the middle, again and again: what is in the other topic at the end.

Both kinds of copies are made at the same time, as most of it is spent waiting until the broker notices that a process
was killed.
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
from tests.support.kafka.topics import Topics, topics_at
from tests.support.waiting import wait_until

KEYS = 100
WINDOW = 500
KILLS = 4
COUNT = 40_000


@pytest.fixture(scope="module")
def copies(kafka_broker: Broker) -> Iterator[Mapping[bool, Future[list[Any]]]]:
    """Whether in transactions -> all records that were copied."""
    with topics_at(kafka_broker.url) as topics, ThreadPoolExecutor(2) as pool:
        yield {each: pool.submit(copy_with_kills, topics, each) for each in (False, True)}


def sum_committed(topics: Topics, topic: str) -> int:
    """Return the sum of the offsets that the group has committed."""
    return sum(max(0, offset) for offset in topics.committed(topic, topic).values())


def wait_for(topics: Topics, topic: str, count: int, process: Copying) -> None:
    def is_through() -> bool:
        process.check()
        return sum_committed(topics, topic) >= count

    wait_until(is_through, lambda: f"{sum_committed(topics, topic)} of {count}; {process.read_output()[-5000:]}")


def copy_with_kills(topics: Topics, transactional: bool) -> list[Any]:
    """Copy while the process is killed; return the records of the other topic, in the order of their partitions."""
    topic, written = topics.make(4), topics.make(4)
    topics.put(topic, [(b"%d" % (n % KEYS), b"%d" % n) for n in range(COUNT)])
    job = {
        "bootstrap": topics.settings["bootstrap.servers"], "read": topic, "written": written, "group": topic,
        "transactional": transactional, "window": WINDOW,
        # The next process waits until that of the one before is over.
        "settings": {"transaction.timeout.ms": 3_000} if transactional else {},
    }  # fmt: skip
    random = Random(5)
    for _ in range(KILLS):
        process = Copying(job)
        wait_for(topics, topic, sum_committed(topics, topic) + random.randrange(1_000, 4_000), process)
        time.sleep(random.random() / 5)
        process.kill()
        assert sum_committed(topics, topic) < COUNT, "it was killed when all was over"
    process = Copying(job)
    wait_for(topics, topic, COUNT, process)
    process.stop()
    return topics.read(written, COUNT)


def find_first_arrivals(found: list[Any]) -> dict[bytes, list[int]]:
    first: dict[bytes, dict[int, None]] = {}
    for message in found:
        first.setdefault(message.key(), {})[int(message.value())] = None
    return {key: list(numbers) for key, numbers in first.items()}


EXPECTED = {b"%d" % key: list(range(key, COUNT, KEYS)) for key in range(KEYS)}


def test_nothing_is_lost_or_out_of_order_and_at_most_a_window_comes_twice_for_each_kill(
    copies: Mapping[bool, Future[list[Any]]],
) -> None:
    found = copies[False].result()
    assert find_first_arrivals(found) == EXPECTED
    assert len(found) - COUNT <= KILLS * WINDOW


def test_in_transactions_each_message_arrives_exactly_once_and_in_order(
    copies: Mapping[bool, Future[list[Any]]],
) -> None:
    found = copies[True].result()
    assert len(found) == COUNT
    assert find_first_arrivals(found) == EXPECTED
