"""Kafka's record batches, version 2 (`DefaultRecordBatch.java`, `DefaultRecord.java`): from bytes to columns.

A batch is 61 bytes of header, the CRC-32C of what follows it, and records, all compressed together. The lengths of
records chain them, so their ends are found one by one; everything else is read for all records of a batch at once, with
numpy, as no field's place depends on another record. What a column points to is bytes of the batch: `Spans`.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.mapped import Bytes
from exchange.errors import InputError
from exchange.limits import BATCH_BYTES, TABLE_ITEMS

__all__ = [
    "HEADER_BYTES",
    "Header",
    "Records",
    "Spans",
    "read_header",
    "is_whole",
    "find_sound_header",
    "read_records",
    "make_stream_unpacker",
]

Places = npt.NDArray[np.int64]

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
"""61: offset, length, leader epoch, magic, CRC, attributes, last offset delta, timestamps, producer (3), count."""
LEAST_LENGTH: Final = HEADER_BYTES - 12
CRC_START: Final = 21
LOG_APPEND_TIME: Final = 0x08
TRANSACTION: Final = 0x10
CONTROL: Final = 0x20
MAGIC_PLACE: Final = 16
LAST_OFFSET: Final = 2**63 - 1
LONG: Final = 256
"""Mean length of stretches, in bytes, from which they are copied one by one."""
MANY_HEADERS: Final = 64
"""Number of headers from which those of a record are read by themselves."""
COPIED: Final = 1 << 20
"""Bytes that are copied for that, since Python reads single ones of them faster."""


class Header(NamedTuple):
    """The header of a batch."""

    base_offset: int
    length: int
    """Of all that follows the length itself, which is at byte 8."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + 12

    @property
    def last_offset(self) -> int:
        """Offset of the last record, which compaction may have removed."""
        return self.base_offset + self.last_offset_delta

    @property
    def is_control(self) -> bool:
        """Whether it marks the end of a transaction."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Whether its records belong to a transaction of its producer."""
        return bool(self.attributes & TRANSACTION)

    @property
    def seems_sound(self) -> bool:
        """Whether it can be the header of a batch of version 2."""
        return (
            self.magic == 2
            and LEAST_LENGTH <= self.length <= BATCH_BYTES
            and self.base_offset >= 0
            and self.records >= 0
            and self.last_offset_delta >= 0
            and self.last_offset <= LAST_OFFSET
            and self.attributes & 7 in UNPACKERS
        )


def read_header(data: Bytes, place: int = 0) -> Header:
    """The header that begins at a byte; there must be 61 of them."""
    return Header(*HEADER.unpack_from(data, place))


def is_whole(data: Bytes, header: Header) -> bool:
    """Whether a batch is what the broker wrote: its CRC-32C."""
    import google_crc32c  # the rest of `bindings.archive` does without

    return bool(google_crc32c.value(bytes(data[CRC_START : header.size])) == header.crc)


def find_sound_header(data: Bytes, place: int) -> int:
    """The next byte at which there is a header that can be one; the end of the data if there is none."""
    while True:
        magic = data.find(b"\x02", place + MAGIC_PLACE)
        if magic < 0 or magic - MAGIC_PLACE + HEADER_BYTES > len(data):
            return len(data)
        place = magic - MAGIC_PLACE
        if read_header(data, place).seems_sound:
            return place
        place += 1


class Spans(NamedTuple):
    """Stretches of bytes; the length of what is null is -1."""

    starts: Places
    lengths: Places

    def of(self, data: npt.NDArray[np.uint8]) -> pa.BinaryArray:
        """The bytes, as a column."""
        lengths = np.maximum(self.lengths, 0)
        ends = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        if ends[-1] > LONG * len(lengths):  # an index of 8 bytes for each byte would be dear
            view = data.data
            spans = zip(self.starts.tolist(), (self.starts + lengths).tolist(), strict=True)
            taken = b"".join([view[start:end] for start, end in spans])
        else:
            taken = data[np.arange(ends[-1]) + np.repeat(self.starts - ends[:-1], lengths)]
        valid = self.lengths >= 0
        mask = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
        buffers = [mask, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(taken)]
        return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


class Records(NamedTuple):
    """The records of a batch, as columns."""

    data: npt.NDArray[np.uint8]
    """What the spans are stretches of."""
    offsets: Places
    timestamps: Places
    """Milliseconds since 1970; -1 where there is none."""
    keys: Spans
    values: Spans
    header_counts: Places
    header_keys: Spans
    """Of all headers, those of the first record first."""
    header_values: Spans


def read_records(data: Bytes, header: Header) -> Records:
    """The records of a whole batch. Raises InputError when they are not as Kafka writes them."""
    packed = bytes(data[HEADER_BYTES : header.size])
    try:
        unpacked = UNPACKERS[header.attributes & 7](packed)
    except (pa.ArrowException, OSError, zlib.error, struct.error, EOFError) as error:
        raise InputError(f"cannot be unpacked: {str(error).partition(chr(10))[0]}") from None
    if len(unpacked) > BATCH_BYTES:
        raise InputError(f"cannot be unpacked: it has more than {BATCH_BYTES >> 20} MiB")
    starts, ends = _find_records(unpacked, header.records)
    read = _Reader(unpacked, ends)
    read.places = starts + 1  # the attributes, of which there are none
    deltas = read.varints()
    ordinals = read.varints()
    if len(ordinals) and not 0 <= int(ordinals.min()) <= int(ordinals.max()) <= header.last_offset_delta:
        raise InputError("has a record with an offset that is not in the batch")
    offsets = header.base_offset + ordinals
    keys, values = read.spans(), read.spans()
    counts = read.varints()
    # Each is bounded before they are added up: a sum may overflow to a number that seems right.
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
    return Records(read.data[:-SPARE], offsets, times, keys, values, counts, header_keys, header_values)


def _find_records(data: bytes, count: int) -> tuple[Places, Places]:
    """Where each record begins, behind its length, and where it ends."""
    if count > len(data) // 7 + 1:  # a record has 7 bytes at least
        raise InputError("has fewer records than it says")
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
        raise InputError("has fewer records than it says") from None
    if place != size:
        raise InputError("has more in it than the records it says")
    return np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64)


SPARE: Final = 16
"""Bytes behind the data, so that varints may be looked for up to their end."""


class _Reader:
    """Reads the same field of all records at once; ``places`` is where each record is read next."""

    def __init__(self, data: bytes, ends: Places) -> None:
        self.data = np.frombuffer(data + bytes(SPARE), np.uint8)
        self._ends = ends
        self.places = ends

    def varints(self, which: Places | None = None) -> Places:
        """Zigzag varints, of all records or of those in ``which``."""
        places = self.places if which is None else self.places[which]
        ends = self._ends if which is None else self._ends[which]
        byte = self.data[places]
        values = (byte & 127).astype(np.uint64)
        places = places + 1
        going = np.flatnonzero(byte > 127)
        shift = np.uint64(7)
        while len(going):
            if shift > 63:
                raise InputError("has a record with a number that does not end")
            byte = self.data[places[going]]
            values[going] |= (byte & 127).astype(np.uint64) << shift
            places[going] += 1
            going = going[byte > 127]
            shift += np.uint64(7)
        if (places > ends).any():
            raise InputError("has a record that is shorter than what is in it")
        if which is None:
            self.places = places
        else:
            self.places[which] = places
        return (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64)

    def spans(self, which: Places | None = None) -> Spans:
        """Bytes with their length before them; a length of -1 is null."""
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
        return Spans(starts, lengths)

    def headers(self, counts: Places) -> tuple[Spans, Spans]:
        """The headers of all records: the first of each, the second of each that has one, and so on, put in order."""
        total = int(counts.sum())
        first = np.cumsum(counts) - counts
        keys, values = (Spans(np.zeros(total, np.int64), np.zeros(total, np.int64)) for _ in range(2))
        for row in np.flatnonzero(counts > MANY_HEADERS).tolist():
            self._headers_of(row, int(counts[row]), int(first[row]), keys, values)
        counts = np.where(counts > MANY_HEADERS, 0, counts)
        which = np.flatnonzero(counts)
        for n in range(int(counts.max(initial=0))):
            which = which[counts[which] > n]
            rows = first[which] + n
            for into in (keys, values):
                starts, lengths = self.spans(which)
                into.starts[rows], into.lengths[rows] = starts, lengths
        if (keys.lengths < 0).any():
            raise InputError("has a header without a name")
        return keys, values

    def _headers_of(self, row: int, count: int, first: int, keys: Spans, values: Spans) -> None:
        """The headers of one record, one by one: a step for all records at once is dear when only one needs it."""
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


PIECE_BYTES: Final = 1 << 18
XERIAL: Final = b"\x82SNAPPY\0"


def _unpack_snappy(data: bytes) -> bytes:
    """As Java's clients frame it (snappy-java's stream), or in one piece, as librdkafka does."""
    if not data.startswith(XERIAL):
        return _unpack_raw_snappy(data)
    parts: list[bytes] = []
    place = len(XERIAL) + 8  # two versions
    size = 0
    while place < len(data):
        (length,) = struct.unpack_from(">i", data, place)
        if not 0 <= length <= len(data) - place - 4:
            raise InputError("cannot be unpacked: a block of snappy that is not whole")
        parts.append(_unpack_raw_snappy(data[place + 4 : place + 4 + length]))
        size += len(parts[-1])
        if size > BATCH_BYTES:
            break
        place += 4 + length
    return b"".join(parts)


def _unpack_raw_snappy(data: bytes) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size > BATCH_BYTES:
        raise InputError("cannot be unpacked: a block of snappy that says it is too large")
    return bytes(pa.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True))


def make_stream_unpacker(name: str) -> Callable[[bytes], bytes]:
    """What unpacks a stream of this compression of Arrow's."""

    def unpack(data: bytes) -> bytes:
        parts: list[bytes] = []
        size = 0
        with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
            # In pieces: Arrow allocates all that one call asks for, however little there is to read.
            while size <= BATCH_BYTES and (piece := stream.read(PIECE_BYTES)):
                parts.append(piece)
                size += len(piece)
        return b"".join(parts)

    return unpack


def _unpack_gzip(data: bytes) -> bytes:
    return zlib.decompressobj(31).decompress(data, BATCH_BYTES + 1)


UNPACKERS: Final[dict[int, Callable[[bytes], bytes]]] = {
    0: lambda data: data,
    1: _unpack_gzip,
    2: _unpack_snappy,
    3: make_stream_unpacker("lz4"),
    4: make_stream_unpacker("zstd"),
}
"""The compression in a batch's attributes -> what undoes it (`CompressionType.java`)."""
