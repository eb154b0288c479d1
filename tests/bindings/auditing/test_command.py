"""``hashstar audit`` on Spark: the same report as in one process; and following an archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from bridge.cli import hashstar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPOLOGY = """\
exchange orders: topic
queue billing
queue mail

orders -> billing: "order.*.created"
orders -> mail: "mail.#"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder with a topology and an archive of two files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.bindings").write_text(TOPOLOGY)
    (tmp_path / "archive").mkdir()
    for number in range(2):
        write(tmp_path / "archive" / f"{number}.jsonl", 50)
    return tmp_path


def write(path: Path, messages: int, seconds: int = 1) -> None:
    """Write an archive of messages with a number of seconds between them; a third are unroutable."""
    keys = ("order.eu.created", "order.us.created", "order.eu.paid")
    lines = [
        json.dumps({"exchange": "orders", "routing_key": keys[n % 3], "timestamp": 1_793_491_200 + n * seconds})
        for n in range(messages)
    ]
    path.write_text("\n".join(lines) + "\n")


def report(*arguments: str) -> dict[str, Any]:
    """Return the report of a run as JSON, without the time at which it was made."""
    result = CliRunner(catch_exceptions=False).invoke(hashstar, ["audit", *arguments, "--format", "json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    del found["made"]
    return found


@pytest.mark.smoke
def test_spark_and_one_process_report_the_same(spark: SparkSession, folder: Path) -> None:
    there = ("-t", "orders.bindings", "archive", "--compare", "orders.bindings", "--verify")
    assert report(*there) == report(*there, "--no-spark")


def test_a_followed_archive_is_counted_once(spark: SparkSession, folder: Path) -> None:
    follow = ("follow", "-t", "orders.bindings", "--state", "state", "archive")
    assert report(*follow)["totals"]["messages"]["all"] == 100
    assert report(*follow)["totals"]["messages"]["all"] == 100
    write(folder / "archive" / "2.jsonl", 20)
    found = report(*follow)
    whole = report("-t", "orders.bindings", "archive", "--no-spark")
    for part in ("totals", "bindings", "queues", "exchanges", "timeline", "unroutable"):
        assert found[part] == whole[part], part


def test_slots_of_a_followed_archive_become_wider_as_it_grows(spark: SparkSession, folder: Path) -> None:
    """They become those of a day, then of ten days, always as for the whole archive, and never narrower again."""
    follow = ("follow", "-t", "orders.bindings", "--state", "state", "archive")
    widths = [report(*follow)["timeline"]["slot_seconds"]]
    for number, apart in enumerate((864, 8_640, 1), 2):
        write(folder / "archive" / f"{number}.jsonl", 100, apart)
        found = report(*follow)["timeline"]
        assert found == report("-t", "orders.bindings", "archive", "--no-spark")["timeline"]
        widths.append(found["slot_seconds"])
    assert widths == [1, 300, 3_600, 3_600]
