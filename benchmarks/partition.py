"""What the partition of a key costs: in a column of keys, and for one key alone, beside librdkafka's own function.

Tables are in microseconds a key, so 0.1 is 10 million keys a second on one core. The floor of a column is to read the
same bytes once, as 64-bit integers that numpy adds up; Arrow's ``dictionary_encode``, which has a hash of its own in
C++ and a table besides, is a peer, and so are loops over the keys.
"""

from __future__ import annotations

import random
import uuid
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import confluent_kafka
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measure import Contestant, microseconds_per, run_rounds, show, time_call
from benchmarks.workloads import SEED
from exchange.partition import Partitions
from exchange.partition.batch import partition_batch
from exchange.partition.hashing.hashes import murmur2, to_positive
from exchange.partition.partitioning.specification import parse_partitioner

COUNT: Final = 12
"""Partitions."""

ALONE: Final = 20_000
"""Number of keys that are partitioned one by one."""


def partition(quick: bool) -> None:
    """Columns of keys as users have them, and each key alone."""
    number = 100_000 if quick else 1_000_000
    for name, keys in SHAPES.items():
        _column(name, keys(random.Random(SEED), number), rounds=5 if quick else 9)
    for name, keys in SHAPES.items():
        if name != "one-long":
            _alone(name, keys(random.Random(SEED), ALONE), rounds=5 if quick else 9)


def _orders(chance: random.Random, number: int) -> list[str]:
    return [f"order-{chance.randrange(10, 1_000_000)}" for _ in range(number)]


def _uuids(chance: random.Random, number: int) -> list[str]:
    return [str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(number)]


def _mixed(chance: random.Random, number: int) -> list[str]:
    text = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789.-", k=5_000))
    starts = [chance.randrange(len(text) - 200) for _ in range(number)]
    return [text[start : start + chance.randint(10, 200)] for start in starts]


def _one_long(chance: random.Random, number: int) -> list[str]:
    return [*_orders(chance, number - 1), "x" * 1_000_000]


SHAPES: Final[Mapping[str, Callable[[random.Random, int], list[str]]]] = {
    "orders": _orders,
    "uuids": _uuids,
    "mixed": _mixed,
    "one-long": _one_long,
}
"""Name -> keys: order-123456, UUIDs of 36 bytes, 10 to 200 bytes, and orders with one key of a megabyte."""

IN_COLUMNS: Final = ("kafka.murmur2", "librdkafka.consistent_random", "sarama.hash", "rabbitmq.super_stream",
                     "kafka.scala_0_8")  # fmt: skip


def _column(name: str, keys: list[str], rounds: int) -> None:
    column = pa.array(keys, pa.string())
    written = [key.encode() for key in keys]
    few = keys[:ALONE]
    partitioner, partitions = parse_partitioner("kafka.murmur2"), Partitions.from_count(COUNT)
    data = np.frombuffer(column.buffers()[2], np.uint8)
    words = data[: len(data) & -8].view(np.uint64)
    found = partition_batch("kafka.murmur2", column, COUNT).tolist()
    wrong = sum(map(int.__ne__, found, [confluent_kafka.murmur2(key, COUNT) for key in written]))
    rows: list[Contestant] = [
        Contestant("numpy.sum", lambda: _per_key(words.sum, keys), "floor"),
        *(Contestant(strategy, _batch(strategy, column)) for strategy in IN_COLUMNS),
        Contestant("kafka.murmur2, list of str", _batch("kafka.murmur2", keys)),
        Contestant("dictionary_encode", lambda: _per_key(lambda: pc.dictionary_encode(column), keys), "peer"),
        Contestant("zlib.crc32", lambda: microseconds_per(zlib.crc32, written), "peer", "a loop in C"),
        Contestant("librdkafka", lambda: _librdkafka(written), "peer", f"a loop in Python; differs on {wrong} keys"),
        Contestant(
            "one by one",
            lambda: microseconds_per(lambda key: partitioner.choose(key, partitions), few),
            "peer",
            "Partitioner.choose",
        ),
    ]
    about = f"{len(keys):,} keys in an Arrow array, {sum(map(len, written)) / len(keys):.1f} bytes each on average"
    show(f"partition, {name}", about, run_rounds(rows, rounds))
    print("  million keys/s/core: " + ", ".join(f"{row.name} {1 / row.cost:.1f}" for row in rows[1:7] if row.cost))


def _batch(strategy: str, keys: Any) -> Callable[[], float]:
    partitioner, partitions = parse_partitioner(strategy), Partitions.from_count(COUNT)
    return lambda: _per_key(lambda: partition_batch(partitioner, keys, partitions), keys)


def _per_key(work: Callable[[], object], keys: Any) -> float:
    return time_call(work)[0] / len(keys) * 1e6


def _librdkafka(keys: list[bytes]) -> float:
    return _per_key(lambda: [confluent_kafka.murmur2(key, COUNT) for key in keys], keys)


def _alone(name: str, keys: list[str], rounds: int) -> None:
    """Compare single calls: confluent_kafka's function and ours take the bytes of a key."""
    written = [key.encode() for key in keys]
    partitioner, partitions = parse_partitioner("kafka.murmur2"), Partitions.from_count(COUNT)
    rows = [
        Contestant("confluent_kafka.murmur2", lambda: microseconds_per(_in_librdkafka, written), "floor"),
        Contestant("murmur2, toPositive, %", lambda: microseconds_per(_in_python, written)),
        Contestant(
            "Partitioner.choose", lambda: microseconds_per(lambda key: partitioner.choose(key, partitions), keys)
        ),
    ]
    show(f"partition, {name}, one key a call", f"{len(keys):,} keys", run_rounds(rows, rounds))


def _in_librdkafka(key: bytes) -> int:
    return int(confluent_kafka.murmur2(key, COUNT))


def _in_python(key: bytes) -> int:
    return to_positive(murmur2(key)) % COUNT
