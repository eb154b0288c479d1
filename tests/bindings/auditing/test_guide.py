"""The snippet of docs/audit.md that needs Spark runs with a table and a topology of its names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.pages import ROOT, blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

[SNIPPET] = [
    block.text
    for block in blocks(ROOT / "docs" / "audit.md")
    if block.language == "python" and "spark.read" in block.text
]


@pytest.fixture
def traffic(spark: SparkSession) -> Iterator[None]:
    """Make the table ``traffic.messages``: two messages, of which one is routed."""
    spark.sql("CREATE DATABASE traffic")
    rows = [("orders", "order.eu.created"), ("orders", "invoice.printed"), ("documents", "")]
    spark.createDataFrame(rows, "exchange string, routing_key string").write.saveAsTable("traffic.messages")
    yield
    spark.sql("DROP DATABASE traffic CASCADE")


@pytest.mark.usefixtures("traffic")
def test_the_snippet_of_the_guide_counts_a_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(ROOT / "examples" / "orders" / "orders.bindings", tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(SNIPPET, {"spark": spark})  # noqa: S102 - our own page
    assert "messages=3" in capsys.readouterr().out
