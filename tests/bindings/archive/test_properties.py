"""What AMQP cannot carry as a property is a bad record to every format and every command, and a replay agrees."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.fields import TableBuilder
from bindings.archive.formats.detect import detect
from bindings.archive.formats.recognition import FORMATS
from bindings.archive.properties import find_wrong_properties
from bindings.commands.audit import audit_command
from exchange.amqp import ContentHeader
from exchange.amqp.content import RAW_HEADER, check_properties
from exchange.errors import InputError
from exchange.values.field_json import encode_table
from exchange.values.field_values import Typed, resolve_type
from exchange.values.message import BASIC_PROPERTIES
from tests.bindings.archive.test_every_format import FETCHED
from tests.bindings.archive.test_traces import TRACED, text_entry
from tests.support.archives.avro_files import encode_rows, record_schema
from tests.support.archives.reads import FILES, read

VALUES: Final = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 300), st.integers(-(2**63), 2**63 - 1), st.text(max_size=3),
    st.sampled_from(["x" * 255, "x" * 256, "é" * 127, "é" * 128, "\0" * 255]), st.binary(max_size=2),
    st.integers(0, 2**64 - 1).map(lambda n: Typed("timestamp", n)),
    st.binary(max_size=2).map(lambda b: Typed("longstr", b)),
)  # fmt: skip
TABLES: Final = st.dictionaries(
    st.sampled_from([*BASIC_PROPERTIES, "headers", "colour", "Priority", RAW_HEADER]), VALUES, max_size=4
)


def is_sendable(properties: Mapping[str, Any]) -> bool:
    """Say whether a client can encode the properties: the slow and obvious way."""
    rest = {name: value for name, value in properties.items() if not (name == RAW_HEADER and type(value) is bytes)}
    for name, value in rest.items():
        if isinstance(value, Typed) and isinstance(value.value, bytes):
            rest[name] = value.value.decode("utf-8", "surrogateescape")
    try:
        ContentHeader.encode(None, rest)
    except ValueError:
        return False
    return True


@FILES
@given(st.lists(TABLES, max_size=5), st.integers(0, 2))
def test_rows_and_columns_refuse_what_no_client_can_send(tables: list[dict[str, Any]], skip: int) -> None:
    builder = TableBuilder()
    refused = set()
    for number, table in enumerate(tables):
        builder.add(table)
        try:
            check_properties(table)
        except InputError:
            refused.add(number)
    assert refused == {number for number, table in enumerate(tables) if not is_sendable(table)}
    assert {row + skip for row in find_wrong_properties(builder.array()[skip:])} == {n for n in refused if n >= skip}


def write_lines(properties: Mapping[str, Any]) -> bytes:
    return json.dumps({"exchange": "x", "routing_key": "all", "properties": encode_table(properties)}).encode() + b"\n"


def write_parquet(properties: Mapping[str, Any]) -> bytes:
    """Write what no writer of ours writes: a table of one row whose properties are anything."""
    tables = TableBuilder()
    tables.add(properties)
    columns = {"exchange": ["x"], "routing_key": ["all"], "properties": tables.array()}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue().to_pybytes())


def write_dump(properties: Mapping[str, Any]) -> bytes:
    return json.dumps({"properties": {"routing_key": "k", **encode_table(properties)}, "headers": {}}).encode()


def write_text(properties: Mapping[str, Any]) -> bytes:
    entry = text_entry("body")
    start = entry.index("[{")
    terms = [
        f'{{<<"{name}">>,{"signedint" if type(value) is int else "longstr"},'
        f"{value if type(value) is int else f'<<{json.dumps(value)}>>'}}}"
        for name, value in properties.items()
    ]
    return f"{entry[:start]}[{','.join(terms)}]\nPayload: \nbody\n".encode()


def write_csv(properties: Mapping[str, Any]) -> bytes:
    text = json.dumps(encode_table(properties)).replace('"', '""')
    return f'exchange,routing_key,properties\nx,all,"{text}"\n'.encode()


def write_avro(properties: Mapping[str, Any]) -> bytes:
    schema = record_schema(exchange="string", routing_key="string", properties="string")
    text = json.dumps(encode_table(properties))
    return encode_rows(schema, [{"exchange": "x", "routing_key": "all", "properties": text}])


WRITERS: Final[Mapping[str, tuple[str, Callable[[Mapping[str, Any]], bytes]]]] = {
    "Avro": ("a.avro", write_avro),
    "CSV": ("a.csv", write_csv),
    "JSON lines": ("a.jsonl", write_lines),
    "JSON lines of other programs": (
        "a.jsonl", lambda p: json.dumps({"exch": "x", "rkey": "k", "props": encode_table(p)}).encode() + b"\n",
    ),
    "Parquet": ("a.parquet", write_parquet),
    "RabbitMQ tracing log, JSON": (
        "trace.log", lambda p: json.dumps({**TRACED, "properties": encode_table(p)}).encode() + b"\n",
    ),
    "RabbitMQ management API, messages": (
        "got.json", lambda p: json.dumps([{**FETCHED, "properties": encode_table(p)}]).encode(),
    ),
    "rabbitmq-dump-queue": ("m-1-headers+properties.json", write_dump),
    "RabbitMQ tracing log, text": ("trace-text.log", write_text),
}  # fmt: skip
"""Format -> the name of its file, and what writes one record with these properties."""

FIXED: Final = {
    "JSON lines of Kafka's records", "Kafka segment", "RocketMQ commit log", "Kafka Connect files", "rabtap JSON",
}  # fmt: skip
"""Formats whose records have no properties, or those of a table of ours only."""

SOUND: Final[Mapping[str, Any]] = {"priority": 5, "message_id": "m"}
WRONG: Final[Mapping[str, Mapping[str, Any]]] = {
    "unknown": {"colour": "red"}, "number": {"message_id": 5}, "text": {"priority": "high"}, "range": {"priority": 256},
    "long": {"message_id": "x" * 256},
}  # fmt: skip


def test_each_format_is_tried_or_has_no_free_properties() -> None:
    assert WRITERS.keys() | FIXED == {form.name for form in FORMATS}


@pytest.mark.parametrize("form", WRITERS)
def test_a_record_whose_properties_amqp_cannot_carry_is_bad(form: str, tmp_path: Path) -> None:
    name, write = WRITERS[form]
    path = tmp_path / name
    path.write_bytes(write(SOUND))
    ((_, found),) = detect(str(path)).files
    assert found.name == form
    (record,) = read(found, path).records
    assert {name: resolve_type(value)[1] for name, value in record.message.properties.items()} == {
        "priority": 5, "message_id": b"m",
    }  # fmt: skip
    for why, properties in WRONG.items():
        path.write_bytes(write(properties))
        result = read(found, path)
        assert not result.records, why
        (bad,) = result.bad
        assert bad.reason.startswith("properties: "), why


def test_an_audit_counts_them_and_fails_where_no_bad_one_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(write_lines({}) + write_lines({"colour": "red"}) + write_lines({"priority": 3}))
    (tmp_path / "t.bindings").write_text("exchange x: fanout\nqueue all\nx -> all\n")
    arguments = ["-t", str(tmp_path / "t.bindings"), "--no-spark", str(tmp_path / "a.jsonl")]
    report = tmp_path / "report.json"
    assert CliRunner().invoke(audit_command, [*arguments, "--json", str(report)]).exit_code == 0
    found = json.loads(report.read_text())["audited"]["records"]
    assert found["counted"] == 2
    assert [(bad["records"], bad["reason"]) for bad in found["bad"]] == [
        (1, "properties: AMQP has no property 'colour'")
    ]
    assert CliRunner().invoke(audit_command, [*arguments, "--max-bad", "0"]).exit_code == 1
