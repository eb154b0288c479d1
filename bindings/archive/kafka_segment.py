"""Segment files of Kafka's log: record batches one after another, in a folder called ``<topic>-<partition>``.

A record of a transaction that was aborted is skipped, and so is one of a transaction whose end is not in the archive:
what is left is what a consumer gets that reads what is committed. `bindings.archive.kafka_transactions` finds the ends.

A batch is read if its CRC-32C is right. One that is not is told and passed over by its length; where the length is
wrong too, reading goes on at the next bytes that are a whole batch. A batch that the file ends in is the torn tail of a
broker that was killed, or of one that is still writing. Compaction leaves gaps between offsets, which are no fault.
Messages of the formats 0 and 1, which brokers before 0.11 wrote, are told and not read. Zeros up to the end are what a
broker keeps free in a file that has its size beforehand.

Which exchange and routing key a record is, a `bindings.archive.mapping.Mapping` says. Headers of Kafka are bytes
without a type: they are read as longstr, a null as void, and of several with one name the last counts.

AMQP has no null bodies and no keys beside the routing key. So a record without a value (a tombstone), and each record
where neither exchange nor routing key is its key, has headers as a bridge gives it: ``x-kafka-topic``, ``x-kafka-key``
(void where there is none) and ``x-kafka-tombstone``. A bridge that replays it to Kafka makes the same record of it. A
header of the record's own whose name begins with ``x-kafka-`` has ``x-kafka-header-`` in front.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.fields import TABLE
from bindings.archive.kafka_batches import (
    GREATEST,
    HEADER_BYTES,
    Header,
    Records,
    header_at,
    is_whole,
    next_sound,
    records_of,
)
from bindings.archive.kafka_transactions import SEGMENT, Ends
from bindings.archive.mapped import Bytes, Mapped, is_zero
from bindings.archive.mapping import USUAL, Mapping
from bindings.archive.names import escaped, text_array_of_bytes
from bindings.archive.reading import SPLIT_BYTES, Bad, Bias, Format, Item, Settled, Skipped, Split, ranges, sample_of
from bindings.archive.record import EARLIEST, LATEST, SCHEMA, empty_column
from exchange.errors import InputError

__all__ = ["KafkaSegment", "Mapped", "items_of", "topic_of"]

COMPANIONS: Final = (
    ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint", ".deleted", ".cleaned", ".swap",
)  # fmt: skip
"""The last three are of segments that have been replaced, or have not yet replaced others (`LogFileUtils`)."""
DOUBLES: Final = re.compile(r".+-\d+\.[0-9a-f]{32}-(?:delete|future|stray)")
"""Folders of partitions that are to be deleted, or not yet there."""
COMPANION_NAMES: Final = frozenset({
    "leader-epoch-checkpoint", "partition.metadata", "meta.properties", "bootstrap.checkpoint", "quorum-state",
    "cleaner-offset-checkpoint", "log-start-offset-checkpoint", "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
})  # fmt: skip
FOLDER: Final = re.compile(r"(.+)-(\d+)")
UNSOUND: Final = "not a record batch, or a damaged one"
TORN: Final = "the file ends in the middle of a record batch"
NOTHING: Final = ""
"""What is wrong where there are but zeros."""
OLD_LEAST: Final = 14
"""Of a message of format 0, behind its length."""
PREFIX: Final = "x-kafka-"
ESCAPED: Final = "x-kafka-header-"
TOPIC: Final = "x-kafka-topic"
KEY: Final = "x-kafka-key"
TOMBSTONE: Final = "x-kafka-tombstone"
"""As `bridge.mapping` calls them."""
MARKER: Final = "a marker of a transaction"
ABORTED: Final = "a record of a transaction that was aborted"
NOT_ENDED: Final = "a record of a transaction whose end is not in the archive"


@dataclass(frozen=True)
class KafkaSegment(Format):
    """Kafka's segment files."""

    mapping: Mapping = USUAL

    name: ClassVar[str] = "Kafka segment"
    grows: ClassVar[bool] = True
    bias: ClassVar[Bias] = Bias.SURVIVORS
    note: ClassVar[str] = "exchange and routing key of records are where --exchange and --routing-key say"

    def recognises(self, head: bytes, path: Path) -> bool:
        """Whether it begins with a batch, a whole one if all of it is there, or is a segment yet to be filled."""
        if SEGMENT.fullmatch(path.name) and not any(head):
            return True
        if len(head) < HEADER_BYTES:
            return False
        header = header_at(head)
        if header.magic in OLD:
            return _is_old(head, 0)
        return header.seems_sound and (header.size > len(head) or is_whole(head, header))

    def is_companion(self, path: Path) -> bool:
        if path.suffix in COMPANIONS or path.name in COMPANION_NAMES:
            return True
        return path.suffix == ".log" and DOUBLES.fullmatch(path.parent.name) is not None

    def plan(self, path: str, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        """Splits begin with batches: those that the file's index names, else those found from header to header."""
        if len(ranges(path, split_bytes)) == 1:
            return [Split(path)]
        with Mapped(path) as data:
            starts = _indexed(path, data, split_bytes)
            place = starts[-1]
            while place + HEADER_BYTES <= len(data):
                if place - starts[-1] >= split_bytes:
                    starts.append(place)
                header = header_at(data, place)
                place = place + header.size if header.seems_sound else next_sound(data, place + 1)
            return [Split(path, *pair) for pair in pairwise([*starts, len(data)])]

    def settled(self, path: str, start: int = 0, split_bytes: int = SPLIT_BYTES) -> Settled:
        """All batches up to the last that is there; if that one is not whole, up to it.

        A transaction that has not ended stops it, as it stops a consumer that reads what is committed.
        """
        with Mapped(path) as data:
            starts, last, place = [start], start, start
            ends = Ends(path, data)
            while place + HEADER_BYTES <= len(data):
                header = header_at(data, place)
                if header.seems_sound and _skipped(header, place, ends) == Skipped(NOT_ENDED, header.records):
                    break
                behind = place + header.size if header.seems_sound else next_sound(data, place + 1)
                if behind > len(data) or (behind == len(data) and not header.seems_sound):
                    break
                if place - starts[-1] >= split_bytes:
                    starts.append(place)
                last, place = place, behind
            if place > last and not is_whole(data[last:place], header_at(data, last)):
                place = last  # it may be in the making; once something follows, it is told
            splits = [Split(path, *pair, exact=True) for pair in pairwise([*starts, place]) if pair[0] < pair[1]]
            return Settled(splits, place, is_open=place < len(data))

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        topic = topic_of(split.path)
        with Mapped(split.path) as data:
            end = len(data) if split.end is None else split.end
            ends = Ends(split.path, data)
            place = split.start
            while place < end:
                behind, trouble = _batch_at(data, place, end)
                if trouble is None:
                    skipped = _skipped(header_at(data, place), place, ends)
                    if skipped is None:
                        yield from self._batch(data[place:behind], split.path, place, topic, columns)
                    else:
                        yield skipped
                elif trouble != NOTHING:
                    yield Bad(split.path, place, trouble, sample_of(data[place : place + 100]))
                place = behind

    def _batch(self, data: bytes, path: str, place: int, topic: str, columns: Sequence[str] | None) -> Iterator[Item]:
        header = header_at(data)
        if not header.records:  # compaction keeps the last batch of a producer without its records
            return
        try:
            records = records_of(data, header)
        except InputError as error:
            yield Bad(path, place, f"a record batch that {error}", sample_of(data))
            return
        yield from items_of(records, path, topic, self.mapping, SCHEMA.names if columns is None else columns)


def items_of(records: Records, source: str, topic: str, mapping: Mapping, columns: Sequence[str]) -> Iterator[Item]:
    """Records of one topic as rows with these columns, and a word on those without an exchange or routing key."""
    return _Rows(records, source, topic, mapping).items(columns)


def _skipped(header: Header, place: int, ends: Ends) -> Skipped | None:
    """A batch of no publishings."""
    if header.is_control:
        return Skipped(MARKER, header.records)
    if not header.is_transactional or not header.records:
        return None
    is_committed = ends.is_committed(header, place)
    if is_committed:
        return None
    return Skipped(NOT_ENDED if is_committed is None else ABORTED, header.records)


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
            return pa.array([escaped(self._path)] * self._count, pa.string())
        if name == "offset":
            return pa.array(records.offsets)
        return empty_column(name, self._count)

    def _headers(self) -> pa.MapArray:
        records = self._records
        marks = self._marks()
        if not len(records.header_keys.lengths) and not marks:
            return empty_column("headers", self._count)
        names = text_array_of_bytes(records.header_keys.of(records.data))
        ours = pc.starts_with(names, PREFIX)
        if pc.any(ours).as_py():  # what a producer calls so is not to be taken for one of the marks
            names = pc.if_else(ours, pc.binary_join_element_wise(ESCAPED, names, ""), names)
        values = text_array_of_bytes(records.header_values.of(records.data))
        kinds = pc.if_else(values.is_valid(), "longstr", "void")
        own = _Fields(np.repeat(np.arange(self._count), records.header_counts), names, kinds, values)
        # In the order of records, and of each its marks first.
        owners, names, kinds, values = (_joined(columns) for columns in zip(*marks, own, strict=True))
        order = np.argsort(owners, kind="stable")
        owners, names, kinds, values = owners[order], names.take(order), kinds.take(order), values.take(order)
        codes = np.asarray(names.dictionary_encode().indices).astype(np.int64) * self._count + owners
        _, backwards = np.unique(codes[::-1], return_index=True)
        if len(backwards) != len(codes):  # the last of each name is kept
            kept = np.sort(len(codes) - 1 - backwards)
            owners, names, kinds, values = owners[kept], names.take(kept), kinds.take(kept), values.take(kept)
        fields = pa.StructArray.from_arrays([kinds, values], fields=list(TABLE.item_type))
        counts = np.bincount(owners, minlength=self._count)
        ends = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        return pa.MapArray.from_arrays(ends, names, fields, TABLE)

    def _marks(self) -> list[_Fields]:
        """The headers of records of which exchange, routing key and body do not tell all."""
        records = self._records
        without_value = records.values.lengths < 0
        is_elsewhere = "key" not in (self._mapping.exchange, self._mapping.routing_key)
        marked = np.flatnonzero(without_value | is_elsewhere)
        if not len(marked):
            return []
        keys = text_array_of_bytes(records.keys.of(records.data)).take(marked)
        tombstones = np.flatnonzero(without_value)
        return [
            _Fields.of(marked, TOPIC, "longstr", escaped(self._topic)),
            _Fields.of(marked, KEY, "longstr", "")._replace(
                kinds=pc.if_else(keys.is_valid(), "longstr", "void"), values=keys
            ),
            _Fields.of(tombstones, TOMBSTONE, "bool", "true"),
        ]


class _Fields(NamedTuple):
    """Headers of some records."""

    owners: np.ndarray[tuple[int], np.dtype[np.int64]]
    """The record of each."""
    names: pa.StringArray
    kinds: pa.StringArray
    values: pa.StringArray

    @classmethod
    def of(cls, owners: np.ndarray[tuple[int], np.dtype[np.int64]], name: str, kind: str, value: str) -> _Fields:
        """The same header of each of these."""
        return cls(owners, *[pa.array([text] * len(owners), pa.string()) for text in (name, kind, value)])


def _joined(columns: Sequence[Any]) -> Any:
    return np.concatenate(columns) if isinstance(columns[0], np.ndarray) else pa.concat_arrays(columns)


def _times(milliseconds: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    known = (milliseconds >= 0) & (milliseconds <= LATEST // 1000) & (milliseconds >= EARLIEST // 1000)
    times = np.where(known, milliseconds, 0) * 1000
    return pa.array(times, mask=~known).view(SCHEMA.field("time").type)


def topic_of(path: str) -> str:
    """The topic of a segment file, by the name of its folder."""
    folder = Path(path).resolve().parent.name
    found = FOLDER.fullmatch(folder)
    return found[1] if found else folder


OLD: Final = (0, 1)


def _is_old(data: Bytes, place: int) -> bool:
    """Whether there is a message of one of the old formats: a length, a CRC-32 of what follows it, the format."""
    header = header_at(data, place)
    if header.magic not in OLD or header.base_offset < 0 or not OLD_LEAST <= header.length <= GREATEST:
        return False
    message = data[place + 12 : place + header.size]
    return len(message) < header.length or zlib.crc32(message[4:]) == int.from_bytes(message[:4], "big")


def _batch_at(data: Bytes, place: int, end: int) -> tuple[int, str | None]:
    """Where reading goes on behind a batch, and what is wrong with it, if anything."""
    if is_zero(data, place):
        return len(data), NOTHING
    if place + HEADER_BYTES > len(data):
        return len(data), TORN
    header = header_at(data, place)
    if place + header.size <= len(data) and _is_old(data, place):
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


def _indexed(path: str, data: Bytes, split_bytes: int) -> list[int]:
    """0, and batches about so many bytes apart, of those in the index of a segment; that may be none, or be stale."""
    starts = [0]
    try:
        index = Path(path).with_suffix(".index").read_bytes()
    except OSError:
        return starts
    entries = np.frombuffer(index, ">i4", len(index) // 8 * 2)  # offsets and places, in turn
    places = np.unique(entries[1::2])
    while True:
        following = int(np.searchsorted(places, starts[-1] + split_bytes))
        if following == len(places):
            return starts
        place = int(places[following])
        if place + HEADER_BYTES > len(data) or not _is_whole_at(data, place):
            return starts
        starts.append(place)


def _is_whole_at(data: Bytes, place: int) -> bool:
    header = header_at(data, place)
    return header.seems_sound and is_whole(data[place : place + header.size], header)


def _sound_at(data: Bytes, place: int) -> bool:
    return place + HEADER_BYTES <= len(data) and header_at(data, place).seems_sound


def _next_whole(data: Bytes, place: int, end: int) -> int | None:
    """The next byte before the end at which there is a whole batch."""
    while (place := next_sound(data, place)) < end:
        header: Header = header_at(data, place)
        if place + header.size <= len(data) and is_whole(data[place : place + header.size], header):
            return place
        place += 1
    return None
