"""The rows of the newest version of a table of Delta Lake or Iceberg are read, also in a store; others are refused."""

from __future__ import annotations

import json
from importlib import util
from pathlib import Path
from random import Random

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats import lakes
from bindings.archive.formats.detect import detect
from bridge.cli import hashstar
from exchange.errors import InputError
from tests.support.archives.reads import read
from tests.support.pages import ROOT
from tests.support.tiers import examples

ORDERS = str(ROOT / "examples" / "orders" / "orders.bindings")


def rows(*keys: str, exchange: str = "x") -> pa.Table:
    return pa.table({"exchange": [exchange] * len(keys), "routing_key": list(keys)})


def read_keys(path: Path | str) -> list[tuple[str, str]]:
    """Return exchange and key of each record, sorted."""
    found = []
    for name, form in detect(str(path)).files:
        items = read(form, name)
        assert not items.bad
        found += [(each.message.exchange, each.message.routing_key) for each in items.records]
    return sorted(found)


@examples(12)
@given(seed=st.integers(0, 2**32))
def test_the_records_of_a_table_are_its_rows(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Whatever was appended, overwritten, deleted, compacted, and by whichever column it is partitioned."""
    chance, path = Random(seed), str(tmp_path_factory.mktemp("delta") / "t")
    names = ["x", "or ders", "ä/b", "c%d", "a=b"]
    by = ["exchange"] if chance.random() < 0.5 else None
    deltalake.write_deltalake(path, rows("first"), partition_by=by)
    for number in range(chance.randrange(1, 6)):
        step = chance.randrange(4)
        if step < 2:
            more = rows(f"k{number}", f"l{number}", exchange=chance.choice(names))
            deltalake.write_deltalake(path, more, mode="append" if step else "overwrite")
        elif step == 2:
            deltalake.DeltaTable(path).delete(f"routing_key = 'k{number - 1}'")
        else:
            deltalake.DeltaTable(path).optimize.compact()
    table = deltalake.DeltaTable(path).to_pyarrow_table()
    expected = sorted(zip(table["exchange"].to_pylist(), table["routing_key"].to_pylist(), strict=True))
    if expected:
        assert read_keys(Path(path)) == expected
    else:
        with pytest.raises(InputError, match="there is nothing in it"):
            detect(path)


def test_files_are_named_as_the_folder_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deltalake.write_deltalake(str(tmp_path / "t"), rows("k"))
    monkeypatch.chdir(tmp_path)
    ((name, _),) = detect("t").files
    assert str(name).startswith("t/part-")
    (tmp_path / "more.jsonl").write_text('{"exchange": "x", "routing_key": "a"}\n')
    assert len(detect(str(tmp_path)).files) == 2


def test_the_audit_counts_no_row_that_was_overwritten(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for count in (3, 2):
        deltalake.write_deltalake(path, rows(*["order.eu.paid"] * count, exchange="orders"), mode="overwrite")
    assert len(list(Path(path).glob("*.parquet"))) == 2
    result = CliRunner().invoke(hashstar, ["audit", ORDERS, path, "--json", "--no-spark"])
    assert json.loads(result.stdout)["audited"]["records"]["counted"] == 2


def test_without_the_package_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deltalake.write_deltalake(str(tmp_path / "t"), rows("k"))
    monkeypatch.setattr(lakes, "find_spec", lambda name: None if name == "deltalake" else util.find_spec(name))
    with pytest.raises(InputError, match=r"a table of Delta Lake, .* pip install 'deltalake>=1\.1'$"):
        detect(str(tmp_path / "t"))


@pytest.mark.parametrize(
    ("settings", "feature"),
    [
        ({"delta.enableDeletionVectors": "true"}, "deletionVectors"),
        ({"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}, "columnMapping"),
    ],
)
def test_a_table_whose_files_do_not_say_its_rows_is_refused(
    settings: dict[str, str], feature: str, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    deltalake.write_deltalake(str(path), rows("k"))
    log = path / "_delta_log" / "00000000000000000000.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            schema = json.loads(line["metaData"]["schemaString"])
            for number, field in enumerate(schema["fields"] if feature == "columnMapping" else ()):
                field["metadata"] = {
                    "delta.columnMapping.id": number,
                    "delta.columnMapping.physicalName": field["name"],
                }
            line["metaData"] |= {"configuration": settings, "schemaString": json.dumps(schema)}
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [feature],
                                "writerFeatures": [feature]}  # fmt: skip
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError, match=rf"it uses {feature}, which is not read: write the rows"):
        detect(str(path))


def test_a_damaged_log_is_an_error(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path / "t"), rows("k"))
    (tmp_path / "t" / "_delta_log" / "00000000000000000000.json").write_text("{")
    with pytest.raises(InputError, match="its log of Delta Lake cannot be read"):
        detect(str(tmp_path / "t"))


def test_a_table_of_hudi_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "in" / "events"
    for path in (table / ".hoodie" / "hoodie.properties", table / "day=1" / "part-0.parquet"):
        path.parent.mkdir(parents=True)
    pq.write_table(rows("k"), table / "day=1" / "part-0.parquet")
    for path in (table, tmp_path / "in"):
        with pytest.raises(InputError, match=r"events: it is a table of Hudi, .* write the rows"):
            detect(str(path))
    with pytest.raises(InputError, match=r"it is a part of .*events: name that$"):
        detect(str(table / "day=1"))
    assert len(detect(str(table / "day=1" / "part-0.parquet")).files) == 1


@pytest.mark.parametrize("files", ["*.parquet", "*/*.parquet", "**"])
@pytest.mark.parametrize("parts", [None, ["exchange"]])
def test_a_pattern_names_tables_and_no_files_of_them(tmp_path: Path, parts: list[str] | None, files: str) -> None:
    table = tmp_path / "in" / "events"
    for keys in ("ab", "c"):
        deltalake.write_deltalake(str(table), rows(*keys), mode="overwrite", partition_by=parts)
    pq.write_table(rows("d"), tmp_path / "d.parquet")
    assert read_keys(f"{tmp_path}/in/e*") == [("x", "c")]
    assert read_keys(f"{tmp_path}/*.parquet") == [("x", "d")]
    if [*table.glob(files)]:
        with pytest.raises(
            InputError, match=r"events: it is a table of Delta Lake|it is a part of .*events: name that"
        ):
            detect(f"{table}/{files}")


def test_another_name_with_a_colon_is_a_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such file or folder$"):
        detect(str(tmp_path / "a:b"))


def test_rights_for_an_archive_alone_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is within a table is not asked where nobody may look: in a store, or above a folder."""

    def look(folder: Path) -> str:
        if folder.name != "in":
            raise PermissionError(13, "Permission denied", str(folder))
        return ""

    (tmp_path / "data" / "in").mkdir(parents=True)
    pq.write_table(rows("a"), tmp_path / "data" / "in" / "a.parquet")
    monkeypatch.setattr(lakes, "find_table_kind", look)
    assert read_keys(tmp_path / "data" / "in") == [("x", "a")]
