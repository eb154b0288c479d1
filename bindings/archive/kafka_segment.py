"""Segment files of Kafka's log: record batches one after another, in a folder called ``<topic>-<partition>``.

A batch is read if its CRC-32C is right. One that is not is told and passed over by its length; where the length is
wrong too, reading goes on at the next bytes that are a whole batch. A batch that the file ends in is the torn tail of a
broker that was killed, or of one that is still writing. Compaction leaves gaps between offsets, which are no fault.
Batches of the versions 0 and 1, which brokers before 0.11 wrote, are told and not read.

Which exchange and routing key a record is, a `bindings.archive.mapping.Mapping` says. Headers of Kafka are bytes
without a type: they are read as longstr, a null as void, and of several with one name the last counts.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.fields import TABLE
from bindings.archive.kafka_batches import HEADER_BYTES, Bytes, Header, Records, header_at, is_whole, records_of
from bindings.archive.mapping import USUAL, Mapping
from bindings.archive.names import escaped, text_array_of_bytes
from bindings.archive.reading import SPLIT_BYTES, Bad, Bias, Format, Item, Skipped, Split, sample_of
from bindings.archive.record import EARLIEST, LATEST, SCHEMA, empty_column
from exchange.errors import InputError

__all__ = ["KafkaSegment", "Mapped"]

COMPANIONS: Final = (".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
COMPANION_NAMES: Final = frozenset({
    "leader-epoch-checkpoint", "partition.metadata", "meta.properties", "bootstrap.checkpoint", "quorum-state",
    "cleaner-offset-checkpoint", "log-start-offset-checkpoint", "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
})  # fmt: skip
FOLDER: Final = re.compile(r"(.+)-(\d+)")
MAGIC_PLACE: Final = 16
UNSOUND: Final = "not a record batch, or a damaged one"
TORN: Final = "the file ends in the middle of a record batch"


@dataclass(frozen=True)
class KafkaSegment(Format):
    """Kafka's segment files."""

    mapping: Mapping = USUAL

    name: ClassVar[str] = "Kafka segment"
    bias: ClassVar[Bias] = Bias.SURVIVORS
    note: ClassVar[str] = "exchange and routing key of records are where --exchange and --routing-key say"

    def recognises(self, head: bytes, path: Path) -> bool:
        """Whether it begins with a batch, and one that is whole if all of it is there."""
        if len(head) < HEADER_BYTES:
            return False
        header = header_at(head)
        return header.seems_sound and (header.size > len(head) or is_whole(head, header))

    def is_companion(self, path: Path) -> bool:
        return path.suffix in COMPANIONS or path.name in COMPANION_NAMES

    def plan(self, path: str, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        """Splits begin with batches, which are found by walking from one header to the next."""
        with Mapped(path) as data:
            starts = [0]
            place = 0
            while place + HEADER_BYTES <= len(data):
                if place - starts[-1] >= split_bytes:
                    starts.append(place)
                header = header_at(data, place)
                place = place + header.size if header.seems_sound else _next_sound(data, place + 1)
            return [Split(path, *pair) for pair in zip(starts, [*starts[1:], len(data)], strict=True)]

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        topic = _topic(split.path)
        with Mapped(split.path) as data:
            end = len(data) if split.end is None else split.end
            place = split.start
            while place < end:
                behind, trouble = _batch_at(data, place, end)
                if trouble is not None:
                    yield Bad(split.path, place, trouble, sample_of(data[place : place + 100]))
                else:
                    yield from self._batch(data[place:behind], split.path, place, topic, columns)
                place = behind

    def _batch(self, data: bytes, path: str, place: int, topic: str, columns: Sequence[str] | None) -> Iterator[Item]:
        header = header_at(data)
        if header.is_control:
            yield Skipped("a marker of a transaction", header.records)
            return
        if not header.records:  # compaction keeps the last batch of a producer without its records
            return
        try:
            records = records_of(data, header)
        except InputError as error:
            yield Bad(path, place, f"a record batch that {error}", sample_of(data))
            return
        yield from _Rows(records, path, topic, self.mapping).items(SCHEMA.names if columns is None else columns)


class _Rows:
    """The records of a batch as rows of the schema."""

    def __init__(self, records: Records, path: str, topic: str, mapping: Mapping) -> None:
        self._records = records
        self._count = len(records.offsets)
        self._path = path
        self._topic = topic
        self._mapping = mapping

    def items(self, columns: Sequence[str]) -> Iterator[Item]:
        """The rows, and a word on those without an exchange or routing key."""
        exchange, key = self._place(self._mapping.exchange), self._place(self._mapping.routing_key)
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
            return pa.array([None if text is None else escaped(text)] * self._count, pa.string())
        if place == "key":
            return text_array_of_bytes(self._records.keys.of(self._records.data))
        return self._header(place.removeprefix("header:"))

    def _header(self, name: str) -> pa.StringArray:
        """One header of each record, null where it has none."""
        names = self._records.header_keys.of(self._records.data)
        found = np.flatnonzero(np.asarray(pc.equal(names, name.encode("utf-8", "surrogateescape"))))
        owners = np.repeat(np.arange(self._count), self._records.header_counts)
        last = np.full(self._count, -1, np.int64)
        last[owners[found]] = found  # of equal places the last is kept
        values = self._records.header_values.of(self._records.data)
        return text_array_of_bytes(values.take(pa.array(np.maximum(last, 0), mask=last < 0)))

    def _column(self, name: str) -> pa.Array:
        records = self._records
        if name == "time":
            return _times(records.timestamps)
        if name == "headers":
            return self._headers()
        if name == "body":
            return pc.fill_null(records.values.of(records.data), b"")
        if name == "body_size":
            return pa.array(np.maximum(records.values.lengths, 0))
        if name == "source":
            return pa.array([self._path] * self._count, pa.string())
        if name == "offset":
            return pa.array(records.offsets)
        return empty_column(name, self._count)

    def _headers(self) -> pa.MapArray:
        records = self._records
        if not len(records.header_keys.lengths):
            return empty_column("headers", self._count)
        keys = text_array_of_bytes(records.header_keys.of(records.data))
        values = text_array_of_bytes(records.header_values.of(records.data))
        counts = records.header_counts
        owners = np.repeat(np.arange(self._count), counts)
        codes = np.asarray(keys.dictionary_encode().indices).astype(np.int64) * self._count + owners
        _, backwards = np.unique(codes[::-1], return_index=True)
        if len(backwards) != len(codes):  # the last of each name is kept
            kept = np.sort(len(codes) - 1 - backwards)
            keys, values = keys.take(pa.array(kept)), values.take(pa.array(kept))
            counts = np.bincount(owners[kept], minlength=self._count)
        kinds = pc.if_else(values.is_valid(), "longstr", "void")
        fields = pa.StructArray.from_arrays([kinds, values], fields=list(TABLE.item_type))
        ends = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        return pa.MapArray.from_arrays(ends, keys, fields, TABLE)


def _times(milliseconds: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    known = (milliseconds >= 0) & (milliseconds <= LATEST // 1000) & (milliseconds >= EARLIEST // 1000)
    times = np.where(known, milliseconds, 0) * 1000
    return pa.array(times, mask=~known).view(SCHEMA.field("time").type)


class Mapped:
    """A file as bytes, without reading it all. Raises InputError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> Bytes:
        try:
            with Path(self._path).open("rb") as file:
                size = file.seek(0, 2)
                self._data: Bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        except OSError as error:
            raise InputError(f"{self._path}: cannot be read: {error.strerror}") from None
        return self._data

    def __exit__(self, *_: object) -> None:
        if isinstance(self._data, mmap.mmap):
            self._data.close()


def _topic(path: str) -> str:
    folder = Path(path).resolve().parent.name
    found = FOLDER.fullmatch(folder)
    return found[1] if found else folder


def _batch_at(data: Bytes, place: int, end: int) -> tuple[int, str | None]:
    """Where reading goes on behind a batch, and what is wrong with it, if anything."""
    if place + HEADER_BYTES > len(data):
        if not any(data[place:]):
            return len(data), None if place == len(data) else "zeros where a record batch should be"
        return len(data), TORN
    header = header_at(data, place)
    if header.magic in (0, 1) and 14 <= header.length <= len(data) - place - 12:
        return min(place + header.size, end), f"a message of Kafka's old format {header.magic}, which is not read"
    if header.seems_sound:
        behind = place + header.size
        if behind <= len(data):
            if is_whole(data[place:behind], header):
                return behind, None
            if behind == len(data) or _sound_at(data, behind):
                return behind, "a record batch whose checksum is wrong"
    found = _next_whole(data, place + 1, end)
    if found is not None:
        return found, UNSOUND
    return end, TORN if header.seems_sound else UNSOUND


def _sound_at(data: Bytes, place: int) -> bool:
    return place + HEADER_BYTES <= len(data) and header_at(data, place).seems_sound


def _next_sound(data: Bytes, place: int) -> int:
    """The next byte at which there is a header that can be one; the end of the data if there is none."""
    while True:
        magic = data.find(b"\x02", place + MAGIC_PLACE)
        if magic < 0 or magic - MAGIC_PLACE + HEADER_BYTES > len(data):
            return len(data)
        place = magic - MAGIC_PLACE
        if header_at(data, place).seems_sound:
            return place
        place += 1


def _next_whole(data: Bytes, place: int, end: int) -> int | None:
    """The next byte before the end at which there is a whole batch."""
    while (place := _next_sound(data, place)) < end:
        header: Header = header_at(data, place)
        if place + header.size <= len(data) and is_whole(data[place : place + header.size], header):
            return place
        place += 1
    return None
