"""Decode Kafka's record batches, version 2 (`DefaultRecordBatch.java`, `DefaultRecord.java`), into columns.

A batch is a header of 61 bytes and records, which are compressed together. The header has a CRC-32C of all bytes after
the CRC. Each record begins with its length, so the ends of records are found one by one. All other fields are read with
numpy for all records of a batch at once, since the position of a field depends on its own record only. Keys, values and
headers stay in the bytes of the batch; columns of `ByteRanges` point into them.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.kafka.header import CODEC, HEADER_BYTES, LOG_APPEND_TIME, Header
from bindings.archive.kafka.packing import unpack
from bindings.archive.mapped import Bytes
from exchange.errors import InputError
from exchange.limits import TABLE_ITEMS

Places = npt.NDArray[np.int64]

LONG_RANGE_BYTES: Final = 256
"""Mean length of ranges, in bytes, above which a loop that copies them costs less than an index of 8 bytes per byte."""
MANY_HEADERS: Final = 64
"""Maximum number of headers of a record that is read together with other records."""
COPIED: Final = 1 << 20
"""Maximum position of a record's end to which bytes are copied for a loop over headers, which indexes them faster."""


class ByteRanges(NamedTuple):
    """Ranges of bytes in a batch, as columns; a null has the length -1."""

    starts: Places
    lengths: Places

    def extract(self, data: npt.NDArray[np.uint8]) -> pa.BinaryArray:
        """Return the bytes of each range as a column."""
        lengths = np.maximum(self.lengths, 0)
        ends = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        if ends[-1] > LONG_RANGE_BYTES * len(lengths):
            view = data.data
            ranges = zip(self.starts.tolist(), (self.starts + lengths).tolist(), strict=True)
            taken = b"".join([view[start:end] for start, end in ranges])
        else:
            taken = data[np.arange(ends[-1]) + np.repeat(self.starts - ends[:-1], lengths)]
        valid = self.lengths >= 0
        mask = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
        buffers = [mask, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(taken)]
        return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


class RecordColumns(NamedTuple):
    """The records of a batch as columns."""

    data: npt.NDArray[np.uint8]
    """The unpacked batch that the ranges are of."""
    offsets: Places
    timestamps: Places
    """Milliseconds since 1970; -1 for a record without a timestamp."""
    keys: ByteRanges
    values: ByteRanges
    header_counts: Places
    header_keys: ByteRanges
    """Names of all headers, in the order of the records."""
    header_values: ByteRanges


def read_records(data: Bytes, header: Header) -> RecordColumns:
    """Return the records of a whole batch. Raises InputError if Kafka could not have written them."""
    unpacked = unpack(header.attributes & CODEC, bytes(data[HEADER_BYTES : header.size]))
    starts, ends = _find_records(unpacked, header.records)
    read = _FieldReader(unpacked, ends)
    read.places = starts + 1  # after the attributes, one byte that is always 0
    deltas = read.varints()
    ordinals = read.varints()
    if len(ordinals) and not 0 <= int(ordinals.min()) <= int(ordinals.max()) <= header.last_offset_delta:
        raise InputError("has a record with an offset that is not in the batch")
    offsets = header.base_offset + ordinals
    keys, values = read.ranges(), read.ranges()
    counts = read.varints()
    # Check each count before the sum, since the sum may overflow to a plausible number.
    if (counts < 0).any() or (counts > TABLE_ITEMS).any() or counts.sum() > len(unpacked):
        raise InputError("has a record with a count of headers that cannot be")
    header_keys, header_values = read.headers(counts)
    if (read.places != ends).any():
        raise InputError("has a record that is longer than what is in it")
    times = header.base_timestamp + deltas
    if header.attributes & LOG_APPEND_TIME:
        times = np.full(header.records, header.max_timestamp, np.int64)
    elif header.base_timestamp < 0:
        times = np.full(header.records, -1, np.int64)
    return RecordColumns(read.data[:-SPARE], offsets, times, keys, values, counts, header_keys, header_values)


def _find_records(data: bytes, count: int) -> tuple[Places, Places]:
    """Return the positions at which each record begins, after its length field, and ends.

    This is the only loop over records in Python, so the decoding of its varint is inlined.
    """
    if count > len(data) // 7 + 1:  # a record has at least 7 bytes
        raise InputError("has fewer records than its header states")
    starts, ends = (array("q", bytes(8 * count)) for _ in range(2))
    place, size = 0, len(data)
    try:
        for n in range(count):
            byte = length = data[place]
            place += 1
            if byte > 127:
                length &= 127
                shift = 7
                while (byte := data[place]) > 127 and shift < 28:
                    length |= (byte & 127) << shift
                    shift += 7
                    place += 1
                length |= byte << shift
                place += 1
            starts[n] = place
            place += length >> 1
            ends[n] = place
            if length & 1 or place > size or byte > 127:
                raise InputError("has a record with a length that cannot be")
    except IndexError:
        raise InputError("has fewer records than its header states") from None
    if place != size:
        raise InputError("has more in it than the records that its header states")
    return np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64)


SPARE: Final = 16
"""Number of zeros after the data, so that a varint which begins inside the data is read without bounds checks."""


class _FieldReader:
    """Reads the same field of all records at once; ``places`` is the position in each record of its next field."""

    def __init__(self, data: bytes, ends: Places) -> None:
        self.data = np.frombuffer(data + bytes(SPARE), np.uint8)
        self._ends = ends
        self.places = ends

    def varints(self, which: Places | None = None) -> Places:
        """Read a zigzag varint of each record, or of the records ``which``."""
        places = self.places if which is None else self.places[which]
        ends = self._ends if which is None else self._ends[which]
        byte = self.data[places]
        values = (byte & 127).astype(np.uint64)
        places = places + 1
        # Most varints have one byte; each round reads one more byte of those that continue.
        longer = np.flatnonzero(byte > 127)
        shift = np.uint64(7)
        while len(longer):
            if shift > 63:
                raise InputError("has a record with a number that does not end")
            byte = self.data[places[longer]]
            values[longer] |= (byte & 127).astype(np.uint64) << shift
            places[longer] += 1
            longer = longer[byte > 127]
            shift += np.uint64(7)
        if (places > ends).any():
            raise InputError("has a record that is shorter than what is in it")
        if which is None:
            self.places = places
        else:
            self.places[which] = places
        return (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64)

    def ranges(self, which: Places | None = None) -> ByteRanges:
        """Read a length and that many bytes of each record, or of the records ``which``; a length of -1 is null."""
        lengths = self.varints(which)
        starts = self.places.copy() if which is None else self.places[which]
        ends = self._ends if which is None else self._ends[which]
        moved = starts + np.maximum(lengths, 0)
        if (lengths < -1).any() or (moved > ends).any() or (moved < starts).any():
            raise InputError("has a record with a length that cannot be")
        if which is None:
            self.places = moved
        else:
            self.places[which] = moved
        return ByteRanges(starts, lengths)

    def headers(self, counts: Places) -> tuple[ByteRanges, ByteRanges]:
        """Read the headers of all records: the first header of each record, then the second one, and so on.

        The result is in the order of the records: header n of a record is at its ``first`` + n. Records with more than
        `MANY_HEADERS` headers are read one by one, so that the number of rounds is bounded.
        """
        total = int(counts.sum())
        first = np.cumsum(counts) - counts
        keys, values = (ByteRanges(np.zeros(total, np.int64), np.zeros(total, np.int64)) for _ in range(2))
        for row in np.flatnonzero(counts > MANY_HEADERS).tolist():
            self._headers_of(row, int(counts[row]), int(first[row]), keys, values)
        counts = np.where(counts > MANY_HEADERS, 0, counts)
        which = np.flatnonzero(counts)
        for n in range(int(counts.max(initial=0))):
            which = which[counts[which] > n]
            rows = first[which] + n
            for into in (keys, values):
                starts, lengths = self.ranges(which)
                into.starts[rows], into.lengths[rows] = starts, lengths
        if (keys.lengths < 0).any():
            raise InputError("has a header without a name")
        return keys, values

    def _headers_of(self, row: int, count: int, first: int, keys: ByteRanges, values: ByteRanges) -> None:
        """Read the headers of one record, one by one."""
        place, end = int(self.places[row]), int(self._ends[row])
        data = self.data[:end].tobytes() if end < COPIED else self.data[:end]
        for n in range(first, first + count):
            for into in (keys, values):
                value = shift = 0
                while True:
                    if place >= end or shift > 28:
                        raise InputError("has a record that is shorter than what is in it")
                    byte = int(data[place])
                    value |= (byte & 127) << shift
                    shift += 7
                    place += 1
                    if byte < 128:
                        break
                length = (value >> 1) ^ -(value & 1)
                if length < -1 or place + length > end:
                    raise InputError("has a record with a length that cannot be")
                into.starts[n], into.lengths[n] = place, length
                place += max(length, 0)
        self.places[row] = place
