"""Every format through every command, whole and with its first record damaged: only that one is lost, and reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from bindings.archive.formats.detect import detect
from bindings.archive.formats.json_lines import encode_line
from bindings.archive.formats.recognition import FORMATS
from bindings.archive.reading import NOT_READ
from bindings.archive.record import Record, build_batch
from bindings.commands.archive import archive_command
from bindings.commands.audit import audit_command
from bridge.cli import hashstar
from bridge.endpoints.archive.rotation import Rotator, rotate
from exchange.values.message import Message
from tests.bindings.archive.test_traces import RABTAP, TRACED, text_entry
from tests.support.archives.avro_files import encode_rows, record_schema, start_of_block
from tests.support.archives.kafka_files import KafkaRecord, batch
from tests.support.archives.reads import read
from tests.support.archives.rocketmq_files import message

FETCHED: Final = {
    "payload_bytes": 4, "redelivered": False, "exchange": "x", "routing_key": "k", "message_count": 1,
    "properties": {"delivery_mode": 2, "headers": {"h": "v"}}, "payload": "body", "payload_encoding": "string",
}  # fmt: skip
RECORD: Final = Record(Message("x", "k", {"h": "v"}, {}, b"body"), 1_000_000)


class Case(NamedTuple):
    """An archive of two records."""

    format: str
    files: dict[str, bytes]
    """The first has the first record."""
    at: int
    """The byte whose damage costs the first record."""


def two(first: bytes, second: bytes, name: str, form: str, at: int) -> Case:
    return Case(form, {name: first + second}, at)


def twice(record: bytes, name: str, form: str, at: int) -> Case:
    return two(record, record, name, form, at)


def write_dump(key: str) -> bytes:
    return json.dumps({"properties": {"routing_key": key}, "headers": {}}).encode()


def parquet() -> bytes:
    sink = pa.BufferOutputStream()
    rows = pa.Table.from_batches([build_batch([RECORD, RECORD])])
    pq.write_table(rows, sink, row_group_size=1, write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())


AVRO: Final = encode_rows(
    record_schema(exchange="string", routing_key="string"), [{"exchange": "x", "routing_key": "all"}] * 2, block_bytes=1
)
TERMS: Final = text_entry("body").index("[<<")
LOGGED: Final = message(0, "t", {"KEYS": "k"}, b"body")
CASES: Final = [
    two(encode_line(RECORD), encode_line(RECORD), "lines.jsonl", "JSON lines", 0),
    twice(b'{"exch": "x", "rkey": "all", "hdrs": {"h": "v"}}\n', "theirs.jsonl", "JSON lines of other programs", 0),
    twice(
        b'{"topic": "x", "partition": 0, "key": "all", "payload": "b"}\n',
        "kcat.jsonl", "JSON lines of Kafka's records", 0,
    ),
    Case("CSV", {"theirs.csv": b"exch,rkey,hdrs\nx,all,\nx,all,\n"}, 16),
    two(
        batch(0, [KafkaRecord(0, key=b"k", value=b"v" * 40)]), batch(1, [KafkaRecord(0, key=b"k", value=b"v")]),
        "t-0/00000000000000000000.log", "Kafka segment", 100,
    ),
    two(
        batch(0, [KafkaRecord(0, key=b"k", value=b"v" * 40)]), batch(1, [KafkaRecord(0, key=b"k", value=b"v")]),
        "renamed.bin", "Kafka segment", 16,
    ),
    two(
        LOGGED, message(len(LOGGED), "t", {"KEYS": "k"}, b"body") + bytes(500), "commitlog/00000000000000000000",
        "RocketMQ commit log", 7,
    ),
    two(
        LOGGED, message(len(LOGGED), "t", {"KEYS": "k"}, b"body") + bytes(500), "log.copy", "RocketMQ commit log", 4,
    ),
    Case("Avro", {"theirs.avro": AVRO}, start_of_block(AVRO, 0)),
    Case("Parquet", {"a.parquet": parquet()}, 8),
    Case("Parquet", {"renamed": parquet()}, 8),
    twice(json.dumps(TRACED).encode() + b"\n", "trace.log", "RabbitMQ tracing log, JSON", 0),
    twice(text_entry("body").encode(), "trace-text.log", "RabbitMQ tracing log, text", TERMS),
    twice(json.dumps(RABTAP, indent=1).encode() + b"\n", "rabtap.json", "rabtap JSON", 3),
    Case("RabbitMQ management API, messages", {"got.json": json.dumps([FETCHED] * 2).encode()}, 20),
    Case(
        "rabbitmq-dump-queue",
        {"m-1-headers+properties.json": write_dump("all"), "m-2-headers+properties.json": write_dump("all")}, 3,
    ),
    Case(
        "Kafka Connect files",
        {"t+0+0000000000.keys.json": b'"k"\n"k"\n', "t+0+0000000000.json": b'{"v":1}\n{"v":2}\n'}, 0,
    ),
]  # fmt: skip
IDS: Final = [f"{case.format}: {next(iter(case.files))}" for case in CASES]
TOPOLOGY: Final = "exchange x: fanout\nexchange orders: fanout\nqueue all\nx -> all\norders -> all\n"
CONFIG: Final = """\
http = "127.0.0.1:0"
topology = "t.bindings"
[sources.in]
url = "archive:in"
exchange = "x"
routing_key = "all"
without_bodies = true
[targets.out]
url = "archive:out"
queues = ["all"]
"""


@pytest.fixture(params=CASES, ids=IDS)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(params=[False, True], ids=["whole", "damaged"])
def is_damaged(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def archive(case: Case, is_damaged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # where no pyproject.toml is looked through for settings of an audit
    for number, (name, data) in enumerate(case.files.items()):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        changed = bytearray(data)
        if is_damaged and number == 0:
            changed[case.at] ^= 0x51
        path.write_bytes(changed)
    (tmp_path / "t.bindings").write_text(TOPOLOGY)
    return tmp_path / "in"


@pytest.fixture
def _rotate_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the parts of a bridge's archive in this process: a process for each bridge takes longer than the bridge."""

    async def rotate_here(_: Rotator, path: Path) -> Any:
        return rotate(path)

    monkeypatch.setattr(Rotator, "rotate", rotate_here)


def run(command: Any, *arguments: object) -> Result:
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


MAPPED: Final = ("--exchange", "=x", "--routing-key", "=all")


def test_all_formats_are_here() -> None:
    assert {case.format for case in CASES} == {form.name for form in FORMATS}


def test_inspect_counts_both_records(case: Case, is_damaged: bool, archive: Path) -> None:
    printed = json.loads(run(archive_command, "inspect", "--json", *MAPPED, archive).stdout)
    assert printed["formats"] == [case.format]
    assert (printed["records"], sum(bad["records"] for bad in printed["bad"])) == (2 - is_damaged, int(is_damaged))


def test_convert_counts_both_records_and_stops_where_no_bad_one_is_allowed(
    is_damaged: bool, archive: Path, tmp_path: Path
) -> None:
    for target in ("out", "out.jsonl"):
        result = run(archive_command, "convert", *MAPPED, archive, tmp_path / target)
        assert (result.exit_code, "bad: 1: " in result.stderr) == (0, is_damaged)
        assert f"{2 - is_damaged} record" in result.stderr
        strict = run(archive_command, "convert", "--max-bad", 0, *MAPPED, archive, tmp_path / f"strict-{target}")
        assert strict.exit_code == int(is_damaged)
        assert (tmp_path / f"strict-{target}").exists() is not is_damaged


def test_audit_counts_both_records_and_stops_where_no_bad_one_is_allowed(
    is_damaged: bool, archive: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    arguments = ("-t", tmp_path / "t.bindings", "--archive-vhost", "*", "--no-spark", "--json", report, *MAPPED)
    assert run(audit_command, *arguments, archive).exit_code == 0
    found = json.loads(report.read_text())["audited"]["records"]
    assert (found["counted"], sum(bad["records"] for bad in found["bad"])) == (2 - is_damaged, int(is_damaged))
    assert run(audit_command, *arguments, "--max-bad", 0, archive).exit_code == int(is_damaged)


@pytest.mark.usefixtures("archive", "_rotate_here")
def test_a_bridge_moves_the_good_records_and_logs_a_bad_one(is_damaged: bool, tmp_path: Path) -> None:
    (tmp_path / "bridge.toml").write_text(CONFIG)
    done = run_bridge(tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert ("left out" in done.stderr) is is_damaged
    assert len(records_in(tmp_path / "out")) == 2 - is_damaged


def run_bridge(folder: Path) -> Result:
    return run(hashstar, "bridge", "run", folder / "bridge.toml")


def records_in(folder: Path) -> list[Record]:
    return [record for path, form in detect(str(folder)).files for record in read(form, path).records]


def a_file_that_is_none(folder: Path) -> None:
    (folder / "in" / "notes").write_text("no archive")


def a_segment_of_nothing_but_damage(folder: Path) -> None:
    (folder / "in" / "t-1").mkdir()
    (folder / "in" / "t-1" / "00000000000000000000.log").write_bytes(b"\x11" * 500)


@pytest.mark.usefixtures("_rotate_here")
@pytest.mark.parametrize("spoil", [a_file_that_is_none, a_segment_of_nothing_but_damage])
def test_a_file_that_is_not_read_is_one_bad_record_for_every_command(
    spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "lines.jsonl").write_bytes(encode_line(RECORD))
    (tmp_path / "t.bindings").write_text(TOPOLOGY)
    (tmp_path / "bridge.toml").write_text(CONFIG)
    spoil(tmp_path)
    printed = json.loads(run(archive_command, "inspect", "--json", tmp_path / "in").stdout)
    assert (printed["records"], sum(bad["records"] for bad in printed["bad"])) == (1, 1)
    assert run(archive_command, "convert", "--max-bad", 0, tmp_path / "in", tmp_path / "a").exit_code == 1
    assert run(archive_command, "convert", tmp_path / "in", tmp_path / "a").exit_code == 0
    arguments = ("-t", tmp_path / "t.bindings", "--archive-vhost", "*", "--no-spark")
    assert run(audit_command, *arguments, tmp_path / "in").exit_code == 0
    assert run(audit_command, *arguments, "--max-bad", 0, tmp_path / "in").exit_code == 1
    done = run_bridge(tmp_path)
    assert (done.exit_code, "left out" in done.stderr) == (0, True)
    assert len(records_in(tmp_path / "out")) == 1


def test_a_store_without_records_is_reported_by_every_command(tmp_path: Path) -> None:
    for name in ("commitlog/00000000000000000000", "consumequeue/t/0/00000000000000000000", "checkpoint"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(4096))
    (tmp_path / "t.bindings").write_text(TOPOLOGY)
    (tmp_path / "bridge.toml").write_text(CONFIG)
    arguments = ("-t", tmp_path / "t.bindings", "--archive-vhost", "*", "--no-spark")
    for bound, code in (((), 2), (("--max-bad", 0), 1)):
        assert run(archive_command, "convert", *bound, tmp_path / "in", tmp_path / "a").exit_code == code
        assert run(audit_command, *arguments, *bound, tmp_path / "in").exit_code == code
    assert not (tmp_path / "a").exists()
    done = run_bridge(tmp_path)
    assert "there are no records in it: left out" in done.stderr


def test_a_single_file_that_is_no_archive_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("words")
    result = run(archive_command, "inspect", tmp_path / "plain.txt")
    assert result.exit_code == 2
    assert "plain.txt: the file is no archive that can be audited" in result.stderr
    assert NOT_READ not in result.stderr
