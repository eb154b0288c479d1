"""How transactions in a segment ended, and lengths in a batch that cannot be: bytes put together by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import google_crc32c
import pytest

from bindings.archive.kafka_batches import CONTROL, TRANSACTION, Header, header_at, records_of
from bindings.archive.kafka_transactions import Ends
from exchange import InputError
from tests.bindings.archive.kafka_files import KafkaRecord, batch, varint

PRODUCER = struct.Struct(">q")
PRODUCER_PLACE = 43
CRC_PLACE = 17


def of_producer(producer: int, data: bytes) -> bytes:
    """A batch as another producer's, whole again."""
    made = bytearray(data)
    PRODUCER.pack_into(made, PRODUCER_PLACE, producer)
    struct.pack_into(">I", made, CRC_PLACE, google_crc32c.value(bytes(made[21:])))
    return bytes(made)


def data(producer: int, offset: int) -> bytes:
    """A record of a transaction."""
    return of_producer(producer, batch(offset, [KafkaRecord(0, value=b"v")], flags=TRANSACTION))


def end(producer: int, offset: int, *, commit: bool) -> bytes:
    """A marker."""
    key = struct.pack(">hh", 0, 1 if commit else 0)
    return of_producer(producer, batch(offset, [KafkaRecord(0, key=key)], flags=TRANSACTION | CONTROL))


def asked(*batches: bytes) -> list[bool | None]:
    """Of each batch with records, in order: whether its transaction was committed."""
    whole = b"".join(batches)
    ends = Ends("elsewhere", whole)
    found = []
    place = 0
    for each in batches:
        if len(each) > 20 and each[16] == 2:
            header = header_at(whole, place)
            if not header.is_control:
                found.append(ends.is_committed(header, place))
        place += len(each)
    return found


def test_the_marker_of_an_earlier_transaction_does_not_end_a_later_one() -> None:
    """The records of the earlier one are in the split before: its marker stands between here."""
    assert asked(
        data(2, 0), end(2, 1, commit=True), end(1, 2, commit=False), data(1, 3), end(1, 4, commit=True)
    ) == [True, True]  # fmt: skip
    assert asked(
        data(2, 0), end(2, 1, commit=False), end(1, 2, commit=True), data(1, 3), end(1, 4, commit=False)
    ) == [False, False]  # fmt: skip


def test_all_markers_of_earlier_transactions_are_passed_over() -> None:
    found = asked(
        data(2, 0), *[end(1, n, commit=False) for n in range(1, 5)], data(1, 5), end(1, 6, commit=True),
        end(2, 7, commit=False),
    )  # fmt: skip
    assert found == [False, True]


def test_transactions_side_by_side_have_each_its_own_end() -> None:
    found = asked(
        data(1, 0), data(2, 1), data(1, 2), end(2, 3, commit=False), data(2, 4), end(1, 5, commit=True), data(1, 6),
        end(2, 7, commit=True),
    )  # fmt: skip
    assert found == [True, False, True, True, None]


def test_a_marker_is_found_behind_damage() -> None:
    assert asked(data(1, 0), b"\xff" * 100, end(1, 2, commit=True)) == [True]


def test_a_marker_is_looked_for_in_the_segments_that_follow(tmp_path: Path) -> None:
    first = data(1, 0) + data(2, 1)
    (tmp_path / f"{0:020}.log").write_bytes(first)
    (tmp_path / f"{2:020}.log").write_bytes(end(2, 2, commit=True))
    (tmp_path / f"{3:020}.log").write_bytes(end(1, 3, commit=False))
    (tmp_path / "other.log").write_bytes(end(1, 1, commit=True))
    ends = Ends(str(tmp_path / f"{0:020}.log"), first)
    assert ends.is_committed(header_at(first), 0) is False
    place = len(data(1, 0))
    assert ends.is_committed(header_at(first, place), place) is True


def raw_batch(body: bytes) -> tuple[bytes, Header]:
    """A batch with one record, of these bytes behind its length."""
    record = varint(len(body)) + body
    rest = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + record
    made = struct.pack(">qiibI", 0, len(rest) + 9, 0, 2, google_crc32c.value(rest)) + rest
    return made, header_at(made)


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
        records_of(made, header)


def test_so_is_a_batch_right_that_has_what_it_says() -> None:
    made, header = raw_batch(HEAD + varint(1) + b"k" + varint(-1) + varint(1) + varint(1) + b"n" + varint(-1))
    records = records_of(made, header)
    assert records.keys.lengths.tolist() == [1]
    assert records.header_keys.lengths.tolist() == [1]
    assert records.header_values.lengths.tolist() == [-1]
