"""Files made to stop a reader: each is bad records, read in linear time, and the records around them are read."""

from __future__ import annotations

import gzip
import json
import struct
import sys
import zlib
from pathlib import Path
from typing import Any, Final

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from bindings.archive.formats.detect import detect
from bindings.archive.formats.json_lines import JsonLines, _read_by_arrow
from bindings.archive.formats.parquet import Parquet
from bindings.archive.kafka.segment import UNCERTAIN, KafkaSegment
from bindings.archive.kafka.walk import NOT_ABOVE, NOT_BELOW
from bindings.archive.mapped import TIMES, Mapped
from bindings.archive.mapping import FieldMapping
from bindings.archive.rabbitmq.fetched import Fetched
from bindings.archive.rabbitmq.rabtap import Rabtap
from bindings.archive.rabbitmq.tracing import TracingText
from bindings.archive.reading import LineBlock
from bindings.archive.record import Record, build_batch
from bindings.archive.rocketmq import index as rocketmq_index
from bindings.archive.rocketmq.log import RocketmqLog
from bindings.archive.unpacking import BLOCK_BYTES, read_unpacked
from bindings.commands.archive import archive_command
from exchange.errors import InputError
from exchange.limits import BODY_BYTES, NESTING, TABLE_ITEMS
from exchange.values.message import Message
from tests.bindings.archive.test_every_format import FETCHED
from tests.bindings.archive.test_traces import RABTAP, text_entry
from tests.support.archives.kafka_files import KafkaRecord, batch, varint
from tests.support.archives.reads import read
from tests.support.archives.rocketmq_files import blank, index, message, store

KAFKA: Final = KafkaSegment(FieldMapping(routing_key="=k"))
LOG: Final = RocketmqLog(FieldMapping(routing_key="=k"))
GOOD: Final = b'{"exchange": "a", "routing_key": "b"}\n'


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.parent.mkdir()
    return path


# JSON


def nested(depth: int, opening: str, closing: str) -> bytes:
    value = opening * depth + closing * depth
    return b'{"exchange": "a", "routing_key": "b", "headers": {"h": %s}}\n' % value.encode()


@pytest.mark.parametrize("depth", [NESTING + 1, 5_000, 20_000, 500_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_line_nested_too_deeply_is_one_bad_record(tmp_path: Path, depth: int, opening: str, closing: str) -> None:
    deep = nested(depth, opening, closing)
    (tmp_path / "f").write_bytes(GOOD + deep + GOOD)
    result = read(JsonLines(), tmp_path / "f")
    assert (len(result.records), [bad.reason for bad in result.bad]) == (
        2,
        ["JSON nested too deeply, beyond 100 arrays and objects"],
    )
    assert _read_by_arrow(LineBlock(deep.replace(b'"headers"', b'"other"') + GOOD, 0), "f", None) is None


def test_a_line_as_deep_as_allowed_is_read_and_brackets_in_texts_do_not_count(tmp_path: Path) -> None:
    text = b'{"exchange": "a", "routing_key": "b", "body": "%s"}\n' % (b'[{\\"' * 1000)
    (tmp_path / "f").write_bytes(nested(NESTING - 2, "[", "]") + text)
    assert len(read(JsonLines(), tmp_path / "f").records) == 2


def test_a_line_of_more_items_than_any_message_has_is_one_bad_record(tmp_path: Path) -> None:
    line = b'{"exchange": "a", "routing_key": "b", "other": [%s]}\n' % b",".join([b"1"] * (TABLE_ITEMS + 2))
    (tmp_path / "f").write_bytes(GOOD + line)
    result = read(JsonLines(), tmp_path / "f")
    assert (len(result.records), result.bad[0].reason) == (1, f"JSON of more than {TABLE_ITEMS:,} items")


@pytest.mark.parametrize("size", [100, 1 << 20])
def test_a_field_name_that_is_not_utf_8_is_bad_however_the_file_is_split(tmp_path: Path, size: int) -> None:
    line = b'{"exchange": "a", "routing_key": "b", "other": {"\xff": 1}}\n'
    (tmp_path / "f").write_bytes((GOOD + line) * 5)
    result = read(JsonLines(), tmp_path / "f", size)
    assert (len(result.records), len(result.bad)) == (5, 5)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400, "1" + "0" * 5000])
def test_a_timestamp_beyond_all_numbers_is_a_bad_record(tmp_path: Path, number: str) -> None:
    (tmp_path / "f").write_bytes(GOOD + b'{"exchange": "a", "routing_key": "b", "timestamp": %s}\n' % number.encode())
    result = read(JsonLines(), tmp_path / "f")
    assert (len(result.records), len(result.bad)) == (1, 1)


def test_lines_with_an_origin_may_stand_among_others(tmp_path: Path) -> None:
    line = b'{"exchange": "a", "routing_key": "b", "origin": {"source": "x", "offset": 7}}\n'
    (tmp_path / "f.jsonl").write_bytes(GOOD + line + GOOD)
    result = read(JsonLines(), tmp_path / "f.jsonl")
    own = str(tmp_path / "f.jsonl")
    assert [(each.source, each.offset) for each in result.records] == [
        (own, 0), ("x", 7), (own, len(GOOD + line)),
    ]  # fmt: skip


def test_a_line_that_is_too_long_is_passed_over_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bindings.archive.reading.RECORD_BYTES", 1 << 20)
    long = b'{"exchange": "a", "routing_key": "b", "body": "%s"}\n' % (b"x" * (5 << 20))
    (tmp_path / "f").write_bytes(GOOD + long + GOOD)
    (tmp_path / "f.gz").write_bytes(gzip.compress(GOOD + long + GOOD))
    for name in ("f", "f.gz"):
        result = read(JsonLines(), tmp_path / name)
        assert len(result.records) == 2
        assert len(result.bad) == 1


def test_a_gzipped_file_is_unpacked_in_pieces_however_small_it_is(tmp_path: Path) -> None:
    (tmp_path / "f.gz").write_bytes(gzip.compress(bytes(64 << 20)))
    sizes = [len(piece) for piece in read_unpacked(str(tmp_path / "f.gz"))]
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= BLOCK_BYTES


def test_an_array_of_the_management_api_is_an_archive(tmp_path: Path) -> None:
    binary = FETCHED | {"payload": "/w==", "payload_bytes": 1, "payload_encoding": "base64", "properties": []}
    cut = FETCHED | {"payload_bytes": 99}
    (tmp_path / "got.json").write_text(json.dumps([FETCHED, binary, cut], indent=2))
    ((_, form),) = detect(str(tmp_path)).files
    assert isinstance(form, Fetched)
    first, second, third = read(form, tmp_path / "got.json").records
    assert (first.message.headers, first.message.properties, first.message.body) == (
        {"h": "v"}, {"delivery_mode": 2}, b"body",
    )  # fmt: skip
    assert second.message.body == b"\xff"
    assert (third.has_body, third.size) == (False, 99)
    (tmp_path / "got.json").write_text(json.dumps([FETCHED, binary, cut])[:-9])
    torn = read(form, tmp_path / "got.json")
    assert (len(torn.records), len(torn.bad)) == (2, 2)


def test_objects_of_rabtap_are_read_one_by_one_however_many_do_not_end(tmp_path: Path) -> None:
    whole = json.dumps(RABTAP, indent=1).encode() + b"\n"
    (tmp_path / "f.json").write_bytes(whole + b'{"a":[\n' * 20_000 + whole)
    result = read(Rabtap(), tmp_path / "f.json")
    assert (len(result.records), len(result.bad)) == (2, 20_000)


# Text of the tracing plugin


@pytest.mark.parametrize(
    "field",
    [
        '{<<"k">>,long,%s}' % ("9" * 5000),
        '[{<<"k">>,table,' * 2000,
        '{<<"k">>,decimal,{1000000000000000000000,5}}',
        '{<<"k">>,longstr,200000000}',
        '{<<"k">>,longstr,1000000000000}',
        '{<<"k">>,binary,1000000000000}',
        '{<<"k">>,array,[' + "{long,1}," * TABLE_ITEMS + "{long,1}]}",
        "]\nRouted queues: [" * 20_000,
        "]\nProperties:   [" * 20_000,
        '{<<"k">>,float,1.0e999999}',
        '{<<"k">>,signedint,99999999999}',
    ],
    ids=range(11),
)
def test_an_entry_made_to_stop_the_reader_is_one_bad_record(tmp_path: Path, field: str) -> None:
    forged = text_entry("b").replace('{<<"headers">>', f'{field},{{<<"headers">>')
    (tmp_path / "t.log").write_text(text_entry("a") + forged + text_entry("c"))
    result = read(TracingText(), tmp_path / "t.log")
    assert len(result.records) >= 2
    assert len(result.records) + len(result.bad) == 3


def test_an_entry_that_is_too_long_is_reported_and_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bindings.archive.rabbitmq.tracing_text.RECORD_BYTES", 1 << 20)
    (tmp_path / "t.log").write_text(text_entry("a") + text_entry("x" * (9 << 20)) + text_entry("c"))
    result = read(TracingText(), tmp_path / "t.log")
    assert (len(result.records), len(result.bad)) == (2, 1)


# Kafka


def raw_batch(base: int, records: bytes, count: int, last: int = 0) -> bytes:
    rest = struct.pack(">hiqqqhii", 0, last, 0, 0, -1, -1, -1, count) + records
    return struct.pack(">qiibI", base, len(rest) + 9, 0, 2, google_crc32c.value(rest)) + rest


def record_with(count_of_headers: int, headers: bytes = b"") -> bytes:
    body = b"\0" + varint(0) + varint(0) + varint(-1) + varint(-1) + varint(count_of_headers) + headers
    return varint(len(body)) + body


@pytest.mark.parametrize(
    "forged",
    [
        raw_batch(0, record_with(1 << 62) * 2, 2), raw_batch(0, record_with(1 << 62) * 4, 4),
        raw_batch(0, record_with(TABLE_ITEMS + 1), 1), raw_batch(0, b"\xff" * 100_000, 9),
        raw_batch(0, b"", 2**31 - 1), raw_batch(0, record_with(0), 1, 0).replace(b"\0", b"\0"),
    ],
    ids=range(6),
)  # fmt: skip
def test_a_batch_of_impossible_counts_is_one_bad_record(segment: Path, forged: bytes) -> None:
    segment.write_bytes(forged + batch(9, [KafkaRecord(0, value=b"v")]))
    result = read(KAFKA, segment)
    assert [record.offset for record in result.records][-1] == 9
    assert len(result.records) + len(result.bad) == 2


def test_headers_of_a_record_that_has_very_many_are_read_one_by_one(segment: Path) -> None:
    headers = [(f"h{n}", None if n % 7 == 0 else b"v" * (n % 300)) for n in range(500)]
    segment.write_bytes(batch(0, [KafkaRecord(0, headers=headers[:3]), KafkaRecord(1, headers=headers)]))
    records = read(KAFKA, segment).records
    assert [len(record.message.headers) - 3 for record in records] == [3, 500]
    assert records[1].message.headers["h8"] == "v" * 8


def packed_batch(codec: int, data: bytes) -> bytes:
    packed = gzip.compress(data) if codec == 1 else pa.compress(data, {3: "lz4", 4: "zstd"}[codec], asbytes=True)
    rest = struct.pack(">hiqqqhii", codec, 0, 0, 0, -1, -1, -1, 1) + packed
    return struct.pack(">qiibI", 0, len(rest) + 9, 0, 2, google_crc32c.value(rest)) + rest


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_a_batch_that_unpacks_to_too_much_is_one_bad_record(
    segment: Path, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bindings.archive.kafka.packing.BATCH_BYTES", 1 << 20)
    segment.write_bytes(packed_batch(codec, bytes(64 << 20)) + batch(9, [KafkaRecord(0)]))
    result = read(KAFKA, segment)
    assert ([record.offset for record in result.records], len(result.bad)) == ([9], 1)
    assert result.bad[0].reason == "a record batch that cannot be unpacked: it has more than 1 MiB"


def test_recovery_from_damage_hashes_each_byte_a_few_times_only(segment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates that overlap: each byte but the first ones begins a header that could be one, of most of the file."""
    hashed = 0
    value = google_crc32c.value

    def counted(data: bytes) -> int:
        nonlocal hashed
        hashed += len(data)
        return int(value(data))

    monkeypatch.setattr(google_crc32c, "value", counted)
    for size in (1 << 15, 1 << 16):
        fake = struct.pack(">qiibIhiqqqhii", 0, size // 2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1)
        segment.write_bytes(fake * (size // len(fake)) + batch(0, [KafkaRecord(0)]))
        hashed = 0
        result = read(KAFKA, segment)
        assert len(result.records) == 1
        assert hashed <= TIMES * segment.stat().st_size


def three_batches() -> list[bytes]:
    return [batch(10 * n, [KafkaRecord(k, value=b"%d" % n) for k in range(3)]) for n in range(4)]


def with_offset(data: bytes, offset: int) -> bytes:
    return struct.pack(">q", offset) + data[8:]


@pytest.mark.parametrize("size", [1 << 20, 100])
def test_offsets_must_rise_and_one_that_does_not_costs_its_batch_only(segment: Path, size: int) -> None:
    first, second, third, last = three_batches()
    for written, kept, reason in (
        ([first, second, second, third, last], [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32], {NOT_ABOVE, NOT_BELOW}),
        ([first, with_offset(second, 1 << 40), third, last], [0, 1, 2, 20, 21, 22, 30, 31, 32], {NOT_BELOW}),
        ([first, second, with_offset(third, 1), last], [0, 1, 2, 10, 11, 12, 30, 31, 32], {NOT_ABOVE}),
    ):
        segment.write_bytes(b"".join(written))
        result = read(KAFKA, segment, size)
        assert [record.offset for record in result.records] == kept
        assert len(result.bad) == 1
        assert result.bad[0].reason in reason


def transaction(base: int, *, producer: int, control: bytes | None = None) -> bytes:
    record = KafkaRecord(0, key=control, value=b"v")
    data = bytearray(batch(base, [record], flags=0x10 | (0x20 if control else 0)))
    data[43:51] = struct.pack(">q", producer)
    data[17:21] = struct.pack(">I", google_crc32c.value(bytes(data[21:])))
    return bytes(data)


def test_a_transaction_whose_marker_is_damaged_is_not_taken_for_a_committed_one(segment: Path) -> None:
    abort, commit = struct.pack(">hh", 0, 0), struct.pack(">hh", 0, 1)
    marker = bytearray(transaction(1, producer=7, control=abort))
    marker[-2] ^= 1
    segment.write_bytes(
        transaction(0, producer=7) + marker + transaction(2, producer=7) + transaction(3, producer=7, control=commit)
    )
    result = read(KAFKA, segment)
    assert [record.offset for record in result.records] == [2]
    assert result.skipped[UNCERTAIN] == 1
    assert len(result.bad) == 1


# RocketMQ


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / f"{0:020}"


def test_recovery_in_a_log_hashes_each_byte_a_few_times_only(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that overlap, each of most of the file, with a checksum that is wrong."""
    hashed = 0
    crc32 = zlib.crc32

    def counted(data: Any) -> int:
        nonlocal hashed
        hashed += len(data)
        return crc32(data)

    monkeypatch.setattr("bindings.archive.rocketmq.log.zlib.crc32", counted)
    for size in (1 << 16, 1 << 17):
        data = bytearray(size)
        step = 64
        for place in range(0, size // 2, step):
            struct.pack_into(">iIiiiqqiq", data, place, size // 2, 0xDAA320A7, 1, 0, 0, 0, place, 0, 0)
        log.write_bytes(bytes(data) + message(size, "t", {}, b"body"))
        hashed = 0
        assert len(read(LOG, log).records) == 1
        assert hashed <= TIMES * log.stat().st_size


def test_a_blank_in_the_middle_of_a_file_does_not_end_it(log: Path) -> None:
    first = message(0, "t", {}, b"1")
    gap = blank(120)
    log.write_bytes(first + gap + message(len(first + gap), "t", {}, b"2") + blank(100))
    result = read(LOG, log)
    assert [record.message.body for record in result.records] == [b"1", b"2"]
    assert [bad.offset for bad in result.bad] == [len(first)]


def test_records_within_a_damaged_body_are_not_read(log: Path) -> None:
    first = message(0, "t", {}, bytes(200))
    hidden = message(150, "forged", {}, b"x")
    data = bytearray(first + message(len(first), "t", {}, b"2"))
    data[150 : 150 + len(hidden)] = hidden
    log.write_bytes(data)
    result = read(LOG, log)
    assert [record.message.exchange for record in result.records] == ["t"]
    assert [bad.reason for bad in result.bad] == ["a body whose checksum is wrong"]


def with_checksum(place: int, topic: str, value: str) -> bytes:
    """Return a record as a broker writes it with ``enabledAppendPropCRC``."""
    record = message(place, topic, {"own": value, "__CRC32#": "0" * 10}, b"body")
    digits = str(zlib.crc32(record[:-20]) & 0x7FFFFFFF)[::-1].ljust(10, "0")
    return record[:-11] + digits.encode() + b"\x02"


def test_a_record_whose_own_checksum_is_wrong_is_refused(log: Path) -> None:
    first = with_checksum(0, "t", "one")
    second = with_checksum(len(first), "t", "two")
    log.write_bytes(first + second.replace(b"two", b"twp"))
    result = read(LOG, log)
    assert [record.message.headers for record in result.records] == [{"own": "one"}]
    assert [bad.reason for bad in result.bad] == ["a record whose checksum is wrong, and the file ends with it"]


def test_a_body_may_not_unpack_to_more_than_a_limit(log: Path) -> None:
    log.write_bytes(message(0, "t", {}, zlib.compress(bytes(BODY_BYTES + 1)), flag=1))
    assert [bad.reason for bad in read(LOG, log).bad] == [f"a body that unpacks to more than {BODY_BYTES:,} bytes"]


def test_a_store_with_times_out_of_range_is_inspected(tmp_path: Path) -> None:
    from tests.support.archives.rocketmq_files import Sent

    store(tmp_path, [Sent("SCHEDULE_TOPIC_XXXX", 2, {"INNER_NUM": "9" * 5000}, flag=0), Sent("a", 0)])
    (tmp_path / "checkpoint").write_bytes(struct.pack(">qqqqq", 2**63 - 1, -(2**63), 2**62, 0, 0) + bytes(4056))
    for path in (tmp_path / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "2").iterdir():
        data = bytearray(path.read_bytes())
        struct.pack_into(">q", data, 12, 2**63 - 1)
        path.write_bytes(data)
    for options in ((), ("--json",)):
        result = CliRunner().invoke(archive_command, ["inspect", *options, str(tmp_path)])
        assert result.exit_code == 0, result.exception
        assert "microseconds since 1970" in result.stdout


def test_a_forged_index_with_many_layouts_is_checked_a_few_times_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = 0
    slow = rocketmq_index._fits_chains

    def counted(*arguments: Any) -> bool:
        nonlocal looked
        looked += 1
        return slow(*arguments)

    monkeypatch.setattr(rocketmq_index, "_fits_chains", counted)
    data = bytearray(index(7, 1000, [("t#k", 5, 1000)] * 3))
    data[40:] = struct.pack(">iqii", 5, 5, 5, 5) * ((len(data) - 40) // 20)
    (tmp_path / "20260101000000000").write_bytes(data)
    with pytest.raises(InputError, match="its units are not where it states"):
        rocketmq_index.open_index(str(tmp_path / "20260101000000000"))
    assert looked <= rocketmq_index.LAYOUTS


# Parquet


def tamper(path: Path, kind: str, value: str | None) -> Path:
    rows = build_batch([Record(Message("x", "k", {"h": 1}, {}, b"b")), Record(Message("x", "k", {"h": 2}, {}, b"b"))])
    headers = rows.column("headers")
    fields = pa.StructArray.from_arrays(
        [pa.array(["long", kind]), pa.array(["1", value])], fields=list(headers.type.item_type)
    )
    forged = pa.MapArray.from_arrays(headers.offsets, headers.keys, fields, headers.type)
    table = pa.Table.from_batches([rows.set_column(rows.schema.get_field_index("headers"), "headers", forged)])
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("long", "x"), ("long", None), ("long", "9" * 30), ("long", "9" * 5000), ("octet", "1"), ("timestamp", "-1"),
        ("decimal", "1e999999999"), ("bool", "maybe"), ("binary", "?"), ("array", "[" * 100_000), ("table", "{}}"),
        ("double", "x"), ("float", "1e300"), ("longstr", None), ("", "1"),
    ],
)  # fmt: skip
def test_a_value_of_parquet_that_is_not_of_its_type_is_one_bad_record(
    tmp_path: Path, kind: str, value: str | None
) -> None:
    path = tamper(tmp_path / "f.parquet", kind, value)
    result = read(Parquet(), path)
    assert ([record.message.headers for record in result.records], len(result.bad)) == ([{"h": 1}], 1)
    coded = [item for split in Parquet().plan(str(path)) for item in Parquet().read_coded(split, ["headers"])]
    assert [getattr(item, "num_rows", "bad") for item in coded] == ["bad", 1]


# Gzipped logs


def test_a_gzipped_segment_that_is_cut_between_batches_is_reported(segment: Path) -> None:
    data = b"".join(three_batches())
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)  # all of it is there, and the end is not
    path = segment.with_name(segment.name + ".gz")
    path.write_bytes(packed)
    result = read(KAFKA, path)
    assert len(result.records) == 12
    assert [bad.reason for bad in result.bad] == ["the gzipped file ends in the middle"]


def test_a_gzipped_log_unpacks_to_a_limit(segment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bindings.archive.mapped.FILE_BYTES", 8 << 20)
    path = segment.with_name(segment.name + ".gz")
    path.write_bytes(gzip.compress(batch(0, [KafkaRecord(0)]) + bytes(64 << 20)))
    mapped = Mapped(str(path))
    with mapped as data:
        assert len(data) <= 8 << 20
    assert len(read(KAFKA, path).bad) == 1


def test_a_deep_line_does_not_depend_on_the_stack_it_is_read_from(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(nested(NESTING - 2, "[", "]"))

    def below(depth: int) -> int:
        return below(depth - 1) if depth else len(read(JsonLines(), tmp_path / "f").records)

    assert below(0) == below(sys.getrecursionlimit() // 3) == 1
