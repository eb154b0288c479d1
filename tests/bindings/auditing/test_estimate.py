"""What an audit would take, as a sample of its archive says."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from bindings.archive.formats.detect import Archive, detect
from bindings.auditing import estimate as module
from bindings.auditing.engine import sum_sizes
from bindings.auditing.estimate import Estimate, estimate_audit, to_lines
from bindings.auditing.local import planning, run
from bindings.auditing.local.selection import EVERYTHING, Selection
from bindings.auditing.local.studies import CoverageStudy
from bindings.commands.audit import audit_command
from exchange import Topology
from tests.support.pages import ROOT
from tests.support.schemas import validator

ORDERS = str(ROOT / "examples" / "orders" / "orders.bindings")
TRAFFIC = str(ROOT / "examples" / "orders" / "traffic.jsonl")


def test_of_a_small_archive_all_is_counted_and_no_report_printed() -> None:
    result = CliRunner().invoke(audit_command, [ORDERS, TRAFFIC, "--estimate", "--jobs", "1", "--fail-under", "100"])
    assert result.exit_code == 0, result.output
    archive, read, audit = result.stdout.splitlines()
    assert archive == f"archive  1 file, {-(-Path(TRAFFIC).stat().st_size // 1024)} KiB"
    assert read.startswith("read     all of it: 160 records, ")
    assert audit.startswith("audit    about 160 records, ")
    assert audit.endswith(" for this process")


def test_the_json_is_the_same_for_programs() -> None:
    result = CliRunner().invoke(audit_command, [ORDERS, TRAFFIC, "--estimate", "--jobs", "1", "--json"])
    found = json.loads(result.stdout)
    assert validator("audit-estimate").is_valid(found)
    assert found["files"] == found["share"] == found["jobs"] == 1
    assert found["size"] == Path(TRAFFIC).stat().st_size
    assert found["read"] == found["records"] == 160
    assert found["hours"] == found["core_hours"] == pytest.approx(found["seconds"] / 3_600)


@pytest.mark.parametrize("option", ["--format=markdown", "--html=x.html", "--save-tally=x.tally"])
def test_forms_of_a_report_are_refused(option: str) -> None:
    result = CliRunner().invoke(audit_command, [ORDERS, TRAFFIC, "--estimate", option])
    assert result.exit_code == 2
    assert "--estimate makes no report" in result.output


@pytest.mark.parametrize("options", [["--max-bad", "0"], ["--keep-bad", "bad"]])
def test_an_option_about_all_records_is_refused_and_not_ignored(options: list[str]) -> None:
    result = CliRunner().invoke(audit_command, [ORDERS, TRAFFIC, "--estimate", *options])
    assert result.exit_code == 2
    assert f"{options[0]} is about all records, and --estimate reads a sample" in result.output


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """Return an archive of 40 equal files, of which a quarter is drawn."""
    table = pa.table({"exchange": ["x"] * 1_000, "routing_key": [f"k.{n}" for n in range(1_000)], "ts": [0] * 1_000})
    for number in range(40):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    monkeypatch.setattr(planning, "MIN_TASK_BYTES", 1)
    monkeypatch.setattr(module, "SAMPLE_BYTES", size // 4)
    return detect(str(tmp_path))


def test_of_a_large_archive_a_part_stands_for_all(many: Archive) -> None:
    found = estimate_audit(many, [CoverageStudy(Topology())], EVERYTHING)
    assert (found.files, found.size) == (40, sum_sizes(many))
    assert 0.1 < found.share < 0.3
    assert found.records == 40_000


def test_a_part_without_a_record_of_the_window_stands_for_all(many: Archive) -> None:
    found = estimate_audit(many, [CoverageStudy(Topology())], Selection(since=1))
    assert found.share < 1
    assert found.records == 40_000


def test_what_is_done_once_is_not_multiplied(many: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are planned of all files, whatever is drawn."""
    clock = 0.0

    def plan(*given: Any, **named: Any) -> Any:
        nonlocal clock
        clock += 1_000
        return planning.plan_tasks(*given, **named)

    monkeypatch.setattr(run, "plan_tasks", plan)
    monkeypatch.setattr(module, "time", SimpleNamespace(process_time=lambda: clock))
    assert estimate_audit(many, [CoverageStudy(Topology())], EVERYTHING).seconds == 0


def test_the_audit_is_the_sample_as_often_as_it_is_in_the_archive() -> None:
    found, whole = Estimate(3, 5 << 30, 0.01, 1_000_000, 3.6, 4), "6.0 minutes of processor time"
    assert found.core_hours == pytest.approx(0.1)
    assert [*to_lines(found)] == [
        "archive  3 files, 5 GiB",
        "read     1 % of it, drawn by chance: 1,000,000 records, 3.6 s of processor time",
        f"audit    about 100,000,000 records, {whole}: 1.5 minutes for 4 processes with a core each",
    ]


@pytest.mark.parametrize(
    ("share", "seconds", "jobs", "drawn", "time"),
    [
        (0.999, 4.0, 1, "100 % of it", "4.0 seconds of processor time: 4.0 seconds for this process"),
        (1e-5, 45.0, 16, "0.001 % of it", "1,250.0 hours of processor time: 78.1 hours for 16 processes"),
        (1.0, 7_200.0, None, "all of it", "2.0 hours of processor time, by Spark"),
    ],
)
def test_numbers_are_written_for_people(share: float, seconds: float, jobs: int | None, drawn: str, time: str) -> None:
    _, read, audit = to_lines(Estimate(1, 1, share, 0, seconds, jobs))
    assert f" {drawn}" in read
    assert time in audit


def test_of_a_topic_no_sample_is_drawn() -> None:
    result = CliRunner().invoke(audit_command, [ORDERS, "kafka://127.0.0.1:1/t", "--estimate"])
    assert result.exit_code == 2
    assert "kafka://127.0.0.1:1/t: of a topic, no sample can be drawn; omit --estimate" in result.output
