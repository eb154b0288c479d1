"""The notebook of examples/polars_notebook runs as a script: on JSON lines, and on an archive of Parquet files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import ROOT

SCRIPT = ROOT / "examples/polars_notebook/notebook.py"


def test_the_notebook_counts_what_queues_get_and_what_is_lost(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    archive = tmp_path / "traffic"
    traffic = ROOT / "examples/orders/traffic.jsonl"
    convert = [sys.executable, "-m", "bridge.cli", "archive", "convert", str(traffic), str(archive)]
    subprocess.run(convert, cwd=ROOT, check=True, capture_output=True)
    runs = [[], [str(archive)]]
    outputs = [
        subprocess.run(
            [sys.executable, SCRIPT, *arguments], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
        for arguments in runs
    ]
    assert outputs[0] == outputs[1]
    assert "<RouteColumns of 160 rows: 8 outcomes, 0 of them refused>" in outputs[0]
    for row in (
        "audit          ┆ 117",
        "documents ┆                        ┆ 5",
        "amq.topic ┆ sensor.cellar.humidity ┆ 4",
    ):
        assert row in outputs[0]
