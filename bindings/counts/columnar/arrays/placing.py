"""Compute the partition of a partitioned queue for each row of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.fields import decode_tables
from bindings.archive.names import has_nul, unescape
from exchange.arrays.grouping import decode_dictionary
from exchange.arrays.table import IntArray
from exchange.errors import InputError
from exchange.partition.batch import UNDECIDED, partition_batch
from exchange.partition.partitioning.specification import Partitioning
from exchange.values.message import Message

__all__ = ["columns_of", "partitions_of"]

COLUMN: Final = {"header": "headers", "property": "properties", "body": "body"}
"""Part of a message from which a partitioning may take its key -> column with that part."""


def columns_of(partitionings: Iterable[Partitioning]) -> tuple[str, ...]:
    """Return the columns from which the partitionings take their keys, other than ``routing_key``."""
    parts = {partitioning.key.part for partitioning in partitionings}
    return tuple([column for part, column in COLUMN.items() if part in parts])


def partitions_of(batch: pa.RecordBatch, rows: npt.NDArray[np.intp], partitioning: Partitioning) -> IntArray:
    """Return the partition id of each row; ``UNDECIDED`` where the key does not determine the partition."""
    indices = pa.array(rows)
    source = partitioning.key
    if not source.by_routing_key:
        column = batch.column(COLUMN[source.part]).take(indices)
        return _choose(partitioning, [source.of(message) for message in _messages_with(column, source.part)])
    keys = decode_dictionary(batch.column("routing_key")).take(indices)
    if source.part == "word":
        encoded = keys.dictionary_encode()
        words = [source.of(Message("", unescape(key))) for key in encoded.dictionary.to_pylist()]
        return _choose(partitioning, words).take(np.asarray(encoded.indices))
    return _choose(partitioning, [unescape(key) for key in keys.to_pylist()] if has_nul(keys) else keys)


def _choose(partitioning: Partitioning, keys: Any) -> IntArray:
    if partitioning.partitioner.reads_record:  # a function of the user's own, which no audit calls
        return np.full(len(keys), UNDECIDED, np.int32)
    try:
        return partition_batch(partitioning.partitioner, keys, partitioning.partitions)
    except InputError:  # the client refuses a key: choose for each key alone, so that the other keys get partitions
        listed = keys.to_pylist() if isinstance(keys, pa.Array) else keys
        partitions = [partitioning.partition_for(key) for key in listed]
        return np.array([UNDECIDED if partition is None else partition for partition in partitions], np.int32)


def _messages_with(column: pa.Array, part: str) -> list[Message]:
    """Return one message per row, with only this part set."""
    if part == "body":
        return [Message(body=body or b"") for body in column.to_pylist()]
    tables: list[Mapping[str, Any]] = list(decode_tables(column))
    return [Message(headers=table) if part == "header" else Message(properties=table) for table in tables]
