"""A check's findings as one JSON object.

``{"source", "vhosts": [{"vhost", "findings": [...]}], "counts": {"error", "warning", "note"}}``; a finding is
``{"code", "name", "severity", "message", "says", "way_out", "witness", "line", "part", "related"}``. ``witness`` and
``line`` may be null, and so may ``part``: of an expectation, or of the file as a whole. More fields may be added.
"""

from __future__ import annotations

from typing import Any

from bindings.check.finding import Finding
from bindings.check.report import Report, part_json

__all__ = ["to_json"]


def to_json(report: Report) -> dict[str, Any]:
    """The object."""
    vhosts = [{"vhost": vhost, "findings": list(map(_finding, findings))} for vhost, findings in report.vhosts]
    return {"source": report.name, "vhosts": vhosts, "counts": report.counts}


def _finding(finding: Finding) -> dict[str, Any]:
    rule = finding.rule
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "message": finding.message,
        "says": rule.says,
        "way_out": rule.way_out,
        "witness": finding.witness,
        "line": finding.line,
        "part": None if finding.part is None else part_json(finding.part),
        "related": list(map(part_json, finding.related)),
    }
