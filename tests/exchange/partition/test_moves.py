"""What moves: every number against a count done by hand."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from exchange.partition import Partitions
from exchange.partition.moves import Distribution, KeyCounts, compare_distributions
from exchange.partition.partitioning.strategies import build_partitioner
from exchange.partition.picture import FORMS

keys = st.lists(st.none() | st.text("ab", max_size=3) | st.binary(max_size=1) | st.integers(0, 2) | st.booleans())
ways = st.builds(
    Distribution,
    st.sampled_from(["kafka.murmur2", "librdkafka.consistent", "sarama.hash"]).map(build_partitioner),
    st.integers(1, 9).map(Partitions.from_count),
)


@given(keys, ways, ways)
def test_the_numbers_are_those_of_a_count_message_by_message(
    given_keys: list[object], a: Distribution, b: Distribution
) -> None:
    """Keys of different types are different keys; those that decide nothing are counted apart."""
    counts = KeyCounts()
    flows: Counter[tuple[str, str]] = Counter()
    in_a: Counter[str] = Counter()
    undecided = 0
    moving: Counter[tuple[type, object]] = Counter()
    scattered: Counter[tuple[type, object]] = Counter()
    for key in given_keys:
        counts.add(key)
        old, new = a.name_for(key), b.name_for(key)
        if old is None or new is None:
            undecided += 1
            scattered.update([(type(key), key)] * (old is not None))
            continue
        in_a[old] += 1
        if old != new:
            flows[old, new] += 1
            moving[type(key), key] += 1
    moved = compare_distributions(counts, a, b)
    assert moved.messages == len(given_keys)
    assert moved.keys == len({(type(key), key) for key in given_keys})
    assert (moved.keys_moved, moved.messages_moved) == (len(moving), flows.total())
    assert moved.keys_at_risk == sum(count > 1 for count in moving.values())
    assert moved.messages_undecided == undecided
    assert moved.keys_scattered == sum(count > 1 for count in scattered.values())
    assert moved.flows == flows
    assert +Counter(moved.before.messages) == in_a
    assert list(moved.after.messages) == [str(n) for n in range(b.partitions.count)]
    assert sum(moved.after.messages.values()) == sum(moved.before.messages.values()) == len(given_keys) - undecided


@given(keys, ways)
def test_nothing_moves_without_a_change(given_keys: list[object], distribution: Distribution) -> None:
    """The same distribution twice."""
    counts = KeyCounts()
    for key in given_keys:
        counts.add(key)
    moved = compare_distributions(counts, distribution, distribution)
    assert (moved.keys_moved, moved.messages_moved, moved.keys_at_risk) == (0, 0, 0)
    assert moved.before == moved.after
    assert (moved.before.ratio or 1) >= 1
    assert (moved.before.ratio is None) == (not any(moved.before.messages.values()))
    assert json.loads(FORMS["json"].encode(moved, "a", "b"))["flows"] == []


@given(
    keys,
    *2 * [st.sampled_from(["kafka.murmur2", "kafka.random_all", "rocketmq.hash", "rocketmq.round_robin"])],
    st.integers(1, 3),
)
def test_no_order_is_claimed_of_messages_whose_key_does_not_decide_the_partition(
    given_keys: list[object], before: str, after: str, count: int
) -> None:
    """Those of a key that no longer decides have lost it; without a message, or a decision, nothing is known."""
    counts = KeyCounts()
    for key in given_keys:
        counts.add(key)
    of_four = Partitions.from_count(4)
    a, b = (Distribution(build_partitioner(name), of_four) for name in (before, after))
    b = b._replace(partitions=Partitions.from_count(count + 3))
    moved = compare_distributions(counts, a, b)
    text = FORMS["text"].encode(moved, "a", "b").decode()
    decided = moved.messages - moved.messages_undecided
    assert ("none can be overtaken" in text) == (decided > 0 and not moved.keys_moved)
    assert ("order: no key moves" in text) == (decided == moved.messages > 0 and not moved.keys_moved)
    assert ("order: nothing is known" in text) == (not decided and not moved.keys_scattered)
    assert ("order: lost for" in text) == (moved.keys_scattered > 0)
    if before == "kafka.murmur2" and after in ("kafka.random_all", "rocketmq.round_robin"):
        several = [key for key, messages in counts.items() if messages > 1 and key is not None]
        assert moved.keys_scattered == len(several)


def test_a_lost_broker_moves_keys_where_the_list_shrinks() -> None:
    """RocketMQ: hash modulo fewer queues; Kafka: keys stay with partitions that have no leader."""
    counts = KeyCounts()
    for number in range(1000):
        counts.add(f"key-{number}", 2)
    queues = Partitions.queues({"a": 4, "b": 4})
    hashed = build_partitioner("rocketmq.hash")
    lost = compare_distributions(counts, Distribution(hashed, queues), Distribution(hashed, queues.without_queues("b")))
    # Half of the keys were on b; the others' hash is even more often on the same queue: (h % 8) == (h % 4) for half.
    assert lost.after.messages.keys() == {"a:0", "a:1", "a:2", "a:3"}
    assert {old for old, _ in lost.flows} == {"b:0", "b:1", "b:2", "b:3"}
    assert lost.keys_at_risk == lost.keys_moved
    kafka = build_partitioner("kafka.murmur2")
    stay = compare_distributions(
        counts,
        Distribution(kafka, Partitions.from_count(8)),
        Distribution(kafka, Partitions.from_count(8).without_leader("")),
    )
    assert stay.keys_moved == 0


def test_skew_is_the_fullest_over_the_mean() -> None:
    """1.0 is even; the hottest key is named with its share."""
    counts = KeyCounts()
    counts.add("hot", 90)
    counts.add("cold", 10)
    distribution = Distribution(build_partitioner("kafka.murmur2"), Partitions.from_count(100))
    skew = compare_distributions(counts, distribution, distribution).before
    assert (skew.hottest_key, skew.hottest_messages, skew.empty) == ("hot", 90, 98)
    assert skew.ratio == 90.0
    assert b"hottest key" in FORMS["text"].encode(compare_distributions(counts, distribution, distribution), "a", "b")
