"""Compute the partitions of a whole column of keys: what `Partitioner.choose` returns, at a fraction of its cost.

``RULES`` lists the partitioners whose keys are hashed all at once. Clients differ in what a missing and an empty key
mean, so for these two the partitioner's own ``partition_of`` is called, once for each piece of the column. Every other
partitioner's ``partition_of`` is called for each distinct key of a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from exchange.arrays.columns import Column, Keys, count_items, split_column
from exchange.partition.batch.hashes import HashArray, crc32, fnv1a, java_string_hash, murmur2, murmur3
from exchange.partition.clients.go import FranzGo, Sarama
from exchange.partition.clients.kafka import Keyed, KeyedOneCounter, Scala
from exchange.partition.clients.key_hash import ABSOLUTE_FNV1A, CRC32, MURMUR2, POSITIVE_FNV1A, UNSIGNED_FNV1A
from exchange.partition.clients.librdkafka import ROWS, Librdkafka
from exchange.partition.clients.rabbitmq import SuperStream
from exchange.partition.clients.rocketmq.selectors import ByHash, ByHash40, GoHash
from exchange.partition.hashing.hashes import STREAM_SEED
from exchange.partition.partitioner import Key, Partitioner
from exchange.partition.partitioning.specification import parse_partitioner
from exchange.partition.partitions import Partitions

PartitionArray = npt.NDArray[np.int32]

UNDECIDED: Final = -1
"""In place of a partition id: the key does not decide the partition."""


def partition_batch(partitioner: Partitioner | str, keys: Keys, partitions: Partitions | int) -> PartitionArray:
    """Return the id of the partition for each key, ``UNDECIDED`` where the key does not decide.

    ``partitioner`` is a partitioner or its text, ``librdkafka.consistent_random``; ``keys`` is a column, see
    `exchange.arrays.columns.Keys`. Raises InputError if the client cannot take one of the keys.
    """
    if isinstance(partitioner, str):
        partitioner = parse_partitioner(partitioner)
    if isinstance(partitions, int):
        partitions = Partitions.from_count(partitions)
    rule_of = RULES.get(type(partitioner))
    rule = rule_of(partitioner) if rule_of else None
    result = np.empty(count_items(keys), np.int32)
    start = 0
    for piece in split_column(keys):
        chosen: PartitionArray | list[int] | None = None
        if isinstance(piece, Column):
            if rule and (piece.text or not rule.texts_only):
                chosen = _apply_rule(rule, partitioner, piece, partitions)
            if chosen is None:
                chosen = _choose_one_by_one(partitioner, piece.objects(), partitions)
        else:
            chosen = _choose_one_by_one(partitioner, piece, partitions)
        result[start : start + len(chosen)] = chosen
        start += len(chosen)
    return result


class HashRule(NamedTuple):
    """How the partition of a key that is neither null nor empty is computed."""

    hash: Callable[[Column], HashArray]
    to_index: Callable[[HashArray], HashArray]
    """Function from the hash to an integer; the index is to_index(hash) % count."""
    texts_only: bool = False
    """Whether the rule holds for texts only, because the client treats bytes differently or refuses them."""
    by_position: bool = False
    """Whether the index is a position in the order of the partitions, and not the id of a partition."""
    exception: int | None = None
    """Hash to which the rule does not apply: a piece of the column with this hash is chosen for key by key."""


def _unsigned(values: HashArray) -> HashArray:
    return values


def _positive(values: HashArray) -> HashArray:
    return values & np.uint32(0x7FFFFFFF)


def _absolute(values: HashArray) -> HashArray:
    """Return the absolute values of ints; of the least int, 2147483648."""
    return np.abs(values.view(np.int32)).view(np.uint32)


def _scala_absolute(values: HashArray) -> HashArray:
    """Return the absolute values of ints; of the least int, 0 (`kafka.utils.Utils.abs`)."""
    return _absolute(values) & np.uint32(0x7FFFFFFF)


KEY_HASHES: Final[Mapping[Any, HashRule]] = MappingProxyType({
    CRC32: HashRule(crc32, _unsigned),
    MURMUR2: HashRule(murmur2, _positive),
    ABSOLUTE_FNV1A: HashRule(fnv1a, _absolute),
    POSITIVE_FNV1A: HashRule(fnv1a, _positive),
    UNSIGNED_FNV1A: HashRule(fnv1a, _unsigned),
})  # fmt: skip

RULES: Final[Mapping[type[Partitioner], Callable[[Any], HashRule | None]]] = MappingProxyType({
    Keyed: lambda _: KEY_HASHES[MURMUR2],
    KeyedOneCounter: lambda _: KEY_HASHES[MURMUR2],
    Scala: lambda _: HashRule(java_string_hash, _scala_absolute, texts_only=True),
    Librdkafka: lambda partitioner: KEY_HASHES.get(ROWS[partitioner.partitioner].other),
    Sarama: lambda partitioner: KEY_HASHES.get(partitioner.key_hash),
    FranzGo: lambda partitioner: KEY_HASHES.get(partitioner.key_hash),
    SuperStream: lambda _: HashRule(partial(murmur3, seed=STREAM_SEED), _unsigned, by_position=True),
    # With Java's %, abs(hash % count) equals abs(hash) % count if the abs of the least int is 2147483648.
    ByHash: lambda _: HashRule(java_string_hash, _absolute, texts_only=True, by_position=True),
    ByHash40: lambda _: HashRule(java_string_hash, _absolute, texts_only=True, by_position=True, exception=0x8000_0000),
    GoHash: lambda _: HashRule(fnv1a, _unsigned, texts_only=True, by_position=True),
})  # fmt: skip
"""Class of a partitioner -> function that returns a partitioner's rule, None if its hash is not in this module."""


def _apply_rule(
    rule: HashRule, partitioner: Partitioner, column: Column, partitions: Partitions
) -> PartitionArray | None:
    """Return the partitions of a column's keys; None if one of them has the rule's ``exception`` as its hash."""
    hashes = rule.hash(column)
    if rule.exception is not None and (hashes == rule.exception).any():
        return None
    chosen = (rule.to_index(hashes) % np.uint32(partitions.count)).astype(np.int32)
    if rule.by_position:
        chosen = np.array([partition.id for partition in partitions], np.int32)[chosen]
    empty = column.lengths == 0
    if empty.any():
        chosen[empty] = _choose_id(partitioner, "" if column.text else b"", partitions)
    if column.valid is not None and not column.valid.all():
        chosen[~column.valid] = _choose_id(partitioner, None, partitions)
    return chosen


def _choose_one_by_one(partitioner: Partitioner, keys: Sequence[Key], partitions: Partitions) -> list[int]:
    known: dict[Key, int] = {}
    chosen = []
    for key in keys:
        if type(key) not in (str, bytes):  # 1, 1.0 and True are equal in Python, but different keys
            chosen.append(_choose_id(partitioner, key, partitions))
            continue
        partition = known.get(key)
        if partition is None:
            partition = known[key] = _choose_id(partitioner, key, partitions)
        chosen.append(partition)
    return chosen


def _choose_id(partitioner: Partitioner, key: Key, partitions: Partitions) -> int:
    partition = partitioner.partition_of(key, partitions)
    return UNDECIDED if partition is None else partition
