"""A check's findings as one JSON object.

``{"source", "profile", "vhosts": [{"vhost", "findings": [...]}], "counts": {"error", "warning", "note"}}``; a finding
is ``{"code", "name", "severity", "message", "says", "way_out", "witness", "line", "part", "related"}``. ``witness`` and
``line`` may be null, and so may ``part``: for an expectation, or for the whole file. More fields may be added.
"""

from __future__ import annotations

from typing import Any

from bindings.check.report import Report, finding_json, part_json
from bindings.check.rules.finding import Finding

__all__ = ["to_json"]


def to_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON values; see the module."""
    vhosts = [{"vhost": vhost, "findings": list(map(_finding, findings))} for vhost, findings in report.vhosts]
    return {"source": report.name, "profile": report.profile, "vhosts": vhosts, "counts": report.counts}


def _finding(finding: Finding) -> dict[str, Any]:
    return {**finding_json(finding), "related": list(map(part_json, finding.related))}
