"""Convert Kafka's records to rows: exchange, routing key, headers, and extra headers for what AMQP has no field for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.fields import TABLE
from bindings.archive.kafka.batches import RecordColumns
from bindings.archive.mapping import FieldMapping
from bindings.archive.names import decode_bytes_array, escape
from bindings.archive.reading import Bad, Item
from bindings.archive.record import EARLIEST_TIME, LATEST_TIME, SCHEMA, TOMBSTONE, make_empty_column
from bindings.archive.routing_keys import NAMES

PREFIX: Final = "x-kafka-"
ESCAPED: Final = "x-kafka-header-"
TOPIC: Final = "x-kafka-topic"
KEY: Final = "x-kafka-key"
"""The same names as in `bridge.interop`."""


def build_items(
    records: RecordColumns, source: str, topic: str, mapping: FieldMapping, columns: Sequence[str]
) -> Iterator[Item]:
    """Yield the records of a topic as rows with these columns, and `Bad` for those without exchange or routing key.

    The routing key of a record without a key is empty.
    """
    return _Rows(records, source, topic, mapping).items(columns)


class _Rows:
    """Builds the columns of the schema from the records of a batch."""

    def __init__(self, records: RecordColumns, path: str, topic: str, mapping: FieldMapping) -> None:
        self._records = records
        self._count = len(records.offsets)
        self._path = path
        self._topic = topic
        self._mapping = mapping

    def items(self, columns: Sequence[str]) -> Iterator[Item]:
        """Yield the rows, and `Bad` for records without exchange or routing key."""
        exchange, key = self._place(self._mapping.exchange), self._place(self._mapping.routing_key)
        if self._mapping.allows_no_key:
            key = key.fill_null("")  # a message without a key; `_marks` keeps that it has none
        arrays = {"exchange": exchange, "routing_key": key}
        batch = pa.RecordBatch.from_arrays(
            [arrays[name] if name in arrays else self._column(name) for name in columns],
            schema=pa.schema([SCHEMA.field(name) for name in columns]),
        )
        if not exchange.null_count and not key.null_count:
            yield batch
            return
        for column, what, place in (
            (exchange, "exchange", self._mapping.exchange), (key, "routing key", self._mapping.routing_key)
        ):  # fmt: skip
            for row in np.flatnonzero(np.asarray(column.is_null())).tolist():
                offset = int(self._records.offsets[row])
                yield Bad(self._path, offset, f"a record without {place}, which is to be its {what}")
        there = pc.and_(exchange.is_valid(), key.is_valid())
        if pc.any(there).as_py():
            yield batch.filter(there)

    def _place(self, place: str) -> pa.StringArray:
        if place in ("topic", "tag") or place.startswith("="):
            text = {"topic": self._topic, "tag": None}.get(place, place[1:])
            return pa.array([None if text is None else escape(text)] * self._count, pa.string())
        if place == "key":
            return decode_bytes_array(self._records.keys.extract(self._records.data))
        return self._header(place.removeprefix("header:"))

    def _header(self, name: str) -> pa.StringArray:
        """Return the value of this header of each record; null if a record lacks it."""
        names = self._records.header_keys.extract(self._records.data)
        positions = np.flatnonzero(np.asarray(pc.equal(names, name.encode("utf-8", "surrogateescape"))))
        owners = np.repeat(np.arange(self._count), self._records.header_counts)
        last = np.full(self._count, -1, np.int64)
        last[owners[positions]] = positions  # if a record has the header twice, numpy assigns the later position last
        values = self._records.header_values.extract(self._records.data)
        return decode_bytes_array(values.take(pa.array(np.maximum(last, 0), mask=last < 0)))

    def _column(self, name: str) -> pa.Array:
        records = self._records
        if name == "time":
            return _build_times(records.timestamps)
        if name == "headers":
            return self._headers()
        if name == "body":
            return records.values.extract(records.data)
        if name == "body_size":
            return pa.array(np.maximum(records.values.lengths, 0))
        if name == "source":
            return pa.array([escape(self._path)] * self._count, pa.string())
        if name == "offset":
            return pa.array(records.offsets)
        return make_empty_column(name, self._count)

    def _headers(self) -> pa.MapArray:
        records = self._records
        marks = self._marks()
        if not len(records.header_keys.lengths) and not marks:
            return make_empty_column("headers", self._count)
        names = decode_bytes_array(records.header_keys.extract(records.data))
        ours = pc.or_(pc.starts_with(names, PREFIX), pc.is_in(names, NAMES))
        if pc.any(ours).as_py():  # a producer's own header must not be mistaken for a mark, or for CC
            names = pc.if_else(ours, pc.binary_join_element_wise(ESCAPED, names, ""), names)
        values = decode_bytes_array(records.header_values.extract(records.data))
        kinds = pc.if_else(values.is_valid(), "longstr", "void")
        own = _Fields(np.repeat(np.arange(self._count), records.header_counts), names, kinds, values)
        # Sort by record. The sort is stable, so the marks of a record come before its own headers.
        owners, names, kinds, values = (_concatenate(columns) for columns in zip(*marks, own, strict=True))
        order = np.argsort(owners, kind="stable")
        owners, names, kinds, values = owners[order], names.take(order), kinds.take(order), values.take(order)
        codes = np.asarray(names.dictionary_encode().indices).astype(np.int64) * self._count + owners
        _, backwards = np.unique(codes[::-1], return_index=True)  # first from the end, so the last header of each name
        if len(backwards) != len(codes):
            kept = np.sort(len(codes) - 1 - backwards)
            owners, names, kinds, values = owners[kept], names.take(kept), kinds.take(kept), values.take(kept)
        fields = pa.StructArray.from_arrays([kinds, values], fields=list(TABLE.item_type))
        counts = np.bincount(owners, minlength=self._count)
        ends = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        return pa.MapArray.from_arrays(ends, names, fields, TABLE)

    def _marks(self) -> list[_Fields]:
        """Return the marks: headers for what a row cannot hold otherwise (topic, key, and that there is no value)."""
        records = self._records
        without_value = records.values.lengths < 0
        is_elsewhere = "key" not in (self._mapping.exchange, self._mapping.routing_key)
        marked = np.flatnonzero(without_value | is_elsewhere | (records.keys.lengths < 0))
        if not len(marked):
            return []
        keys = decode_bytes_array(records.keys.extract(records.data)).take(marked)
        tombstones = np.flatnonzero(without_value)
        return [
            _Fields.repeat(marked, TOPIC, "longstr", escape(self._topic)),
            _Fields.repeat(marked, KEY, "longstr", "")._replace(
                kinds=pc.if_else(keys.is_valid(), "longstr", "void"), values=keys
            ),
            _Fields.repeat(tombstones, TOMBSTONE, "bool", "true"),
        ]


class _Fields(NamedTuple):
    """Headers of records, as parallel columns."""

    owners: np.ndarray[tuple[int], np.dtype[np.int64]]
    """Index of the record that each header belongs to."""
    names: pa.StringArray
    kinds: pa.StringArray
    values: pa.StringArray

    @classmethod
    def repeat(cls, owners: np.ndarray[tuple[int], np.dtype[np.int64]], name: str, kind: str, value: str) -> _Fields:
        """Return the same header for each of these records."""
        return cls(owners, *[pa.array([text] * len(owners), pa.string()) for text in (name, kind, value)])


def _concatenate(columns: Sequence[Any]) -> Any:
    return np.concatenate(columns) if isinstance(columns[0], np.ndarray) else pa.concat_arrays(columns)


def _build_times(milliseconds: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    known = (milliseconds >= 0) & (milliseconds <= LATEST_TIME // 1000) & (milliseconds >= EARLIEST_TIME // 1000)
    times = np.where(known, milliseconds, 0) * 1000
    return pa.array(times, mask=~known).view(SCHEMA.field("time").type)
