"""A table of Iceberg is named as its catalog has it, at its newest snapshot or another; errors show no credentials."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bindings
from bindings.archive.formats import lakes
from bindings.archive.formats.detect import detect
from bindings.archive.places import RemoteFile
from bindings.auditing.spark.growth import Growth
from bindings.upgrading.run import _read_asked
from exchange.errors import InputError
from tests.bindings.archive.test_iceberg import make_table
from tests.bindings.archive.test_lakes import ORDERS, read_keys, rows
from tests.support.iceberg_rest import serve_rest_catalog
from tests.support.object_store import CREDENTIALS, ObjectStore, serve_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Configure = Callable[..., None]
SECRET = "word-of-the-user"  # noqa: S105  of no user


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Return a function that configures a catalog of a name as a user does, for this process."""
    from pyiceberg import catalog
    from pyiceberg.utils.config import Config

    def set_properties(name: str, **properties: str) -> None:
        for key, value in properties.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__{key.upper()}", value)
        monkeypatch.setattr(catalog, "_ENV_CONFIG", Config())

    return set_properties


@pytest.fixture
def table(tmp_path: Path, configure: Configure) -> Iterator[Any]:
    """Return a table, ``tests.n.events``, of three snapshots, the newest without the row of the first."""
    configure("tests", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    table = make_table(tmp_path)
    table.append(rows("a"))
    table.overwrite(rows("b"))
    with closing(table.catalog):
        yield table


def keys_of(address: str) -> list[str]:
    return [key for _, key in read_keys(address)]


def test_a_table_is_read_as_its_catalog_has_it(table: Any) -> None:
    """Not by the newest file of its folder, which another writer may have left behind."""
    newest = max(Path(table.location().removeprefix("file://"), "metadata").glob("*.metadata.json"))
    newest.with_name("00099-never-committed.metadata.json").write_bytes(b"{}")
    assert keys_of("iceberg://tests.n.events") == ["b"]


def test_a_snapshot_is_named_by_number_time_branch_and_tag(table: Any) -> None:
    first, *_, newest = table.metadata.snapshots
    with table.manage_snapshots() as change:
        change.create_tag(first.snapshot_id, "as of/then")
    seconds = first.timestamp_ms / 1000
    for option in (f"snapshot={first.snapshot_id}", f"at={seconds}", "ref=as%20of%2Fthen"):
        archive = detect(f"iceberg://tests.n.events?{option}")
        assert archive.path == f"iceberg://tests.n.events?snapshot={first.snapshot_id}"
        assert keys_of(f"iceberg://tests.n.events?{option}") == ["a"]
    for option in ("ref=main", "at=2999-01-01"):
        assert detect(f"iceberg://tests.n.events?{option}").path.endswith(f"={newest.snapshot_id}")


def test_a_snapshot_has_the_names_of_its_own_time(table: Any) -> None:
    """Files of today have another name for a column, which is refused of them alone."""
    old = table.metadata.current_snapshot_id
    with table.update_schema() as change:
        change.rename_column("routing_key", "rk")
    assert keys_of(f"iceberg://tests.n.events?snapshot={old}") == ["b"]
    table.append(rows("c").rename_columns(["exchange", "rk"]))
    with pytest.raises(InputError, match=r"its column rk is still routing_key in data/"):
        detect("iceberg://tests.n.events")


def test_the_audit_names_the_snapshot_that_it_counted(table: Any) -> None:
    report = bindings.audit(ORDERS, "iceberg://tests.n.events", jobs=1)
    (archived,) = report.audited.archives
    assert archived.path == f"iceberg://tests.n.events?snapshot={table.metadata.current_snapshot_id}"
    assert report.audited.records.counted == 1


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("tests.events", "it names no table of a catalog: iceberg://CATALOG.NAMESPACE.TABLE"),
        ("tests.n.events?day=1", "it names no table of a catalog"),
        ("tests.n.other", "iceberg://tests.n.other: the catalog has no such table"),
        ("tests.m.events", "iceberg://tests.m.events: the catalog has no such table"),
        ("other.n.events", "configuration has no catalog other; it knows tests"),
        ("tests.n.events?snapshot=1", "the table has no snapshot 1; the newest is "),
        ("tests.n.events?ref=x", "the table has no branch or tag x; there are main"),
        ("tests.n.events?at=x", "it is no time of ISO 8601"),
        ("tests.n.events?at=2001-01-01", "no snapshot that is as old as 2001-01-01"),
    ],
)
def test_what_is_not_there_is_an_error(table: Any, address: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        detect(f"iceberg://{address}")


def test_a_table_to_which_nothing_was_written_is_an_error(table: Any) -> None:
    table.catalog.create_table("n.empty", rows("a").schema)
    with pytest.raises(InputError, match=r"n\.empty: the table has no snapshot, as nothing was written to it"):
        detect("iceberg://tests.n.empty")


def test_a_table_of_a_catalog_is_not_followed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^iceberg://tests\.n\.events: tables of Iceberg are .*not followed"):
        Growth("iceberg://tests.n.events", tmp_path / "state")


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lakes, "find_spec", lambda name: None if name == "pyiceberg" else util.find_spec(name))
    with pytest.raises(InputError, match=r"iceberg://tests\.n\.events: .* pip install 'pyiceberg>=0\.11'$"):
        detect("iceberg://tests.n.events")


def test_errors_of_a_catalog_show_no_credentials(configure: Configure, tmp_path: Path) -> None:
    """Whether they are in its address or properties of their own: drivers quote what they were given."""
    configure("bad", type="sql", uri=f"sqlite:///{tmp_path}/none/{SECRET}.db?password={SECRET}", token=SECRET)
    configure("kind", type="rest", uri=f"http://user:{SECRET}@127.0.0.1:1/", token=SECRET, credential=f"me:{SECRET}")
    for name in ("bad", "kind"):
        with pytest.raises(InputError, match=rf"iceberg://{name}\.n\.events: the catalog cannot be read: ") as caught:
            detect(f"iceberg://{name}.n.events")
        assert SECRET not in str(caught.value), name


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with serve_store(monkeypatch) as running:
        yield running


@pytest.mark.spark
def test_credentials_of_a_catalog_are_those_of_its_store(
    store: ObjectStore, configure: Configure, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here and with Spark's workers, to which they are sent; neither has any of its own, and no text has them."""
    from pyiceberg.catalog import load_catalog

    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    configure("far", type="sql", uri=f"sqlite:///{tmp_path}/far.db", warehouse="s3://bucket/far")
    of_store = {"region": "us-east-1", "access_key_id": "AKIATESTS", "secret_access_key": SECRET}
    of_store["endpoint"] = f"http://127.0.0.1:{store.port}"
    configure("far", **{f"s3__{name}": value for name, value in of_store.items()})
    with load_catalog("far") as there:
        there.create_namespace("n")
        written = there.create_table("n.events", rows("a").schema)
        written.append(rows("a"))
        written.overwrite(rows("b", "c"))
    archive = detect("iceberg://far.n.events")
    assert {type(place) for place, _ in archive.files} == {RemoteFile}
    assert SECRET not in repr(archive)
    assert keys_of("iceberg://far.n.events") == ["b", "c"]
    here = bindings.audit(ORDERS, "iceberg://far.n.events", jobs=2)
    there_too = bindings.audit(ORDERS, "iceberg://far.n.events", spark=spark)
    assert here.audited.records.counted == 2
    assert (here.summary, here.audited) == (there_too.summary, there_too.audited)


@pytest.mark.live
def test_a_table_of_a_rest_catalog_is_read(configure: Configure, tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    try:
        server = serve_rest_catalog(tmp_path / "server")
        address = server.__enter__()
    except (OSError, subprocess.SubprocessError) as reason:
        if os.environ.get("HASHSTAR_REQUIRE_LIVE") == "1":
            raise
        pytest.skip(f"a REST catalog cannot be started: {reason}")
    try:
        configure("live", type="rest", uri=address)
        with load_catalog("live") as there:
            there.create_namespace("n")
            written = there.create_table("n.events", rows("a").schema)
            written.append(rows("a"))
            first = written.metadata.current_snapshot_id
            written.overwrite(rows("b"))
        assert keys_of("iceberg://live.n.events") == ["b"]
        assert keys_of(f"iceberg://live.n.events?snapshot={first}") == ["a"]
        with pytest.raises(InputError, match="the catalog has no such table"):
            detect("iceberg://live.n.other")
    finally:
        server.__exit__(None, None, None)


def test_a_table_of_a_catalog_is_an_archive_of_an_upgrade(table: Any) -> None:
    recorded = _read_asked("iceberg://tests.n.events")
    assert [each.messages for each in recorded.publishing] == [1]
