"""Tables and JSON lines of other programs: columns by name or as the user says, headers in any form they have."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.columns import TAKEN, find_places, to_table
from bindings.archive.formats.detect import NO_COLUMNS, NO_RECORDS, detect
from bindings.archive.formats.parquet import ParquetWriter
from bindings.archive.mapping import COLUMNS, FieldMapping, parse_columns
from bindings.archive.reading import Bad, Bias
from bindings.archive.record import Record, build_batch, to_records
from bindings.archive.times import parse_time
from bindings.auditing.run import audit, open_traffic
from bindings.auditing.spark.streaming import decode_mapping, encode_options
from bindings.commands.archive import archive_command
from exchange import Binding, Exchange, Queue, Topology
from exchange.errors import InputError
from exchange.values.message import Message
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


def read(
    path: Path, mapping: FieldMapping | None = None, names: list[str] | None = None, split_bytes: int = 1
) -> list[Record | Bad]:
    """Return the records of an archive, read as an audit reads it if ``names`` are its columns."""
    found: list[Record | Bad] = []
    for form, split in detect(str(path), mapping or FieldMapping()).plan(split_bytes):
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
    assert archive.list_contents().notes == (
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


def test_a_column_that_is_not_there_may_be_meant_as_a_text(tmp_path: Path) -> None:
    """``--column exchange=orders`` for ``exchange==orders``: the error shows how."""
    path = tmp_path / "m.jsonl"
    path.write_text('{"event": "order.eu.paid"}\n')
    with pytest.raises(InputError, match=r"no column 'orders'; there are: event; .*is written =orders$"):
        detect(str(path), FieldMapping(columns=(("exchange", "orders"), ("routing_key", "event"))))


@pytest.mark.parametrize(("field", "place", "way_out"), [
    ("exchang", "exch", "did you mean 'exchange'?"), ("x", "y", "known: exchange, routing_key"),
    ("timestamp", "", "timestamp== leaves the field out"),
])  # fmt: skip
def test_a_field_that_is_none_is_named_with_the_way_out(field: str, place: str, way_out: str) -> None:
    with pytest.raises(InputError, match=re.escape(way_out)):
        FieldMapping(columns=((field, place),))


@pytest.mark.parametrize("wrong", [{"columns": {"exchange": "exch"}}, {"exchange": {"exchange": "exch"}}])
def test_a_dict_is_no_mapping_of_fields_and_the_error_shows_one(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r'columns are pairs, columns=\(\("exchange", "exch"\)'):
        FieldMapping(**wrong)


def test_a_mapping_goes_to_workers_and_comes_back() -> None:
    mapping = FieldMapping("=x", "header:h", tuple(sorted((field, f"c.{field}") for field in COLUMNS)))
    assert decode_mapping(encode_options(mapping)) == mapping
    assert decode_mapping(encode_options(FieldMapping())) == FieldMapping()


def test_a_plain_name_is_preferred_by_rank_and_a_given_one_above_all() -> None:
    names = ["ts", "time", "exchange", "rkey"]
    assert find_places(names, {}) == {"exchange": "exchange", "routing_key": "rkey", "timestamp": "time"}
    assert find_places(names, {"timestamp": "ts"})["timestamp"] == "ts"


@pytest.mark.parametrize("value", ["no json", "5", [1, 2], ["a"], 5])
def test_what_is_no_table_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="headers are"):
        to_table(value, "headers")


@pytest.mark.parametrize("form", ["map", "key and value", "in turn"])
def test_bindings_that_ask_for_lost_types_are_counted(tmp_path: Path, form: str) -> None:
    """Only where an archive has texts only, and only those that ask for more than texts."""
    bindings = [
        Binding.to_queue("h", "q", "", {"n": 5, "t": "a"}), Binding.to_queue("h", "q", "", {"t": "a"}),
        Binding.to_queue("t", "q", "a", {"n": 5}),
    ]  # fmt: skip
    topology = Topology([Exchange("h", "headers"), Exchange("t", "topic")], [Queue("q")], bindings)
    texts = write(tmp_path / "t.parquet", exchange=["h"] * ROWS, routing_key=["k"] * ROWS, headers=FORMS[form])
    typed = write(tmp_path / "j.parquet", exchange=["h"] * ROWS, routing_key=["k"] * ROWS, headers=FORMS["JSON text"])
    (caveat,) = [each for each in audit(topology, texts).caveats if "texts only" in each]
    assert caveat.startswith("1 binding asks for numbers")
    assert not [each for each in audit(topology, typed).caveats if "texts only" in each]


@pytest.mark.parametrize("beside", ["text", None])
def test_what_a_row_is_does_not_depend_on_the_rows_beside_it(beside: str | None, tmp_path: Path) -> None:
    """Maps of texts are converted by column unless one row needs more: CC that is no list is bad either way."""
    maps = pa.array([[("CC", "k")], [("a" * 256, "v")], [("a", beside)]], pa.map_(pa.string(), pa.string()))
    found = read(write(tmp_path / "m.parquet", exch=["x"] * 3, rk=["k"] * 3, hdrs=maps))
    assert [each.offset for each in found if isinstance(each, Bad)] == [0, 1]
    assert messages(found) == [Message("x", "k", {"a": beside})]


def test_maps_of_texts_are_found_in_structs(tmp_path: Path) -> None:
    kind = pa.struct([("meta.d", pa.map_(pa.string(), pa.string())), ("n", pa.int64())])
    path = write(tmp_path / "m.parquet", v=pa.array([{"meta.d": [("a", "b")], "n": 1}], kind), x=["x"], k=["k"])
    places = {"v.meta.d": True, "v.n": False, "v.none": False}
    for place, is_texts in places.items():
        mapping = FieldMapping(columns=parse_columns(["exchange=x", "routing_key=k", f"headers={place}"]))
        assert ("texts only" in detect(str(path), mapping).list_contents().notes[0]) is is_texts


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


WITHIN: dict[str, Any] = {"meta": {"exch": "x", "deep": {"e": "x"}}, "rk": "k"}


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
@pytest.mark.parametrize(
    ("place", "way_out"),
    [
        ("meta", "not a text; within meta: meta.exch, meta.deep.e"),
        ("meta.deep", "not a text; within meta.deep: meta.deep.e"),
        ("meta.nope", "no meta.nope; within meta: meta.exch, meta.deep.e"),
        ("exch", "no column 'exch'; there are: meta.deep.e, meta.exch, rk"),
    ],
)
def test_what_is_within_a_column_is_named_if_it_is_no_field(
    form: str, place: str, way_out: str, tmp_path: Path
) -> None:
    path = tmp_path / f"m.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist([WITHIN]), path)
    else:
        path.write_text(json.dumps(WITHIN) + "\n")
    try:
        (bad,) = read(path, FieldMapping(columns=(("exchange", place),)))
    except InputError as error:
        reason = str(error)
    else:
        assert isinstance(bad, Bad)
        reason = bad.reason
    assert way_out in reason.replace("has no nope", "no meta.nope")


JSON_ROWS: dict[str, Any] = {
    "text": [json.dumps({"e": "x", "k": 5, "h": {"a": 1}, "t": 1_700_000_000_000})],
    "bytes": [json.dumps({"e": "x", "k": 5, "h": {"a": 1}, "t": 1_700_000_000_000}).encode()],
    "map": pa.array(
        [[("e", "x"), ("k", "5"), ("h", '{"a":1}'), ("t", "1700000000000")]], pa.map_(*[pa.large_string()] * 2)
    ),
}


@pytest.mark.parametrize("form", JSON_ROWS)
def test_a_path_leads_through_texts_bytes_and_maps(form: str, tmp_path: Path) -> None:
    """In tables and in lines alike, with numbers as routing keys."""
    places = ["exchange=v.e", "routing_key=v.k", "headers=v.h", "timestamp=v.t"]
    mapping = FieldMapping(columns=parse_columns(places))
    lines = tmp_path / "m.jsonl"
    lines.write_text(json.dumps({"v": JSON_ROWS["text"][0]}) + "\n")
    for path in (write(tmp_path / "m.parquet", v=JSON_ROWS[form]), lines):
        (record,) = read(path, mapping)
        assert isinstance(record, Record)
        assert (record.message, record.time) == (Message("x", "5", {"a": 1}), 1_700_000_000_000_000)


def test_names_with_dots_are_names_at_each_step_of_a_path(tmp_path: Path) -> None:
    row = {"a.b": {"c.d": "x"}, "k.": "l"}
    mapping = FieldMapping(columns=parse_columns(["exchange=a.b.c.d", "routing_key=k."]))
    lines = tmp_path / "m.jsonl"
    lines.write_text(json.dumps(row) + "\n")
    table = write(tmp_path / "m.parquet", **{name: [value] for name, value in row.items()})
    assert [messages(read(path, mapping)) for path in (lines, table)] == [[Message("x", "l")]] * 2


def test_fields_that_only_later_lines_have_are_taken(tmp_path: Path) -> None:
    """Writers leave out what is null, so the first lines need not have each field; and a first line may be long."""
    path = tmp_path / "m.jsonl"
    rows = [{"exch": "x", "rk": "k", "body": "b" * 70_000}] + [{"exch": "x", "rk": "k"}] * 30
    last = {"exch": "x", "rk": "k", "hdrs": {"a": 1}, "ts": 5}
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, last]))
    record = read(path, split_bytes=1 << 20)[-1]
    assert isinstance(record, Record)
    assert (record.message, record.time) == (Message("x", "k", {"a": 1}), 5_000_000)
    path.write_text(path.read_text().replace("hdrs", "meta"))
    named = FieldMapping(columns=parse_columns(["headers=meta", "timestamp=="]))
    record = read(path, named, split_bytes=1 << 20)[-1]
    assert isinstance(record, Record)
    assert (record.message, record.time) == (Message("x", "k", {"a": 1}), None)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("size", ["large"]), ("time", pa.array([1], pa.time64("us"))), ("ts", [True]), ("vhost", [{"a": 1}]),
        ("headers", [5]), ("cc", ["someone@example.com"]), ("bcc", [5]), ("timestamp", pa.array([1], pa.duration("s"))),
    ],
)  # fmt: skip
def test_a_column_that_cannot_be_a_field_is_not_taken_unasked(name: str, values: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "m.parquet", exch=["x"], rk=["k"], **{name: values})
    assert messages(read(path)) == [Message("x", "k")]
    assert name not in detect(str(path)).list_contents().notes[0]
    if name in COLUMNS and name != "headers":
        (bad,) = read(path, FieldMapping(columns=((name, name),)))
        assert isinstance(bad, Bad)
        assert name in bad.reason
        assert "damaged" not in bad.reason


def test_times_are_numbers_of_any_kind(tmp_path: Path) -> None:
    """As decimals and as texts; digits that could be a date are refused, not taken for another century."""
    times = [Decimal("1700000000.5"), "1700000000.5", "1700000000500", "1700000000500000", "1700000000500000000"]
    assert {parse_time(each) for each in times} == {1_700_000_000_500_000}
    assert parse_time("1711121341234") == 1_711_121_341_234_000
    for text in ("20261101120000", "202611011200", "17000000000", "1" * 40):
        with pytest.raises(InputError, match="timestamp is not a time"):
            parse_time(text)


def test_files_of_a_folder_may_lack_a_column_and_folders_may_be_one(tmp_path: Path) -> None:
    first, second = tmp_path / "exchange=orders%2Feu", tmp_path / "exchange=bills"
    for folder in (first, second):
        folder.mkdir()
    write(first / "a.parquet", rk=["a"], meta=['{"h":1}'])
    write(second / "b.parquet", rk=["b"])
    (second / "c.jsonl").write_text('{"rk": "c"}\n')
    mapping = FieldMapping(columns=(("headers", "meta"),))
    assert {(each.exchange, each.routing_key, *each.headers) for each in messages(read(tmp_path, mapping))} == {
        ("bills", "b"), ("bills", "c"), ("orders/eu", "a", "h")
    }  # fmt: skip
    assert "columns taken: exchange = exchange, routing_key = rk" in detect(str(tmp_path)).list_contents().notes
    with pytest.raises(InputError, match=r"no column 'nope'; there are: exchange, meta, rk"):
        detect(str(tmp_path), FieldMapping(columns=(("headers", "nope"),)))


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_columns_of_the_values_of_kafka_connect_can_be_named(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"orders+0+0000000000.{kind}"
    if kind == "json":
        path.write_text('{"id": 1, "kind": "order.eu"}\n')
    else:
        write(path, id=[1], kind=["order.eu"])
    mapping = FieldMapping(columns=parse_columns(["exchange==orders", "routing_key=kind"]))
    assert messages(read(tmp_path, mapping)) == [Message("orders", "order.eu")]


def test_views_are_read_at_any_depth_and_bytes_of_kafka_as_texts(tmp_path: Path) -> None:
    view, table = pa.string_view(), {"exch": ["x"], "rk": ["k"]}
    maps = pa.array([[("a", "b")]], pa.map_(view, view))
    assert messages(read(write(tmp_path / "v.parquet", **table, hdrs=maps))) == [Message("x", "k", {"a": "b"})]
    pairs = [[{"key": "a", "value": b"b"}]]
    assert messages(read(write(tmp_path / "k.parquet", **table, hdrs=pairs))) == [Message("x", "k", {"a": "b"})]


def test_names_of_columns_cannot_write_to_a_terminal(tmp_path: Path) -> None:
    path = write(tmp_path / "m.parquet", **{"\x1b[31m": ["x"], "a\nb": ["k"]})
    for mapping in (FieldMapping(), FieldMapping(columns=(("exchange", "q\x1b"),))):
        with pytest.raises(InputError, match=r"\\x1b\[31m") as raised:
            detect(str(path), mapping)
        assert str(raised.value).isprintable()
    places = FieldMapping(columns=(("exchange", "\x1b[31m"), ("routing_key", "a\nb")))
    assert messages(read(path, places)) == [Message("x", "k")]
    assert detect(str(path), places).list_contents().notes[0].isprintable()


@pytest.mark.parametrize("name", ["exch", "exchange"])
def test_objects_may_follow_each_other_without_line_feeds(name: str, tmp_path: Path) -> None:
    """As Firehose writes them; a damaged one costs itself only, and braces in texts divide nothing."""
    path = tmp_path / "m.jsonl"
    good = [{name: "x", "routing_key": "a}{b"}, {name: "x", "routing_key": "c"}]
    path.write_text("".join(map(json.dumps, good)) + '{"no": JSON}' + json.dumps(good[0]))
    found = read(path)
    assert [each.routing_key for each in messages(found)] == ["a}{b", "c", "a}{b"]
    (bad,) = [each for each in found if isinstance(each, Bad)]
    assert bad.sample == b'{"no": JSON}'
    path.write_text("".join(map(json.dumps, good)))
    ((_, form),) = detect(str(path)).files
    assert not form.plan_complete(str(path)).is_open


def test_our_own_files_beside_others_need_no_mapping(tmp_path: Path) -> None:
    with ParquetWriter(tmp_path / "in" / "ours", Bias.EVERYTHING) as writer:
        writer.write(build_batch([Record(Message("x", "k"))]))
    write(tmp_path / "in" / "theirs.parquet", e=["y"], k=["l"])
    mapping = FieldMapping(columns=parse_columns(["exchange=e", "routing_key=k"]))
    assert {each.exchange for each in messages(read(tmp_path / "in", mapping))} == {"x", "y"}


NESTED = {"meta": {"exch": "orders", "rk": "a.b"}, "body": "x"}


def test_what_a_mapping_says_in_vain_is_a_note_and_a_notice_of_the_audit(tmp_path: Path) -> None:
    lines, records = tmp_path / "lines.jsonl", tmp_path / "records.jsonl"
    lines.write_text('{"exch": "a", "rk": "k", "meta": {}}\n')
    records.write_text('{"topic": "t", "partition": 0, "offset": 0, "key": "k", "payload": "x"}\n')
    named, placed = FieldMapping(columns=(("headers", "meta"),)), FieldMapping("=a")
    both = FieldMapping("=a", columns=(("headers", "meta"),))
    for path, mapping, unused in (
        (lines, FieldMapping(), ()), (records, FieldMapping(), ()), (lines, named, ()), (records, placed, ()),
        (lines, placed, (NO_RECORDS,)), (lines, both, (NO_RECORDS,)),
    ):  # fmt: skip
        archive = detect(str(path), mapping)
        assert archive.unused == unused, (path.name, mapping)
        assert {*unused} <= {*archive.list_contents().notes}
        assert [each for each in open_traffic([str(path)], mapping).notices if TAKEN not in each] == [
            f"{path}: {each}" for each in unused
        ]
    with ParquetWriter(tmp_path / "ours", Bias.EVERYTHING) as writer:
        writer.write(build_batch([Record(Message("a", "k"))]))
    there = FieldMapping("=a", columns=(("headers", "source"),))
    assert detect(str(tmp_path / "ours"), there).unused == (NO_RECORDS, NO_COLUMNS)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_an_error_lists_the_paths_within_columns_and_which_it_would_take(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"m.{suffix}"
    if suffix == "jsonl":
        path.write_text(json.dumps(NESTED) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist([NESTED]), path)
    with pytest.raises(InputError) as caught:
        detect(str(path))
    assert "its columns are meta.exch, meta.rk, body" in str(caught.value)
    assert "--column exchange=meta.exch --column routing_key=meta.rk" in str(caught.value)
