"""KIP-794 and KIP-1123: 0 differences to `BuiltInPartitioner` and `RecordAccumulator`; the odds are the weights."""

from __future__ import annotations

from collections import Counter as Tally
from random import Random as Chance
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.partition import Appended, Broker, Inputs, LoadStats, NewBatch, Partition, Partitions, Producer
from exchange.partition.clients.kafka import build_default_3_3, build_nearest
from exchange.partition.clients.kafka_builtin import BuiltIn, Latency, StickyMemory, Weights, load_stats
from tests.exchange.partition.clients.test_kafka import Draws, read
from tests.recorders import golden


def inputs_of(draws: list[int]) -> Inputs:
    return Inputs(Draws(draws))


@pytest.mark.parametrize("version", ["3.3.2", "3.9.2", "4.4.0"])
def test_it_chooses_and_draws_as_the_java_class_does(version: str) -> None:
    """Any sizes, loads, leaders and racks; `new` begins anew, with a batch size and from 4.4 on a rack."""
    partitioner, memory = BuiltIn(), StickyMemory()
    done: Tally[str] = Tally()
    for command, answer in golden.read(f"kafka-clients-{version}")["built in"]:
        action, *words = command.split(" ")
        done[action] += 1
        if action == "new":
            rack = words[2] if len(words) > 2 else None
            partitioner, memory = BuiltIn(int(words[1]), rack=rack), StickyMemory()
            continue
        partitions = read(words[1] if action == "choose" else words[0])
        result, draws = answer
        inputs = inputs_of(draws)
        if action in ("choose", "append"):
            choice, memory = partitioner.choose_next(None, partitions, memory, inputs)
            assert choice.partition == result, (command, answer)
        if action == "append":
            memory = partitioner.after(Appended(int(words[1]), words[2] == "true"), partitions, memory, inputs)
        elif action == "stats":
            sizes, ids = [() if text == "-" else tuple(map(int, text.split(","))) for text in words[1:3]]
            memory = partitioner.after(LoadStats(sizes, ids), partitions, memory, inputs)
        assert not inputs.draw.numbers, (command, answer)  # type: ignore[attr-defined]
    assert min(done["choose"], done["append"], done["stats"]) > 200


@pytest.mark.parametrize("version", ["3.9.2", "4.4.0"])
def test_choices_through_real_batches_are_those_of_the_java_producer(version: str) -> None:
    """`RecordAccumulator`: records with and without a key, real sizes, batches sent, brokers that do not answer."""
    partitioner, memory, timeout = BuiltIn(), StickyMemory(), 0
    latencies: dict[str, Latency] = {}
    done: Tally[str] = Tally()
    for command, answer in golden.read(f"kafka-clients-{version}")["accumulator"]:
        action, *words = command.split(" ")
        done[action] += 1
        if action == "new":
            partitioner = BuiltIn(int(words[0]), rack=words[2] if len(words) > 2 else None)
            memory, timeout, latencies = StickyMemory(), int(words[1]), {}
        elif action == "latency":
            now = int(words[1])
            old = latencies.get(words[0], Latency(now, now))
            latencies[words[0]] = Latency(now, now if words[2] == "true" else old.drained)
        elif action == "append" and words[1] == "-1":
            partitions = read(words[0])
            chosen, draws, size, full_before, no_room, full_now = answer
            inputs = inputs_of(draws)
            if full_before:
                memory = partitioner.after(Appended(0), partitions, memory, inputs)
            choice, memory = partitioner.choose_next(None, partitions, memory, inputs)
            if no_room:
                memory = partitioner.after(Appended(0), partitions, memory, inputs)
                choice, memory = partitioner.choose_next(None, partitions, memory, inputs)
            assert choice.partition == chosen, (command, answer)
            memory = partitioner.after(Appended(size, full_now), partitions, memory, inputs)
            assert not inputs.draw.numbers, (command, answer)  # type: ignore[attr-defined]
        elif action == "ready":
            partitions = read(words[0])
            queues, weights = answer
            stats = load_stats(dict(queues), partitions, latencies, timeout)
            memory = partitioner.after(stats, partitions, memory, inputs_of([]))
            expected = weights and Weights(*map(tuple, weights))
            assert memory.weights == expected, (command, answer)
            done["weighted"] += expected is not None
    assert min(done["append"], done["ready"], done["weighted"]) > 20, done


SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=8)


@given(SIZES)
def test_each_partition_is_drawn_as_often_as_it_weighs(sizes: list[int]) -> None:
    """All draws there are, counted: the longest queue gets 1, an empty one as many more as that is long."""
    weights = Weights.compute(zip(sizes, range(10, 10 + len(sizes)), strict=True))
    drawn = Tally(weights.partition(number) for number in range(weights.cumulated[-1]))
    assert drawn == {10 + at: max(sizes) + 1 - size for at, size in enumerate(sizes)}


def test_the_example_that_the_java_source_gives() -> None:
    weights = Weights.compute([(0, 0), (3, 1), (1, 2)])
    assert [weights.partition(number) for number in range(8)] == [0, 0, 0, 0, 1, 2, 2, 2]
    assert weights == Weights((4, 5, 8), (0, 1, 2))


def producer(partitioner: Any, seed: int = 0) -> Producer:
    return Producer(partitioner, Chance(seed).randrange)


@given(st.integers(0, 99), st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=40))
def test_it_stays_for_one_to_two_batches_of_bytes(seed: int, appended: list[tuple[int, bool]]) -> None:
    """Slow and obvious: the bytes since the last switch are summed up anew each time."""
    draws = Chance(seed)
    numbers: list[int] = []

    def draw(bound: int) -> int:
        numbers.append(draws.randrange(bound))
        return numbers[-1]

    made = Producer(BuiltIn(100), draw)
    since: list[int] = []
    partitions = Partitions.from_count(7)
    for size, full in appended:
        assert made.choose("t", None, partitions).partition == numbers[-1] % 7
        before = len(numbers)
        made.handle("t", Appended(size, full), partitions)
        since.append(size)
        switched = sum(since) >= 200 or (full and sum(since) >= 100)
        assert len(numbers) == before + switched
        since = [] if switched else since


def test_a_switch_put_off_comes_when_the_batch_is_full() -> None:
    """KAFKA-14156: `Appended(0)` completes it."""
    inputs, partitions = inputs_of([1, 2]), Partitions.from_count(5)
    partitioner = BuiltIn(100)
    memory = partitioner.choose_next(None, partitions, StickyMemory(), inputs)[1]
    memory = partitioner.after(Appended(150, batches_full=False), partitions, memory, inputs)
    assert memory == StickyMemory(1, 150)
    assert partitioner.after(Appended(0), partitions, memory, inputs) == StickyMemory(2)


def test_events_before_the_first_record_draw_nothing() -> None:
    for event in (Appended(10**6), NewBatch(0)):
        assert BuiltIn().after(event, Partitions.from_count(5), StickyMemory(), inputs_of([])) == StickyMemory()


def stats_after(stats: LoadStats, partitions: Partitions, **parameters: Any) -> Weights | None:
    memory = BuiltIn(**parameters).after(stats, partitions, StickyMemory(), inputs_of([]))
    assert isinstance(memory, StickyMemory)
    return memory.weights


def test_even_loads_give_no_weights_unless_a_partition_is_left_out() -> None:
    stats = LoadStats((2, 2, 2), (0, 1, 2))
    assert stats_after(stats, Partitions.from_count(3)) is None
    assert stats_after(stats, Partitions.from_count(4)) == ((1, 2, 3), (0, 1, 2))


@pytest.mark.parametrize(("stats", "count"), [(LoadStats((), ()), 3), (LoadStats((1,), (0,)), 1)])
def test_without_loads_to_compare_there_are_no_weights(stats: LoadStats, count: int) -> None:
    assert stats_after(stats, Partitions.from_count(count)) is None


def test_loads_are_ignored_when_it_is_not_adaptive() -> None:
    assert stats_after(LoadStats((1, 2), (0, 1)), Partitions.from_count(2), adaptive=False) is None


RACKS = Partitions([
    Partition(3, Broker("3", "a.eu", "eu")),
    Partition(0, Broker("0", "b.us", "us")),
    Partition(2, None),
    Partition(1, Broker("1", "c.eu", "eu")),
])  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"rack": "eu"}, {3, 1}),
        ({"rack": "us"}, {0}),
        ({"rack": "asia"}, {3, 0, 1}),
        ({"host": "c.eu"}, {1}),
        ({"rack": "eu", "host": "a.eu"}, {3}),
        ({"rack": "us", "host": "a.eu"}, {3, 0, 1}),
    ],
)
def test_records_without_a_key_go_near_where_a_leader_is_near(parameters: dict[str, Any], expected: set[int]) -> None:
    made = producer(build_nearest(**parameters, batch_size=1))
    chosen = set()
    for _ in range(60):
        chosen.add(made.choose("t", None, RACKS).partition)
        made.handle("t", Appended(10), RACKS)
    assert chosen == expected
    assert made.choose("t", "key", RACKS) == build_default_3_3().choose("key", RACKS)


def test_a_broker_whose_host_is_not_told_is_known_by_its_name() -> None:
    partitions = Partitions([Partition(0, Broker("a")), Partition(1, Broker("b"))])
    assert producer(build_nearest(host="b")).choose("t", None, partitions).partition == 1


def test_weights_are_those_of_near_partitions_only() -> None:
    """The longest queue of the rack weighs 1, however long others are."""
    stats = LoadStats((9, 2, 1), (0, 1, 3))
    assert stats_after(stats, RACKS, rack="eu") == ((1, 3), (1, 3))
    assert stats_after(stats, RACKS, rack="asia") == ((1, 9, 18), (0, 1, 3))


def test_the_load_is_reported_once_each_partition_had_a_batch() -> None:
    assert load_stats({0: 1, 1: 2}, Partitions.from_count(3)) == ((), ())
    assert load_stats({0: 1, 1: 2, 2: 0}, Partitions.from_count(3)) == ((1, 2, 0), (0, 1, 2))


def test_partitions_without_a_leader_or_no_longer_there_are_left_out() -> None:
    assert load_stats({0: 1, 1: 2, 2: 3, 3: 4, 9: 5}, RACKS) == ((1, 2, 4), (0, 1, 3))


def test_a_broker_that_takes_nothing_for_too_long_is_left_out() -> None:
    led = Partitions([Partition(id_, Broker(str(id_))) for id_ in range(3)])
    latencies = {"1": Latency(ready=500, drained=399), "2": Latency(ready=500, drained=400)}
    queues = {0: 1, 1: 2, 2: 3}
    assert load_stats(queues, led, latencies, 100) == ((1, 3), (0, 2))
    assert load_stats(queues, led, latencies) == ((1, 2, 3), (0, 1, 2))
    assert load_stats({0: 1, 1: 0, 2: 3}, led, latencies, 100) == ((1, 0, 3), (0, 1, 2))


def test_an_empty_queue_after_one_left_out_counts_as_long_as_that() -> None:
    """As Java has it, whose array keeps what was written at that place: recorded from the accumulator too."""
    led = Partitions([Partition(id_, Broker(str(id_))) for id_ in range(3)])
    assert load_stats({0: 7, 1: 0, 2: 1}, led, {"0": Latency(500, 0)}, 100) == ((7, 1), (1, 2))
