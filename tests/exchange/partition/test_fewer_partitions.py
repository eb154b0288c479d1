"""Producers whose topic has fewer partitions than before, as one that was made anew: none is chosen that is gone."""

from __future__ import annotations

from random import Random

from exchange.errors import InputError
from exchange.partition import Appended, Partitions, Producer
from exchange.partition.partitioning import Partitioning
from exchange.partition.partitioning.strategies import STRATEGIES
from tests.support.cases import with_each
from tests.support.partition_keys import PARAMETERS


@with_each("name", sorted(STRATEGIES))
def test_a_partition_that_is_gone_is_not_chosen(name: str) -> None:
    partitioner = Partitioning.parse(f"{name}{PARAMETERS.get(name, '')} over 7 by routing_key").partitioner
    for seed in range(20):
        producer = Producer(partitioner, Random(seed).randrange)
        for count in (7, 1, 5, 2):
            partitions = Partitions.from_count(count)
            for key in (None, "", "a", None):
                try:
                    chosen = producer.choose("t", key, partitions).partition
                except InputError:
                    continue
                assert chosen is None or chosen in partitions
                producer.handle("t", Appended(100), partitions)
