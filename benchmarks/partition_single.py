"""What one key a call costs, in each strategy in which the key decides: keys that are new, and keys that come again.

Figures are in microseconds a call of `Partitioner.partition_of`, and of `Partitioner.choose`, which also returns the
hash and the rule, for texts of 8, 20 and 64 bytes; medians of the rounds. New keys are more than any cache here holds.
Hashes of murmur2 and FNV-1a come from librdkafka, as in a program that has imported ``confluent_kafka``; ``in Python``
are the same without it; ``compiled`` are hashes that numba compiled, see `compile_hashes`.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from statistics import median
from typing import Any, Final

import confluent_kafka

from benchmarks.measure import microseconds_per
from benchmarks.workloads import SEED
from exchange.errors import InputError
from exchange.partition import Partitions, compile_hashes
from exchange.partition.hashing import hashes, librdkafka
from exchange.partition.partitioner import Partitioner
from exchange.partition.partitioning.specification import parse_partitioner
from exchange.partition.partitioning.strategies import STRATEGIES

SIZES: Final = (8, 20, 64)
"""Bytes of a key."""
NEW: Final = 2 * hashes.KEYS
"""Number of keys of which none comes again before it is forgotten."""
AGAIN: Final = 1_000
PARAMETERS: Final = {"kafka.nearest": "(rack=eu)", "rocketmq.machine_room": "(consumeridcs=eu)"}
"""Strategies that choose nothing without these."""
COMPILED: Final = (
    "rabbitmq.super_stream", "rabbitmq.consistent_hash", "rabbitmq.modulus_hash", "rocketmq.grpc_java",
    "rocketmq.grpc_proxy",
)  # fmt: skip
IN_PYTHON: Final = ("kafka.murmur2", "sarama.hash", "sarama.reference_hash")


def partition_single(quick: bool) -> None:
    """Measure each strategy."""
    rounds = 3 if quick else 9
    chance = random.Random(SEED)
    keys = {size: ["".join(chance.choices(string.printable, k=size)) for _ in range(NEW)] for size in SIZES}
    print(f"\npartition, one key a call: us, median of {rounds}; keys of {', '.join(map(str, SIZES))} bytes")
    heads = ("partition_of, new keys", f"{AGAIN:,} keys again", "choose, new keys", "again")
    print(f"  {'':<34}{''.join(f'{head:>24}' for head in heads)}")
    _show_row("confluent_kafka.murmur2", {size: _bytes_of(keys[size]) for size in SIZES}, (_murmur2,), rounds)
    for name in STRATEGIES:
        partitioner, partitions = parse_partitioner(name + PARAMETERS.get(name, "")), _partitions_for(name)
        if _decides(partitioner, partitions):
            _show_strategy(name, keys, partitioner, partitions, rounds)
    with _without_librdkafka():
        for name in IN_PYTHON:
            _show_strategy(f"{name}, in Python", keys, parse_partitioner(name), _partitions_for(name), rounds)
    compile_hashes()
    for name in COMPILED:
        _show_strategy(f"{name}, compiled", keys, parse_partitioner(name), _partitions_for(name), rounds)


def _show_strategy(
    name: str, keys: dict[int, list[str]], partitioner: Partitioner, partitions: Partitions, rounds: int
) -> None:
    calls = (lambda key: partitioner.partition_of(key, partitions), lambda key: partitioner.choose(key, partitions))
    _show_row(name, keys, calls, rounds)


def _show_row(name: str, keys: dict[int, list[Any]], calls: tuple[Callable[[Any], object], ...], rounds: int) -> None:
    figures = []
    for call in calls:
        new = [_measure(call, keys[size], rounds) for size in SIZES]
        again = [_measure(call, keys[size][:AGAIN] * 10, rounds) for size in SIZES]
        figures += [new, again]
    print(f"  {name:<34}" + "".join(f"{'  '.join(f'{figure:.2f}' for figure in row):>24}" for row in figures))


def _measure(call: Callable[[Any], object], keys: list[Any], rounds: int) -> float:
    return median(microseconds_per(call, keys) for _ in range(rounds))


@cache
def _partitions_for(name: str) -> Partitions:
    return Partitions.queues({"eu@a": 6, "eu@b": 6}) if STRATEGIES[name].lists_queues else Partitions.from_count(12)


def _decides(partitioner: Partitioner, partitions: Partitions) -> bool:
    """Return whether a text decides the partition."""
    try:
        return partitioner.partition_of("a text", partitions) is not None
    except InputError:
        return False


def _bytes_of(keys: list[str]) -> list[bytes]:
    return [key.encode() for key in keys]


def _murmur2(key: bytes) -> int:
    return int(confluent_kafka.murmur2(key, 12))


@contextmanager
def _without_librdkafka() -> Iterator[None]:
    """Have keys hashed as in a program that has not imported ``confluent_kafka``."""
    found = librdkafka._found
    librdkafka._found = librdkafka.PYTHON
    try:
        yield
    finally:
        librdkafka._found = found
