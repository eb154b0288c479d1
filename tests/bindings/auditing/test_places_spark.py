"""Spark's workers read an archive in a store themselves: they get addresses, and credentials if these are in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bindings
from bindings.auditing.spark.growth import Growth
from exchange.errors import InputError
from tests.support.object_store import serve_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPOLOGY = "examples/orders/orders.bindings"
TRAFFIC = Path("examples/orders/traffic.jsonl")


@pytest.mark.spark
def test_the_workers_of_spark_give_the_report_of_a_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jsonl").write_bytes(TRAFFIC.read_bytes())
    with serve_store(monkeypatch) as store:
        store.upload(tmp_path, "bucket/in")
        there = bindings.audit(TOPOLOGY, store.address("bucket/in", login="AKIATESTS:a%2Fsecret@"), spark=spark)
    here = bindings.audit(TOPOLOGY, tmp_path, jobs=1)
    assert (there.summary, there.bindings, there.queues) == (here.summary, here.bindings, here.queues)


def test_an_archive_in_a_store_is_not_followed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^s3://\*\*\*@bucket/in: archives in stores are audited, but not followed$"):
        Growth("s3://KEY:SECRET@bucket/in?region=x", tmp_path / "state")


def test_a_table_is_not_followed(tmp_path: Path) -> None:
    """Its files say nothing of rows that are removed; the audit reads its log each time."""
    (tmp_path / "in" / "events" / "_delta_log").mkdir(parents=True)
    with pytest.raises(InputError, match=r"events: tables of Delta Lake are audited, but not followed: rows removed"):
        Growth(str(tmp_path / "in"), tmp_path / "state").look()
    (tmp_path / "in" / "events" / "day=1").mkdir()
    with pytest.raises(InputError, match=r"day=1: it is a table of Delta Lake, .* it is a part of .*events: name that"):
        Growth(str(tmp_path / "in" / "events" / "day=1"), tmp_path / "state").look()
