"""The report is the same to the last count, whoever counts it, and wherever the messages are.

The same messages are in files, in S3, and in tables of Delta Lake and Iceberg with removed files and a column that was
added. They are counted by processes, and by Spark: of this machine, on a standalone cluster, by Spark Connect, on YARN.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from bridge.cli import hashstar
from tests.bindings.auditing.test_cluster import DEFINITIONS
from tests.support.object_store import CREDENTIALS, ObjectStore, serve_store
from tests.support.spark_clusters import Cluster, require_spark, serve_connect, serve_standalone, serve_yarn

MESSAGES: Final = 3000
FOREIGN: Final = 300
"""Number of messages of another virtual host, which are skipped."""
HERE: Final = ("--no-spark", "--jobs")
KEYS: Final = [f"order.{number}.{event}" for number in range(8) for event in ("created", "paid")]


def make_rows() -> pa.Table:
    """Return messages of few keys, so that even frequent ones are counted exactly, in three parts of the same length.

    The first part has no virtual host: the column was added later. Of the others some are of another one.
    """
    chance = Random(3)
    keys = [chance.choice(KEYS) for _ in range(MESSAGES)]
    later = [*["other"] * FOREIGN, *["/"] * (2 * MESSAGES // 3 - FOREIGN)]
    chance.shuffle(later)
    return pa.table({
        "exchange": ["amq.topic"] * MESSAGES,
        "routing_key": keys,
        "timestamp": pa.array([1_000_000 * n for n in range(MESSAGES)], pa.timestamp("us", "UTC")),
        "vhost": pa.array([*[None] * (MESSAGES // 3), *later], pa.string()),
    })  # fmt: skip


def split(rows: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table, pa.Table]:
    """Return the three parts of rows, the first without the later column, and rows that tables lose again."""
    third = len(rows) // 3
    first, *others = (rows.slice(start, third) for start in range(0, len(rows), third))
    gone = first.slice(0, 100).set_column(1, "routing_key", pa.array(["gone"] * 100)).drop(["vhost"])
    return first.drop(["vhost"]), others[0], others[1], gone


def write_lines(folder: Path, rows: pa.Table, *bad: str) -> None:
    folder.mkdir()
    for number in range(3):
        part = rows.slice(number * len(rows) // 3, len(rows) // 3)
        lines = [json.dumps(row, default=datetime.isoformat) for row in part.to_pylist()]
        (folder / f"{number}.jsonl").write_text("\n".join([*lines, *bad, ""]))


def write_delta(address: str, rows: pa.Table, store: dict[str, str] | None = None) -> None:
    """Write a table whose first rows were overwritten, with a column that was added, a file deleted, compacted."""
    import deltalake

    first, second, third, gone = split(rows)
    write = partial(deltalake.write_deltalake, storage_options=store)
    write(address, gone)
    write(address, first, mode="overwrite")
    write(address, second, mode="append", schema_mode="merge")
    write(address, gone, mode="append", schema_mode="merge")
    deltalake.DeltaTable(address, storage_options=store).delete("routing_key = 'gone'")
    deltalake.DeltaTable(address, storage_options=store).optimize.compact()
    write(address, third, mode="append")


def write_iceberg(catalog: str, rows: pa.Table) -> Path:
    """Write a table of a catalog that became like that of `write_delta`, and return where it is."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.types import StringType

    first, second, third, gone = split(rows)
    with load_catalog(catalog) as there:
        there.create_namespace("shop")
        table = there.create_table("shop.events", first.schema)
        table.append(gone)
        table.overwrite(first)
        with table.update_schema() as change:
            change.add_column("vhost", StringType())
        table.append(second)
        table.append(gone.append_column("vhost", pa.nulls(len(gone), pa.string())))
        table.delete("routing_key = 'gone'")
        table.append(third)
        return Path(table.location().removeprefix("file://"))


def write_places(folder: Path, store: ObjectStore, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Write the same messages to each place, and return what to name them by."""
    from pyiceberg import catalog
    from pyiceberg.utils.config import Config

    rows, login = make_rows(), ":".join([*CREDENTIALS.values()][:2]) + "@"
    endpoint = f"http://127.0.0.1:{store.port}"
    settings = {"S3__ENDPOINT": endpoint, "S3__REGION": "us-east-1"}
    for name, warehouse in (("NEAR", f"file://{folder}/near"), ("FAR", "s3://bucket/far")):
        of_catalog = {"TYPE": "sql", "URI": f"sqlite:///{folder}/{name}.db", "WAREHOUSE": warehouse, **settings}
        for key, value in of_catalog.items():
            patch.setenv(f"PYICEBERG_CATALOG__{name}__{key}", value)
    patch.setattr(catalog, "_ENV_CONFIG", Config())
    write_lines(folder / "lines", rows)
    write_lines(folder / "damaged", rows, "no JSON")
    (folder / "parquet").mkdir()
    pq.write_table(rows, folder / "parquet" / "all.parquet", row_group_size=700)
    store.upload(folder / "lines", "bucket/lines")
    write_delta(str(folder / "delta"), rows)
    write_delta("s3://bucket/delta", rows, {
        "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "AWS_SECRET_ACCESS_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    })  # fmt: skip
    iceberg = write_iceberg("near", rows)
    write_iceberg("far", rows)
    return {
        "JSON lines": str(folder / "lines"), "JSON lines with bad ones": str(folder / "damaged"),
        "Parquet": str(folder / "parquet"), "Delta": str(folder / "delta"),
        "Iceberg": str(iceberg), "Iceberg of a catalog": "iceberg://near.shop.events",
        "S3": store.address("bucket/lines", login=login), "Delta in S3": store.address("bucket/delta", login=login),
        "Iceberg in S3 of a catalog": "iceberg://far.shop.events",
    }  # fmt: skip


def without_place(report: str) -> Any:
    """Return the JSON of a report without when it was made, what it says of files, and examples: any key of a shape."""
    value = json.loads(report)
    del value["made"], value["audited"]["archives"], value["caveats"]
    records = value["audited"]["records"]
    records["read"] -= sum(row["records"] for row in records.pop("bad"))
    for row in value["unroutable"]:
        for shape in row["shapes"]:
            assert shape.pop("example") in KEYS
    return value


def without_time(report: str) -> Any:
    """Return the JSON of a report without when it was made."""
    value = json.loads(report)
    del value["made"]
    return value


class Everywhere(NamedTuple):
    """The same messages in many places."""

    topology: Path
    places: dict[str, str]

    def make_command(self, *places: str) -> list[str]:
        """Return the command that audits these places."""
        return ["audit", "-t", str(self.topology), *places, "--json"]

    def ask(self, *arguments: str) -> str:
        """Run the command here, and return what it prints."""
        done = CliRunner().invoke(hashstar, arguments, catch_exceptions=False)
        assert not done.exit_code, done.output
        return done.stdout


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everywhere]:
    """Yield the places."""
    folder = tmp_path_factory.mktemp("everywhere")
    topology = folder / "definitions.json"
    topology.write_text(json.dumps(DEFINITIONS))
    with pytest.MonkeyPatch.context() as patch, serve_store(patch) as store:
        yield Everywhere(topology, write_places(folder, store, patch))


@pytest.fixture(scope="module")
def expected(everywhere: Everywhere) -> Any:
    """Count in one process what is in the plainest of the places."""
    found = without_place(everywhere.ask(*everywhere.make_command(everywhere.places["JSON lines"]), *HERE, "1"))
    records = found["audited"]["records"]
    assert (records["read"], records["counted"]) == (MESSAGES, MESSAGES - FOREIGN)
    return found


@pytest.mark.process
@pytest.mark.parametrize("jobs", ["1", "2", "4"])
def test_processes_count_the_same_in_each_place(everywhere: Everywhere, expected: Any, jobs: str) -> None:
    for name, place in everywhere.places.items():
        report = everywhere.ask(*everywhere.make_command(place), *HERE, jobs)
        assert without_place(report) == expected, name


@pytest.fixture(scope="module")
def standalone(everywhere: Everywhere, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with serve_standalone(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.mark.spark
@pytest.mark.parametrize(
    "where",
    ["local[2]", *[pytest.param(each, marks=pytest.mark.live) for each in ("standalone", "Spark Connect", "YARN")]],
)
def test_spark_counts_the_same_of_all_places_together(
    everywhere: Everywhere, request: pytest.FixtureRequest, tmp_path: Path, where: str
) -> None:
    """One report of all places, with what it says of each, is that of one process; the workers lack the product."""
    require_spark()
    asked = everywhere.make_command(*everywhere.places.values())
    expected = without_time(everywhere.ask(*asked, *HERE, "1"))
    tables = len(everywhere.places) - 1  # one has two names, and is counted once
    assert expected["audited"]["records"]["counted"] == tables * (MESSAGES - FOREIGN)
    if where == "local[2]":
        request.getfixturevalue("spark")  # the active session counts
        assert without_time(everywhere.ask(*asked)) == expected
        return
    with ExitStack() as stack:
        if where == "YARN":
            cluster = stack.enter_context(serve_yarn(tmp_path))
        else:
            cluster = request.getfixturevalue("standalone")
            if where == "Spark Connect":
                cluster = stack.enter_context(serve_connect(tmp_path, cluster))
        assert without_time(cluster.ask(*asked)) == expected
