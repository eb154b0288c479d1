"""Kafka's record batches and older messages written plainly, as Kafka lays them out."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import google_crc32c
import pyarrow as pa

from bindings.archive.record import Record
from exchange.values.field_values import resolve_type


class KafkaRecord(NamedTuple):
    """A record; ``offset`` and ``time`` are deltas to the batch's."""

    offset: int
    time: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


def varint(value: int) -> bytes:
    """Return a zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def _record(record: KafkaRecord) -> bytes:
    headers = b"".join([_bytes(name.encode()) + _bytes(value) for name, value in record.headers])
    body = b"\0" + varint(record.time) + varint(record.offset) + _bytes(record.key) + _bytes(record.value)
    body += varint(len(record.headers)) + headers
    return varint(len(body)) + body


def _pack(codec: int, data: bytes) -> bytes:
    if codec == 1:
        return gzip.compress(data)
    if codec == 2:  # snappy-java's stream, in blocks
        blocks = [data[n : n + 50] for n in range(0, len(data), 50)]
        packed = [pa.compress(block, "snappy", asbytes=True) for block in blocks]
        return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join([struct.pack(">i", len(p)) + p for p in packed])
    if codec in (3, 4):
        return bytes(pa.compress(data, {3: "lz4", 4: "zstd"}[codec], asbytes=True))
    return data


def batch(base: int, records: Sequence[KafkaRecord], *, time: int = 1000, codec: int = 0, flags: int = 0) -> bytes:
    """Return a batch; ``flags`` are attributes beside the compression."""
    data = _pack(codec, b"".join(map(_record, records)))
    last = max([record.offset for record in records], default=0)
    latest = time + max([record.time for record in records], default=0)
    rest = struct.pack(">hiqqqhii", codec | flags, last, time, latest, -1, -1, -1, len(records)) + data
    return struct.pack(">qiibI", base, len(rest) + 9, 0, 2, google_crc32c.value(rest)) + rest


def message(
    offset: int, key: bytes | None, value: bytes | None, *, magic: int = 1, time: int = 1000, attributes: int = 0
) -> bytes:
    """Return a message of format 0 or 1."""
    rest = struct.pack(">bb", magic, attributes) + (struct.pack(">q", time) if magic else b"")
    for data in (key, value):
        rest += struct.pack(">i", -1 if data is None else len(data)) + (data or b"")
    return struct.pack(">qiI", offset, len(rest) + 4, zlib.crc32(rest)) + rest


def wrapper(
    base: int, records: Sequence[KafkaRecord], *, magic: int = 1, time: int = 1000, codec: int = 1, flags: int = 0
) -> bytes:
    """Return a message that wraps records, whose times and offsets are deltas, as the formats 0 and 1 do it."""
    first = base if magic == 0 else 0
    packed = [
        message(first + each.offset, each.key, each.value, magic=magic, time=time + each.time) for each in records
    ]
    latest = time + max(each.time for each in records)
    last = base + records[-1].offset
    data = _pack(codec, b"".join(packed))
    if codec == 3 and magic == 0:
        data = data[:6] + bytes([data[6] ^ 0xFF]) + data[7:]  # KAFKA-3160
    return message(last, None, data, magic=magic, time=latest, attributes=codec | flags)


def strip_marks(record: Record) -> tuple[bytes | None, bytes | None, dict[str, bytes | None]]:
    """Return key, value and headers of a record by its ``x-kafka`` headers, if its key is not its routing key."""
    headers = {name: resolve_type(value)[1] for name, value in record.message.headers.items()}
    assert headers.pop("x-kafka-topic") == record.message.exchange.encode()
    key, is_tombstone = headers.pop("x-kafka-key"), headers.pop("x-kafka-tombstone", False)
    assert not (is_tombstone and record.message.body)
    return key, None if is_tombstone else record.message.body, headers


def facts(base: int, record: KafkaRecord, *, time: int = 1000) -> tuple[Any, ...]:
    """Return what must be read of a record: offset, time in µs, key, value, headers (of one name the last)."""
    return base + record.offset, (time + record.time) * 1000, record.key, record.value, dict(record.headers)
