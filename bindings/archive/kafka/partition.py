"""Read the folder of a partition: its log's offsets and sizes, its producers and their transactions, its records.

The state of producers is that of the newest snapshot, advanced by the batches behind it, as a broker has it after it
has loaded the log (`ProducerStateManager`). Producers that it has forgotten since the snapshot, because they were
silent for long, are still in it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from bindings.archive.figures import Timestamp
from bindings.archive.kafka.batches import ByteRanges, RecordColumns, read_records
from bindings.archive.kafka.header import Header
from bindings.archive.kafka.messages import Run, read_message
from bindings.archive.kafka.side_files import (
    SEQUENCES,
    AbortedTransaction,
    EpochStart,
    ProducerState,
    parse_id,
    read_aborted,
    read_epochs,
    read_or_report,
    read_properties,
    read_snapshot,
)
from bindings.archive.kafka.transactions import TransactionEnd, TransactionEnds
from bindings.archive.kafka.walk import SEGMENT, SegmentWalk, split_stretches
from bindings.archive.mapped import Mapped
from bindings.archive.reading import Bad, Split
from bindings.archive.sums import Unread
from exchange.errors import InputError, name_os_errors
from exchange.text.numbers import is_digits

EPOCHS: Final = "leader-epoch-checkpoint"
METADATA: Final = "partition.metadata"
MARKER: Final = struct.Struct(">hi")
"""The value of a marker: its version, and the epoch of the coordinator that wrote it (`EndTxnMarker`)."""


class LoggedRecord(NamedTuple):
    """A record of a partition with its key and value; None is null."""

    offset: int
    time: int
    """Milliseconds since 1970; -1 if it has none."""
    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class PartitionFacts:
    """The facts of a partition, from its folder alone."""

    topic: str
    partition: int
    topic_id: UUID | None = None
    """None before Kafka 2.8."""
    start_offset: int = 0
    """Offset at which the first segment begins."""
    end_offset: int = 0
    """Offset behind the last record."""
    segments: int = 0
    size: int = 0
    """Size of the segments in bytes, up to the end of the last whole batch."""
    batches: int = 0
    """Number of batches, with markers; a message of format 0 or 1 is one."""
    records: int = 0
    """Number of records that are no markers."""
    markers: int = 0
    """Number of markers of transactions, and of other control records."""
    bad: int = 0
    """Number of batches and stretches of bytes that could not be read."""
    first_time: Timestamp | None = None
    """Least and greatest time of batches."""
    last_time: Timestamp | None = None
    formats: set[int] = field(default_factory=set)
    """Message formats of the batches."""
    epochs: tuple[EpochStart, ...] = ()
    producers: dict[int, ProducerState] = field(default_factory=dict)
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def by_id(self) -> list[ProducerState]:
        """The producers, sorted by id."""
        return sorted(self.producers.values(), key=lambda producer: producer.producer_id)

    @property
    def open_transactions(self) -> list[ProducerState]:
        """Producers with a transaction that has not ended, by its first offset."""
        found = [(each.open_since, each) for each in self.producers.values() if each.open_since is not None]
        return [each for _, each in sorted(found, key=lambda pair: pair[0])]


def list_segments(folder: Path) -> list[Path]:
    """Return the segments in the folder of a partition, in the order of their offsets. Raises InputError."""
    with name_os_errors(folder):
        return sorted(path for path in folder.iterdir() if SEGMENT.fullmatch(path.name))


def inspect_partition(folder: Path, topic: str, partition: int, problems: Unread) -> PartitionFacts:
    """Return the facts of the partition in a folder; what is wrong with the files beside its segments goes to problems.

    Raises InputError if the folder or a segment cannot be opened.
    """
    facts = PartitionFacts(topic, partition)
    segments = list_segments(folder)
    facts.segments = len(segments)
    facts.start_offset = facts.end_offset = int(segments[0].name[:20]) if segments else 0
    replayed_from = _read_side_files(folder, facts, problems)
    for path in segments:
        _read_segment(path, facts, replayed_from)
    return facts


def _read_side_files(folder: Path, facts: PartitionFacts, problems: Unread) -> int:
    """Read what is beside the segments; return the offset up to which the snapshot of producers is."""
    facts.epochs = read_or_report(folder / EPOCHS, read_epochs, problems) or ()
    properties = read_or_report(folder / METADATA, read_properties, problems) or {}
    facts.topic_id = parse_id(properties.get("topic_id", ""))
    aborted: list[AbortedTransaction] = []
    for path in sorted(folder.glob("*.txnindex")):
        try:
            aborted += read_aborted(path)
        except InputError as error:
            problems.add_bad(Bad(str(path), 0, str(error)))
    facts.aborted = tuple(aborted)
    for path in sorted(folder.glob("[0-9]*.snapshot"), reverse=True):  # the newest that can be read
        if not is_digits(path.stem):
            continue
        producers = read_or_report(path, read_snapshot, problems)
        if producers is not None:
            facts.producers = producers
            return int(path.stem)
    return 0


def _read_segment(path: Path, facts: PartitionFacts, replayed_from: int) -> None:
    """Add the batches of a segment to the facts."""
    with Mapped(str(path)) as data:
        for start, stop, floor in split_stretches(Split(str(path)), data, len(data)):
            walk = SegmentWalk(str(path), data, start, stop, floor)
            base = facts.size
            for step in walk.steps():
                if isinstance(step, Bad):
                    facts.bad += 1
                    continue
                if isinstance(step, Run):
                    _add_old(facts, step.records, len(step.records.offsets))
                    facts.size = base + step.end - start
                    continue
                header = step.header
                # The last offset is not compared with the records, as they are not unpacked here.
                walk.accept(header.base_offset, header.base_offset)
                if header.is_old:
                    try:
                        _add_old(facts, read_message(data[step.place : step.end], header), 1)
                    except InputError:
                        facts.bad += 1
                else:
                    _add_batch(facts, header)
                    if header.producer_id >= 0 and header.base_offset >= replayed_from:
                        _advance(facts.producers, header, data[step.place : step.end])
                facts.size = base + step.end - start


def _add_old(facts: PartitionFacts, records: RecordColumns, batches: int) -> None:
    facts.batches += batches
    facts.records += len(records.offsets)
    facts.formats.update(int(each) for each in {1 if time >= 0 else 0 for time in records.timestamps.tolist()})
    facts.end_offset = max(facts.end_offset, int(records.offsets.max()) + 1)
    times = records.timestamps[records.timestamps >= 0]
    if len(times):
        _add_times(facts, int(times.min()), int(times.max()))


def _add_batch(facts: PartitionFacts, header: Header) -> None:
    facts.batches += 1
    facts.formats.add(header.magic)
    if header.is_control:
        facts.markers += header.records
    else:
        facts.records += header.records
    facts.end_offset = max(facts.end_offset, header.last_offset + 1)
    if header.max_timestamp >= 0:
        _add_times(facts, max(header.base_timestamp, 0), header.max_timestamp)


def _add_times(facts: PartitionFacts, first: int, last: int) -> None:
    facts.first_time = first if facts.first_time is None else min(facts.first_time, first)
    facts.last_time = last if facts.last_time is None else max(facts.last_time, last)


def _advance(producers: dict[int, ProducerState], header: Header, data: bytes) -> None:
    """Apply a batch to the state of its producer (`ProducerAppendInfo`)."""
    state = producers.get(header.producer_id, ProducerState(header.producer_id, header.producer_epoch))
    if state.epoch != header.producer_epoch:  # what an earlier epoch wrote does not count
        state = replace(state, epoch=header.producer_epoch, last_sequence=-1, last_offset=-1)
    if header.is_control:
        try:
            records = read_records(data, header)
            _, coordinator = MARKER.unpack_from(_bytes_of(records, records.values, 0) or b"")
        except (InputError, struct.error, IndexError):
            return
        state = replace(state, coordinator_epoch=coordinator, last_time=header.max_timestamp, open_since=None)
    elif header.records:
        last = header.base_sequence + header.last_offset_delta
        state = replace(
            state,
            last_sequence=last - SEQUENCES if last >= SEQUENCES else last,
            last_offset=header.last_offset,
            last_time=header.max_timestamp,
            open_since=header.base_offset if header.is_transactional and state.open_since is None else state.open_since,
        )
    producers[header.producer_id] = state


def read_partition_records(folder: Path, problems: Unread) -> Iterator[LoggedRecord]:
    """Yield the records in a partition's folder that a consumer of committed records gets, in order.

    What cannot be read is added to the problems. Raises InputError if a segment cannot be opened.
    """
    for path in list_segments(folder):
        yield from read_committed(path, problems)


def read_committed(path: Path, problems: Unread) -> Iterator[LoggedRecord]:
    """Yield the records of a segment outside of transactions and of committed ones. Raises as
    `read_partition_records`.
    """
    with Mapped(str(path)) as data:
        ends = TransactionEnds(str(path), data)
        for start, stop, floor in split_stretches(Split(str(path)), data, len(data)):
            walk = SegmentWalk(str(path), data, start, stop, floor)
            for step in walk.steps():
                if isinstance(step, Bad):
                    problems.add_bad(step)
                    continue
                if isinstance(step, Run):
                    yield from _to_records(step.records)
                    continue
                header = step.header
                walk.accept(header.base_offset, header.base_offset)
                is_pending = header.is_transactional and ends.end_of(header, step.place) is not TransactionEnd.COMMIT
                if header.is_control or is_pending or not header.records:
                    continue
                batch = data[step.place : step.end]
                try:
                    records = read_message(batch, header) if header.is_old else read_records(batch, header)
                except InputError as error:
                    problems.add_bad(Bad(str(path), step.place, f"a {step.noun} that {error}"))
                    continue
                yield from _to_records(records)


def _to_records(records: RecordColumns) -> Iterator[LoggedRecord]:
    for row, (offset, time) in enumerate(zip(records.offsets.tolist(), records.timestamps.tolist(), strict=True)):
        key, value = _bytes_of(records, records.keys, row), _bytes_of(records, records.values, row)
        yield LoggedRecord(offset, time, key, value)


def _bytes_of(records: RecordColumns, spans: ByteRanges, row: int) -> bytes | None:
    start, length = int(spans.starts[row]), int(spans.lengths[row])
    return None if length < 0 else records.data[start : start + length].tobytes()
