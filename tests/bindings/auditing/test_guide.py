"""The snippets of docs/audit.md that need Spark run with a table and a topology of their names."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.pages import ROOT, blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

[COUNTED, ROUTED, SKETCHED] = [
    block.text
    for block in blocks(ROOT / "docs" / "audit.md")
    if block.language == "python" and "spark.read." in block.text
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
def test_the_snippets_of_the_guide_count_and_route_a_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(ROOT / "examples" / "orders" / "orders.bindings", tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(COUNTED, {"spark": spark})  # noqa: S102 - our own page
    assert "messages=3" in capsys.readouterr().out
    names = {"spark": spark}
    exec(ROUTED, names)  # noqa: S102 - our own page
    printed = capsys.readouterr().out
    assert "|documents| NULL|    1|" in printed
    assert "audit" in printed
    exec(SKETCHED, names)  # noqa: S102 - our own page
    assert "|lost-and-found|            1|" in capsys.readouterr().out
