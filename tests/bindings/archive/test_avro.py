"""Avro of other programs: the same messages as JSON lines with the same fields, in whatever blocks they are packed."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib import util
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.avro import records
from bindings.archive.avro.container import encode_container, read_header
from bindings.archive.avro.records import Avro
from bindings.archive.avro.schema import convert_schema
from bindings.archive.formats.detect import detect
from bindings.archive.mapping import FieldMapping, parse_columns
from bindings.archive.reading import Bad
from bindings.archive.record import Record, to_records
from exchange.errors import InputError
from exchange.values.field_json import encode_table
from exchange.values.message import Message
from tests.support.archives.avro_files import CODECS, encode_rows, record_schema, start_of_block
from tests.support.archives.reads import table
from tests.support.tiers import examples

TYPED = ["null", "string", "long", "boolean", "double", "bytes"]
ROWS = record_schema(
    exch="string", rkey=["null", "string"], hdrs=["null", {"type": "map", "values": TYPED}],
    ts={"type": "long", "logicalType": "timestamp-millis"}, payload="bytes",
)  # fmt: skip
TEXTS = ("", "a", "order.eu", "ü€", "two\nlines", "nul\0")
KEYED = record_schema(exchange="string", routing_key="string")


def read(path: Path, *columns: str, split_bytes: int = 1 << 20) -> list[Record | Bad]:
    found: list[Record | Bad] = []
    for form, split in detect(str(path), FieldMapping(columns=parse_columns(columns))).plan(split_bytes):
        for item in form.read_coded(split):
            found += to_records(item) if isinstance(item, pa.RecordBatch) else [item]  # type: ignore[list-item]
    return found


def facts(found: list[Record | Bad]) -> list[Any]:
    return [
        (each.message.exchange, each.message.routing_key, table(each.message.headers), each.message.body, each.time)
        for each in found
        if isinstance(each, Record)
    ]


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@examples(60)
@given(
    seed=st.integers(0, 2**32),
    codec=st.sampled_from(sorted(CODECS)),
    block=st.sampled_from([1, 60, 16_000]),
    split=st.sampled_from([1, 100, 1 << 20]),
    batch=st.sampled_from([1, 3, 8_192]),
)
def test_avro_has_the_messages_that_json_lines_have(
    tmp_path_factory: pytest.TempPathFactory, seed: int, codec: str, block: int, split: int, batch: int
) -> None:
    """The types of headers and rows without a key included; in blocks, splits and batches of any size."""
    chance, folder = Random(seed), tmp_path_factory.mktemp("avro")
    values = ["x", "", 5, 2**40, True, 0.5, None, b"b\xff"]
    rows: list[dict[str, Any]] = [
        {
            "exch": "x",
            "rkey": chance.choice([None, *TEXTS]),
            "hdrs": chance.choice([None, {chance.choice("abc"): chance.choice(values) for _ in range(3)}]),
            "ts": chance.choice([0, 1_793_491_200_123, -(2**62)]),
            "payload": chance.choice(TEXTS).encode(),
        }
        for _ in range(chance.randrange(1, 12))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BATCH_ROWS", batch)
        data = encode_rows(ROWS, rows, block_bytes=block, codec=codec)
        found = read(write(folder / "a.avro", data), split_bytes=split)
    lines = [row | {"payload": row["payload"].decode(), "ts": row["ts"] / 1_000} for row in rows]
    for line in lines:
        line["hdrs"] = None if line["hdrs"] is None else encode_table(line["hdrs"])
    text = "".join(json.dumps(line) + "\n" for line in lines)
    expected = read(write(folder / "a.jsonl", text.encode()), "exchange=exch", "routing_key=rkey")
    sound = [row["rkey"] is not None for row in rows]
    assert [each.offset for each in found if isinstance(each, Record)] == [
        n for n, is_sound in enumerate(sound) if is_sound
    ]
    assert sorted(each.offset or 0 for each in found if isinstance(each, Bad)) == [
        n for n, each in enumerate(sound) if not each
    ]
    possible = [row["ts"] > -(2**60) for row, is_sound in zip(rows, sound, strict=True) if is_sound]
    assert [fact for fact, each in zip(facts(found), possible, strict=True) if each] == [
        fact for fact, each in zip(facts(expected), possible, strict=True) if each
    ]


@pytest.mark.parametrize(
    ("kind", "value", "time"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, 1_500, 1_500_000),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1_500, 1_500),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 1_500, 1),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, 2, 2_000),
        (["null", {"type": "int", "logicalType": "date"}], date(1970, 1, 2), 86_400_000_000),
        (["null", {"type": "int", "logicalType": "date"}], None, None),
        ("long", 1_793_491_200, 1_793_491_200_000_000),
        ("string", "2026-11-01T00:00:00Z", 1_793_491_200_000_000),
        ({"type": "long", "logicalType": "timestamp-millis"}, datetime(2026, 11, 1, tzinfo=UTC), 1_793_491_200_000_000),
    ],
)  # fmt: skip
def test_times_of_all_kinds_are_times(kind: Any, value: Any, time: int | None, tmp_path: Path) -> None:
    data = encode_rows(record_schema(exch="string", rkey="string", ts=kind), [{"exch": "x", "rkey": "k", "ts": value}])
    (found,) = read(write(tmp_path / "a.avro", data))
    assert isinstance(found, Record)
    assert found.time == time


def test_paths_lead_through_records_unions_and_maps(tmp_path: Path) -> None:
    """As Debezium and Connect write: what is null at times is a union with null."""
    place = record_schema(key="string", kind={"type": "enum", "name": "Kind", "symbols": ["paid", "sent"]})
    schema = record_schema(
        before=["null", place], after=["null", "com.example.Event2"], by={"type": "map", "values": "string"}
    )
    schema["fields"][0]["type"][1]["name"] = "Event2"
    rows = [{"before": None, "after": {"key": "a", "kind": "paid"}, "by": {"name": "orders"}}]
    path = write(tmp_path / "a.avro", encode_rows(schema, rows))
    (found,) = read(path, "exchange=by.name", "routing_key=after.kind", "headers=after")
    assert isinstance(found, Record)
    assert found.message == Message("orders", "paid", {"key": "a", "kind": "paid"})


def test_decimals_and_numbers_keep_their_types_in_headers(tmp_path: Path) -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}
    headers = {"type": "record", "name": "Headers", "fields": [
        {"name": "price", "type": price}, {"name": "n", "type": "int"}, {"name": "none", "type": ["null", "string"]},
    ]}  # fmt: skip
    rows = [{"exch": "x", "rkey": "k", "hdrs": {"price": Decimal("12.50"), "n": 5, "none": None}}]
    path = write(tmp_path / "a.avro", encode_rows(record_schema(exch="string", rkey="string", hdrs=headers), rows))
    (found,) = read(path)
    assert isinstance(found, Record)
    assert found.message.headers == {"price": Decimal("12.50"), "n": 5}


def test_a_damaged_block_costs_that_block(tmp_path: Path) -> None:
    rows = [{"exchange": "x", "routing_key": f"k{n}" * 5} for n in range(6)]
    whole = encode_rows(KEYED, rows, block_bytes=1)
    for at in range(3):  # the number of records, their size, and the size of a text
        data = bytearray(whole)
        data[start_of_block(whole, 2) + at] ^= 0x59
        found = read(write(tmp_path / "a.avro", bytes(data)))
        assert [each.offset for each in found if isinstance(each, Bad)] == [2]
        assert [each.offset for each in found if isinstance(each, Record)] == [0, 1, 3, 4, 5]


def test_records_behind_a_damaged_block_keep_their_numbers(tmp_path: Path) -> None:
    data = bytearray(encode_rows(KEYED, [{"exchange": "x", "routing_key": "k" * 10}] * 6, block_bytes=14))
    data[start_of_block(bytes(data), 1) + 2] ^= 0x59
    found = read(write(tmp_path / "a.avro", bytes(data)))
    assert [(type(each), each.offset) for each in found] == [
        (Record, 0), (Record, 1), (Bad, 2), (Record, 4), (Record, 5),
    ]  # fmt: skip
    assert [each.records for each in found if isinstance(each, Bad)] == [2]


def test_a_file_that_is_cut_off_is_read_up_to_there_and_is_not_complete(tmp_path: Path) -> None:
    data = encode_rows(KEYED, [{"exchange": "x", "routing_key": f"k{n}"} for n in range(4)], block_bytes=1)
    path = write(tmp_path / "a.avro", data[:-3])
    assert [type(each) for each in read(path, split_bytes=1)] == [Record, Record, Record, Bad]
    assert not Avro().is_complete(str(path))
    assert Avro().is_complete(str(write(path, data)))
    assert Avro().plan_complete(str(path)).end == len(data)


def test_a_gzipped_file_is_read(tmp_path: Path) -> None:
    data = gzip.compress(encode_rows(KEYED, [{"exchange": "x", "routing_key": f"k{n}"} for n in range(5_000)]))
    assert len(read(write(tmp_path / "a.avro.gz", data))) == 5_000
    found = read(write(tmp_path / "a.avro.gz", data[:-90]))
    assert [each.reason for each in found if isinstance(each, Bad)][-1] == "the gzipped file ends in the middle"


def test_without_the_package_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.avro", encode_rows(KEYED, [{"exchange": "x", "routing_key": "k"}]))
    monkeypatch.setattr(records, "find_spec", lambda name: None if name == "fastavro" else util.find_spec(name))
    with pytest.raises(InputError, match=r"this is Avro, .* install it with: pip install 'fastavro>=1\.9'$"):
        detect(str(path))


def test_the_columns_that_are_there_are_listed(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.avro", encode_rows(record_schema(topic="string", k="string"), [{"topic": "x", "k": "y"}])
    )
    with pytest.raises(InputError, match="its columns are topic, k; name them with --column exchange=NAME"):
        detect(str(path))
    with pytest.raises(InputError, match="there is no column 'rk'; there are: k, topic"):
        read(path, "exchange=topic", "routing_key=rk")
    with pytest.raises(InputError, match="there is no column 'hdrs'; there are: k, topic"):
        read(path, "exchange=topic", "routing_key=k", "headers=hdrs")
    assert detect(
        str(path), FieldMapping(columns=parse_columns(["exchange=topic", "routing_key=k"]))
    ).list_contents().notes == ("columns taken: exchange = topic, routing_key = k",)


def test_headers_that_are_texts_only_are_noted(tmp_path: Path) -> None:
    schema = record_schema(exchange="string", routing_key="string", headers={"type": "map", "values": "string"})
    path = write(
        tmp_path / "a.avro", encode_rows(schema, [{"exchange": "x", "routing_key": "k", "headers": {"n": "5"}}])
    )
    assert detect(str(path)).list_contents().notes == (
        "its headers are texts only, so numbers and booleans have lost their types",
    )


def _nested(depth: int) -> Any:
    kind: Any = "string"
    for n in range(depth):
        kind = {
            "type": "record",
            "name": f"R{n}",
            "fields": [{"name": name, "type": kind if name == "a" else f"R{n - 1}"} for name in "ab"[: 1 + (n > 0)]],
        }
    return kind


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ({"type": "array", "items": "null"}, "arrays of nothing"),
        ({"type": "array", "items": record_schema(a="null") | {"name": "Empty"}}, "arrays of nothing"),
        (
            ["null", "string", record_schema(next=["null", "Node"]) | {"name": "Node", "namespace": ""}],
            "contains itself",
        ),
        (_nested(30), "more than 10,000 types"),
    ],
)
def test_schemas_that_could_take_any_time_or_memory_are_refused(kind: Any, reason: str, tmp_path: Path) -> None:
    schema = json.dumps(record_schema(exchange="string", routing_key="string", more=kind)).encode()
    path = write(tmp_path / "a.avro", encode_container(schema, 1, b"\x02x\x02k\0"))
    with pytest.raises(InputError, match=reason):
        convert_schema(read_header(path.read_bytes()).schema)
    (found,) = read(path)
    assert isinstance(found, Bad)
    assert reason in found.reason


def test_a_block_with_more_records_than_bytes_is_damaged(tmp_path: Path) -> None:
    path = write(tmp_path / "a.avro", encode_container(json.dumps(KEYED).encode(), 2**27, b"\x02x\x02k"))
    (found,) = read(path)
    assert isinstance(found, Bad)
    assert (found.reason, found.records) == ("a block of Avro with more records than bytes", None)


def test_a_value_that_no_column_holds_costs_its_record(tmp_path: Path) -> None:
    """A day that has more than 32 bits, which only a damaged file can have."""
    schema = record_schema(exchange="string", routing_key="string", ts={"type": "int", "logicalType": "date"})
    rows = b"\x02x\x02a\x02" + b"\x02x\x02b" + b"\xfe" * 7 + b"\x01" + b"\x02x\x02c\x04"
    found = read(write(tmp_path / "a.avro", encode_container(json.dumps(schema).encode(), 3, rows)))
    assert [each.message.routing_key for each in found if isinstance(each, Record)] == ["a", "c"]
    (bad,) = (each for each in found if isinstance(each, Bad))
    assert bad.offset == 1
    assert bad.reason.startswith("a record of Avro that is no row: ")
