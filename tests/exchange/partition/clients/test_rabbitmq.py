"""RabbitMQ's partitioners: super streams as the Java client has them, the exchanges' arithmetic over partitions."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import Binding, Exchange, Message, Queue, Router, Topology, Typed
from exchange.errors import InputError
from exchange.partition import Partition, Partitions
from exchange.partition.clients.rabbitmq import STRATEGIES, ConsistentHash, ModulusHash, SuperStream
from exchange.partition.hashing.hashes import murmur3, to_signed
from tests.recorders import golden
from tests.recorders.keys import COUNTS, KEYS
from tests.recorders.super_stream import LONE

RECORDED = [golden.read(name) for name in golden.names("super-stream-")]
COUNT = st.integers(1, 30)
KEY = st.text(max_size=20)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["version"])
def test_super_streams_are_the_java_clients(recorded: dict[str, Any]) -> None:
    """Hash and stream of 1,200 keys and of lone surrogates, over 1, 2, 3, 7, 12, 16 and 100 streams."""
    keys = (*KEYS, *LONE)
    assert len(keys) >= 1200
    for count in COUNTS:
        streams = Partitions.named([f"stream-{number}" for number in range(count)])
        choices = [SuperStream().choose(key, streams) for key in keys]
        assert [choice.hash for choice in choices] == recorded["hashes"]
        assert [choice.partition for choice in choices] == recorded["streams"][str(count)]


def test_there_are_recordings_of_two_clients() -> None:
    """The first version of today's rule that was asked, and the last."""
    assert [recorded["version"] for recorded in RECORDED] == ["0.10.0", "1.9.0"]


def test_the_hash_is_shown_as_java_shows_it() -> None:
    """A signed integer, taken without its sign: the vector is of the client's own tests."""
    choice = SuperStream().choose("hello", Partitions.from_count(3))
    assert choice.hash == 1321743225 == to_signed(murmur3(b"hello", 104729))
    assert choice.rule == "remainderUnsigned(hash, 3)"


@pytest.mark.parametrize("key", [None, 1, True, 1.5])
@pytest.mark.parametrize("partitioner", [SuperStream(), ModulusHash()])
def test_routing_keys_are_texts(partitioner: SuperStream | ModulusHash, key: object) -> None:
    """Anything else is refused, as the client's types do."""
    with pytest.raises(InputError, match="no routing key"):
        partitioner.choose(key, Partitions.from_count(2))


def test_bytes_are_the_text_they_encode() -> None:
    """In all three."""
    for partitioner in (SuperStream(), ModulusHash(), ConsistentHash()):
        assert partitioner.choose("é", Partitions.from_count(97)) == partitioner.choose(
            "é".encode(), Partitions.from_count(97)
        )


@given(KEY, COUNT, st.integers(1, 5))
def test_consistent_hash_is_the_exchange_with_equal_weights(key: str, count: int, weight: int) -> None:
    """Partition n is the queue that was bound as the nth."""
    topology = bound("x-consistent-hash", count, str(weight))
    choice = ConsistentHash(weight).choose(key, Partitions.from_count(count))
    assert Router(topology).route(Message("x", key)).queues == (f"q{choice.partition:03}",)


@given(KEY, COUNT)
def test_modulus_hash_is_the_exchange(key: str, count: int) -> None:
    """Partition n is the queue whose name is the nth."""
    choice = ModulusHash().choose(key, Partitions.from_count(count))
    assert Router(bound("x-modulus-hash", count)).route(Message("x", key)).queues == (f"q{choice.partition:03}",)


HEADER = st.one_of(
    st.none(), KEY, st.binary(max_size=9), st.booleans(), st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False), st.builds(Typed, st.just("timestamp"), st.integers(0, 2**40)),
)  # fmt: skip


@given(HEADER, COUNT)
def test_consistent_hash_takes_the_values_of_a_hash_header(value: Any, count: int) -> None:
    """Numbers, bools, bytes and what is not there: as the exchange does."""
    topology = bound("x-consistent-hash", count, arguments={"hash-header": "h"})
    choice = ConsistentHash().choose(value, Partitions.from_count(count))
    headers = {} if value is None else {"h": value}
    assert Router(topology).route(Message("x", "", headers)).queues == (f"q{choice.partition:03}",)


@pytest.mark.parametrize("key", [[], {}, ["a"], Decimal("1.5"), object()])
def test_consistent_hash_refuses_what_is_no_single_value(key: object) -> None:
    """Arrays and tables may stand in a hash header, and are no key."""
    with pytest.raises(InputError, match="no key for x-consistent-hash"):
        ConsistentHash().choose(key, Partitions.from_count(2))


@given(KEY, COUNT)
def test_one_more_partition_takes_keys_and_moves_no_others(key: str, count: int) -> None:
    """What consistent_hash promises."""
    before, after = (ConsistentHash().choose(key, Partitions.from_count(n)).partition for n in (count, count + 1))
    assert after in (before, count)


def test_ids_of_partitions_need_not_be_positions() -> None:
    """A choice names the partition at the place, whatever its id."""
    places, ids = Partitions.from_count(3), Partitions([Partition(5), Partition(9), Partition(1)])
    for partitioner in (SuperStream(), ConsistentHash(), ModulusHash()):
        for key in KEYS[:50]:
            place = partitioner.choose(key, places).partition
            assert place is not None
            assert partitioner.choose(key, ids).partition == (5, 9, 1)[place]


def test_a_weight_is_at_least_one() -> None:
    """As in a binding."""
    with pytest.raises(ValueError, match="at least 1, not 0"):
        ConsistentHash(0)


def test_strategies_have_what_the_table_shows() -> None:
    """Names under rabbitmq, and each makes its partitioner."""
    assert [strategy.name for strategy in STRATEGIES] == [
        "rabbitmq.super_stream", "rabbitmq.consistent_hash", "rabbitmq.modulus_hash",
    ]  # fmt: skip
    for strategy in STRATEGIES:
        assert strategy.make().choose("key", Partitions.from_count(1)).partition == 0
        assert min(strategy.mirrors, strategy.promise, strategy.cost) > ""


def bound(kind: str, count: int, key: str = "1", arguments: dict[str, Any] | None = None) -> Topology:
    """Build a router of an exchange "x" of this type with this number of queues, from "q000" on, bound in this order."""
    names = [f"q{number:03}" for number in range(count)]
    return Topology(
        [Exchange("x", kind, arguments=arguments or {})],
        [Queue(name) for name in names],
        [Binding.to_queue("x", name, key) for name in names],
    )
