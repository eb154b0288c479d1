"""A Kafka producer with its batches and its sender: what is true of it whatever is sent, and how users reach it."""

from __future__ import annotations

import json
from collections import Counter as Tally
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bridge.cli import hashstar
from exchange.errors import InputError
from exchange.partition import Broker, Inputs, Partitions, Producer
from exchange.partition.clients.kafka_accumulator import Accumulator
from exchange.partition.clients.kafka_producer import MAX_UNDER_WAY, BatchingMemory, BatchingProducer, build_producer
from exchange.partition.partitioner import PartitionRequest
from exchange.partition.partitioning.specification import parse_partitioner

TOPICS = {
    "t": Partitions.led_by({Broker("b1"): 2, Broker("b2"): 2}),
    "u": Partitions.led_by({Broker("b2"): 1, Broker("b3"): 2}),
}
RECORDS = st.lists(
    st.tuples(
        st.sampled_from(sorted(TOPICS)),
        st.none() | st.sampled_from(["a", "b"]),
        st.integers(0, 700),
        st.integers(0, 40),
    ),
    max_size=60,
)
PRODUCERS = st.builds(
    lambda size, linger, adaptive, timeout, times: BatchingProducer(
        Accumulator(size, linger, adaptive, timeout), round_trips=times
    ),
    st.sampled_from([1, 300, 1_000]),
    st.sampled_from([0, 5, 30]),
    st.booleans(),
    st.sampled_from([0, 20]),
    st.sampled_from([(), (("", 15),), (("b2", 200), ("", 3))]),
)


def play(producer: BatchingProducer, records: Any, seed: int) -> list[tuple[int | None, BatchingMemory]]:
    """Send records of (topic, key, size, milliseconds since the one before); return each partition and the state."""
    random = Random(seed)
    now, state, found = 0, producer.memory(Inputs(random.randrange, 0)), []
    for topic, key, size, after in records:
        now += after
        request = PartitionRequest(topic, key, b"x" * size, TOPICS[topic], Inputs(random.randrange, now), state)
        choice, state = producer.answer(request)
        found.append((choice.partition, state))
    return found


@given(PRODUCERS, RECORDS, st.integers(0, 100))
def test_nothing_waits_that_can_be_sent(producer: BatchingProducer, records: Any, seed: int) -> None:
    for _, state in play(producer, records, seed):
        busy = {broker for broker, requests in state.under_way.items() if len(requests) == MAX_UNDER_WAY}
        assert all(len(requests) <= MAX_UNDER_WAY for requests in state.under_way.values())
        for topic, (_, batches) in state.queues.topics.items():
            for partition, waiting in batches.items():
                leader = state.cluster[topic][partition].leader
                if leader is not None and leader.name not in busy:
                    assert all(state.now - batch.created < producer.accumulator.linger_ms for batch in waiting)
                    # The sender is not woken up for a batch that had no room for a record which then went elsewhere.
                    assert all(batch.closed or not batch.is_full for batch in waiting)
                assert all(batch.is_full for batch in waiting[:-1])


@given(PRODUCERS, RECORDS, st.integers(0, 100))
def test_a_run_is_the_same_with_the_same_chance(producer: BatchingProducer, records: Any, seed: int) -> None:
    assert play(producer, records, seed) == play(producer, records, seed)


@given(PRODUCERS, RECORDS)
def test_keys_have_their_own_partition(producer: BatchingProducer, records: Any) -> None:
    keyed = parse_partitioner("kafka.murmur2")
    for (topic, key, *_), (partition, _) in zip(records, play(producer, records, 1), strict=True):
        assert partition in TOPICS[topic]
        if key is not None:
            assert partition == keyed.choose(key, TOPICS[topic]).partition == producer.partition_of(key, TOPICS[topic])


def count_of(text: str, records: int, size: int) -> Tally[str]:
    """Count the records by broker that a producer sends, one each millisecond."""
    now = 0
    producer = Producer(parse_partitioner(text), Random(7).randrange, lambda: now)
    found: Tally[str] = Tally()
    for now in range(records):  # noqa: B007  the producer's clock reads it
        partition = producer.choose("t", None, TOPICS["t"], b"x" * size).partition
        assert partition is not None
        leader = TOPICS["t"][partition].leader
        found[leader.name if leader else ""] += 1
    return found


def test_a_slow_broker_is_given_fewer_records_only_if_that_is_set() -> None:
    slow = 'batch_size=1000, round_trip_ms="1,b2:400"'
    adaptive = count_of(f"kafka.accumulator({slow})", 6_000, 300)
    uniform = count_of(f"kafka.accumulator({slow}, adaptive=false)", 6_000, 300)
    assert adaptive["b2"] < 0.75 * uniform["b2"]
    assert 0.4 < uniform["b2"] / 6_000 < 0.6


def test_a_broker_that_takes_nothing_is_left_out_after_the_timeout() -> None:
    stopped = 'batch_size=1000, round_trip_ms="1,b2:100000"'
    found = count_of(f"kafka.accumulator({stopped}, availability_timeout_ms=200)", 6_000, 300)
    assert found["b2"] < 600


def test_small_batches_are_not_left_early() -> None:
    """Of 50 records in 50 ms, all of a batch that lingers go to one partition."""
    partitions = [partition for partition, _ in play(build(linger_ms=100), [("t", None, 20, 1)] * 50, 3)]
    assert len(set(partitions)) == 1


def build(**settings: Any) -> BatchingProducer:
    """Build a producer from settings as users write them."""
    built = build_producer(**settings)
    assert isinstance(built, BatchingProducer)
    return built


def test_keys_can_be_ignored() -> None:
    producer = build(ignore_keys=True)
    assert producer.partition_of("a", TOPICS["t"]) is None
    assert producer.choose("a", TOPICS["t"]).partition is None
    assert len({partition for partition, _ in play(producer, [("t", "a", 9_000, 1)] * 60, 3)}) > 1


def test_a_full_buffer_is_an_error() -> None:
    with pytest.raises(InputError, match=r"buffer\.memory of 33,554,432 bytes is full"):
        play(build(round_trip_ms=(("", 100_000),)), [("t", None, 100_000, 0)] * 400, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kafka.accumulator(linger_ms=-1)", "linger_ms is from 0 to 2147483647, not -1"),
        ("kafka.accumulator(batch_size=3000000000)", "batch_size is from 0 to 2147483647"),
        ('kafka.accumulator(round_trip_ms="b1")', "milliseconds: 20, or by broker"),
        ('kafka.accumulator(round_trip_ms="b1:5,")', "milliseconds: 20, or by broker"),
    ],
)
def test_settings_that_kafka_refuses_are_errors(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_partitioner(text)


def test_the_command_replays_records_by_their_values_and_times() -> None:
    lines = [{"key": None, "value": "x" * 400, "time": number} for number in range(100)]
    lines.append({"key": "order-1", "value": "", "time": 100})
    arguments = ["partition", "-p", "kafka.accumulator(batch_size=1000)", "-n", "3", "--seed", "5"]
    runs = [
        CliRunner().invoke(hashstar, arguments, input="".join(json.dumps(line) + "\n" for line in lines))
        for _ in range(2)
    ]
    assert runs[0].exit_code == 0
    assert runs[0].output == runs[1].output
    partitions = [json.loads(line)["partition"] for line in runs[0].output.splitlines()]
    assert partitions[-1] == parse_partitioner("kafka.murmur2").partition_of("order-1", Partitions.from_count(3))
    assert set(partitions) == {0, 1, 2}


def test_without_a_seed_the_command_gives_the_reason() -> None:
    ran = CliRunner().invoke(hashstar, ["partition", "-p", "kafka.accumulator", "-n", "3"], input='{"key": null}\n')
    assert json.loads(ran.output) == {
        "key": None, "partition": None, "rule": "a partition drawn at random, for 16384 bytes and full batches",
    }  # fmt: skip
