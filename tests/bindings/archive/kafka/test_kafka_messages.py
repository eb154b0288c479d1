"""Messages of Kafka's formats 0 and 1: each record once, however they are packed, mixed and damaged, in all splits."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.kafka import walk
from bindings.archive.kafka.header import read_header
from bindings.archive.kafka.segment import KafkaSegment
from bindings.archive.mapping import FieldMapping
from bindings.archive.reading import Split
from bridge.cli import hashstar
from tests.support.archives.kafka_files import KafkaRecord, batch, message, strip_marks, wrapper
from tests.support.archives.reads import FILES, Read, read

LITERAL = KafkaSegment(FieldMapping(routing_key="=k"))
BYTES = st.none() | st.binary(max_size=8) | st.binary(min_size=60, max_size=90)
RECORDS = st.lists(st.tuples(st.integers(0, 1 << 30), BYTES, BYTES), min_size=1, max_size=5)
ENTRIES = st.lists(
    st.tuples(st.sampled_from([(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0)]), RECORDS)
)
CREATED, APPENDED = 0, 8


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log") / "orders-0"
    folder.mkdir()
    return folder / "00000000000000000000.log"


def entry(kind: tuple[int, int], base: int, items: list[tuple[int, bytes | None, bytes | None]]) -> bytes:
    """Return records with offsets from ``base`` on, each second one missing, in a message format with a compression."""
    magic, codec = kind
    records = [KafkaRecord(2 * n, *item) for n, item in enumerate(items)]
    if magic == 2:
        return batch(base, records)
    if codec:
        return wrapper(base, records, magic=magic, codec=codec)
    return b"".join([message(base + r.offset, r.key, r.value, magic=magic, time=1000 + r.time) for r in records])


def expected_facts(kind: tuple[int, int], base: int, items: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (base + 2 * n, None if kind[0] == 0 else (1000 + time) * 1000, key, value)
        for n, (time, key, value) in enumerate(items)
    ]


def read_facts(result: Read) -> list[tuple[Any, ...]]:
    return [(record.offset, record.time, *strip_marks(record)[:2]) for record in result.records]


def bad_facts(result: Read) -> list[tuple[int | None, str]]:
    return [(bad.offset, bad.reason) for bad in result.bad]


@FILES
@given(ENTRIES, st.integers(60, 500))
def test_all_records_are_read_once_however_formats_are_mixed_and_files_split(
    path: Path, entries: list[Any], size: int
) -> None:
    path.write_bytes(b"".join([entry(kind, 20 * n, items) for n, (kind, items) in enumerate(entries)]))
    result = read(LITERAL, path, size)
    assert not result.bad
    assert read_facts(result) == [
        fact for n, (kind, items) in enumerate(entries) for fact in expected_facts(kind, 20 * n, items)
    ]


@FILES
@given(ENTRIES.filter(bool), st.data(), st.integers(60, 500))
def test_damage_is_reported_invents_nothing_and_many_at_a_time_are_read_as_one_by_one(
    path: Path, entries: list[Any], data: st.DataObject, size: int
) -> None:
    raw = bytearray(b"".join([entry(kind, 20 * n, items) for n, (kind, items) in enumerate(entries)]))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "double"])):
            case "flip":
                raw[place] ^= data.draw(st.integers(1, 255))
            case "cut":
                del raw[place : place + data.draw(st.integers(1, 50))]
            case "double":
                raw[place:place] = raw[max(place - 60, 0) : place]
        if not raw:
            break
    path.write_bytes(raw)
    known = {fact[1:] for kind, items in entries for fact in expected_facts(kind, 0, items)}
    result = read(LITERAL, path, size)
    assert {fact[1:] for fact in read_facts(result)} <= known
    offsets = [record.offset for record in result.records]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "take_plain_messages", lambda *_: None)
        one_by_one = read(LITERAL, path)
    assert (read_facts(one_by_one), bad_facts(one_by_one)) == (read_facts(result), bad_facts(result))
    assert len(offsets) == len(set(offsets))


@pytest.mark.parametrize("packed", [0, 1])
def test_the_type_of_the_time_decides_which_time_counts(path: Path, packed: int) -> None:
    records = [KafkaRecord(0, 5, b"k", b"a"), KafkaRecord(1, 9, b"k", b"b")]
    for kind, times in ((CREATED, [1005, 1009]), (APPENDED, [1009, 1009] if packed else [1005, 1009])):
        data = wrapper(0, records, flags=kind) if packed else b"".join(
            [message(r.offset, r.key, r.value, time=1000 + r.time, attributes=kind) for r in records]
        )  # fmt: skip
        path.write_bytes(data)
        assert [record.time for record in read(LITERAL, path).records] == [time * 1000 for time in times]


def test_a_doubled_message_is_counted_once_and_as_one_bad_record(path: Path) -> None:
    for double in (entry((1, 0), 10, [(0, b"k", b"v")]), entry((0, 1), 10, [(0, b"k", b"v")] * 3)):
        first, last = entry((1, 0), 0, [(0, b"k", b"a")]), entry((1, 0), 20, [(0, b"k", b"b")])
        path.write_bytes(first + double + double + last)
        arguments = ["archive", "convert", str(path), str(path.with_suffix(".jsonl")), "--max-bad", "0"]
        result = CliRunner().invoke(hashstar, arguments)
        assert result.exit_code == 1
        assert "bad: 1: a record batch whose offset is not" in result.stderr
        kept = len({record.offset for record in read(LITERAL, path).records})
        assert kept == len(read(LITERAL, path).records) == 2 + (3 if double[17] else 1)


def in_wrapper(data: bytes) -> bytes:
    return message(0, None, gzip.compress(data), attributes=1)


def with_wrong_key() -> bytes:
    rest = struct.pack(">bbqi", 1, 0, 1000, 100) + b"k" * 8
    return struct.pack(">qiI", 0, len(rest) + 4, zlib.crc32(rest)) + rest


REFUSED = {
    "a wrapper without a value": (message(0, None, None, attributes=1), "has no messages in it"),
    "a wrapper of nothing": (in_wrapper(b""), "has no messages in it"),
    "a wrapper of no gzip": (message(0, None, b"", attributes=1), "has no messages in it"),
    "a wrapper in a wrapper": (in_wrapper(wrapper(0, [KafkaRecord(0)])), "compressed again"),
    "a batch in a wrapper": (in_wrapper(batch(0, [KafkaRecord(0)])), "not Kafka's"),
    "a wrong checksum inside": (in_wrapper(message(0, b"k", b"v")[:-1] + b"w"), "whose checksum is wrong"),
    "a wrapper whose offset is too low": (
        struct.pack(">q", 3) + wrapper(0, [KafkaRecord(5)])[8:],
        "lower offset than the last record",
    ),
    "a key that does not fit": (in_wrapper(with_wrong_key()), "does not fit"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_consumers_refuse_is_one_bad_record(path: Path, name: str) -> None:
    data, reason = REFUSED[name]
    path.write_bytes(data + message(9, b"k", b"v") + message(10, b"k", b"v"))
    result = read(LITERAL, path)
    assert [record.offset for record in result.records] == [9, 10]
    (bad,) = result.bad
    assert reason in bad.reason
    assert bad.reason.startswith("a message of Kafka's format 1 that")


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_a_wrapper_that_unpacks_to_too_much_is_one_bad_record(
    path: Path, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bindings.archive.kafka.packing.BATCH_BYTES", 1 << 20)
    bomb = wrapper(0, [KafkaRecord(0, value=bytes(8 << 20))], codec=codec)
    path.write_bytes(bomb + message(9, b"k", b"v"))
    result = read(LITERAL, path)
    assert [record.offset for record in result.records] == [9]
    assert "cannot be unpacked" in result.bad[0].reason


def test_a_message_that_is_not_whole_at_the_end_of_a_wrapper_is_no_record_as_in_kafka(path: Path) -> None:
    inner = message(0, b"k", b"a") + message(1, b"k", b"b") + message(2, b"k", b"c")[:-1]
    path.write_bytes(message(4, None, gzip.compress(inner), attributes=1))
    assert [record.offset for record in read(LITERAL, path).records] == [3, 4]


def test_a_segment_of_old_messages_is_recognised_and_split_at_messages(path: Path) -> None:
    written = [message(n, b"k", b"v" * 50, magic=n % 2) for n in range(100)]
    path.write_bytes(b"".join(written))
    assert KafkaSegment().recognises(path.read_bytes(), Path("f"))
    assert not KafkaSegment().recognises(written[0][:-1] + b"w", Path("f"))
    splits = LITERAL.plan(str(path), 1000)
    assert len(splits) > 5
    assert {split.start for split in splits} <= {sum(map(len, written[:n])) for n in range(100)}
    assert read_header(path.read_bytes()).is_old
    assert len([item for split in splits for item in LITERAL.read(Split(*split))]) == len(splits)
