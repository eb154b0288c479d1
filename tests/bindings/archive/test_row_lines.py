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
from bindings.archive.formats.detect import detect
from bindings.archive.formats.json_lines import JsonLines, encode_line
from bindings.archive.formats.mapped_lines import MappedLines
from bindings.archive.formats.parquet import Parquet, ParquetWriter
from bindings.archive.formats.row_lines import DOUBT, MARKS, is_row
from bindings.archive.mapping import FieldMapping
from bindings.archive.reading import Bias
from bindings.archive.record import SCHEMA, Record, build_batch
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
    told = {name: row[name] for name in ("exchange", "routing_key", "headers", "cc", "bcc")}
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
    csv.write_text(f'exchange,routing_key,headers,cc,source\nx,k,"{text}",,s\n', "utf-8", newline="")
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
@pytest.mark.parametrize("more", [{}, {"source": "app", "offset": 3, "time": 7}, {"cc": ["a"]}])
def test_tables_of_others_stay_tables_in_every_form(folder: Path, value: Any, more: dict[str, Any]) -> None:
    """A record without two of the columns by which rows of ours are known is of another program."""
    headers = {"a": {"type": "long", "value": "1"}, "b": value}
    line = {"exchange": "x", "routing_key": "k", "headers": headers, "body": "aGk="} | more
    lines, table_, csv = (folder / f"theirs.{kind}" for kind in ("jsonl", "parquet", "csv"))
    lines.write_text(json.dumps(line) + "\n", "utf-8")
    pq.write_table(pa.Table.from_pylist([line | {"headers": json.dumps(headers), "cc": None}]), table_)
    text = json.dumps(headers).replace('"', '""')
    csv.write_text(f'exchange,routing_key,headers,body\nx,k,"{text}",aGk=\n', "utf-8", newline="")
    renamed = folder / "renamed.jsonl"
    renamed.write_text(json.dumps({"exch" if name == "exchange" else name: each for name, each in line.items()}) + "\n")
    for form, path in ((JsonLines(), lines), (Parquet(), table_), (Delimited(), csv), (MappedLines(), renamed)):
        found = [(each.message.headers, each.message.body) for each in read(form, path).records]
        assert found == [(headers, b"aGk=")], path.name


COLUMNS = st.sets(st.sampled_from([name for name in SCHEMA.names if name not in ("exchange", "routing_key")]))


@FILES
@given(HELD, COLUMNS)
def test_a_selection_that_has_two_of_the_marks_is_a_row_and_another_one_is_as_it_stands(
    folder: Path, record: Record, columns: set[str]
) -> None:
    whole = _to_row(record)
    row = {name: each for name, each in whole.items() if name in columns or name in ("exchange", "routing_key")}
    known = len([name for name in MARKS if row.get(name) is not None]) >= 2
    assert is_row(row) is known
    path = folder / "some.jsonl"
    path.write_text(json.dumps(row) + "\n", "utf-8")
    found = read(JsonLines(), path)
    if not known:
        return
    [read_] = found.records
    assert not found.bad
    assert table(read_.message.headers) == table(record.message.headers if "headers" in columns else {})
    assert read_.message.body == (record.message.body if "body" in columns else b"")
    assert read_.has_body is ("body" in columns and record.has_body)


def test_a_selection_with_a_column_that_the_user_names_keeps_types_and_bodies(folder: Path) -> None:
    row = _to_row(Record(Message("x", "k", {"n": 5}, {}, b"\xff"), source="s", offset=1))
    path = folder / "named.jsonl"
    path.write_text(json.dumps(row) + "\n", "utf-8")
    [record] = read(MappedLines(FieldMapping(columns=(("exchange", "=y"),))), path).records
    assert record.message == Message("y", "k", {"n": 5}, {}, b"\xff")


def test_a_note_says_where_it_cannot_be_known_whether_records_are_rows(folder: Path) -> None:
    row = _to_row(Record(Message("x", "k", {"n": 5}, {}, b"b"), source="s", offset=1))
    few = {name: row[name] for name in ("exchange", "routing_key", "headers", "body")}
    for name, line, noted in (
        ("whole", row, False), ("few", few, True), ("plain", few | {"headers": {"n": 5}}, False),
        ("own", few | {"origin": {"source": "s"}}, False),
    ):  # fmt: skip
        path = folder / f"noted-{name}.jsonl"
        path.write_text(json.dumps(line) + "\n", "utf-8")
        assert (DOUBT in detect(str(path)).list_contents().notes) is noted, name
        columns = {column: each for column, each in line.items() if column != "properties"}  # empty
        pq.write_table(pa.Table.from_pylist([columns]), folder / "noted.parquet")
        if name != "own":
            notes = detect(str(folder / "noted.parquet")).list_contents().notes
            assert (DOUBT in notes) is noted, name


@pytest.mark.parametrize("offset", [None, 7])
def test_a_place_that_is_unknown_stays_unknown_in_every_form(folder: Path, offset: int | None) -> None:
    record = Record(Message("x", "k"), 0, None, 0, source="queue orders", offset=offset)
    rows, lines = folder / "rows.jsonl", folder / "lines.jsonl"
    rows.write_text(json.dumps(_to_row(record)) + "\n", "utf-8")
    lines.write_bytes(encode_line(record))
    with ParquetWriter(folder / f"own-{offset}", Bias.UNKNOWN) as writer:
        writer.write(build_batch([record]))
    [own] = (folder / f"own-{offset}").rglob("*.parquet")
    for form, path in ((JsonLines(), rows), (JsonLines(), lines), (Parquet(), own)):
        assert [(each.source, each.offset) for each in read(form, path).records] == [("queue orders", offset)]


@pytest.mark.parametrize(("change", "reason"), [
    ({"body": "no base64"}, "body: in a row of columns, it is written in base64"),
    ({"body": 7}, "body: in a row of columns, it is written in base64"),
    ({"body_size": -1}, "body_size is not a number of bytes"),
    ({"offset": "7"}, "offset is not a number"),
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
