"""Files that cannot be read are reported; names that are not UTF-8, gzipped files and mixed folders are read."""

from __future__ import annotations

import ast
import gzip
import json
import os
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from bindings.archive.formats.detect import detect
from bindings.archive.formats.json_lines import encode_line
from bindings.archive.inspection import inspect_splits
from bindings.archive.mapping import FieldMapping
from bindings.archive.reading import Format
from bindings.archive.record import Record, build_batch
from bridge.cli import hashstar
from exchange.errors import InputError
from exchange.values.message import Message
from tests.bindings.archive.test_traces import RABTAP, TRACED, text_entry
from tests.support.archives import rocketmq_files
from tests.support.archives.avro_files import encode_rows, record_schema
from tests.support.archives.kafka_files import KafkaRecord, batch
from tests.support.archives.reads import read
from tests.support.command_server import command_server
from tests.support.syntax import read_modules, walk

PLACES = FieldMapping("=x", "=k")
RECORD = Record(Message("x", "k"), size=0)
CONTENTS = {
    "00000000000000000000.log": batch(0, [KafkaRecord(0, key=b"k")]),
    "00000000000000000000": rocketmq_files.message(0, "t", {"KEYS": "k"}) + bytes(500),
    "trace.log": json.dumps(TRACED).encode() + b"\n",
    "trace-text.log": text_entry("b").encode(),
    "rabtap-1.json": json.dumps(RABTAP).encode(),
    "msg-0000-headers+properties.json": b'{"properties": {"routing_key": "k"}, "headers": {}}',
    "orders+3+0000000010.json": b'{"v": 1}\n',
    "lines.jsonl": encode_line(RECORD),
    "rows.csv": b"exchange,routing_key\nx,k\n",
    "rows.avro": encode_rows(
        record_schema(exchange="string", routing_key="string"), [{"exchange": "x", "routing_key": "k"}]
    ),
}
"""A file of each format but Parquet, with one record."""


@pytest.fixture(params=[*CONTENTS, "own.parquet"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    name = str(request.param)
    path = tmp_path / "t-0" / name
    path.parent.mkdir()
    if name in CONTENTS:
        path.write_bytes(CONTENTS[name])
    else:
        pq.write_table(pa.Table.from_batches([build_batch([RECORD])]), path)
    return path


def only(path: Path) -> tuple[str, Format]:
    ((name, form),) = detect(str(path.parent), PLACES).files
    return str(name), form


def test_a_file_whose_name_is_not_utf_8_is_read_and_named(path: Path) -> None:
    renamed = os.fsdecode(os.fsencode(path.with_suffix("")) + b"\xff" + os.fsencode(path.suffix))
    if "+3+" in path.name or path.name.startswith("msg-") or path.suffix == ".parquet":
        pytest.skip("names of such files say something, or Arrow opens them, which takes names of UTF-8 only")
    path.rename(renamed)
    name, form = only(path)
    assert name == renamed
    (record,) = read(form, name).records
    assert record.source == renamed or path.suffix == ".jsonl"  # the line has another origin


def test_a_gzipped_file_is_read_or_reported(path: Path) -> None:
    if path.suffix == ".parquet":
        pytest.skip("Parquet is packed inside")
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    name, form = only(path)
    result = read(form, name, 100)
    assert (len(result.records), result.bad) == (1, [])


def test_a_file_that_vanishes_before_it_is_read_is_reported(path: Path) -> None:
    name, form = only(path)
    splits = form.plan(name)
    path.unlink()
    with pytest.raises(InputError, match=r"cannot be read: (?s:.*)No such file"):
        list(form.read(splits[0]))


def test_a_file_without_permission_is_reported(path: Path) -> None:
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root may read everything")
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        detect(str(path.parent))
    path.parent.chmod(0)
    try:
        with pytest.raises(InputError, match="cannot be read: Permission denied"):
            detect(str(path.parent))
    finally:
        path.parent.chmod(0o700)


def test_a_folder_may_hold_files_of_all_formats(tmp_path: Path) -> None:
    for name, content in CONTENTS.items():
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "notes").write_text("none of them")
    archive = detect(str(tmp_path), PLACES)
    assert len(archive.formats) == len(CONTENTS)
    assert [Path(str(other)).name for other in archive.others] == ["notes"]
    assert inspect_splits(archive.plan()).records == len(CONTENTS)


def test_a_file_that_cannot_be_opened_is_reported_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(CONTENTS["lines.jsonl"])

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("bindings.archive.unpacking.open_file", refuse)
    with pytest.raises(InputError, match=rf"{tmp_path}/a: cannot be read: Permission denied"):
        detect(str(tmp_path))
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InputError, match=rf"{tmp_path}: cannot be read: Permission denied"):
        detect(str(tmp_path))


@pytest.mark.parametrize("lone", ["junk", "folder"])
def test_a_path_without_any_archive_is_bad_input_and_junk_among_archives_a_bad_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lone: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.bindings").write_text("exchange x: fanout\nqueue q\nx -> q\n")
    for folder in ("folder", "mixed"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "junk").write_text("junk")
    (tmp_path / "junk").write_text("junk")
    (tmp_path / "mixed/lines.jsonl").write_bytes(encode_line(RECORD))

    def code(*arguments: str) -> int:
        return CliRunner().invoke(hashstar, arguments).exit_code

    audit = ("audit", "--no-spark", "-t", "t.bindings")
    for more in ((), ("--max-bad", "0")):
        assert code(*audit, lone, *more) == 2
        assert code(*audit, "mixed/lines.jsonl", lone, *more) == 2
        assert code("archive", "convert", lone, "out.jsonl", *more) == 2
        assert code(*audit, "mixed", *more) == (1 if more else 0)
        assert code("archive", "convert", "mixed", f"out{len(more)}.jsonl", *more) == (1 if more else 0)
    assert code("archive", "inspect", lone) == 2
    assert code("archive", "inspect", "mixed") == 0


def test_no_module_of_archives_opens_a_file_that_may_be_a_pipe() -> None:
    """Opening one waits for a writer: `open_file` does not."""
    faults = [
        f"{path}:{node.lineno}"
        for path, text in read_modules("bindings/archive/").items()
        for node in walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr in {"open", "read_bytes", "read_text"}
    ]
    assert not faults


def test_a_pipe_is_no_archive(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: cannot be read: it is a pipe or a device"):
        detect(str(tmp_path / "pipe"))


def test_pipes_beside_files_of_brokers_are_not_waited_for(tmp_path: Path) -> None:
    kafka, store = tmp_path / "orders-0", tmp_path / "store"
    kafka.mkdir()
    (kafka / f"{0:020}.log").write_bytes(batch(0, [KafkaRecord(0, key=b"k")]))
    for folder in ("commitlog", "consumequeue/T/0", "config", "timerlog", "index"):
        (store / folder).mkdir(parents=True)
    for pipe in (kafka / f"{0:020}.index", kafka / f"{0:020}.txnindex", kafka / "leader-epoch-checkpoint"):
        os.mkfifo(pipe)
    for name in ("commitlog/{0:020}", "consumequeue/T/0/{0:020}", "config/topics.json", "checkpoint", "timerwheel"):
        os.mkfifo(store / name.format(0))
    for path in (kafka, store):
        ended = command_server().run(["archive", "inspect", str(path)])  # which is ended if it waits
        assert ended.code in (0, 2), ended.err
        assert "Traceback" not in ended.err


def test_a_folder_that_is_removed_while_its_archive_is_listed_has_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("day=1", "day=2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jsonl").write_bytes(CONTENTS["lines.jsonl"])
    scandir = os.scandir

    def remove_first(folder: str) -> Any:
        if folder != str(tmp_path):
            return scandir(folder)
        listed = [*scandir(folder)]
        shutil.rmtree(tmp_path / "day=1")
        return nullcontext(listed)

    monkeypatch.setattr(os, "scandir", remove_first)
    assert [path for path, _ in detect(str(tmp_path)).files] == [str(tmp_path / "day=2" / "a.jsonl")]
