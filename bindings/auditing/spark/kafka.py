"""Audit a topic of Kafka through Spark's own connector: ``kafka://host:port[,host:port]/topic``.

The connector is a separate package, which ``--packages`` adds to Spark. Its rows go unchanged to the worker that
counts, and the code that reads Kafka's segment files turns them into records, with the same mapping and headers. The
query of the URL has options for the connector, under its own names: ``startingOffsets``, ``endingOffsets``,
``startingTimestamp``, ``maxOffsetsPerTrigger``, ``kafka.security.protocol`` and so on.

A batch query reads the records that the topic holds when the query begins. A stream reads from the beginning of the
topic, unless ``startingOffsets`` is given, and its checkpoint keeps its position: see
`bindings.auditing.spark.streaming`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.kafka.batches import ByteRanges, Places, RecordColumns
from bindings.archive.kafka.rows import build_items
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.reading import Item
from bindings.auditing.local.run import Pass
from bindings.auditing.local.selection import EVERYTHING, Selection
from bindings.auditing.local.study import Study
from bindings.auditing.local.tasks import borrow_counters, find_needed_columns, order_for
from bindings.auditing.spark.frames import run_on
from bindings.sources.address import parse_address
from exchange.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

SCHEME: Final = "kafka://"
CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")


class SubscribedTopic(NamedTuple):
    """A topic with its brokers and options of the connector."""

    brokers: str
    name: str
    options: tuple[tuple[str, str], ...] = ()
    """Options of the connector, as pairs of name and value."""


def parse_topic(url: str) -> SubscribedTopic:
    """Return the topic that a URL names. Raises InputError, with an example, for an invalid URL."""
    example = "kafka://localhost:9092/orders"
    address = parse_address(url, ("kafka",), example)
    name = unquote(address.path.removeprefix("/"))
    if not name or "/" in name:
        raise InputError(f"an address that names no topic; write {example}")
    if address.login:
        raise InputError("the address of a topic takes no user and password: give them to the connector by --conf")
    return SubscribedTopic(address.hosts, name, tuple(parse_qsl(address.query, keep_blank_values=True)))


def run_on_topic(
    spark: SparkSession,
    topic: SubscribedTopic,
    studies: Sequence[Study[Any]],
    selection: Selection = EVERYTHING,
    mapping: FieldMapping = USUAL,
    *,
    max_bad: int | None = None,
) -> Pass:
    """Read the records that a topic holds now, once for all studies.

    Raises InputError if the connector is not installed; `bindings.auditing.local.tasks.TooManyBad` if more than
    ``max_bad`` records are bad.
    """
    rows = _load(spark, spark.read, topic, needs_headers(studies, selection, mapping))
    return run_on(rows, studies, selection, read=partial(read, mapping=mapping), max_bad=max_bad)


def read_rows_to_follow(spark: SparkSession, topic: SubscribedTopic, *, headers: bool) -> DataFrame:
    """Return a streaming DataFrame of a topic's present and future rows, for `read`.

    Raises InputError if the connector is not installed.
    """
    return _load(spark, spark.readStream, topic, headers)


def _load(
    spark: SparkSession, reader: DataFrameReader | DataStreamReader, topic: SubscribedTopic, headers: bool
) -> DataFrame:
    options = {
        "startingOffsets": "earliest", **dict(topic.options), "kafka.bootstrap.servers": topic.brokers,
        "subscribe": topic.name, "includeHeaders": str(headers).lower(),
    }  # fmt: skip
    try:
        rows = reader.format("kafka").options(**options).load()
        return rows.select(*COLUMNS, *(("headers",) if headers else ()))
    except Exception as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error) and "data source: kafka" not in str(error):
            raise
        package = f"{CONNECTOR}:{spark.version}"
        raise InputError(
            f"Spark's connector for Kafka is not installed; add --conf spark.jars.packages={package}, "
            f"or to spark-submit --packages {package}"
        ) from None


def needs_headers(studies: Sequence[Study[Any]], selection: Selection, mapping: FieldMapping) -> bool:
    """Return whether the audit reads the headers of records; the connector leaves them out by default."""
    with borrow_counters(order_for(studies, selection)) as counters:
        columns = find_needed_columns(counters, selection)
    return {"headers", "cc", "bcc"}.intersection(columns) != set() or any(
        origin.startswith("header:") for origin in (mapping.exchange, mapping.routing_key)
    )


def read(batch: pa.RecordBatch, columns: Sequence[str], mapping: FieldMapping = USUAL) -> Iterator[Item]:
    """Yield the records in rows of the connector, and `Bad` for rows without an exchange or routing key."""
    topics, partitions = batch.column("topic"), np.asarray(batch.column("partition"))
    ends = np.flatnonzero(np.diff(partitions)) + 1
    for start, end in zip([0, *ends.tolist()], [*ends.tolist(), len(partitions)], strict=True):
        if start < end:
            topic = topics[start].as_py()
            source = f"kafka:{topic}-{partitions[start]}"
            yield from build_items(_records(batch.slice(start, end - start)), source, topic, mapping, columns)


def _records(batch: pa.RecordBatch) -> RecordColumns:
    """Return rows of the connector as `RecordColumns`, as if they were read from a record batch."""
    columns = [batch.column("key"), batch.column("value")]
    counts = np.zeros(batch.num_rows, np.int64)
    if "headers" in batch.schema.names:
        lists = batch.column("headers")
        counts = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
        headers = lists.flatten()
        columns += [headers.field("key").cast(pa.binary()), headers.field("value")]
    else:
        columns += [pa.array([], pa.binary())] * 2
    spans: list[ByteRanges] = []
    pieces: list[np.ndarray[Any, Any]] = []
    size = 0
    for column in columns:
        data, bounds = _split_bytes(column)
        lengths = np.where(np.asarray(column.is_valid()), np.diff(bounds), -1)
        spans.append(ByteRanges(bounds[:-1] + size, lengths))
        pieces.append(data)
        size += len(data)
    times = np.asarray(pc.fill_null(batch.column("timestamp").cast(pa.int64()), -1000)) // 1000
    offsets = np.asarray(batch.column("offset"))
    return RecordColumns(np.concatenate(pieces), offsets, times, spans[0], spans[1], counts, spans[2], spans[3])


def _split_bytes(column: pa.BinaryArray) -> tuple[np.ndarray[Any, Any], Places]:
    """Return the bytes of a column, and its n + 1 boundaries: value i is ``data[bounds[i] : bounds[i + 1]]``."""
    column = column.cast(pa.large_binary())
    _, ends, data = column.buffers()
    bounds = (
        np.frombuffer(ends, np.int64, len(column) + 1, column.offset * 8) if ends is not None else np.zeros(1, np.int64)
    )
    return np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8), bounds
