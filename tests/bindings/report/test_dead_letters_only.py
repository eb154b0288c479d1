"""Bindings that only dead letters can reach have a state of their own, outside of what can be hit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from click.testing import CliRunner

from bridge.cli import hashstar

SHOP = """\
exchange work: topic
exchange retry: topic
exchange free: topic
queue jobs
queue other
queue wait: x-message-ttl = 60000
work -> jobs: "job.#"
retry -> wait: "#"
retry -> gone: "#"
free -> other: "x"
policy p: "^jobs$", queues, dead-letter-exchange = "retry"
"""


def audit(tmp_path: Path, *messages: tuple[str, str], form: str = "json") -> str:
    (tmp_path / "shop.bindings").write_text(SHOP)
    lines = [json.dumps({"exchange": exchange, "routing_key": key}) for exchange, key in messages]
    (tmp_path / "traffic.jsonl").write_text("\n".join(lines))
    arguments = ["audit", "run", "--no-spark", "-t", str(tmp_path / "shop.bindings"), str(tmp_path / "traffic.jsonl")]
    arguments += ["--format", form, "--html", str(tmp_path / "page.html")]
    result = CliRunner().invoke(hashstar, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def states(report: dict[str, Any]) -> dict[str, str]:
    return {f"{row['source']} -> {row['destination']}": row["state"] for row in report["bindings"]}


def test_they_are_not_dead_and_do_not_lower_the_coverage(tmp_path: Path) -> None:
    report = json.loads(audit(tmp_path, ("work", "job.x")))
    assert states(report) == {
        "free -> other": "dead",
        "retry -> wait": "dead_letters_only",
        "retry -> gone": "not_eligible",
        "work -> jobs": "hit",
    }
    totals = report["totals"]["bindings"]
    assert (totals["eligible"], totals["hit"], totals["states"]["dead_letters_only"]) == (2, 1, 1)
    [wait] = [row for row in report["bindings"] if row["destination"] == "wait"]
    assert wait["eligible"] is False
    assert any("can be reached by dead letters only" in caveat for caveat in report["caveats"])


def test_a_message_that_was_published_there_makes_them_countable(tmp_path: Path) -> None:
    report = json.loads(audit(tmp_path, ("work", "job.x"), ("retry", "k")))
    assert states(report)["retry -> wait"] == "hit"
    assert report["totals"]["bindings"]["eligible"] == 3


def test_text_junit_and_page_name_the_state(tmp_path: Path) -> None:
    text = " ".join(audit(tmp_path, ("work", "job.x"), form="text").split())
    assert "1 of 2 hit, 1 dead, 1 dead letters only, 1 not eligible" in text
    cases = ET.fromstring(audit(tmp_path, ("work", "job.x"), form="junit")).iter("skipped")  # noqa: S314
    assert "only dead letters can reach it" in [case.get("message") for case in cases]
    page = (tmp_path / "page.html").read_text()
    assert "['dead_letters_only', 'dead letters only'" in page
