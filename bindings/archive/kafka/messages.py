"""Decode messages of Kafka's formats 0 and 1 (`LegacyRecord.java`), which brokers before 0.11 wrote, into columns.

A message is a record, or it wraps messages of the formats 0 and 1 that are compressed together
(`AbstractLegacyRecordBatch.java`). Wrapped messages of format 0 have the offsets of their records; those in a wrapper
of format 1 have offsets within it, and the wrapper has the offset of the last one. A record of format 1 has a
timestamp; if the broker set it, the timestamp of the wrapper counts for all records in it.

Records are read as Kafka's consumers read them: a message that is not whole at the end of its wrapper is no record, and
each record's CRC is checked. Wrappers in wrappers are refused, so messages nest one level deep.
"""

from __future__ import annotations

import zlib
from array import array
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bindings.archive.kafka.batches import ByteRanges, Places, RecordColumns
from bindings.archive.kafka.header import CODEC, FIELDS, LEAST_LENGTHS, LOG_APPEND_TIME, MESSAGE, OLD, Header
from bindings.archive.kafka.packing import LZ4, mend_lz4, unpack
from bindings.archive.mapped import Bytes, Effort
from bindings.archive.reading import BATCH_ROWS
from exchange.errors import InputError

CRC_START: Final = 16
"""Position in a message of the first byte that its CRC covers."""
RUN_BYTES: Final = 16 << 20
"""Number of bytes after which no further message is added to a run."""
NOTHING: Final = np.zeros(0, np.int64)


class Run(NamedTuple):
    """Consecutive messages that are not compressed, read together."""

    records: RecordColumns
    end: int
    """The byte at which the last message ends."""


def read_message(data: bytes, header: Header) -> RecordColumns:
    """Return the records of a whole message, which begins at byte 0 of the data: itself, or those that it wraps.

    Its header must seem sound. Raises InputError if Kafka's consumers could not read the messages in it.
    """
    records, _ = _decode(data[: header.size], np.zeros(1, np.int64), np.full(1, header.size))
    codec = header.attributes & CODEC
    if not codec:
        return records
    start, length = int(records.values.starts[0]), int(records.values.lengths[0])
    if length < 0:
        raise InputError("has no messages in it, though it is compressed")
    packed = data[start : start + length]
    unpacked = unpack(codec, mend_lz4(packed) if codec == LZ4 and header.magic == 0 else packed)
    starts, ends = _find_wrapped(unpacked)
    wrapped, fits = _decode(unpacked, starts, ends)
    if not fits.all():
        raise InputError("has a message in it whose key or value does not fit")
    offsets, times = wrapped.offsets, wrapped.timestamps
    if header.magic == 1:
        if header.attributes & LOG_APPEND_TIME:
            times = np.where(wrapped.data[starts + 16] == 1, records.timestamps[0], times)
        if header.base_offset:  # 0 may come from some versions of librdkafka, which do not set it
            base = header.base_offset - int(offsets[-1])
            if base < 0:
                raise InputError("has a lower offset than the last record in it")
            offsets = offsets + base
    return wrapped._replace(offsets=offsets, timestamps=times)


def take_plain_messages(data: Bytes, place: int, stop: int, floor: int, effort: Effort) -> Run | None:
    """Return the messages from ``place`` on that are whole, not compressed and in order; None if there is none.

    Messages are in order if their offsets rise from above ``floor``. Those that begin before ``stop`` are taken, up to
    one batch of rows. A message whose offset is not the next one is left if no message in order follows it: its own
    offset may be the damaged one. What is left is for the reader of single batches, which reports damage.
    """
    starts, offsets = array("q"), array("q")
    at, last, size = place, floor, len(data)
    most = min(stop, place + RUN_BYTES)
    while at < most and at + MESSAGE.size <= size and len(starts) < BATCH_ROWS:
        offset, length, crc, magic, attributes = MESSAGE.unpack_from(data, at)
        end = at + 12 + length
        if (
            magic not in OLD
            or attributes & ~LOG_APPEND_TIME
            or length < LEAST_LENGTHS[magic]
            or offset <= last
            or end > size
            or not effort.allows(end, end - at)
            or zlib.crc32(data[at + CRC_START : end]) != crc
        ):
            break
        starts.append(at)
        offsets.append(offset)
        at, last = end, offset
    if starts and offsets[-1] != (offsets[-2] if len(offsets) > 1 else floor) + 1:
        at = starts.pop()
    if not starts:
        return None
    raw = bytes(data[place:at])
    begins = np.frombuffer(starts, np.int64) - place
    ends = np.append(begins[1:], at - place)
    records, fits = _decode(raw, begins, ends)
    if fits.all():
        return Run(records, at)
    count = int(np.argmin(fits))
    if not count:
        return None
    at = place + int(ends[count - 1])
    return Run(_decode(raw, begins[:count], ends[:count])[0], at)


def _find_wrapped(data: bytes) -> tuple[Places, Places]:
    """Return the positions at which each message in a wrapper begins and ends, without one that is not whole."""
    starts, ends = array("q"), array("q")
    place, size = 0, len(data)
    view = memoryview(data)
    while place + MESSAGE.size <= size:
        _, length, crc, magic, attributes = MESSAGE.unpack_from(data, place)
        if magic not in OLD or length < LEAST_LENGTHS[magic]:
            raise InputError("has a message in it that is not Kafka's")
        end = place + 12 + length
        if end > size:
            break
        if attributes & CODEC:
            raise InputError("has a message in it that is compressed again")
        if zlib.crc32(view[place + CRC_START : end]) != crc:
            raise InputError("has a message in it whose checksum is wrong")
        starts.append(place)
        ends.append(end)
        place = end
    if not starts:
        raise InputError("has no messages in it, though it is compressed")
    return np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64)


def _decode(data: bytes, starts: Places, ends: Places) -> tuple[RecordColumns, npt.NDArray[np.bool_]]:
    """Return messages as records, and a mask of those whose key and value fit in them; the others are not right."""
    bytes_of = np.frombuffer(data, np.uint8)
    has_time = bytes_of[starts + 16] == 1
    times = np.full(len(starts), -1, np.int64)
    times[has_time] = _read_numbers(bytes_of, starts[has_time] + FIELDS, ">i8")
    at = starts + FIELDS + 8 * has_time
    spans: list[ByteRanges] = []
    fits = np.ones(len(starts), bool)
    for _ in range(2):  # the key, then the value
        fits &= at + 4 <= ends
        at = np.where(fits, at, starts)  # what does not fit is not right, but must not lead out of the data
        lengths = np.maximum(_read_numbers(bytes_of, at, ">i4"), -1)  # any negative length is null, as in Kafka
        at = at + 4
        spans.append(ByteRanges(at, lengths))
        at = at + np.maximum(lengths, 0)
        fits &= at <= ends
    fits &= at == ends
    offsets = _read_numbers(bytes_of, starts, ">i8")
    none = ByteRanges(NOTHING, NOTHING)
    keys, values = spans
    return RecordColumns(bytes_of, offsets, times, keys, values, np.zeros(len(starts), np.int64), none, none), fits


def _read_numbers(data: npt.NDArray[np.uint8], places: Places, kind: str) -> Places:
    """Return the numbers at these places; ``kind`` is the name of their type in numpy."""
    width = np.dtype(kind).itemsize
    numbers: Places = data[places[:, None] + np.arange(width)].view(kind).ravel().astype(np.int64)
    return numbers
