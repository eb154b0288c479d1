"""Read the headers of Kafka's record batches, and of the messages that brokers before 0.11 wrote instead of batches.

A batch, message format 2, has a header of 61 bytes and a CRC-32C (`DefaultRecordBatch.java`). A message of format 0 or
1 has a header of 18 or 26 bytes and a CRC-32 (`LegacyRecord.java`); it is a record, or it wraps records that are
compressed together. Offset, length and format are at the same bytes in all of them, so a log may mix them. The header
of a message is read as that of a batch with one offset: a wrapper has the offset of its last record.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import Final, NamedTuple

from bindings.archive.mapped import Bytes
from exchange.limits import BATCH_BYTES

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size
"""61: offset, length, leader epoch, magic, CRC, attributes, last offset delta, timestamps (2), producer (3), count."""
MESSAGE: Final = struct.Struct(">qiIbb")
"""Offset, length, CRC, magic and attributes of a message of format 0 or 1."""
FIELDS: Final = MESSAGE.size
"""Position in a message of the timestamp, or in format 0 of the length of the key."""
LEAST_BYTES: Final = 26
"""Minimum size of a message of format 0 in bytes: its header and the lengths of key and value."""
LEAST_LENGTHS: Final = {0: LEAST_BYTES - 12, 1: LEAST_BYTES - 4, 2: HEADER_BYTES - 12}
"""Message format -> minimum value of the length field; it does not include the offset and the length itself."""
OLD: Final = (0, 1)
"""Message formats before record batches."""
CRC_STARTS: Final = {0: 16, 1: 16, 2: 21}
"""Message format -> position of the first byte that the CRC covers; it covers the rest."""
CODECS: Final = {0: 4, 1: 4, 2: 5}
"""Message format -> number of compressions (`CompressionType.java`): zstd is only in format 2."""
CODEC: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTION: Final = 0x10
CONTROL: Final = 0x20
MAGIC_PLACE: Final = 16
LAST_OFFSET: Final = 2**63 - 1
CANDIDATE: Final = re.compile(rb"(?s)(?=[\0-\x7f].{7}(?!\0\0\0[\0-\x0d])[\0-\x10].{7}(?:\x02|[\0\1][\0-\x0b]))")
"""Bytes that may begin a header: offset, possible length, format, and in the formats 0 and 1 possible attributes."""


class Header(NamedTuple):
    """The header of a batch, or of a message of format 0 or 1."""

    base_offset: int
    length: int
    """Number of bytes after this field, which ends at byte 12."""
    leader_epoch: int
    """-1 in a message of format 0 or 1, as the other fields that it does not have."""
    magic: int
    """Message format: 0, 1 or 2."""
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int
    """Number of records. 1 in a message of format 0 or 1, which may wrap more; -1 if key and value do not fit in it."""

    @property
    def size(self) -> int:
        """Number of bytes of the whole batch."""
        return self.length + 12

    @property
    def last_offset(self) -> int:
        """Offset of the last record as it was written; compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def is_old(self) -> bool:
        """Whether it is of a message of format 0 or 1."""
        return self.magic in OLD

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
        """Whether the fields are possible in a header of its format."""
        return (
            0 <= self.magic <= 2
            and LEAST_LENGTHS[self.magic] <= self.length <= BATCH_BYTES
            and self.base_offset >= 0
            and self.records >= 0
            and self.last_offset_delta >= 0
            and self.last_offset <= LAST_OFFSET
            and self.attributes & CODEC < CODECS[self.magic]
            and (self.magic == 2 or 0 <= self.attributes <= (CODEC | LOG_APPEND_TIME))
        )


def has_header(data: Bytes, place: int) -> bool:
    """Return whether all bytes of a header are in the data from ``place`` on: as many as its format has."""
    rest = len(data) - place
    return rest >= HEADER_BYTES or (rest >= LEAST_BYTES and data[place + MAGIC_PLACE] in OLD)


def read_header(data: Bytes, place: int = 0) -> Header:
    """Return the header that begins at ``place``. Call it only where `has_header` is true."""
    if data[place + MAGIC_PLACE] in OLD:
        offset, length, crc, magic, attributes = MESSAGE.unpack_from(data, place)
        count = 1 if _fits(data, place, magic, length) else -1
        return Header(offset, length, -1, magic, crc, attributes, 0, -1, -1, -1, -1, -1, count)
    return Header(*HEADER.unpack_from(data, place))


def _fits(data: Bytes, place: int, magic: int, length: int) -> bool:
    """Return whether key and value fill a message of format 0 or 1 exactly, as far as it is in the data.

    The few other fields of such a message have possible values in many bytes that are none.
    """
    at, end = place + FIELDS + (8 if magic else 0), place + 12 + length
    for _ in range(2):
        if at + 4 > len(data):
            return end > len(data)
        at += 4 + max(int.from_bytes(data[at : at + 4], "big", signed=True), 0)
    return at == end


def is_whole(data: Bytes, header: Header) -> bool:
    """Return whether the CRC of a batch or message, which begins at byte 0 of the data, is right."""
    if header.magic not in CRC_STARTS:
        return False
    covered = bytes(data[CRC_STARTS[header.magic] : header.size])
    if header.is_old:
        return zlib.crc32(covered) == header.crc
    import google_crc32c  # imported here: only this function of `bindings.archive` needs it

    return bool(google_crc32c.value(covered) == header.crc)


def find_sound_header(data: Bytes, place: int) -> int:
    """Return the position of the next header, from ``place`` on, that seems sound; the end of the data if none."""
    while match := CANDIDATE.search(data, place):
        place = match.start()
        if has_header(data, place) and read_header(data, place).seems_sound:
            return place
        place += 1
    return len(data)
