"""Segment files of Kafka: every record of every compression, gaps, torn tails; damage is reported and passed over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.detect import detect
from bindings.archive.kafka.segment import KafkaSegment
from bindings.archive.mapping import FieldMapping
from bindings.archive.reading import Split
from bindings.archive.record import Record
from bridge.cli import hashstar
from bridge.interop import to_kafka
from exchange.errors import InputError
from tests.support.archives.kafka_files import KafkaRecord, batch, facts, strip_marks
from tests.support.archives.reads import FILES, read

LITERAL = KafkaSegment(FieldMapping(routing_key="=k"))


def read_facts(record: Record) -> tuple[Any, ...]:
    key, value, headers = strip_marks(record)
    return record.offset, record.time, key, value, sorted(headers.items(), key=repr)


def expected_facts(base: int, record: KafkaRecord) -> tuple[Any, ...]:
    offset, time, key, value, headers = facts(base, record)
    return offset, time, key, value, sorted(headers.items(), key=repr)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log") / "orders.eu-12"
    folder.mkdir()
    return folder / "00000000000000000000.log"


BYTES = st.none() | st.binary(max_size=8) | st.binary(min_size=120, max_size=140)
HEADERS = st.lists(st.tuples(st.text("ab\0ü", max_size=2), BYTES), max_size=4)
BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 1 << 40), BYTES, BYTES, HEADERS), max_size=5), st.sampled_from(range(5))
    ),
    max_size=4,
)


def records_of(
    items: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
) -> list[KafkaRecord]:
    return [KafkaRecord(3 * n, *item) for n, item in enumerate(items)]  # compaction leaves gaps


@FILES
@given(BATCHES, st.integers(1, 300))
def test_all_records_are_read_in_one_split_or_many(path: Path, batches: list[tuple[Any, int]], size: int) -> None:
    path.write_bytes(b"".join([batch(100 * n, records_of(b), codec=c) for n, (b, c) in enumerate(batches)]))
    whole = read(LITERAL, path, size)
    assert not whole.bad
    expected = [expected_facts(100 * n, record) for n, (items, _) in enumerate(batches) for record in records_of(items)]
    assert [read_facts(record) for record in whole.records] == expected
    assert {record.message.exchange for record in whole.records} <= {"orders.eu"}


@FILES
@given(BATCHES.filter(bool), st.data())
def test_a_file_torn_anywhere_gives_the_whole_batches_before_and_reports_the_torn_one(
    path: Path, batches: list[tuple[Any, int]], data: st.DataObject
) -> None:
    written = [batch(100 * n, records_of(b), codec=c) for n, (b, c) in enumerate(batches)]
    cut = data.draw(st.integers(0, sum(map(len, written))))
    path.write_bytes(b"".join(written)[:cut])
    ends = [sum(map(len, written[: n + 1])) for n in range(len(written))]
    whole = sum(end <= cut for end in ends)
    torn = read(LITERAL, path)
    expected = [expected_facts(100 * n, r) for n, (items, _) in enumerate(batches[:whole]) for r in records_of(items)]
    assert [read_facts(record) for record in torn.records] == expected
    last = [0, *ends][whole]
    assert [bad.offset for bad in torn.bad] == ([last] if last < cut else [])


@FILES
@given(BATCHES.filter(bool), st.data(), st.integers(1, 400))
def test_damage_is_reported_and_invents_nothing(
    path: Path, batches: list[tuple[Any, int]], data: st.DataObject, size: int
) -> None:
    raw = bytearray(b"".join([batch(100 * n, records_of(b), codec=c) for n, (b, c) in enumerate(batches)]))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    # The offset and the leader's epoch stand before what the checksum is of.
    expected = {repr(expected_facts(100 * n, r)[1:]) for n, (items, _) in enumerate(batches) for r in records_of(items)}
    damaged = read(LITERAL, path, size)
    assert {repr(read_facts(record)[1:]) for record in damaged.records} <= expected


@FILES
@given(st.binary(max_size=300))
def test_anything_at_all_is_read_without_an_exception(path: Path, junk: bytes) -> None:
    path.write_bytes(batch(0, [KafkaRecord(0)]) + junk + batch(7, [KafkaRecord(0)]))
    assert [record.offset for record in read(LITERAL, path).records][0::1][-1:] == [7]


def test_one_damaged_batch_is_passed_over(path: Path) -> None:
    batches = [bytearray(batch(n, [KafkaRecord(0, value=b"v" * 9)])) for n in range(3)]
    batches[1][-1] ^= 1
    path.write_bytes(b"".join(batches))
    result = read(LITERAL, path)
    assert [record.offset for record in result.records] == [0, 2]
    assert [(bad.offset, bad.reason) for bad in result.bad] == [
        (len(batches[0]), "a record batch whose checksum is wrong")
    ]


def test_markers_are_skipped_and_times_of_the_log_are_taken(path: Path) -> None:
    records = [KafkaRecord(0, 5), KafkaRecord(1, 9)]
    path.write_bytes(batch(0, records, flags=0x20) + batch(2, records, flags=0x08) + batch(4, [], flags=0))
    result = read(LITERAL, path)
    assert result.skipped == {"a marker of a transaction": 2}
    assert [record.time for record in result.records] == [1_009_000, 1_009_000]


def test_the_mapping_chooses_exchange_and_routing_key(path: Path) -> None:
    records = [
        KafkaRecord(0, key=b"k\xff", value=b"", headers=[("rk", b"a.b"), ("ex", b"x"), ("rk", b"c.d")]),
        KafkaRecord(1, key=None, headers=[("rk", None)]),
    ]
    path.write_bytes(batch(0, records))
    (first, second), bad = read(KafkaSegment(), path)[:2]
    assert (first.message.exchange, first.message.routing_key) == ("orders.eu", "k\udcff")
    assert first.message.headers == {"rk": "c.d", "ex": "x"}
    assert (second.message.exchange, second.message.routing_key) == ("orders.eu", "")
    assert second.message.headers == {
        "rk": None,
        "x-kafka-topic": "orders.eu",
        "x-kafka-key": None,
        "x-kafka-tombstone": True,
    }
    assert not bad
    _, bad = read(KafkaSegment(FieldMapping("key", "topic")), path)[:2]
    assert [(each.offset, each.reason) for each in bad] == [(1, "a record without key, which is to be its exchange")]
    (first,), bad = read(KafkaSegment(FieldMapping("header:ex", "header:rk")), path)[:2]
    assert (first.message.exchange, first.message.routing_key) == ("x", "c.d")
    assert len(bad) == 2
    with pytest.raises(InputError, match="no place"):
        FieldMapping("value")


def test_a_tombstone_and_an_empty_value_differ_and_neither_key_nor_name_is_lost(path: Path) -> None:
    records = [
        KafkaRecord(0, key=b"k", value=b"", headers=[("x-kafka-key", b"forged"), ("a", None)]),
        KafkaRecord(1, key=b"k", value=None, headers=[("x-kafka-topic", b"forged"), ("x-kafka-topic", b"twice")]),
        KafkaRecord(2, key=b"k", value=b"v"),
        KafkaRecord(3, key=None, value=None),
    ]
    path.write_bytes(batch(0, records))
    plain, tombstone, bare, keyless = read(KafkaSegment(), path).records
    assert plain.message.headers == {"x-kafka-header-x-kafka-key": "forged", "a": None}
    assert tombstone.message.headers == {
        "x-kafka-topic": "orders.eu", "x-kafka-key": "k", "x-kafka-tombstone": True,
        "x-kafka-header-x-kafka-topic": "twice",
    }  # fmt: skip
    assert bare.message.headers == {}
    assert keyless.message.headers == {"x-kafka-topic": "orders.eu", "x-kafka-key": None, "x-kafka-tombstone": True}
    again = [to_kafka(record.message, "other", None) for record in read(LITERAL, path).records]
    again.append(to_kafka(keyless.message, "other", None))
    assert [(each.key, each.value, list(each.headers)) for each in again] == [
        (b"k", b"", [("x-kafka-key", b"forged"), ("a", None)]),
        (b"k", None, [("x-kafka-topic", b"twice")]),
        (b"k", b"v", []),
        (None, None, []),
        (None, None, []),
    ]


def test_only_the_given_columns_are_built(path: Path) -> None:
    path.write_bytes(batch(0, [KafkaRecord(0)]))
    (rows,) = LITERAL.read(Split(str(path)), ["routing_key", "exchange", "time"])
    assert rows.schema.names == ["routing_key", "exchange", "time"]  # type: ignore[union-attr]


def test_a_segment_is_recognised_by_its_first_batch(path: Path) -> None:
    whole = batch(0, [KafkaRecord(0, value=b"v" * 100)])
    assert LITERAL.recognises(whole, path)
    assert LITERAL.recognises(whole[:70] + b"x" * 100_000, path) is False
    assert not LITERAL.recognises(b"{" * 100, path)
    assert LITERAL.is_companion(path.with_suffix(".index").name, path.parent.name, lambda name: False)


@pytest.mark.parametrize("name", ["out.jsonl", "out"])
def test_a_null_value_stays_null_through_conversions_and_an_empty_one_stays_empty(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    values = [b"", None, b"v", None]
    (folder / "00000000000000000000.log").write_bytes(
        batch(0, [KafkaRecord(n, key=b"k", value=value) for n, value in enumerate(values)])
    )
    source, target, back = folder, tmp_path / name, tmp_path / "back.jsonl"
    for one, other in ((source, target), (target, back)):
        result = CliRunner().invoke(hashstar, ["archive", "convert", str(one), str(other), "--max-bad", "0"])
        assert result.exit_code == 0, result.output
    for line, value in zip(map(json.loads, back.read_text().splitlines()), values, strict=True):
        assert line.get("body", "") == (None if value is None else value.decode())
        assert line.get("size") == (None if value else 0)
        assert line.get("headers", {}).get("x-kafka-tombstone", False) is (value is None)
        assert "body_truncated" not in line
    for path in (source, target, back):
        ((file, form),) = detect(str(path)).files
        records = read(form, file).records
        assert [(record.has_body, record.size, record.lacks_body) for record in records] == [
            (value is not None, len(value or b""), False) for value in values
        ]
        assert [to_kafka(record.message, "other", None).value for record in records] == values
