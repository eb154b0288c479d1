"""How transactions in a segment ended, and lengths in a batch that cannot be: bytes put together by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import google_crc32c
import pytest

from bindings.archive.kafka.batches import read_records
from bindings.archive.kafka.header import CONTROL, TRANSACTION, Header, read_header
from bindings.archive.kafka.segment import KafkaSegment
from exchange import InputError
from tests.support.archives.kafka_files import KafkaRecord, batch, varint
from tests.support.archives.reads import read

PRODUCER = struct.Struct(">q")
PRODUCER_PLACE = 43
CRC_PLACE = 17


def of_producer(producer: int, data: bytes) -> bytes:
    """Return a batch as that of another producer, with the right checksum."""
    made = bytearray(data)
    PRODUCER.pack_into(made, PRODUCER_PLACE, producer)
    struct.pack_into(">I", made, CRC_PLACE, google_crc32c.value(bytes(made[21:])))
    return bytes(made)


def data(producer: int, offset: int) -> bytes:
    """Return a batch with a record of a transaction."""
    return of_producer(producer, batch(offset, [KafkaRecord(0, key=b"k", value=b"v")], flags=TRANSACTION))


def end(producer: int, offset: int, *, commit: bool) -> bytes:
    """Return a batch with a marker."""
    key = struct.pack(">hh", 0, 1 if commit else 0)
    return of_producer(producer, batch(offset, [KafkaRecord(0, key=key)], flags=TRANSACTION | CONTROL))


def committed(folder: Path, *batches: bytes) -> list[int | None]:
    """Return the offsets of the records that are read of a segment: those of committed transactions."""
    path = folder / "orders-0" / f"{0:020}.log"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(batches))
    return [record.offset for record in read(KafkaSegment(), path).records]


@pytest.mark.parametrize("later", [True, False])
def test_the_marker_of_an_earlier_transaction_does_not_end_a_later_one(tmp_path: Path, later: bool) -> None:
    """The records of the earlier one are in a segment before: its marker stands between here."""
    found = committed(
        tmp_path, data(2, 0), end(2, 1, commit=later), end(1, 2, commit=not later), data(1, 3), end(1, 4, commit=later)
    )
    assert found == ([0, 3] if later else [])


def test_all_markers_of_earlier_transactions_are_passed_over(tmp_path: Path) -> None:
    aborts = [end(1, n, commit=False) for n in range(1, 5)]
    found = committed(tmp_path, data(2, 0), *aborts, data(1, 5), end(1, 6, commit=True), end(2, 7, commit=False))
    assert found == [5]


def test_transactions_side_by_side_have_each_its_own_end(tmp_path: Path) -> None:
    found = committed(
        tmp_path, data(1, 0), data(2, 1), data(1, 2), end(2, 3, commit=False), data(2, 4), end(1, 5, commit=True),
        data(1, 6), end(2, 7, commit=True),
    )  # fmt: skip
    assert found == [0, 2, 4]


def test_a_marker_is_found_behind_damage(tmp_path: Path) -> None:
    assert committed(tmp_path, data(1, 0), b"\xff" * 100, end(1, 2, commit=True)) == [0]


def test_a_marker_is_looked_for_in_the_segments_that_follow(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{2:020}.log").write_bytes(end(2, 2, commit=True))
    (folder / f"{3:020}.log").write_bytes(end(1, 3, commit=False))
    (folder / "other.log").write_bytes(end(1, 1, commit=True))
    assert committed(tmp_path, data(1, 0), data(2, 1)) == [1]


def raw_batch(body: bytes) -> tuple[bytes, Header]:
    """Return a batch with one record, which has these bytes behind its length."""
    record = varint(len(body)) + body
    rest = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + record
    made = struct.pack(">qiibI", 0, len(rest) + 9, 0, 2, google_crc32c.value(rest)) + rest
    return made, read_header(made)


HEAD = b"\0" + varint(0) + varint(0)
"""Attributes, and the deltas of time and offset."""


@pytest.mark.parametrize(
    "body",
    [
        HEAD + varint(-1) + varint(-1) + varint(1) + varint(-1) + varint(-1),
        HEAD + varint(-2) + varint(-1) + varint(0),
        HEAD + varint(100) + varint(-1) + varint(0),
        HEAD + varint(2**62) + varint(-1) + varint(0),
        HEAD + varint(2**63 - 1) + varint(-1) + varint(0),
        HEAD + varint(2**63 - 20) + varint(-1) + varint(0),
        HEAD + varint(-1) + varint(2**63 - 30) + varint(0),
        HEAD + varint(-1) + varint(-1) + varint(2**40),
        HEAD + varint(-1) + varint(-1) + varint(-1),
        HEAD + varint(-1) + varint(-1) + varint(0) + b"more",
        HEAD + b"\xff" * 11,
    ],
    ids=["no name", "-2", "too long", "2^62", "goes round", "round", "value", "headers", "-1", "more", "endless"],
)
def test_a_length_that_cannot_be_is_refused(body: bytes) -> None:
    made, header = raw_batch(body)
    with pytest.raises(InputError, match=r"a record|a header|a batch"):
        read_records(made, header)


def test_a_batch_with_the_lengths_that_it_states_is_read() -> None:
    made, header = raw_batch(HEAD + varint(1) + b"k" + varint(-1) + varint(1) + varint(1) + b"n" + varint(-1))
    records = read_records(made, header)
    assert records.keys.lengths.tolist() == [1]
    assert records.header_keys.lengths.tolist() == [1]
    assert records.header_values.lengths.tolist() == [-1]
