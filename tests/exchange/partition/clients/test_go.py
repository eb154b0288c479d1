"""The partitioners of Sarama and franz-go choose what the real ones chose (`tests.recorders.go`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from exchange.errors import InputError
from exchange.partition import NewBatch, Partition, Partitions, Producer
from exchange.partition.clients.go import FRANZ_GO, SARAMA, STRATEGIES, FranzGo, Sarama
from tests.recorders import golden
from tests.recorders.keys import COUNTS, KEYS
from tests.recorders.librdkafka import LEAST_FNV1A
from tests.support.cases import with_each

RECORDED: dict[str, Any] = {}
for name in golden.names("go-"):
    RECORDED |= golden.read(name)

LEADERLESS = Partitions([Partition(3), Partition(1, None), Partition(2), Partition(0)])
"""The partitions to draw from are 0, 2 and 3, by number."""


def in_turn(*drawn: int) -> Callable[[int], int]:
    """Return a draw that returns these numbers."""
    numbers = iter(drawn)
    return lambda _: next(numbers)


@with_each("count", COUNTS)
@with_each("strategy", STRATEGIES)
def test_every_key_goes_where_the_real_client_sends_it(strategy: Any, count: int) -> None:
    """Keys that are empty or whose FNV-1a is the least integer included."""
    partitions, partitioner = Partitions.from_count(count), strategy.make()
    ours = [partitioner.choose(key, partitions).partition for key in [*KEYS, *LEAST_FNV1A]]
    assert ours == RECORDED[f"{strategy.name} {count}"]


def test_sarama_draws_for_records_without_a_key_among_partitions_with_a_leader() -> None:
    """Anew for each record, in the order of their numbers."""
    producer = Producer(Sarama(SARAMA["hash"]), in_turn(0, 1, 2, 0))
    assert [producer.choose("topic", None, LEADERLESS).partition for _ in range(4)] == [0, 2, 3, 0]


def test_sarama_fails_where_no_partition_has_a_leader() -> None:
    """ErrLeaderNotAvailable; a key has its partition all the same."""
    leaderless = Partitions([Partition(0, None), Partition(1, None)])
    producer = Producer(Sarama(SARAMA["hash"]), in_turn())
    with pytest.raises(InputError, match="ErrLeaderNotAvailable"):
        producer.choose("topic", None, leaderless)
    assert producer.choose("topic", "a", leaderless) == producer.choose("topic", "a", Partitions.from_count(2))


def test_franz_go_keeps_a_partition_until_a_new_batch() -> None:
    """And then takes another: if the same is drawn again, the next one."""
    producer = Producer(FranzGo(FRANZ_GO["murmur2"]), in_turn(1, 1, 2))

    def two() -> list[int | None]:
        return [producer.choose("topic", None, LEADERLESS).partition for _ in range(2)]

    assert two() == [2, 2]
    producer.handle("topic", NewBatch(2), LEADERLESS)
    assert two() == [3, 3]
    producer.handle("topic", NewBatch(3), LEADERLESS)
    assert two() == [0, 0]


def test_franz_go_draws_again_when_there_are_fewer_partitions_to_write_to() -> None:
    """The position it keeps must be among them."""
    producer = Producer(FranzGo(FRANZ_GO["murmur2"]), in_turn(3, 1))
    assert producer.choose("topic", None, Partitions.from_count(4)).partition == 3
    assert producer.choose("topic", None, LEADERLESS).partition == 2


def test_franz_go_draws_among_all_partitions_where_none_has_a_leader() -> None:
    """As the Java client does."""
    producer = Producer(FranzGo(FRANZ_GO["murmur2"]), in_turn(1))
    leaderless = Partitions([Partition(0, None), Partition(1, None)])
    assert producer.choose("topic", None, leaderless).partition == 1
