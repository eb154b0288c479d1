"""Rows of batches: joined, turned into messages for the router, and into partitions of a partitioned queue.

Small batches are joined into larger ones, so that the fixed cost per batch is paid for many rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.fields import decode_tables
from bindings.archive.names import has_nul, unescape
from bindings.archive.routing_keys import HEADERS, give_keys
from exchange.arrays.grouping import decode_dictionary
from exchange.arrays.table import IntArray
from exchange.errors import InputError
from exchange.partition.batch import UNDECIDED, partition_batch
from exchange.partition.partitioning.specification import Partitioning
from exchange.values.message import Message

NEEDED: Final = ("exchange", "routing_key", "cc", "bcc", "headers", "properties")
COLUMN: Final = {"header": "headers", "property": "properties", "body": "body"}
"""Part of a message from which a partitioning may take its key -> column with that part."""


MAX_LIGHT_BYTES: Final = 64 << 20
"""Maximum size of batches that are collected beyond the rows that are enough, in bytes."""


class BatchCollector:
    """Collects batches until they have ``rows`` rows together, and keeps only the given columns.

    While they are light (`MAX_LIGHT_BYTES`), it collects ``most_rows``, which are as many unless that is changed.
    """

    def __init__(self, columns: Sequence[str], rows: int) -> None:
        self._columns: Final = columns
        self._enough: Final = rows
        self.most_rows = rows
        self._batches: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Take a batch, and return the joined batches that are ready: none, one, or two with different schemas.

        A batch with another schema than the waiting ones ends their window early, since they cannot be joined.
        """
        part = batch.select([name for name in batch.schema.names if name in self._columns])
        ready = self.take_rest() if self._batches and part.schema != self._batches[0].schema else []
        self._batches.append(part)
        self._rows += part.num_rows
        self._bytes += part.nbytes
        enough = self.most_rows if self._bytes <= MAX_LIGHT_BYTES else self._enough
        return [*ready, *self.take_rest()] if self._rows >= enough else ready

    def take_rest(self) -> list[pa.RecordBatch]:
        """Return the waiting batches, joined into one; an empty list if no rows wait."""
        batches, rows = self._batches, self._rows
        self._batches, self._rows, self._bytes = [], 0, 0
        if not rows:
            return []
        if len(batches) == 1:
            return batches
        whole = pa.Table.from_batches(batches).combine_chunks()
        columns = [column.chunk(0) for column in whole.columns]
        return [pa.RecordBatch.from_arrays(columns, schema=whole.schema)]


def build_messages(
    batch: pa.RecordBatch, rows: npt.NDArray[np.intp], headers_only: Iterable[str] | None = None
) -> list[Message]:
    """Return rows as messages with exchange, key, headers and properties; the columns cc and bcc become headers.

    With ``headers_only``, only these headers are kept, and CC and BCC are not added.
    """
    names = batch.schema.names
    part = batch.select([n for n in NEEDED if n in names]).take(pa.array(rows))
    texts = zip(part.column("exchange").to_pylist(), part.column("routing_key").to_pylist(), strict=True)
    none: list[dict[str, Any]] = [{} for _ in rows]
    headers = decode_tables(part.column("headers")) if "headers" in names else none
    properties = decode_tables(part.column("properties")) if "properties" in names else none
    if headers_only is not None:
        wanted = tuple(headers_only)
        headers = [{name: table[name] for name in wanted if name in table} for table in headers]
    else:
        give_keys(headers, part)
    columns = zip(texts, headers, properties, strict=True)
    return [Message(unescape(exchange), unescape(key), h, p) for (exchange, key), h, p in columns]


def find_rows_with_copies(batch: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
    """Return a mask of the rows with routing keys in CC or BCC; None if no row has any."""
    result: npt.NDArray[np.bool_] | None = None
    for name in HEADERS:
        if name in batch.schema.names and batch.num_rows:
            offsets = np.asarray(batch.column(name).offsets)
            if offsets[0] != offsets[-1]:
                has_keys = np.diff(offsets) > 0
                result = has_keys if result is None else result | has_keys
    return result


def find_columns(partitionings: Iterable[Partitioning]) -> tuple[str, ...]:
    """Return the columns from which the partitionings take their keys, other than ``routing_key``."""
    parts = {partitioning.key.part for partitioning in partitionings}
    return tuple([column for part, column in COLUMN.items() if part in parts])


def choose_partitions(batch: pa.RecordBatch, rows: npt.NDArray[np.intp], partitioning: Partitioning) -> IntArray:
    """Return the partition id of each row; ``UNDECIDED`` where the key does not determine the partition."""
    indices = pa.array(rows)
    source = partitioning.key
    if not source.by_routing_key:
        column = batch.column(COLUMN[source.part]).take(indices)
        return _choose(partitioning, [source.read(message) for message in _messages_with(column, source.part)])
    keys = decode_dictionary(batch.column("routing_key")).take(indices)
    if source.part == "word":
        encoded = keys.dictionary_encode()
        words = [source.read(Message("", unescape(key))) for key in encoded.dictionary.to_pylist()]
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
