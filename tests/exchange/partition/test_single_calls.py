"""The fast way to one partition: that of `choose`, or its error, in every strategy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import Message
from exchange.errors import InputError
from exchange.partition import Partitions
from exchange.partition.hashing import librdkafka
from exchange.partition.partitioner import Choice, Partitioner, PartitionRequest
from exchange.partition.partitioning.key_source import KeySource
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.partitioning.strategies import STRATEGIES
from tests.support.partition_keys import keys, partitioner_for, partitions_for
from tests.support.tiers import examples

ANY_KEY = keys | st.text(min_size=100, max_size=600) | st.integers(0, 11)


def outcome(way: Any, key: Any, partitions: Partitions) -> Any:
    """Return the partition, or the error."""
    try:
        found = way(key, partitions)
    except InputError as error:
        return str(error)
    return found if isinstance(found, int | None) else found.partition


@pytest.mark.parametrize("functions", [None, librdkafka.PYTHON], ids=["librdkafka", "in Python"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_partition_is_that_of_the_choice(name: str, functions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(librdkafka, "_found", functions)
    partitioner, partitions = partitioner_for(name), partitions_for(name)

    @examples(60)
    @given(key=ANY_KEY)
    def law(key: Any) -> None:
        assert outcome(partitioner.partition_of, key, partitions) == outcome(partitioner.choose, key, partitions)

    law()


@pytest.mark.parametrize("name", STRATEGIES)
@examples(30)
@given(key=keys)
def test_a_partitioning_has_both_ways(name: str, key: Any) -> None:
    partitioning = Partitioning(name, partitions_for(name), partitioner=partitioner_for(name))
    assert partitioning.partition_for(key) == partitioning.choose_for(key).partition


@given(st.text(max_size=20), st.sampled_from(["kafka.murmur2", "rocketmq.hash", "rabbitmq.consistent_hash"]))
def test_a_message_has_the_partition_of_its_key(key: str, name: str) -> None:
    partitioning = Partitioning(name, partitions_for(name), KeySource("header", "tenant"))
    message = Message("x", "k", {"tenant": key})
    assert partitioning.partition_of(message) == partitioning.choose(message).partition


def test_a_partitioner_that_reads_more_than_the_key_is_given_the_message() -> None:
    class ByBody(Partitioner):
        reads_record = True

        def answer(self, request: PartitionRequest) -> tuple[Choice, Any]:
            return Choice(len(request.value), None, "its length"), None

    partitioning = Partitioning("mine", Partitions.from_count(9), partitioner=ByBody())
    assert partitioning.partition_of(Message("x", "k", body=b"four")) == 4
