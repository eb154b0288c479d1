"""The strategies of Kafka's Java producer: 0 differences to what the real classes chose, and what is true of them."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable
from random import Random as Chance
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.partition import Broker, Inputs, NewBatch, Partition, Partitioner, Partitions, Producer
from exchange.partition.clients.kafka import (
    STRATEGIES,
    Counter,
    Explicit,
    Keyed,
    KeyedOneCounter,
    Random,
    RoundRobin,
    RoundRobinMemory,
    Scala,
    Sticky,
    build_default_3_3,
    build_nearest,
)
from exchange.partition.clients.kafka_builtin import BuiltIn
from exchange.partition.hashing.hashes import to_positive
from exchange.values.field_values import Typed
from tests.recorders import golden
from tests.recorders.kafka import BYTES, LONE, VERSIONS
from tests.recorders.keys import COUNTS, KEYS

KEYLESS: list[Partitioner] = [Counter(), RoundRobin(), Sticky(), Random(), BuiltIn(), BuiltIn(0, False, "r0")]


def read(text: str) -> Partitions:
    """Parse partitions as recordings write them: ``2!,0,1@rack@host``."""
    partitions = []
    for item in text.split(","):
        name, *place = item.split("@")
        id_ = int(name.rstrip("!"))
        rack, host = place or (None, "host")
        leader = None if name.endswith("!") else Broker(str(id_), host or "", rack)
        partitions.append(Partition(id_, leader))
    return Partitions(partitions)


class Draws:
    """The recorded random numbers, of which exactly these must be drawn."""

    def __init__(self, numbers: Iterable[int], bits: int = 31) -> None:
        self.numbers, self.bits = list(numbers), bits

    def __call__(self, bound: int) -> int:
        assert bound == 2**self.bits
        return self.numbers.pop(0) % bound


def test_a_key_goes_where_every_version_of_the_java_client_sends_it() -> None:
    """Text, bytes that are no text, and halves of surrogate pairs, out of partitions of which one has no leader."""
    keys = [*KEYS, *LONE, *BYTES]
    partitioner = build_default_3_3()
    known = [
        (count, Partitions([Partition(0, None), *(Partition(id_) for id_ in range(1, count))])) for count in COUNTS
    ]
    for version in VERSIONS:
        recorded = golden.read(f"kafka-clients-{version}")["keys"]
        assert len(recorded) == len(keys)
        for key, (hashed, *chosen) in zip(keys, recorded, strict=True):
            for (count, partitions), partition in zip(known, chosen, strict=True):
                assert partitioner.choose(key, partitions)[:2] == (partition, hashed), (version, key, count)


def test_a_string_goes_where_the_scala_producer_sends_it() -> None:
    recorded = golden.read("kafka-scala-0.8.2.2")["keys"]
    for key, (hashed, *chosen) in zip([*KEYS, *LONE], recorded, strict=True):
        for count, partition in zip(COUNTS, chosen, strict=True):
            assert Scala().choose(key, Partitions.from_count(count))[:2] == (partition, hashed), (key, count)


def replay(partitioner: Partitioner, steps: list[list[Any]], before: Any = lambda start: start) -> Tally[str]:
    """Replay a recording of `tests.recorders.kafka`; return the number of steps of each kind."""
    producers: dict[str, Any] = {}
    last: dict[str, int | None] = {}
    done: Tally[str] = Tally()
    for command, answer in steps:
        action, *words = command.split(" ")
        done[action] += 1
        if action == "new":
            producers, last = {}, {}
            continue
        if action == "counter":
            producers[words[1]] = before(to_positive(int(words[0])))
            continue
        place, partitions = "*" if partitioner.one_memory else words[0], read(words[1])
        result, draws = answer
        inputs = Inputs(Draws(draws))
        memory = producers[place] if place in producers else partitioner.memory(inputs)
        if action in ("again", "batch"):
            new = NewBatch(int(words[2]) if action == "batch" else last["any"] or 0)
            memory = partitioner.after(new, partitions, memory, inputs)
        if action in ("again", "choose"):
            choice, memory = partitioner.choose_next(None, partitions, memory, inputs)
            assert choice.partition == result, (command, answer)
            last["any"] = choice.partition
        producers[place] = memory
        assert not inputs.draw.numbers, (command, answer)  # type: ignore[attr-defined]
    return done


@pytest.mark.parametrize(
    ("version", "kind", "partitioner"),
    [
        ("0.8.2.2", "one counter", KeyedOneCounter(Counter())),
        ("0.9.0.1", "one counter", KeyedOneCounter(Counter())),
        ("0.10.2.2", "counter", Keyed(Counter())),
        ("2.4.1", "sticky", Keyed(Sticky())),
        ("2.4.1", "uniform sticky", Sticky()),
        ("3.9.2", "sticky", Keyed(Sticky())),
        ("3.9.2", "uniform sticky", Sticky()),
        ("2.4.1", "round robin", Counter(0)),
        ("3.3.2", "round robin", Counter(0)),
    ],
)
def test_records_without_a_key_go_where_the_java_client_sends_them(
    version: str, kind: str, partitioner: Partitioner
) -> None:
    """From counters around the greatest int, with metadata in any order, leaders lost, batches begun."""
    assert replay(partitioner, golden.read(f"kafka-clients-{version}")[kind])["choose"] > 250


@pytest.mark.parametrize("version", ["3.9.2", "4.4.0"])
def test_round_robin_goes_where_the_java_client_sends_it_once_asked_twice_did_no_harm(version: str) -> None:
    steps = golden.read(f"kafka-clients-{version}")["round robin"]
    assert replay(RoundRobin(), steps, before=RoundRobinMemory)["choose"] > 250


def test_the_scala_producer_keeps_a_partition_until_its_metadata_is_refreshed() -> None:
    partitioner = Scala(refresh_ms=10)
    memories: dict[str, Any] = {}
    now = 0
    for command, answer in golden.read("kafka-scala-0.8.2.2")["sequence"]:
        action, *words = command.split(" ")
        if action == "refresh":
            now += 11
            continue
        inputs = Inputs(Draws(answer[1], 32), now)
        memory = memories.get(words[0], partitioner.memory(inputs))
        choice, memories[words[0]] = partitioner.choose_next(None, read(words[1]), memory, inputs)
        assert choice.partition == answer[0], (command, answer)
        assert not inputs.draw.numbers  # type: ignore[attr-defined]


def test_the_scala_producer_refreshes_when_more_than_its_interval_has_passed() -> None:
    """Not at the very end of it; and draws once in between."""
    partitioner, partitions = Scala(refresh_ms=10), Partitions.from_count(8)
    memory: Any = partitioner.memory(Inputs(Chance(0).randrange, 1_000))
    chosen = {}
    for now in (1_000, 1_005, 1_010, 1_011, 1_021, 1_022):
        draws: list[int] = []
        inputs = Inputs(lambda n, draws=draws, now=now: draws.append(n) or now, now)  # type: ignore[misc]
        choice, memory = partitioner.choose_next(None, partitions, memory, inputs)
        chosen[now] = choice.partition, len(draws)
    drawn = {now: (now % 8, 1) for now in (1_000, 1_011, 1_022)}
    assert chosen == {**drawn, 1_005: (0, 0), 1_010: (0, 0), 1_021: (1_011 % 8, 0)}


def partitions(count: int, lost: Iterable[int] = ()) -> Partitions:
    """Build partitions in descending order; those in ``lost`` have no leader."""
    lost = set(lost)
    return Partitions([Partition(id_, None if id_ in lost else Broker(str(id_))) for id_ in reversed(range(count))])


def producer(partitioner: Partitioner, seed: int = 0) -> Producer:
    return Producer(partitioner, Chance(seed).randrange)


def test_an_empty_key_is_a_key() -> None:
    choice = Keyed(Sticky()).choose("", Partitions.from_count(12))
    assert choice == (275646681 % 12, 275646681, "toPositive(hash) % 12")
    assert Keyed(Sticky()).choose(b"", Partitions.from_count(12)) == choice
    assert Keyed(Sticky()).choose(None, Partitions.from_count(12)).partition is None


def test_vectors_that_kafka_publishes() -> None:
    """`UtilsTest.testMurmur2`."""
    published = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
    for key, hashed in published.items():
        assert Keyed(Sticky()).choose(key, Partitions.from_count(1)).hash == hashed


@given(st.sampled_from(KEYLESS), st.integers(0, 99), st.integers(1, 9), st.text(), st.lists(st.booleans(), max_size=20))
def test_the_strategy_for_records_without_a_key_decides_nothing_with_one(
    keyless: Partitioner, seed: int, count: int, key: str, keyed: list[bool]
) -> None:
    """Nor do keys change where the others go."""
    whole, alone = producer(Keyed(keyless), seed), producer(keyless, seed)
    for has_key in keyed:
        if has_key:
            assert whole.choose("t", key, Partitions.from_count(count)) == Keyed(Counter()).choose(
                key, Partitions.from_count(count)
            )
        else:
            assert whole.choose("t", None, Partitions.from_count(count)) == alone.choose(
                "t", None, Partitions.from_count(count)
            )


@given(st.sampled_from(KEYLESS), st.integers(0, 99), st.integers(1, 9), st.sets(st.integers(0, 8)))
def test_records_without_a_key_go_to_partitions_with_a_leader_if_there_is_one(
    keyless: Partitioner, seed: int, count: int, lost: set[int]
) -> None:
    known = partitions(count, lost)
    ids = {partition.id for partition in known.available or known.all}
    made = producer(keyless, seed)
    for _ in range(20):
        partition = made.choose("t", None, known).partition
        assert partition in ids
        made.handle("t", NewBatch(partition or 0), known)


@given(
    st.sampled_from([Counter(), Counter(0), RoundRobin()]),
    st.integers(1, 9),
    st.sets(st.integers(0, 8)),
    st.integers(0, 9),
)
def test_round_robin_visits_all_that_have_a_leader_in_the_order_of_the_metadata(
    partitioner: Partitioner, count: int, lost: set[int], seed: int
) -> None:
    known = partitions(count, lost)
    order = [partition.id for partition in known.available]
    made = producer(partitioner, seed)
    visited = [made.choose("t", None, known).partition for _ in order]
    assert set(visited) == set(order)
    if visited and visited[0] is not None:
        at = order.index(visited[0])
        assert visited == order[at:] + order[:at]


def test_a_counter_wraps_around_at_the_greatest_int() -> None:
    """2**31 is no multiple of 3, so that a partition comes twice in a row: 2147483647 % 3 == 1, 0 % 3 == 0."""
    chosen, memory = Counter().choose_next(None, Partitions.from_count(3), 2**31 - 1, Inputs(Draws([])))
    assert (chosen.partition, memory) == (1, 0)


def test_one_counter_for_all_topics_skips_where_topics_alternate() -> None:
    """What 0.10.2 did away with."""
    one, each = producer(KeyedOneCounter(Counter())), producer(Keyed(Counter()))
    for made, visited in ((one, 1), (each, 2)):
        seen = set()
        for _ in range(10):
            seen.add(made.choose("t", None, Partitions.from_count(2)).partition)
            made.choose("u", None, Partitions.from_count(2))
        assert len(seen) == visited


def test_two_calls_for_each_record_leave_half_of_the_partitions_empty() -> None:
    """KAFKA-9965: 2.4 to 3.9.1 with one record a batch; from 3.9.2 on, all partitions get some."""
    for partitioner, visited in ((Counter(0), {1, 3}), (RoundRobin(), {0, 1, 2, 3})):
        made, seen = producer(partitioner), set()
        for _ in range(10):
            first = made.choose("t", None, Partitions.from_count(4)).partition
            made.handle("t", NewBatch(first or 0), Partitions.from_count(4))
            seen.add(made.choose("t", None, Partitions.from_count(4)).partition)
        assert seen == visited


@given(st.integers(0, 99), st.integers(2, 9), st.sets(st.integers(0, 6)))
def test_a_sticky_partition_is_never_followed_by_itself(seed: int, count: int, lost: set[int]) -> None:
    """While two have leaders; and it stays for as long as batches of others are begun."""
    known = partitions(count, lost)
    made = producer(Sticky(), seed)
    for _ in range(10):
        old = made.choose("t", None, known).partition
        assert old is not None
        made.handle("t", NewBatch((old + 1) % count), known)
        assert made.choose("t", None, known).partition == old
        made.handle("t", NewBatch(old), known)
        assert (made.choose("t", None, known).partition != old) >= (len(known.available) > 1)


def test_a_batch_of_a_record_with_a_key_sets_the_first_sticky_partition() -> None:
    inputs = Inputs(Draws([7]))
    assert Keyed(Sticky()).after(NewBatch(0), Partitions.from_count(5), None, inputs) == 7 % 5


def test_random_is_the_built_in_partitioner_with_batches_of_no_size() -> None:
    """As its description has it: `Appended` after each record makes it draw the next."""
    from exchange.partition import Appended

    built_in = producer(build_default_3_3(batch_size=0, adaptive=False, ignore_keys=True), 5)
    anew = producer(Random(), 5)
    seven = Partitions.from_count(7)
    for key in (None, "a", b"b") * 20:
        assert built_in.choose("t", key, seven).partition == anew.choose("t", key, seven).partition
        built_in.handle("t", Appended(68), seven)


@pytest.mark.parametrize("key", [3, Typed("short", 3), Typed("unsignedbyte", 3)])
def test_an_explicit_partition_is_the_key(key: Any) -> None:
    assert Explicit().choose(key, Partitions.from_count(4)).partition == 3


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (-1, "IllegalArgumentException"),
        (4, "only 0 to 3: the Java producer would wait for it, then throw TimeoutException"),
        (None, "an integer, not None"),
        ("3", "an integer, not '3'"),
        (True, "an integer, not True"),
        (2**63, "no partition 9223372036854775808"),
        (object(), "an integer"),
    ],
)
def test_a_number_that_is_no_partition_is_an_error(key: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Explicit().choose(key, Partitions.from_count(4))


def test_the_scala_producer_takes_strings_and_needs_a_leader() -> None:
    assert Scala().choose("polygenelubricants", Partitions.from_count(7))[:2] == (0, -(2**31))
    with pytest.raises(InputError, match="give a string, not b'a'"):
        Scala().choose(b"a", Partitions.from_count(7))
    with pytest.raises(InputError, match="LeaderNotAvailable"):
        producer(Scala()).choose("t", None, partitions(3, range(3)))


def test_the_scala_producer_may_never_refresh() -> None:
    times = iter([0, 10**9, 2 * 10**9])
    made = Producer(Scala(refresh_ms=-1), Chance(1).randrange, lambda: next(times))
    assert len({made.choose("t", None, Partitions.from_count(100)).partition for _ in range(3)}) == 1


def test_records_with_a_key_see_the_refresh_too() -> None:
    inputs = Inputs(Draws([]), 601_000)
    memory = Scala().memory(Inputs(Draws([])))._replace(partition=3)
    assert Scala().choose_next("a", Partitions.from_count(4), memory, inputs)[1] == (601_000, None)


def test_each_strategy_makes_a_partitioner_and_reads_its_parameters() -> None:
    texts = {int: "1", str: "r0"}
    for strategy in STRATEGIES:
        given_ = {name: reader(texts.get(reader, "true")) for name, reader in strategy.parameters.items()}  # type: ignore[call-overload]
        assert strategy.make(**given_) == strategy.make(**given_)
        assert all((strategy.name, strategy.mirrors, strategy.promise, strategy.cost))
        assert strategy.name.startswith("kafka.")


def test_unknown_parameters_are_errors() -> None:
    adaptive = {strategy.name: strategy for strategy in STRATEGIES}["kafka.murmur2"].parameters["adaptive"]
    with pytest.raises(ValueError, match="true or false"):
        adaptive("yes")
    with pytest.raises(InputError, match="needs a rack, a host or both"):
        build_nearest()
    with pytest.raises(InputError, match="number of bytes"):
        build_default_3_3(batch_size=-1)
