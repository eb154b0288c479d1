"""What an audit would take, as a sample of its archive says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from bindings.archive.formats.detect import detect
from bindings.auditing import estimate as module
from bindings.auditing.estimate import Estimate, estimate_audit
from bindings.auditing.local import planning
from bindings.auditing.local.selection import EVERYTHING
from bindings.auditing.local.studies import CoverageStudy
from bindings.commands.audit import audit_command
from exchange import Topology
from tests.support.pages import ROOT

ORDERS = str(ROOT / "examples" / "orders" / "orders.bindings")
TRAFFIC = str(ROOT / "examples" / "orders" / "traffic.jsonl")


def test_of_a_small_archive_all_is_counted_and_no_report_printed() -> None:
    result = CliRunner().invoke(audit_command, [ORDERS, TRAFFIC, "--estimate", "--jobs", "1", "--fail-under", "100"])
    assert result.exit_code == 0, result.output
    archive, read, audit = result.stdout.splitlines()
    assert archive == f"archive  1 file, {-(-Path(TRAFFIC).stat().st_size // 1024)} KiB"
    assert read.startswith("read     all of it: 160 records, ")
    assert audit.startswith("audit    about 160 records, ")
    assert audit.endswith(" minutes for this process")


def test_of_a_large_archive_a_part_stands_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"exchange": ["x"] * 1_000, "routing_key": [f"k.{n}" for n in range(1_000)]})
    for number in range(40):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    monkeypatch.setattr(planning, "MIN_TASK_BYTES", 1)
    monkeypatch.setattr(module, "SAMPLE_BYTES", size // 4)
    found = estimate_audit(detect(str(tmp_path)), [CoverageStudy(Topology())], EVERYTHING)
    assert (found.files, found.size) == (40, size)
    assert 0.1 < found.share < 0.3
    assert round(found.records / found.share) == 40_000


def test_the_audit_is_the_sample_as_often_as_it_is_in_the_archive() -> None:
    found = Estimate(3, 5 << 30, 0.01, 1_000_000, 3.6)
    assert found.core_hours == pytest.approx(0.1)
    assert [*found.lines(4)] == [
        "archive  3 files, 5 GiB",
        "read     1 % of it, drawn by chance: 1,000,000 records, 3.6 s of processor time",
        "audit    about 100,000,000 records, 0.1 core hours: 1.5 minutes for 4 processes with a core each",
    ]


def test_of_a_topic_no_sample_is_drawn() -> None:
    result = CliRunner().invoke(audit_command, [ORDERS, "kafka://127.0.0.1:1/t", "--estimate"])
    assert result.exit_code == 2
    assert "kafka://127.0.0.1:1/t: of a topic, no sample can be drawn; omit --estimate" in result.output
