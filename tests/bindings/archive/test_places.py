"""An archive in a store of objects is read as one in a folder; what is wrong there is one sentence without secrets."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import bindings
from bindings.archive.formats.detect import detect
from bindings.archive.places import RemoteFile, open_file, parse_address, require_unchanged
from bindings.archive.reading import read_split
from bindings.auditing.local import planning
from bindings.commands.archive import archive_command
from bindings.commands.audit import audit_command
from bridge.cli import hashstar
from exchange.errors import InputError
from tests.bindings.archive.test_every_format import CASES, IDS, MAPPED, TOPOLOGY, Case
from tests.bindings.archive.test_iceberg import folder_of, make_table
from tests.bindings.archive.test_lakes import read_keys, rows
from tests.support.object_store import ObjectStore, serve_store
from tests.support.pages import ROOT

pytestmark = pytest.mark.process
MADE = {"made": "now"}
"""What differs between reports of the same traffic."""
LINES = b'{"exchange": "x", "routing_key": "k"}\n' * 3


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with pytest.MonkeyPatch.context() as patch, serve_store(patch) as running:
        yield running


@pytest.fixture
def store(server: ObjectStore) -> ObjectStore:
    """Return the running server, with an empty bucket."""
    server.system().delete_dir_contents("bucket")
    server.sent.clear()
    return server


def run(command: Any, *arguments: object) -> str:
    """Run a command that ends well, and return what it prints."""
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def refuse(*arguments: object) -> str:
    """Run the program, and return its one line of error."""
    result = CliRunner().invoke(hashstar, [str(argument) for argument in arguments])
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("is_damaged", [False, True], ids=["whole", "damaged"])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_each_format_is_read_from_a_store_as_from_a_folder(
    case: Case, is_damaged: bool, store: ObjectStore, tmp_path: Path
) -> None:
    """Damaged, too: a damaged file is damaged in the same place."""
    for number, (name, data) in enumerate(case.files.items()):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        changed = bytearray(data)
        if is_damaged and number == 0:
            changed[case.at] ^= 0x51
        path.write_bytes(changed)
    (tmp_path / "t.bindings").write_text(TOPOLOGY)
    store.upload(tmp_path / "in", "bucket/a folder/100%/in")
    shown = "s3://bucket/a folder/100%/in"
    there = store.address("bucket/a folder/100%/in")
    inspect = [run(archive_command, "inspect", "--json", *MAPPED, place) for place in (tmp_path / "in", there)]
    assert json.loads(inspect[0].replace(str(tmp_path / "in"), shown)) == json.loads(inspect[1])
    options = ("-t", tmp_path / "t.bindings", "--archive-vhost", "*", "--no-spark", *MAPPED)
    for name, place in (("here", tmp_path / "in"), ("there", there)):
        run(audit_command, *options, "--json", tmp_path / f"{name}.json", place)
        run(archive_command, "convert", *MAPPED, place, tmp_path / f"{name}.jsonl")
    here, found = [(tmp_path / f"{name}.json").read_text() for name in ("here", "there")]
    assert json.loads(here.replace(str(tmp_path / "in"), shown)) | MADE == json.loads(found) | MADE
    lines, found = [(tmp_path / f"{name}.jsonl").read_text() for name in ("here", "there")]
    assert lines.replace(str(tmp_path / "in"), shown) == found


@pytest.mark.smoke
def test_an_audit_needs_the_columns_that_it_counts_and_no_more(store: ObjectStore, tmp_path: Path) -> None:
    """Bodies are most of a Parquet file. Its footer is read once, however many questions are about it."""
    rng = Random(1)
    table = pa.table({
        "exchange": ["x"] * 20_000, "routing_key": [f"k.{rng.randrange(100)}" for _ in range(20_000)],
        "body": [rng.randbytes(100) for _ in range(20_000)],
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=5_000)
    store.upload(tmp_path / "a.parquet", "bucket/a.parquet")
    (tmp_path / "t.bindings").write_text(TOPOLOGY)
    report = bindings.audit(tmp_path / "t.bindings", store.address("bucket/a.parquet"))
    assert report.summary.totals.messages == 20_000
    sizes = [size for _, size in store.sent]
    assert sum(sizes) < 300_000 < (tmp_path / "a.parquet").stat().st_size / 6, sizes
    assert len(sizes) < 16, sizes


def test_lines_are_read_once_in_large_parts(store: ObjectStore) -> None:
    """Beginnings cost little, however often they are looked at; one request for each few MiB behind them."""
    store.put("bucket/a.jsonl", LINES * 200_000)
    size = len(LINES) * 200_000
    archive = detect(store.address("bucket/a.jsonl"))
    assert sum(sent for _, sent in store.sent) < size / 50
    store.sent.clear()
    ((form, split),) = archive.plan(1 << 30)
    store.sent.clear()
    assert sum(getattr(item, "num_rows", 0) for item in form.read(split)) == 600_000
    assert sum(sent for _, sent in store.sent) < size + (1 << 20)
    assert len(store.sent) < 12


def test_a_place_pickles_small_and_shows_no_credentials(store: ObjectStore) -> None:
    store.put("bucket/in/a.jsonl", LINES)
    archive = detect(store.address("bucket/in", login="AKIAOTHER:its%2Fsecret@"))
    data = pickle.dumps(archive.plan())
    assert len(data) < 1_000
    ((form, split),) = pickle.loads(data)  # noqa: S301  our own
    assert [getattr(item, "num_rows", 0) for item in form.read(split)] == [3]
    for text in (str(archive), repr(archive), repr(split), split.source, archive.path):
        assert "secret" not in text
        assert "OTHER" not in text
    assert split.source == "s3://***@bucket/in/a.jsonl"


def test_names_are_taken_as_they_are(store: ObjectStore, tmp_path: Path) -> None:
    """Spaces, percent signs, slashes at the end; what begins with a dot or an underscore is left out."""
    (tmp_path / "t.bindings").write_text(TOPOLOGY)
    for name in ("100% a b/x=%20/part.jsonl", "100% a b/_SUCCESS", "100% a b/.hidden/a.jsonl", "100% a b/_tmp/a.jsonl"):
        store.put(f"bucket/{name}", LINES)
    for end in ("", "/", "//", "/x=%20", "/x=%20/part.jsonl"):
        report = bindings.audit(tmp_path / "t.bindings", store.address(f"bucket/100% a b{end}"))
        assert report.summary.totals.messages == 3


def test_a_file_beside_a_folder_of_its_name_is_read_without_a_slash(store: ObjectStore) -> None:
    store.put("bucket/day", LINES)
    store.put("bucket/day/a.jsonl", LINES)
    names = [[str(place) for place, _ in detect(store.address(f"bucket/day{end}")).files] for end in ("", "/")]
    assert names == [["s3://bucket/day"], ["s3://bucket/day/a.jsonl"]]


def test_files_that_are_given_twice_are_read_once(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "t.bindings").write_text(TOPOLOGY)
    store.put("bucket/in/a.jsonl", LINES)
    given = [store.address("bucket/in"), store.address("bucket/in/a.jsonl")]
    assert bindings.audit(tmp_path / "t.bindings", given).summary.totals.messages == 3


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("nowhere/in", "s3://nowhere/in: cannot be read: there is no such bucket"),
        ("nowhere", "s3://nowhere: cannot be read: there is no such bucket"),
        ("bucket/nothing", "s3://bucket/nothing: there is no such file or folder"),
        ("bucket/a%20b", "without percent-encoding"),
        ("bucket/empty", "s3://bucket/empty: there is nothing in it, or nothing but empty files"),
        ("bucket/delta", "s3://bucket/delta: its log of Delta Lake cannot be read"),
        ("bucket/delta/day=1", "it is a part of s3://bucket/delta"),
        ("bucket/ice", "s3://bucket/ice/metadata/v1.metadata.json: this metadata of Iceberg cannot be read"),
        ("bucket/ice/data", "it is a part of s3://bucket/ice"),
        ("bucket/hudi", "s3://bucket/hudi: it is a table of Hudi"),
    ],
)
def test_what_is_not_there_is_one_sentence(key: str, error: str, store: ObjectStore) -> None:
    store.put("bucket/empty/a.jsonl", b"")
    store.put("bucket/delta/_delta_log/00000000000000000000.json", b"{}")
    store.put("bucket/delta/day=1/a.jsonl", LINES)
    store.put("bucket/ice/metadata/v1.metadata.json", b"{}")
    store.put("bucket/ice/data/a.jsonl", LINES)
    store.put("bucket/hudi/.hoodie/hoodie.properties", LINES)
    assert error in refuse("archive", "inspect", store.address(key))


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("s3://KEY:se/cret@bucket/a", "s3://***: credentials in an address are percent-encoded: %2F for a slash"),
        ("s3://KEY:secret@bucket/a?nothing=secret", "Unexpected query parameter in S3 URI"),
        ("s3:///a", "s3:///a: it names no bucket or container: s3://NAME/FOLDER"),
        ("hdfs://127.0.0.1:9/a", "hdfs://127.0.0.1:9/a: cannot be read: "),
    ],
)
def test_an_address_that_cannot_be_used_is_one_sentence_without_secrets(address: str, error: str) -> None:
    line = refuse("archive", "inspect", address)
    assert error in line
    assert "secret" not in line
    assert "cret@" not in line


@pytest.mark.smoke
@pytest.mark.parametrize("place", ["bucket", "bucket/a folder/metadata/in"])
def test_tables_are_read_from_a_store_as_from_a_folder(place: str, store: ObjectStore, tmp_path: Path) -> None:
    """Of Delta Lake and Iceberg, side by side with files that are in no table; removed rows do not count."""
    path = str(tmp_path / "in" / "delta")
    for number, keys in enumerate((["a"], ["b", "c"], ["d"])):
        deltalake.write_deltalake(path, rows(*keys), mode="overwrite" if number == 1 else "append",
                                  partition_by=["exchange"])  # fmt: skip
    deltalake.DeltaTable(path).delete("routing_key = 'c'")
    table = make_table(tmp_path)
    table.append(rows("e"))
    table.overwrite(rows("f"))
    table.catalog.close()
    shutil.copytree(folder_of(table), tmp_path / "in" / "ice")
    (tmp_path / "in" / "a.jsonl").write_bytes(LINES)
    store.upload(tmp_path / "in", place)
    for there in {place, place.removesuffix("/metadata/in")}:
        assert read_keys(store.address(there)) == sorted([("x", key) for key in "bdfkkk"])
    for name in ("delta", "ice"):
        assert read_keys(store.address(f"{place}/{name}")) == read_keys(tmp_path / "in" / name)
    *_, before, _ = sorted((tmp_path / "in" / "ice" / "metadata").glob("*.metadata.json"))
    assert read_keys(store.address(f"{place}/ice/metadata/{before.name}")) == [("x", "e")]


def test_what_is_replaced_or_removed_after_it_was_listed_is_an_error(store: ObjectStore) -> None:
    for change, error in ((LINES + LINES, "it was replaced while it was read"), (None, "No such file or directory")):
        store.put("bucket/a.jsonl", LINES)
        ((form, split),) = detect(store.address("bucket/a.jsonl")).plan()
        if change is None:
            store.system().delete_file("bucket/a.jsonl")
        else:
            store.put("bucket/a.jsonl", change)
        with pytest.raises(InputError, match=f"^s3://bucket/a.jsonl: .*{error}"):
            list(form.read(split))


def test_what_is_replaced_while_it_is_read_is_an_error_at_the_end(store: ObjectStore) -> None:
    store.put("bucket/a.jsonl", LINES)
    ((form, split),) = detect(store.address("bucket/a.jsonl")).plan()
    items = read_split(form, split)
    next(items)
    store.put("bucket/a.jsonl", LINES + LINES)
    with pytest.raises(InputError, match=r"^s3://bucket/a\.jsonl: it was replaced while it was read"):
        list(items)


def test_all_readers_of_splits_but_that_of_a_bridge_learn_of_a_replaced_file() -> None:
    """They call `read_split`, which calls a format that may stand for another one; a bridge reads folders of this
    machine only.
    """
    around = {str(path.relative_to(ROOT)) for folder in ("bindings", "bridge") for path in (ROOT / folder).rglob("*.py")
              if re.search(r"\.read(_coded)?\(split\b", path.read_text("utf-8"))}  # fmt: skip
    within = {"bindings/archive/reading.py", "bindings/archive/formats/recognition.py"}
    assert around == {*within, "bridge/endpoints/archive/replay.py"}


@pytest.mark.parametrize("address", ["a.jsonl", "/s3/a", "s3/a", "kafka://a:1/t", "http://a/b", "c:/a"])
def test_other_texts_are_paths_of_this_machine(address: str) -> None:
    assert parse_address(address) is None


@pytest.mark.parametrize(
    ("address", "shown", "path"),
    [
        ("s3://b/a?region=x", "s3://b/a", "a"),
        ("s3a://b/a?b?c=d", "s3a://b/a?b", "a?b"),
        ("gs://b/a/", "gs://b/a", "a"),
        ("abfs://c@account.dfs.core.windows.net/a", "abfs://c@account.dfs.core.windows.net/a", "a"),
        ("abfs://:secret@account.dfs.core.windows.net/c/a", "abfs://***@account.dfs.core.windows.net/c/a", "c/a"),
        ("hdfs:///a/b", "hdfs:///a/b", "a/b"),
    ],
)
def test_addresses(address: str, shown: str, path: str) -> None:
    place = parse_address(address)
    assert place is not None
    assert (str(place), place.path) == (shown, path)


def test_a_stored_file_is_read_at_any_position(store: ObjectStore) -> None:
    data = Random(2).randbytes(300_000)
    store.put("bucket/a", data)
    place = parse_address(store.address("bucket/a"))
    assert isinstance(place, RemoteFile)
    with open_file(place) as file:
        assert file.read(10) == data[:10]
        assert file.seek(0, 2) == len(data)
        assert file.seek(200_000) == 200_000
        assert file.read() == data[200_000:]
        assert file.seek(5) == 5
        assert file.read(70_000) == data[5:70_005]


def test_jobs_give_the_same_report(store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MIN_BYTES_OF_GROUPS", 1)
    monkeypatch.setattr(planning, "MIN_TASK_BYTES", 1_000)
    for number in range(4):
        store.upload(Path("examples/orders/traffic.jsonl"), f"bucket/in/{number}.jsonl")
        (tmp_path / f"{number}.jsonl").write_bytes(Path("examples/orders/traffic.jsonl").read_bytes())
    here, *there = [
        bindings.audit("examples/orders/orders.bindings", place, jobs=jobs)
        for place, jobs in ((tmp_path, 1), (store.address("bucket/in"), 1), (store.address("bucket/in"), 2))
    ]
    for report in there:
        assert (report.summary, report.bindings, report.queues) == (here.summary, here.bindings, here.queues)


def test_no_output_has_credentials_or_options_of_an_address(store: ObjectStore, tmp_path: Path) -> None:
    """Reports in all forms, errors, notes, and what is written."""
    (tmp_path / "t.bindings").write_text(TOPOLOGY)
    store.put("bucket/in/a.jsonl", LINES + b"no line\n")
    store.put("bucket/none/a.txt", b"no archive")
    login = "AKIAOTHER:its%2Fsecret@"
    there, nothing = store.address("bucket/in", login=login), store.address("bucket/none", login=login)
    forms = [part for form in ("json", "html", "junit") for part in (f"--{form}", tmp_path / f"report.{form}")]
    tables = ("--tables", tmp_path / "tables", "--save-tally", tmp_path / "tally", "--keep-bad", tmp_path / "bad")
    audit = ("audit", "run", "-t", tmp_path / "t.bindings", "--no-spark")
    calls: list[tuple[object, ...]] = [
        (*audit, "--archive-vhost", "*", *forms, *tables, there, there), (*audit, "--max-bad", 0, there),
        ("archive", "inspect", there), ("archive", "inspect", "--json", there), ("archive", "inspect", nothing),
        ("archive", "inspect", "--key", "k", there), ("archive", "inspect", "--topic", "t", there),
        ("archive", "convert", there, tmp_path / "out"), ("archive", "convert", there, tmp_path / "out.jsonl"),
        ("archive", "convert", "--column", "headers=h", there, tmp_path / "b"),
        ("archive", "convert", there, store.address("bucket/out", login=login)),
        ("archive", "inspect", there.replace("scheme=http", "scheme=its%2Fsecret")),
        ("archive", "inspect", there.replace("region=", "password=verysecret&region=")),
        ("dead", there), ("dead", "--json", there.replace("region=", "password=verysecret&region=")),
        ("upgrade", tmp_path / "t.bindings", "--archive", there),
    ]  # fmt: skip
    printed = []
    for call in calls:
        result = CliRunner().invoke(hashstar, [str(argument) for argument in call])
        assert result.exception is None or isinstance(result.exception, SystemExit), (call, result.exception)
        printed.append(result.output)
    assert "s3://***@bucket/in" in printed[0]
    assert "archives are written to folders" in printed[10]
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 8
    for text in (*[each.encode() for each in printed], *written):
        for part in (b"secret", b"AKIAOTHER", b"endpoint_override"):
            assert part not in text, text[:2000]


def test_times_are_compared_as_coarsely_as_stores_tell_them(store: ObjectStore) -> None:
    """MinIO lists milliseconds, and answers with seconds when it is asked for one file."""
    store.put("bucket/a.jsonl", LINES)
    ((place, _),) = detect(store.address("bucket/a.jsonl")).files
    assert isinstance(place, RemoteFile)
    assert place.changed is not None
    require_unchanged(replace(place, changed=place.changed // 1_000_000_000 * 1_000_000_000 + 999_000_000))
    with pytest.raises(InputError, match="an older file when it was listed, a newer one now"):
        require_unchanged(replace(place, changed=place.changed - 1_000_000_000))
