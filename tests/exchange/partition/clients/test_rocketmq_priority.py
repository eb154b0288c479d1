"""A message with a priority: the queue is the one in which real brokers stored it, whatever the Java client chose."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.partition.clients.rocketmq.priority import PRIORITY, Priority, parse_priority
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.clients.rocketmq.round_robin import RoundRobin
from exchange.partition.partitioner import Producer
from exchange.partition.partitioning.specification import parse_partitions
from exchange.partition.partitions import Partitions
from exchange.values.field_values import Typed
from tests.recorders import golden
from tests.recorders.rocketmq_placed import QUEUES, SENDS, VARIANTS

WITHOUT = {"__SHARDINGKEY", "DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC"}
"""Properties with which a message has no priority."""


def place(send: dict[str, Any]) -> int:
    """Return the queue in which a broker stores a request."""
    properties = send["messages"][0]
    has_priority = len(send["messages"]) == 1 and PRIORITY in properties and not WITHOUT & properties.keys()
    choice = Priority().choose(properties[PRIORITY] if has_priority else None, Partitions.from_count(QUEUES))
    return send["queue"] if choice.partition is None else choice.partition


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_message_is_where_a_broker_stored_it(variant: str) -> None:
    recorded = golden.read(f"rocketmq-placed-{variant}")["sent"]
    assert [queue for queue, _ in recorded] == [place(send) for send in SENDS]


def test_a_priority_that_has_no_effect_is_taken_away_but_not_from_a_batch() -> None:
    """So what a consumer reads has a priority only where it decided, or where nothing looked at it."""
    read = golden.read("rocketmq-placed-plain")["read"]
    assert {
        frozenset(properties) & WITHOUT for _, _, properties in read["mixed"] if PRIORITY in properties
    } == {frozenset()}  # fmt: skip
    in_batch = Counter(properties.get(PRIORITY) for queue, _, properties in read["urgent"] if queue == 2)
    assert in_batch["0"] == in_batch["1"] == in_batch[None] == 1


@given(st.text(max_size=14) | st.integers().map(str) | st.integers(0, 2**33).map(lambda n: f"+0{n}"))
@example("-0")  # Java's Integer.parseInt reads 0
@example("\N{ARABIC-INDIC DIGIT FIVE}")
@example("\N{MATHEMATICAL DOUBLE-STRUCK DIGIT FIVE}")  # two chars to Java, neither of them a digit
def test_what_is_no_priority_is_none_and_never_an_error(text: str) -> None:
    priority = parse_priority(text)
    is_one = text.lstrip("+-").isdecimal() and len(text) - len(text.lstrip("+-")) < 2 and max(text) <= "\uffff"
    assert priority == (int(text) if is_one and 0 <= int(text) < 2**31 else None)


@given(st.integers(0, 20) | st.none(), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_the_broker_is_that_of_the_turn_and_the_queue_that_of_the_priority(
    priority: int | None, counts: list[int], drawn: int
) -> None:
    partitions = parse_partitions(
        ",".join(f"{chr(97 + n)}:{count}" for n, count in enumerate(counts)), "rocketmq.priority"
    )
    turns, placed = (Producer(each, lambda count: drawn % count) for each in (RoundRobin(), Priority()))
    for _ in range(5):
        turn, choice = (each.choose("t", priority, partitions).partition for each in (turns, placed))
        assert turn is not None
        assert choice is not None
        broker, number = MessageQueue.from_partition(partitions[turn])
        last = counts[ord(broker) - 97] - 1
        wanted = number if priority is None else min(priority, last)
        assert MessageQueue.from_partition(partitions[choice]) == (broker, wanted)
    alone = Priority().choose(priority, partitions).partition
    assert alone == (None if priority is None or len(counts) > 1 else min(priority, counts[0] - 1))


def test_numbers_and_digits_are_priorities_and_other_keys_are_refused() -> None:
    partitions = Partitions.from_count(4)
    keys = (2, "2", b"2", Typed("byte", 2), Typed("longstr", "2"))
    assert {Priority().partition_of(key, partitions) for key in keys} == {2}
    assert Priority().partition_of(-1, partitions) is Priority().partition_of(2**40, partitions) is None
    for key in (True, 2.0):
        with pytest.raises(InputError, match="a priority is a number, not"):
            Priority().choose(key, partitions)
