"""The notebook of examples/polars_notebook runs as a script: on JSON lines, and on an archive of Parquet files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_server import command_server
from tests.support.pages import ROOT

SCRIPT = ROOT / "examples/polars_notebook/notebook.py"


def test_the_notebook_counts_what_queues_get_and_what_is_lost(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    archive = tmp_path / "traffic"
    traffic = ROOT / "examples/orders/traffic.jsonl"
    assert command_server().run(["archive", "convert", str(traffic), str(archive)]).code == 0
    ended = [command_server().run_file(SCRIPT, *arguments) for arguments in ((), (str(archive),))]
    assert [each.code for each in ended] == [0, 0], ended
    outputs = [each.out for each in ended]
    assert outputs[0] == outputs[1]
    assert "<RouteColumns of 160 rows: 8 outcomes, 0 of them refused>" in outputs[0]
    for row in (
        "audit          ┆ 117",
        "documents ┆                        ┆ 5",
        "amq.topic ┆ sensor.cellar.humidity ┆ 4",
    ):
        assert row in outputs[0]
