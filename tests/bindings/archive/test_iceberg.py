"""The rows of a table of Iceberg are read at its newest or a given metadata; what files alone do not say is refused."""

from __future__ import annotations

import gzip
import json
import shutil
import zlib
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.avro.container import encode_container
from bindings.archive.formats import lakes
from bindings.archive.formats.detect import detect
from bridge.cli import hashstar
from exchange.errors import InputError
from tests.bindings.archive.test_lakes import ORDERS, read_keys, rows
from tests.support.tiers import examples

# pyiceberg is imported where it is used: each process of tests collects this module, and it takes a second.
NESTED = pa.table({
    "exchange": ["x"], "routing_key": ["k"], "headers": [{"a": "1"}], "key": [{"word": "k"}], "list": [[{"n": 1}]],
})  # fmt: skip


EMPTY = {"type": "record", "name": "empty", "fields": []}


def of_items(items: object) -> dict[str, object]:
    """Return the schema of a record with an array."""
    return EMPTY | {
        "fields": [{"name": "a", "type": {"type": "array", "items": items, "element-id": 9}, "field-id": 8}]
    }


def open_catalog(folder: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("tests", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")


def make_table(folder: Path, *, is_partitioned: bool = False, of: Any = None) -> Any:
    """Return a new table of a catalog in SQLite."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import NestedField, StringType

    by = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "exchange")) if is_partitioned else PartitionSpec()
    fields = NestedField(1, "exchange", StringType()), NestedField(2, "routing_key", StringType())
    catalog = open_catalog(folder)
    catalog.create_namespace("n")
    return catalog.create_table("n.events", of or Schema(*fields), partition_spec=by)


def folder_of(table: Any) -> Path:
    return Path(table.location().removeprefix("file://"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which is ``table``, where a table was made, and a copy of it, ``as-made``."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "table").mkdir()
    table = make_table(folder / "table")
    table.append(rows("a"))
    table.overwrite(rows("b", "c"))
    table.append(rows("d"))
    table.delete("routing_key = 'c'")
    table.catalog.close()
    shutil.copytree(folder / "table", folder / "as-made")
    return folder


@pytest.fixture
def table(made: Path) -> Iterator[Any]:
    """Return a table whose row ``a`` was overwritten, and ``c`` removed.

    It is made once, as that takes longer than the tests, and put back for each where it was made: its metadata have
    the path.
    """
    shutil.rmtree(made / "table")
    shutil.copytree(made / "as-made", made / "table")
    catalog = open_catalog(made / "table")
    yield catalog.load_table("n.events")
    catalog.close()


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@examples(6)
@given(seed=st.integers(0, 2**32))
def test_the_records_of_a_table_are_its_rows(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Whatever was appended, overwritten, deleted or added as a column, partitioned or not, in a copy, too."""
    from pyiceberg.types import LongType

    chance, folder = Random(seed), tmp_path_factory.mktemp("iceberg")
    table = make_table(folder, is_partitioned=chance.random() < 0.5)
    table.append(rows("first"))
    for number in range(chance.randrange(1, 5)):
        more = rows(f"k{number}", f"l{number}", exchange=chance.choice(["x", "or ders", "ä/b", "c%d", "a=b"]))
        match chance.randrange(4):
            case 0:
                table.append(more)
            case 1:
                table.overwrite(more)
            case 2 if len(table.scan().to_arrow()):
                there = table.scan().to_arrow()["routing_key"].to_pylist()
                table.delete(f"routing_key = '{chance.choice(there)}'")
            case _:
                with table.update_schema() as change:
                    change.add_column(f"more{number}", LongType())
    found = table.scan().to_arrow()
    expected = sorted(zip(found["exchange"].to_pylist(), found["routing_key"].to_pylist(), strict=True))
    shutil.copytree(folder_of(table), folder / "in" / "copy")
    for path in (folder_of(table), folder / "in"):
        if expected:
            assert read_keys(path) == expected
        else:
            with pytest.raises(InputError, match="there is nothing in it"):
                detect(str(path))
    table.catalog.close()


def test_each_metadata_is_the_table_as_it_was(table: Any) -> None:
    *_, before, _ = sorted((folder_of(table) / "metadata").glob("*.metadata.json"))
    assert [key for _, key in read_keys(folder_of(table))] == ["b", "d"]
    assert [key for _, key in read_keys(before)] == ["b", "c", "d"]


def test_the_audit_counts_no_row_that_was_removed(table: Any) -> None:
    result = CliRunner().invoke(hashstar, ["audit", ORDERS, str(folder_of(table)), "--json", "--no-spark"])
    assert json.loads(result.stdout)["audited"]["records"]["counted"] == 2


def test_a_column_that_was_renamed_is_refused_until_its_files_are_rewritten(table: Any) -> None:
    with table.update_schema() as change:
        change.rename_column("routing_key", "rk")
    with pytest.raises(InputError, match=r"its column rk is still routing_key in data/.*: rewrite its data files"):
        detect(str(folder_of(table)))
    table.overwrite(pa.table({"exchange": ["x"], "rk": ["new"]}))
    assert read_keys(folder_of(table)) == [("x", "new")]


def test_a_column_that_was_removed_and_added_is_refused(table: Any) -> None:
    from pyiceberg.types import StringType

    with table.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("routing_key")
    with table.update_schema() as change:
        change.add_column("routing_key", StringType())
    with pytest.raises(InputError, match=r"has a column routing_key that was removed since"):
        detect(str(folder_of(table)))


@pytest.mark.parametrize(("old", "new"), [("headers.a", "c"), ("key.word", "text"), ("list.element.n", "m")])
def test_an_inner_column_that_was_renamed_is_refused(tmp_path: Path, old: str, new: str) -> None:
    table = make_table(tmp_path, of=NESTED.schema)
    table.append(NESTED)
    with table.update_schema() as change:
        change.rename_column(old, new)
    with pytest.raises(InputError, match=rf"its column {old.rpartition('.')[0]}\.{new} is still {old} in data/"):
        detect(str(folder_of(table)))
    table.catalog.close()


def test_names_of_files_that_are_older_than_the_table_are_compared(tmp_path: Path) -> None:
    """They have no numbers of columns: the table has names for these."""
    from pyiceberg.types import LongType

    table = make_table(tmp_path)
    file = folder_of(table) / "data" / "old.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(rows("a"), file)
    table.add_files([f"file://{file}"])
    with table.update_schema() as change:
        change.add_column("more", LongType())
    with table.update_schema() as change:
        change.rename_column("more", "other")
    assert read_keys(folder_of(table)) == [("x", "a")]
    with table.update_schema() as change:
        change.rename_column("routing_key", "rk")
    with pytest.raises(InputError, match=r"its column rk is still routing_key in data/old\.parquet"):
        detect(str(folder_of(table)))
    table.catalog.close()


def test_names_are_compared_where_older_schemas_were_removed(table: Any) -> None:
    with table.update_schema() as change:
        change.rename_column("routing_key", "rk")
    newest = max((folder_of(table) / "metadata").glob("*.metadata.json"))
    metadata = json.loads(newest.read_text())
    metadata["schemas"] = [each for each in metadata["schemas"] if each["schema-id"] == metadata["current-schema-id"]]
    newest.write_text(json.dumps(metadata))
    with pytest.raises(InputError, match=r"its column rk is still routing_key in data/"):
        detect(str(folder_of(table)))


@pytest.mark.parametrize("kind", ["POSITION_DELETES", "EQUALITY_DELETES"])
def test_files_of_deletes_are_refused(table: Any, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The library writes none: its writer of manifests is told that it does."""
    from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestWriterV2
    from pyiceberg.typedef import Record

    monkeypatch.setattr(ManifestWriterV2, "content", lambda _: ManifestContent.DELETES)
    file = DataFile.from_args(
        content=DataFileContent[kind], file_path=f"{table.location()}/data/d.parquet", file_format="PARQUET",
        partition=Record(), record_count=1, file_size_in_bytes=1, equality_ids=[1],
    )  # fmt: skip
    file.spec_id = 0
    with table.transaction() as change, change.update_snapshot().fast_append() as added:
        added.append_data_file(file)
    with pytest.raises(InputError, match=r"events: it is a table of Iceberg, and files of .*deletes remove rows of it"):
        detect(str(folder_of(table)))


@pytest.mark.parametrize("name", ["00009-x.gz.metadata.json", "00009-x.metadata.json.gz", "v9.metadata.json.gz"])
def test_gzipped_metadata_is_the_newest(table: Any, name: str) -> None:
    """Whether its name has the suffix of today or that of older releases of Iceberg."""
    metadata = folder_of(table) / "metadata"
    *_, before, _ = sorted(metadata.glob("*.metadata.json"))
    (metadata / name).write_bytes(gzip.compress(before.read_bytes()))
    assert [key for _, key in read_keys(folder_of(table))] == ["b", "c", "d"]


def test_metadata_beyond_the_limit_is_an_error(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bindings.archive.formats.iceberg.DOCUMENT_BYTES", 100)
    with pytest.raises(InputError, match=r"metadata\.json: too large: metadata of Iceberg has"):
        detect(str(folder_of(table)))


def encode_manifest(schema: object, codec: str, rows: int, data: bytes) -> bytes:
    """Return a container of Avro with one block."""
    made = encode_container(json.dumps(schema).encode(), rows, data)
    return made.replace(b"\x08null", bytes([2 * len(codec)]) + codec.encode())


def pack(data: bytes) -> bytes:
    return zlib.compress(data)[2:-4]


ENDLESS = b"\xfe" + b"\xff" * 8 + b"\x01"
"""The greatest number in zigzag."""


HOSTILE: list[tuple[bytes, str]] = [
    (encode_manifest(EMPTY, "deflate", 1, pack(bytes(2 << 20))), "too large: they have 1 MiB at most, unpacked"),
    (encode_manifest(EMPTY, "deflate", 1, b"\xff"), "a block of Avro that cannot be unpacked"),
    (encode_manifest(EMPTY, "null", 101, b""), "too many rows: 100 at most"),
    (encode_manifest(of_items("null"), "null", 1, ENDLESS), "arrays of items without content"),
    (encode_manifest(of_items(EMPTY | {"fields": [{"name": "x", "type": EMPTY}]}), "null", 1, ENDLESS), "arrays of"),
    (encode_manifest(of_items({"type": "fixed", "size": 0, "name": "f"}), "null", 1, ENDLESS), "arrays of items"),
    (encode_manifest(json.loads("[" * 200 + "]" * 200), "null", 0, b""), "nested too deeply"),
    (encode_manifest(EMPTY, "none", 1, b""), "compressed by 'none'"),
    (b"Obj", "it is no Avro file"),
]


def test_hostile_manifests_are_an_error(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they unpack to, and however many rows and items they pretend to have."""
    monkeypatch.setattr("bindings.archive.formats.iceberg.DOCUMENT_BYTES", 1 << 20)
    monkeypatch.setattr("bindings.archive.formats.iceberg.MAX_ROWS", 100)
    for manifest, error in HOSTILE:
        for path in (folder_of(table) / "metadata").glob("*-m0.avro"):
            path.write_bytes(manifest)
        with pytest.raises(InputError, match=rf"events.*{error}"):
            detect(str(folder_of(table)))


def test_a_manifest_that_was_cut_off_is_an_error(table: Any) -> None:
    """The library takes it for one with fewer files."""
    for path in (folder_of(table) / "metadata").glob("*.avro"):
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="the file ends in the middle of a block"):
        detect(str(folder_of(table)))


def test_metadata_of_a_table_without_rows_is_no_archive_itself(table: Any) -> None:
    first = min((folder_of(table) / "metadata").glob("*.metadata.json"))
    with pytest.raises(InputError, match=r"there is nothing in it"):
        detect(str(first))


def test_of_two_newest_metadata_one_must_be_named(table: Any) -> None:
    folder = folder_of(table) / "metadata"
    newest = max(folder.glob("*.metadata.json"))
    for name in ("a", "b"):
        shutil.copy(newest, folder / f"00099-{name}.metadata.json")
    with pytest.raises(InputError, match=r"two files of metadata are its newest .*: name the one"):
        detect(str(folder_of(table)))
    assert [key for _, key in read_keys(folder / "00099-a.metadata.json")] == ["b", "d"]


@pytest.mark.parametrize("part", ["data", "data/0101/1010", "metadata"])
def test_a_part_of_a_table_is_refused(table: Any, part: str) -> None:
    (folder_of(table) / part).mkdir(parents=True, exist_ok=True)
    with pytest.raises(InputError, match=rf"{part}: it is a table of Iceberg, .* it is a part of .*events: name that$"):
        detect(str(folder_of(table) / part))


@pytest.mark.parametrize("location", ["file:///other", "file:", "file:/"])
def test_files_elsewhere_are_refused(table: Any, location: str) -> None:
    """What stands behind the location is no path of its own: ``file://`` is followed by one from the root."""
    newest = max((folder_of(table) / "metadata").glob("*.metadata.json"))
    newest.write_text(newest.read_text().replace(f'"location":"{table.location()}"', f'"location":"{location}"'))
    with pytest.raises(InputError, match=r"events: a table of Iceberg at file:.*, with a file elsewhere: file:"):
        detect(str(folder_of(table)))


@pytest.mark.parametrize("text", ["{", "{}", '{"format-version": 9}'])
def test_damaged_metadata_is_an_error(table: Any, text: str) -> None:
    max((folder_of(table) / "metadata").glob("*.metadata.json")).write_text(text)
    with pytest.raises(InputError, match=r"metadata\.json: this metadata of Iceberg cannot be read"):
        detect(str(folder_of(table)))


def test_without_the_package_the_error_names_it(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lakes, "find_spec", lambda name: None if name == "pyiceberg" else util.find_spec(name))
    with pytest.raises(InputError, match=r"a table of Iceberg, .* pip install 'pyiceberg>=0\.11'$"):
        detect(str(folder_of(table)))
