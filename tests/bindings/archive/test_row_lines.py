"""Rows as JSON, as Spark writes a DataFrame of records: what they say of types and bytes is what Parquet says of it."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.delimited import Delimited
from bindings.archive.formats.json_lines import JsonLines, encode_line
from bindings.archive.formats.parquet import Parquet
from bindings.archive.record import Record, build_batch
from exchange.values.message import Message
from tests.exchange.test_field_json import VALUES
from tests.support.archives.reads import FILES, RECORDS, facts, read, table

HELD = RECORDS.map(lambda record: record._replace(time=None if record.time is None else record.time // 1000 * 1000))
"""Records with times that Spark writes whole."""
FIELDS = st.dictionaries(st.sampled_from(["a", "b", "ü"]), VALUES, min_size=1, max_size=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


def _to_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _to_json(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        is_map = any(isinstance(each, tuple) for each in value)
        return {name: _to_json(each) for name, each in value} if is_map else [*map(_to_json, value)]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value


def _to_row(record: Record) -> dict[str, Any]:
    """Return a row as ``DataFrame.write.json`` of Spark writes it."""
    row: dict[str, Any] = _to_json(build_batch([record]).to_pylist()[0])
    return row | {name: row[name] or {} for name in ("headers", "properties")}


@FILES
@given(st.lists(HELD, max_size=4))
def test_rows_that_spark_wrote_are_the_records_that_they_were(folder: Path, records: list[Record]) -> None:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(_to_row(record)) + "\n" for record in records), "utf-8")
    found = read(JsonLines(), path)
    assert not found.bad
    assert [facts(record) for record in found.records] == [facts(record) for record in records]


@FILES
@given(FIELDS)
def test_headers_of_rows_keep_their_types_in_every_form(folder: Path, headers: dict[str, Any]) -> None:
    record = Record(Message("x", "k", headers))
    row = _to_row(record)
    told = {name: row[name] for name in ("exchange", "routing_key", "headers")}
    lines = folder / "some.jsonl"
    lines.write_text(json.dumps(told) + "\n", "utf-8")
    tables = {
        "struct.parquet": told["headers"],  # as Spark reads the lines again
        "text.parquet": json.dumps(told["headers"]),
        "bytes.parquet": json.dumps(told["headers"]).encode(),
        "list.parquet": [{"key": name, "value": each} for name, each in told["headers"].items()],
    }
    found = {"lines": read(JsonLines(), lines)}
    for name, column in tables.items():
        pq.write_table(pa.Table.from_pylist([told | {"headers": column}]), folder / name)
        found[name] = read(Parquet(), folder / name)
    csv = folder / "text.csv"
    text = json.dumps(told["headers"]).replace('"', '""')
    csv.write_text(f'exchange,routing_key,headers\nx,k,"{text}"\n', "utf-8", newline="")
    found["csv"] = read(Delimited(), csv)
    assert not [each.bad for each in found.values() if each.bad]
    read_headers = {name: [table(each.message.headers) for each in one.records] for name, one in found.items()}
    assert read_headers == {name: [table(headers)] for name in found}


def test_headers_of_a_record_that_look_like_rows_stay_tables(folder: Path) -> None:
    """Our own lines say what each value is: nothing is guessed there."""
    record = Record(Message("x", "k", {"h": {"type": "long", "value": "1"}}), source="s", offset=1)
    path = folder / "own.jsonl"
    path.write_bytes(encode_line(record))
    assert [facts(each) for each in read(JsonLines(), path).records] == [facts(record._replace(size=0))]


THEIRS: list[Any] = [
    "l", 1, {"type": "of theirs", "value": "1"}, {"type": "long", "value": 1}, {"type": "void", "value": "1"},
    {"type": "long", "value": "1", "unit": "s"},
]  # fmt: skip


@pytest.mark.parametrize("value", THEIRS)
def test_tables_of_others_stay_tables(folder: Path, value: Any) -> None:
    path = folder / "theirs.jsonl"
    line = {"exchange": "x", "routing_key": "k", "headers": {"a": {"type": "long", "value": "1"}, "b": value}}
    path.write_text(json.dumps(line) + "\n", "utf-8")
    assert [each.message.headers for each in read(JsonLines(), path).records] == [line["headers"]]


@pytest.mark.parametrize(("change", "reason"), [
    ({"body": "no base64"}, "body: in a row of columns, it is written in base64"),
    ({"body": 7}, "body: in a row of columns, it is written in base64"),
    ({"body_size": -1}, "body_size is not a number of bytes"),
    ({"vhost": 7}, "vhost is not a string"),
    ({"routed_queues": [7]}, "routed_queues is not a list of names"),
    ({"headers": {"a": 1}}, "headers: in a row of columns, each field is an object of its type and its value, as text"),
    ({"headers": {"a": {"type": "long", "value": "x"}}}, "long"),
])  # fmt: skip
def test_rows_that_are_none_say_why(folder: Path, change: dict[str, Any], reason: str) -> None:
    path = folder / "wrong.jsonl"
    row = _to_row(Record(Message("x", "k", {}, {}, b"b"), source="s", offset=1))
    path.write_text(json.dumps(row | change) + "\n", "utf-8")
    found = read(JsonLines(), path)
    assert not found.records
    assert [reason in bad.reason for bad in found.bad] == [True]
