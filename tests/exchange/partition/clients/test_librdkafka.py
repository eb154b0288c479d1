"""librdkafka's partitioners choose what the real librdkafka chose (`tests.recorders.librdkafka`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.errors import InputError
from exchange.partition import Partition, Partitions, Producer
from exchange.partition.clients.librdkafka import ROWS, STRATEGIES, Librdkafka
from exchange.partition.partitioning.specification import parse_partitioner
from tests.recorders import golden
from tests.recorders.keys import COUNTS, KEYS
from tests.recorders.librdkafka import LEAST_FNV1A, PARTITIONERS, SAMPLE
from tests.support.cases import with_each

RECORDED = [golden.read(name) for name in golden.names("librdkafka-")]
KEYED = [name for name in PARTITIONERS if name != "random"]
OF_100 = Partitions.from_count(100)
SAMPLE_KEYS = {"null": None, "empty": b"", "other": b"other"}


def in_turn(drawn: list[int]) -> Callable[[int], int]:
    """Return a draw that returns these numbers."""
    numbers = iter(drawn)
    return lambda _: next(numbers)


def no_draw(_: int) -> int:
    pytest.fail("nothing is left to chance")


def only(*leaderless: int, of: int) -> Partitions:
    """Build partitions, some of them without a leader."""
    return Partitions([Partition(at, None) if at in leaderless else Partition(at) for at in range(of)])


def chosen(
    partitioner: Librdkafka, key: Any, partitions: Partitions, draw: Callable[[int], int] = no_draw
) -> int | None:
    """Return the choice of a new producer for its first record."""
    return Producer(partitioner, draw).choose("topic", key, partitions).partition


def test_there_are_recordings() -> None:
    """The tests below have something to compare with: 1,200 keys and more."""
    assert RECORDED
    assert len(KEYS) >= 1200


def test_every_partitioner_of_librdkafka_has_a_strategy() -> None:
    """The names are those of the property partitioner."""
    assert [strategy.name for strategy in STRATEGIES] == [f"librdkafka.{name}" for name in PARTITIONERS]
    assert [strategy.make() for strategy in STRATEGIES] == [Librdkafka(name) for name in ROWS]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: str(recorded["version"]))
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", KEYED)
def test_every_key_goes_where_the_real_producer_sent_it(recorded: dict[str, Any], name: str, count: int) -> None:
    """The producer's delivery reports name our partition; keys that hash to the least integer are among them.

    The empty key, which some leave to chance, is no part of it.
    """
    partitions, keys = Partitions.from_count(count), [*KEYS, *LEAST_FNV1A]
    ours = {key: Librdkafka(name).choose(key, partitions).partition for key in keys if key}
    theirs = dict(zip(keys, recorded[f"{name} {count}"], strict=True))
    del theirs[""]
    assert ours == theirs


@with_each("recorded", RECORDED)
@with_each("count", COUNTS)
@with_each("name", ["consistent", "murmur2", "fnv1a"])
def test_every_key_goes_where_the_public_function_says(recorded: dict[str, Any], name: str, count: int) -> None:
    """``confluent_kafka.murmur2`` and its like agree, the empty key included."""
    partitions = Partitions.from_count(count)
    ours = [Librdkafka(name).choose(key, partitions).partition for key in [*KEYS, *LEAST_FNV1A]]
    assert ours == recorded[f"{name}() {count}"]


@given(st.binary(max_size=100), st.integers(1, 1000))
def test_any_key_goes_where_the_librdkafka_installed_here_says(key: bytes, count: int) -> None:
    """Its public functions hash any bytes."""
    for name in ("consistent", "murmur2", "fnv1a"):
        theirs = getattr(confluent_kafka, name)(key, count)
        assert Librdkafka(name).choose(key, Partitions.from_count(count)).partition == theirs


@with_each("recorded", RECORDED)
@with_each("linger", [0, 900_000])
@with_each("kind", SAMPLE_KEYS)
@with_each("name", PARTITIONERS)
def test_the_choice_is_random_where_that_of_the_real_producer_is(
    recorded: dict[str, Any], name: str, kind: str, linger: int
) -> None:
    """For no key, the empty and other keys: what the hash decides, what sticks and what is drawn each time."""
    sample = recorded[f"{name} {kind} linger {linger}"]
    assert len(sample) == SAMPLE
    partitioner, key = Librdkafka(name, linger), SAMPLE_KEYS[kind]
    if partitioner.choose(key, OF_100).partition is None:
        # Given the draws that librdkafka must have made: one, which sticks, or one for each record.
        is_sticky = len(set(sample)) == 1
        producer = Producer(partitioner, in_turn(sample[:1] if is_sticky else sample))
    else:
        producer = Producer(partitioner, no_draw)
    assert [producer.choose("topic", key, OF_100).partition for _ in sample] == sample


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: str(recorded["version"]))
def test_the_sticky_partition_changes_when_the_real_one_did(recorded: dict[str, Any]) -> None:
    """With the times at which it was asked and the partitions librdkafka drew, every record goes the same way."""
    window = recorded["sticky window"]
    draw, clock = in_turn(window["drawn"]), iter(window["sent"])
    producer = Producer(Librdkafka("murmur2_random", window["linger"]), draw, lambda: next(clock))
    assert [producer.choose("topic", None, OF_100).partition for _ in window["sent"]] == window["partitions"]
    with pytest.raises(StopIteration):
        draw(100)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: str(recorded["version"]))
def test_a_sticky_partition_that_loses_its_leader_is_left_at_once_as_by_the_real_producer(
    recorded: dict[str, Any],
) -> None:
    """Before its time is over, and for one partition, which sticks in turn."""
    before, after = recorded["leader lost"]["before"], recorded["leader lost"]["after"]
    producer = Producer(Librdkafka("consistent_random", 900_000), in_turn([before[0], after[0]]))
    assert [producer.choose("topic", None, OF_100).partition for _ in before] == before
    assert [producer.choose("topic", None, only(before[0], of=100)).partition for _ in after] == after


def test_the_sticky_partition_lasts_for_the_whole_of_its_time() -> None:
    """At the very millisecond it ends it still serves; one later another is drawn."""
    times = iter([5, 15, 16])
    producer = Producer(Librdkafka(sticky_partitioning_linger_ms=10), in_turn([3, 8]), lambda: next(times))
    assert [producer.choose("topic", None, OF_100).partition for _ in range(3)] == [3, 3, 8]


def test_a_topic_sticks_to_a_partition_of_its_own() -> None:
    """The draws for two topics are independent."""
    producer = Producer(Librdkafka(), in_turn([3, 8]))
    assert [producer.choose(topic, None, OF_100).partition for topic in "abab"] == [3, 8, 3, 8]


def test_a_sticky_partition_that_is_no_more_is_drawn_again() -> None:
    """A topic that was made anew with fewer partitions."""
    producer = Producer(Librdkafka(), in_turn([8, 1]))
    assert producer.choose("topic", None, OF_100).partition == 8
    assert producer.choose("topic", None, Partitions.from_count(2)).partition == 1


def test_records_with_a_key_do_not_change_the_sticky_partition() -> None:
    """Between two records without a key nothing is drawn for those with one."""
    producer = Producer(Librdkafka(), in_turn([3]))
    assert producer.choose("topic", None, OF_100).partition == 3
    producer.choose("topic", "order-1", OF_100)
    assert producer.choose("topic", None, OF_100).partition == 3


@pytest.mark.parametrize(("name", "key"), [("random", b"key"), ("random", None), ("consistent_random", b"")])
def test_a_partition_without_a_leader_is_drawn_again_once(name: str, key: bytes | None) -> None:
    """The second draw counts, whatever it is."""
    for second in (2, 1):
        assert chosen(Librdkafka(name), key, only(1, of=3), in_turn([1, second])) == second


@given(st.binary(), st.integers(1, 50), st.sets(st.integers(0, 49)))
def test_a_key_is_hashed_over_all_partitions(key: bytes, count: int, leaderless: set[int]) -> None:
    """Whichever of them have no leader, and in whatever order the metadata names them."""
    some = only(*leaderless, of=count)
    shuffled = Partitions(sorted(some, key=lambda partition: -partition.id))
    for name in ("consistent", "murmur2", "fnv1a"):
        partitioner = Librdkafka(name)
        whole = partitioner.choose(key, Partitions.from_count(count))
        assert whole == partitioner.choose(key, some) == partitioner.choose(key, shuffled)


@pytest.mark.parametrize(
    ("name", "key", "hashed", "rule"),
    [
        ("consistent", "123456789", 0xCBF43926, "hash % 12"),
        ("murmur2", "foobar", 2**32 - 790332482, "(hash & 0x7fffffff) % 12"),
        ("fnv1a", "a", 0xE40C292C - 2**32, "abs(hash) % 12"),
    ],
)
def test_a_choice_has_the_hash_and_how_the_partition_follows_from_it(
    name: str, key: str, hashed: int, rule: str
) -> None:
    """As the client computes them, unsigned but for FNV-1a; these hashes are published."""
    choice = Librdkafka(name).choose(key, Partitions.from_count(12))
    assert (choice.hash, choice.rule) == (hashed, rule)


def test_the_time_that_a_partition_sticks_is_a_parameter_of_those_that_have_sticky_partitions() -> None:
    """In text it is called as librdkafka's property is, with underscores for its dots."""
    off = "(sticky_partitioning_linger_ms=0)"
    assert parse_partitioner(f"librdkafka.murmur2_random{off}") == Librdkafka("murmur2_random", 0)
    with pytest.raises(InputError, match="takes none"):
        parse_partitioner(f"librdkafka.murmur2{off}")


def test_values_that_librdkafka_refuses_are_refused() -> None:
    """Its configuration knows seven partitioners and a quarter of an hour."""
    for wrong in (("murmur",), ("murmur2", -1), ("murmur2", 900_001)):
        with pytest.raises(InputError, match=r"partitioner|from 0 to 900000"):
            Librdkafka(*wrong)
