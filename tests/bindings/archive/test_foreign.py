"""Tables and JSON lines of other programs: columns by name or as the user says, headers in any form they have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.columns import as_table, find_places
from bindings.archive.formats.detect import detect
from bindings.archive.formats.parquet import ParquetWriter
from bindings.archive.mapping import COLUMNS, FieldMapping, parse_columns
from bindings.archive.reading import Bad, Bias
from bindings.archive.record import Record, build_batch, to_records
from bindings.audit.run import audit
from bindings.audit.spark.streaming import mapping_of, options_of
from bindings.commands.archive import archive_command
from exchange import Binding, Exchange, Queue, Topology
from exchange.errors import InputError
from exchange.message import Message
from tests.support.tiers import examples

ROWS = 300
"""More than pyarrow needs to write dictionaries."""
TENANTS = [f"t{row % 3}" for row in range(ROWS)]
FORMS: dict[str, pa.Array] = {
    "map": pa.array([[("tenant", each)] for each in TENANTS], pa.map_(pa.string(), pa.string())),
    "struct": pa.array([{"tenant": each, "none": None} for each in TENANTS]),
    "JSON text": pa.array([json.dumps({"tenant": each}) for each in TENANTS]),
    "JSON bytes": pa.array([json.dumps({"tenant": each}).encode() for each in TENANTS]),
    "key and value": pa.array([[{"key": "tenant", "value": each}] for each in TENANTS]),
    "in turn": pa.array([["tenant", each] for each in TENANTS]),
    "coded JSON": pa.array([json.dumps({"tenant": each}) for each in TENANTS]).dictionary_encode(),
    "large text": pa.array([json.dumps({"tenant": each}) for each in TENANTS], pa.large_string()),
}


def read(path: Path, mapping: FieldMapping | None = None, names: list[str] | None = None) -> list[Record | Bad]:
    """Return the records of an archive, read as an audit reads it if ``names`` are its columns."""
    found: list[Record | Bad] = []
    for form, split in detect(str(path), mapping or FieldMapping()).plan(1):
        for item in form.read_coded(split, names):
            found += to_records(item) if isinstance(item, pa.RecordBatch) else [item]  # type: ignore[list-item]
    return found


def messages(found: list[Record | Bad]) -> list[Message]:
    return [each.message for each in found if isinstance(each, Record)]


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("form", FORMS)
def test_headers_are_read_in_any_form(form: str, tmp_path: Path) -> None:
    path = write(tmp_path / "m.parquet", exchange=["x"] * ROWS, routing_key=["a.b"] * ROWS, headers=FORMS[form])
    assert messages(read(path)) == [Message("x", "a.b", {"tenant": each}) for each in TENANTS]


def test_typed_values_keep_their_types(tmp_path: Path) -> None:
    """Those of JSON and of columns alike."""
    table = {"n": 5, "yes": True, "part": 0.5, "text": "5"}
    forms = {"text": pa.array([json.dumps(table)]), "struct": pa.array([table])}
    for name, headers in forms.items():
        path = write(tmp_path / name, exchange=["x"], routing_key=["k"], headers=headers)
        assert messages(read(path)) == [Message("x", "k", table)]


def test_copies_are_found_in_headers_of_json(tmp_path: Path) -> None:
    """Without the column of headers, which audits of topic exchanges do not ask for."""
    headers = [json.dumps({"CC": ["c.d"]}), json.dumps({"CC": "no list"}), None]
    path = write(tmp_path / "m.parquet", exchange=["x"] * 3, routing_key=["k"] * 3, headers=headers)
    names = ["exchange", "routing_key", "cc", "bcc"]
    items = [item for form, split in detect(str(path)).plan() for item in form.read(split, names)]
    (bad,) = [item for item in items if isinstance(item, Bad)]
    (batch,) = [item for item in items if isinstance(item, pa.RecordBatch)]
    assert (bad.offset, batch.column("cc").to_pylist()) == (1, [["c.d"], []])


def test_columns_are_taken_by_plain_names_and_shown(tmp_path: Path) -> None:
    path = write(tmp_path / "m.parquet", ts=[1_700_000_000], exch=["x"], RKEY=["k"], hdrs=['{"a":1}'], payload=["b"])
    archive = detect(str(path))
    assert archive.notes == (
        "columns taken: exchange = exch, routing_key = RKEY, headers = hdrs, timestamp = ts, body = payload",
    )
    (record,) = read(path)
    assert isinstance(record, Record)
    assert (record.message, record.time) == (Message("x", "k", {"a": 1}, {}, b"b"), 1_700_000_000_000_000)


def test_paths_and_constants_are_places(tmp_path: Path) -> None:
    mapping = FieldMapping(columns=parse_columns(["exchange==shop", "routing_key=env.key", "headers=env.meta"]))
    row = {"env": {"key": "a.b", "meta": {"h": "v"}}}
    table = write(tmp_path / "m.parquet", env=[row["env"]])
    text = write(tmp_path / "t.parquet", env=[json.dumps(row["env"])])
    lines = tmp_path / "m.jsonl"
    lines.write_text(json.dumps(row) + "\n")
    assert [messages(read(each, mapping)) for each in (table, text, lines)] == [
        [Message("shop", "a.b", {"h": "v"})]
    ] * 3


NAMES = st.text(st.sampled_from("abc.\0é日"), max_size=8)
VALUES = st.none() | st.booleans() | st.integers(-(2**31), 2**31) | NAMES
ROW = st.fixed_dictionaries({
    "e": NAMES, "k": NAMES, "h": st.dictionaries(st.sampled_from(["a", "b", "CC"]), VALUES, max_size=3),
    "w": st.none() | st.integers(0, 2**31), "b": st.none() | NAMES,
})  # fmt: skip


@examples(60)
@given(st.lists(ROW, min_size=1, max_size=6))
def test_a_table_of_json_is_read_as_its_lines_are(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    """Parquet by columns, and JSON lines one by one: the same messages, and the same bad rows."""
    folder = tmp_path_factory.mktemp("same")
    places = ["exchange=e", "routing_key=k", "headers=h", "timestamp=w", "body=b"]
    mapping = FieldMapping(columns=parse_columns(places))
    lines = folder / "m.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = {name: [json.dumps(row[name]) if name == "h" else row[name] for row in rows] for name in rows[0]}
    types = {"w": pa.int64()}
    arrays = {name: pa.array(values, types.get(name, pa.string())) for name, values in columns.items()}
    path = write(folder / "m.parquet", **arrays)
    by_line, by_column = read(lines, mapping), read(path, mapping)
    assert [(r.message, r.time) for r in by_line if isinstance(r, Record)] == [
        (r.message, r.time) for r in by_column if isinstance(r, Record)
    ]
    assert len([r for r in by_line if isinstance(r, Bad)]) == len([r for r in by_column if isinstance(r, Bad)])


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        ({"topic": "o", "partition": 0, "offset": 0, "ts": 5, "key": "k", "payload": "b",
          "headers": ["a", "1"]}, {"a": "1"}),
        ({"topic": "o", "partition": 0, "timestamp": "1970-01-01T00:00:05Z", "key": "k", "payload": "b",
          "headers": [{"key": "a", "value": "1"}]}, {"a": "1"}),
        ({"topic": "o", "partition": 0, "time": 5, "key": "k", "value": "b", "headers": None}, {}),
    ],
)  # fmt: skip
def test_dumps_of_kafka_are_read_as_its_files_are(line: dict[str, Any], headers: Any, tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    path.write_text(json.dumps(line) + "\n" + json.dumps(line | {"key": None}) + "\n")
    record, other = read(path)
    assert isinstance(record, Record)
    assert (record.message, record.time) == (Message("o", "k", headers, {}, b"b"), 5_000_000)
    assert messages([other]) == [Message("o", "", headers, {}, b"b")]
    assert {(each.exchange, each.routing_key) for each in messages(read(path, FieldMapping("=x", "topic")))} == {
        ("x", "o")
    }
    (bad, *_) = read(path, FieldMapping(routing_key="header:none"))
    assert isinstance(bad, Bad)
    assert bad.reason == "a record without header:none, which is to be its routing key"


def test_the_columns_that_are_there_are_listed(tmp_path: Path) -> None:
    path = write(tmp_path / "m.parquet", t=[1], exch=["x"], where=["k"])
    with pytest.raises(InputError, match=r"t, exch, where.*taken: exchange = exch.*--column routing_key=NAME"):
        detect(str(path))
    with pytest.raises(InputError, match="no column 'nope'; there are: exch, t, where"):
        detect(str(path), FieldMapping(columns=(("routing_key", "nope"),)))
    found = CliRunner().invoke(archive_command, ["inspect", "--column", "routing_key=where", str(path)])
    assert "columns taken: exchange = exch, routing_key = where" in found.output


@pytest.mark.parametrize("text", ["exchange", "exchang=a", "exchange=", "=a"])
def test_a_column_is_a_field_and_a_place(text: str) -> None:
    with pytest.raises(InputError):
        FieldMapping(columns=parse_columns([text]))


def test_a_mapping_goes_to_workers_and_comes_back() -> None:
    mapping = FieldMapping("=x", "header:h", tuple(sorted((field, f"c.{field}") for field in COLUMNS)))
    assert mapping_of(options_of(mapping)) == mapping
    assert mapping_of(options_of(FieldMapping())) == FieldMapping()


def test_a_plain_name_is_preferred_by_rank_and_a_given_one_above_all() -> None:
    names = ["ts", "time", "exchange", "rkey"]
    assert find_places(names, {}) == {"exchange": "exchange", "routing_key": "rkey", "timestamp": "time"}
    assert find_places(names, {"timestamp": "ts"})["timestamp"] == "ts"


@pytest.mark.parametrize("value", ["no json", "5", [1, 2], ["a"], 5])
def test_what_is_no_table_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="headers are"):
        as_table(value, "headers")


def test_bindings_that_ask_for_lost_types_are_counted(tmp_path: Path) -> None:
    """Only where an archive has texts only, and only those that ask for more than texts."""
    bindings = [
        Binding.to_queue("h", "q", "", {"n": 5, "t": "a"}), Binding.to_queue("h", "q", "", {"t": "a"}),
        Binding.to_queue("t", "q", "a", {"n": 5}),
    ]  # fmt: skip
    topology = Topology([Exchange("h", "headers"), Exchange("t", "topic")], [Queue("q")], bindings)
    texts = write(tmp_path / "t.parquet", exchange=["h"] * ROWS, routing_key=["k"] * ROWS, headers=FORMS["map"])
    typed = write(tmp_path / "j.parquet", exchange=["h"] * ROWS, routing_key=["k"] * ROWS, headers=FORMS["JSON text"])
    (caveat,) = [each for each in audit(topology, texts).caveats if "texts only" in each]
    assert caveat.startswith("1 binding asks for numbers")
    assert not [each for each in audit(topology, typed).caveats if "texts only" in each]


def test_columns_of_other_types_are_cast_or_named(tmp_path: Path) -> None:
    """Nanoseconds, as pandas writes them; views of texts, as Polars does; a column that is no text is no damage."""
    times = pa.array([1_700_000_000_000_000_001], pa.timestamp("ns"))
    path = write(tmp_path / "a.parquet", exchange=pa.array(["x"], pa.string_view()), routing_key=["k"], ts=times)
    (record,) = read(path)
    assert isinstance(record, Record)
    assert (record.message.exchange, record.time) == ("x", 1_700_000_000_000_000)
    (bad,) = read(write(tmp_path / "b.parquet", exchange=["x"], routing_key=[["k"]]))
    assert isinstance(bad, Bad)
    assert bad.reason == "column routing_key is of type list<element: string>, not a text"


def test_our_own_files_beside_others_need_no_mapping(tmp_path: Path) -> None:
    with ParquetWriter(tmp_path / "in" / "ours", Bias.EVERYTHING) as writer:
        writer.write(build_batch([Record(Message("x", "k"))]))
    write(tmp_path / "in" / "theirs.parquet", e=["y"], k=["l"])
    mapping = FieldMapping(columns=parse_columns(["exchange=e", "routing_key=k"]))
    assert {each.exchange for each in messages(read(tmp_path / "in", mapping))} == {"x", "y"}
