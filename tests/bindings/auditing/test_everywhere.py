"""The report is the same to the last count, however many processes count it, and wherever the messages are.

The same messages are in files, in S3, and in tables of Delta Lake and Iceberg with removed files and a column that was
added.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import bindings
from bindings.report.forms import FORMS
from bridge.cli import hashstar
from tests.bindings.auditing.test_cluster import DEFINITIONS
from tests.support.object_store import CREDENTIALS, ObjectStore, serve_store

MESSAGES: Final = 3000
FOREIGN: Final = 300
"""Number of messages of another virtual host, which are skipped."""
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


def write_lines(folder: Path, rows: pa.Table) -> None:
    folder.mkdir()
    for number in range(3):
        part = rows.slice(number * len(rows) // 3, len(rows) // 3)
        lines = [json.dumps(row, default=datetime.isoformat) + "\n" for row in part.to_pylist()]
        (folder / f"{number}.jsonl").write_text("".join(lines))


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
        "JSON lines": str(folder / "lines"), "Parquet": str(folder / "parquet"), "Delta": str(folder / "delta"),
        "Iceberg": str(iceberg), "Iceberg of a catalog": "iceberg://near.shop.events",
        "S3": store.address("bucket/lines", login=login), "Delta in S3": store.address("bucket/delta", login=login),
        "Iceberg in S3 of a catalog": "iceberg://far.shop.events",
    }  # fmt: skip


def without_place(report: Any) -> Any:
    """Return the JSON of a report without when it was made, what it says of files, and examples: any key of a shape."""
    value = json.loads(report) if isinstance(report, str) else report
    del value["made"], value["audited"]["archives"], value["caveats"]
    for row in value["unroutable"]:
        for shape in row["shapes"]:
            assert shape.pop("example") in KEYS
    return value


class Everywhere(NamedTuple):
    """The same messages in many places, and the report that all of them have."""

    folder: Path
    topology: Path
    places: dict[str, str]
    expected: Any

    def compare(self, reports: Mapping[str, Any]) -> None:
        """Raise AssertionError for the report of a place that differs in anything."""
        assert reports.keys() == self.places.keys()
        for name, report in reports.items():
            assert without_place(report) == self.expected, name


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everywhere]:
    """Yield the places, with the report of one process about the plainest of them."""
    folder = tmp_path_factory.mktemp("everywhere")
    topology = folder / "definitions.json"
    topology.write_text(json.dumps(DEFINITIONS))
    with pytest.MonkeyPatch.context() as patch, serve_store(patch) as store:
        places = write_places(folder, store, patch)
        encoded = FORMS["json"].encode(bindings.audit(str(topology), places["JSON lines"], jobs=1))
        expected = without_place(encoded.decode())
        records = expected["audited"]["records"]
        assert (records["read"], records["counted"]) == (MESSAGES, MESSAGES - FOREIGN)
        yield Everywhere(folder, topology, places, expected)


@pytest.mark.process
@pytest.mark.parametrize("jobs", ["1", "2", "4"])
def test_processes_count_the_same_in_each_place(everywhere: Everywhere, jobs: str) -> None:
    reports = {}
    for name, place in everywhere.places.items():
        asked = ["audit", "-t", str(everywhere.topology), place, "--json", "--no-spark", "--jobs", jobs]
        done = CliRunner().invoke(hashstar, asked, catch_exceptions=False)
        assert not done.exit_code, done.output
        reports[name] = done.stdout
    everywhere.compare(reports)
