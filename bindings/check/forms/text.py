"""A check's findings for people: by kind, each kind with what it means and the way out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from textwrap import fill, indent

from bindings.check.report import Report
from bindings.check.rules.finding import Finding
from exchange.display import count_noun, escape_line

__all__ = ["to_text"]

WIDTH = 100


def to_text(report: Report) -> Iterator[str]:
    """Return the lines, escaped; the last one has the counts."""
    return map(escape_line, _lines(report))


def _lines(report: Report) -> Iterator[str]:
    several = len(report.vhosts) > 1
    for vhost, findings in report.vhosts:
        if several and findings:
            yield f"virtual host '{vhost}'"
            yield ""
        for _, group in groupby(findings, key=lambda finding: finding.code):
            yield from _group_lines(report.name, list(group))
            yield ""
    if report.chosen_by is not None:
        yield f"{report.name}: by the rules of {report.profile}, {report.chosen_by}"
    counts = ", ".join(count_noun(count, severity) for severity, count in report.counts.items() if count)
    yield f"{report.name}: {counts or 'nothing found'}"


def _group_lines(name: str, findings: list[Finding]) -> Iterator[str]:
    rule = findings[0].rule
    yield f"{rule.code} {rule.name}: {count_noun(len(findings), rule.severity)}"
    yield from fill(rule.meaning, WIDTH, initial_indent="  ", subsequent_indent="  ").splitlines()
    for finding in findings:
        position = "" if finding.line is None else f"{name}:{finding.line}: "
        # Only the message of a failed expectation has several lines: the trail. Any other line break belongs to a name.
        first, *rest = finding.message.split("\n") if finding.code == "HS801" else [finding.message]
        yield f"    {position}{first}{_witness(finding)}"
        yield from (indent(line, "      ") for line in rest)
    yield from fill(f"way out: {rule.way_out}", WIDTH, initial_indent="  ", subsequent_indent="  ").splitlines()


def _witness(finding: Finding) -> str:
    key = finding.witness
    # Not where the message names the key already.
    return "" if key is None or f"'{key}'" in finding.message else f" (the key '{key}', for one)"
