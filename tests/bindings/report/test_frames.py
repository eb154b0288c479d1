"""Reports and comparisons as flat tables: all of them, with documented columns, as pandas shows them too."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

import bindings
from bindings.archive.names import unescape
from bindings.report.forms.tables import TABLES
from bindings.report.frames import DIFF_TABLES, to_arrow, to_pandas
from exchange import InputError, Queue, Topology
from tests.support.bindings.pairs import pair
from tests.support.bindings.reports import hand_made
from tests.support.tiers import scale

ROOT = Path(__file__).parents[3]


def test_the_guide_lists_all_tables_and_columns() -> None:
    text = (ROOT / "docs" / "audit.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| ([a-z_, ]+) \|$", text.partition("### Tables")[2], re.MULTILINE))
    every = {*TABLES, *DIFF_TABLES}
    assert len(every) < len(TABLES) + len(DIFF_TABLES)  # unroutable
    for name, (columns, _) in DIFF_TABLES.items():
        assert f"| `{name}` | {', '.join(columns)} |" in text
    for name, (columns, _) in TABLES.items():
        assert f"| `{name}` | {', '.join(columns)} |" in text
    assert rows.keys() == every


def test_a_report_has_each_table_and_pandas_the_same() -> None:
    report = hand_made()
    for name in TABLES:
        table = to_arrow(report, name)
        assert to_pandas(report, name).shape == table.shape
    assert to_arrow(report, "bindings").num_rows == len(report.bindings)
    assert set(to_arrow(report, "queues")["queue"].to_pylist()) == {row.use.queue for row in report.queues}


def test_a_comparison_has_a_row_for_each_of_its_parts() -> None:
    for seed in range(scale(40)):
        result = bindings.diff(*pair(Random(seed)))
        rows = {name: to_arrow(result, name).to_pylist() for name in DIFF_TABLES}
        assert [(unescape(row["part"]), row["refused"] is None) for row in rows["steps"]] == [
            *((str(step).split(" ", 1)[1].removesuffix(f" ({getattr(step.part, 'type', '')})"), True)
              for step in result.plan.steps),
            *((str(step).split(" ", 1)[1].removesuffix(f" ({getattr(step.part, 'type', '')})"), False)
              for step, _ in result.plan.refused),
        ]  # fmt: skip
        assert [(row["exchange"], row["queue"], row["change"] == "gained") for row in rows["effects"]] == [
            each[:3] for each in result.meaning.effects
        ]
        assert len(rows["settings"]) == sum(len(each.names) * len(each.changes) for each in result.settings)
        assert len(rows["undecided"]) == len(result.meaning.undecided) + len(result.meaning.unread)
        assert [row["exchange"] for row in rows["unroutable"]] == [each[0] for each in result.meaning.unroutable]


def test_a_table_that_is_not_there_is_named_with_those_that_are() -> None:
    result = bindings.diff(Topology(), Topology(queues=[Queue("q")]))
    with pytest.raises(InputError, match="a comparison has no table 'efects'; did you mean 'effects'"):
        to_arrow(result, "efects")
