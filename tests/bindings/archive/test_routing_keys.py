"""The keys in CC and BCC count in every layout of an archive alike: in headers, in columns of their own, in both."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.conversion import convert
from bindings.archive.formats.detect import detect
from bindings.archive.kafka import rows as kafka_rows
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.reading import Bad
from bindings.archive.record import Record, build_batch
from bindings.archive.rocketmq import log as rocketmq_log
from bindings.archive.routing_keys import HEADERS, find_keys
from bindings.auditing.local.run import run_here
from bindings.auditing.local.studies import CoverageStudy
from bridge.interop import kafka_guest, rocketmq_guest
from exchange import Binding, BrokerError, Exchange, Message, Queue, Router, Topology
from exchange.values.field_json import encode_table
from exchange.values.field_values import Typed
from tests.bindings.archive.test_foreign import read
from tests.bindings.counts.test_tally import slow_tally
from tests.bindings.spark.test_answers import expect, give_by_spark, make_router, rows_of
from tests.support.archives.avro_files import encode_rows, record_schema
from tests.support.archives.kafka_files import KafkaRecord
from tests.support.archives.kafka_files import batch as kafka_batch
from tests.support.archives.rocketmq_files import message as stored_message
from tests.support.tiers import examples

POOL: Final = ("a", "a.b", "b", "", "é\udcff")
KEYS: Final = st.sampled_from(POOL)
VALUE: Final = st.lists(KEYS | st.just(7) | st.just(Typed("binary", b"a")), max_size=3)
TABLES: Final = st.fixed_dictionaries({}, optional={"CC": VALUE, "BCC": VALUE, "h": st.sampled_from(["x", 1])})
MESSAGES: Final = st.builds(Message, st.sampled_from(["direct", "topic", "hash", "headers", "none"]), KEYS, TABLES)
REFUSED: Final = st.builds(
    Message, st.just("topic"), KEYS, st.fixed_dictionaries({"CC": KEYS | st.just(1)}, optional={"BCC": VALUE})
)
TOPOLOGY: Final = Topology(
    [
        Exchange("direct"), Exchange("topic", "topic"), Exchange("hash", "x-consistent-hash"),
        Exchange("headers", "headers"),
    ],
    [Queue("one"), Queue("two"), Queue("three")],
    [
        Binding.to_queue("direct", "one", "a"), Binding.to_queue("direct", "two", "é\udcff"),
        Binding.to_queue("topic", "one", "a.#"), Binding.to_queue("topic", "two", ""),
        Binding.to_exchange("topic", "hash", "b"),
        *[Binding.to_queue("hash", name, "1") for name in ("one", "two", "three")],
        Binding.to_queue("headers", "three", "", {"x-match": "any", "h": "x"}),
    ],
)  # fmt: skip
MAPPING: Final = FieldMapping(columns=(("headers", "meta"),))


def is_accepted(message: Message) -> bool:
    try:
        message.routing_keys()
    except BrokerError:
        return False
    return True


def own(messages: Sequence[Message]) -> pa.Table:
    """Return rows of ours; of those that a broker refuses, which have none, headers and no keys."""
    rows = build_batch([Record(message if is_accepted(message) else strip(message)) for message in messages])
    renamed = [{f"{name}.": value for name, value in message.headers.items()} for message in messages]
    headers = build_batch([Record(Message("", "", each)) for each in renamed]).column(
        "headers"
    )  # which takes any value
    keys = pa.array([name.removesuffix(".") for name in headers.keys.to_pylist()], pa.string())
    headers = pa.MapArray.from_arrays(headers.offsets, keys, headers.items, headers.type)
    return pa.table({
        "exchange": [message.exchange for message in messages],
        "routing_key": [message.routing_key.encode("utf-8", "surrogateescape") for message in messages],
        "headers": headers, "cc": rows.column("cc"), "bcc": rows.column("bcc"),
    })  # fmt: skip


def strip(message: Message) -> Message:
    return Message(message.exchange, message.routing_key)


def write_table(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "m.parquet")
    return folder


def without_every_other(column: pa.Array) -> pa.Array:
    return pa.array(
        [keys if row % 3 else (None, [])[row % 2] for row, keys in enumerate(column.to_pylist())], column.type
    )


def write_mixed(messages: Sequence[Message], folder: Path) -> Path:
    """Keys in columns, but for some rows: null or empty there."""
    table = own(messages)
    columns = {name: without_every_other(table.column(name).combine_chunks()) for name in HEADERS}
    return write_table(pa.table({**{name: table.column(name) for name in table.column_names[:3]}, **columns}), folder)


def write_json_texts(messages: Sequence[Message], folder: Path) -> Path:
    texts = [json.dumps(encode_table(message.headers)) for message in messages]
    table = own(messages).drop_columns(["headers", *HEADERS])
    return write_table(table.append_column("headers", pa.array(texts)), folder)


def write_csv(messages: Sequence[Message], folder: Path) -> Path:
    with (folder / "m.csv").open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["exchange", "routing_key", "headers"])
        for message in messages:
            writer.writerow([message.exchange, message.routing_key, json.dumps(encode_table(message.headers))])
    return folder


def write_lines(messages: Sequence[Message], folder: Path) -> Path:
    rows = ({"exch": m.exchange, "rkey": m.routing_key, "hdrs": encode_table(m.headers)} for m in messages)
    (folder / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def write_avro(messages: Sequence[Message], folder: Path) -> Path:
    field = {"type": "record", "name": "F", "fields": [
        {"name": "type", "type": "string"}, {"name": "value", "type": ["null", "string"]},
    ]}  # fmt: skip
    schema = record_schema(exchange="string", routing_key="bytes", headers={"type": "map", "values": field})
    rows = own(messages).select(["exchange", "routing_key", "headers"]).to_pylist()
    data = encode_rows(schema, [{**row, "headers": dict(row["headers"])} for row in rows])
    (folder / "m.avro").write_bytes(data)
    return folder


WITH_HEADERS: Final[dict[str, Callable[[Sequence[Message], Path], Path]]] = {
    "headers": lambda messages, folder: write_table(own(messages).drop_columns([*HEADERS]), folder),
    "named": lambda messages, folder: write_table(
        own(messages).drop_columns([*HEADERS]).rename_columns({"headers": "meta"}), folder
    ),
    "both": lambda messages, folder: write_table(own(messages), folder),
    "mixed": write_mixed, "JSON in Parquet": write_json_texts, "CSV": write_csv, "lines": write_lines,
    "Avro": write_avro,
}  # fmt: skip


def count(folder: Path, mapping: FieldMapping = USUAL) -> tuple[Any, Counter[str]]:
    passed = run_here(detect(str(folder), mapping), [CoverageStudy(TOPOLOGY)])
    tally = passed.values[0]
    facts = {outcome: facts.messages for outcome, facts in tally.facts.items()}
    return facts, passed.account.unread.bad


def expect_counts(messages: Iterable[Message]) -> dict[Any, int]:
    tally = slow_tally(TOPOLOGY, [Record(message) for message in messages])
    return {outcome: facts.messages for outcome, facts in tally.facts.items()}


@examples(20)
@given(st.lists(MESSAGES, min_size=1, max_size=6), st.lists(REFUSED, max_size=2))
def test_each_layout_is_counted_alike(accepted: list[Message], refused: list[Message]) -> None:
    """What a broker refuses is a bad record wherever its headers are; converted archives are counted so, too."""
    messages = [*accepted, *refused]
    expected = expect_counts(accepted)
    reasons: Counter[str] = Counter()
    for message in refused:
        try:
            message.routing_keys()
        except BrokerError as error:
            reasons[error.text] += 1
    for name, write in WITH_HEADERS.items():
        mapping = MAPPING if name == "named" else USUAL
        with TemporaryDirectory() as folder:
            archive = Path(folder, "a")
            archive.mkdir()
            write(messages, archive)
            assert count(archive, mapping) == (expected, reasons), name
            for json_lines in (False, True):
                target = Path(folder, f"{json_lines}.jsonl" if json_lines else "parquet")
                convert(detect(str(archive), mapping), target, json_lines=json_lines)
                assert count(target) == (expected, Counter()), (name, json_lines)


@examples(20)
@given(st.lists(MESSAGES, min_size=1, max_size=6))
def test_columns_of_keys_need_no_headers(messages: list[Message]) -> None:
    """Also where the archive becomes lines, which have headers only."""
    expected = expect_counts(
        Message(each.exchange, each.routing_key, {n: v for n, v in each.headers.items() if n in HEADERS.values()})
        for each in messages
    )
    with TemporaryDirectory() as folder:
        archive = Path(folder, "a")
        archive.mkdir()
        write_table(own(messages).drop_columns(["headers"]), archive)
        convert(detect(str(archive)), Path(folder, "lines.jsonl"), json_lines=True)
        assert count(archive)[0] == count(Path(folder, "lines.jsonl"))[0] == expected


@examples(20)
@given(st.lists(MESSAGES, min_size=1, max_size=6))
def test_each_layout_is_routed_alike_in_spark(messages: list[Message]) -> None:
    """With headers as Spark hands them over, in columns, and in both."""
    router = Router(TOPOLOGY)
    expected = [expect(router, message) for message in messages]
    table = own(messages).combine_chunks()
    columns = {name: table.column(name).chunk(0) for name in table.column_names}
    columns["headers"] = give_by_spark(columns["headers"])
    mixed = columns | {name: without_every_other(columns[name]) for name in HEADERS}
    for each, names in ((columns, [*columns][:3]), (columns, [*columns]), (mixed, [*mixed])):
        answer = make_router(TOPOLOGY, names).answer([each[name] for name in names])
        assert rows_of(answer) == expected


def test_a_column_with_keys_counts_before_the_header(tmp_path: Path) -> None:
    """Also where the message is made of both."""
    columns = own([Message("direct", "", {"CC": ["a"]})])
    other = own([Message("direct", "", {"CC": ["é\udcff"]})]).column("cc")
    write_table(columns.set_column(columns.column_names.index("cc"), "cc", other), tmp_path)
    expected = expect_counts([Message("direct", "", {"CC": ["é\udcff"]})])
    assert count(tmp_path)[0] == expected
    convert(detect(str(tmp_path)), tmp_path / "lines.jsonl", json_lines=True)
    assert count(tmp_path / "lines.jsonl")[0] == expected


def test_the_last_of_two_headers_counts() -> None:
    """As where a table becomes headers of a message."""
    table = pa.array([[("CC", {"type": "array", "value": f'["{key}"]'}) for key in "ab"]], own([]).schema.field(2).type)
    assert find_keys(table).columns["cc"].to_pylist() == [["b"]]


def test_records_of_kafka_and_rocketmq_have_no_further_keys(tmp_path: Path) -> None:
    """A header CC of theirs is their producer's own: it is neither refused nor a key, as in a bridge."""
    segment, lines, store = tmp_path / "topic-0", tmp_path / "lines.jsonl", tmp_path / "commitlog"
    segment.mkdir()
    store.mkdir()
    record = KafkaRecord(0, key=b"a", value=b"v", headers=(("CC", b"b"), ("h", b"x")))
    (segment / f"{0:020}.log").write_bytes(kafka_batch(0, [record]))
    row = {"topic": "topic", "partition": 0, "key": "a", "payload": "v", "headers": ["CC", "b", "h", "x"]}
    lines.write_text(json.dumps(row) + "\n")
    (store / f"{0:020}").write_bytes(stored_message(0, "topic", {"KEYS": "a", "CC": "b", "h": "x"}, b"v"))
    for path, escaped in (
        (segment, "x-kafka-header-CC"),
        (lines, "x-kafka-header-CC"),
        (store, "x-rocketmq-property-CC"),
    ):
        [found] = read(path)
        assert not isinstance(found, Bad)
        assert found.message.has_one_key
        headers = {name: found.message.headers[name] for name in found.message.headers if name != "KEYS"}
        assert headers == {escaped: "b", "h": "x"}, path
    assert kafka_rows.ESCAPED == kafka_guest.ESCAPED
    assert rocketmq_log.ESCAPED == rocketmq_guest.ESCAPED
