"""A check's findings as GitLab's Code Quality report, which a merge request shows beside the lines of a change."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import Any, Final

from bindings.checking.fingerprint import compute_fingerprint
from bindings.checking.forms.places import find_relative_path, list_remarks, split_message
from bindings.checking.report import CheckResult
from bindings.checking.rules.table import Severity
from exchange.text.display import escape_line, split_error

SEVERITIES: Final[dict[Severity, str]] = {"note": "info", "warning": "major", "error": "critical"}
"""Severity -> severity of Code Quality, which has also ``minor`` and ``blocker``."""
REMARKS: Final[dict[Severity, str]] = {"warning": "info", "error": "blocker"}
"""Severity of a remark -> severity of Code Quality. Files that are no topologies have no entry."""


def to_code_quality(result: CheckResult) -> list[dict[str, Any]]:
    """Return the report as JSON values: one entry for each finding, and one for each remark about a source.

    GitLab shows one entry of those with equal fingerprints only. So a fingerprint is that of the finding together with
    the path and, where the same finding occurs again, its number.
    """
    seen: Counter[str] = Counter()
    entries = [
        _entry(
            f"{finding.code}: {' '.join(split_message(finding)[:1])}; way out: {finding.rule.way_out}",
            finding.code,
            SEVERITIES[finding.rule.severity],
            path,
            finding.line or 1,
            _number(seen, f"{path}\0{compute_fingerprint(vhost, finding)}"),
        )
        for report in result.reports
        for path in [find_relative_path(report, result.root)]
        for vhost, finding in report.findings()
    ]
    for remark in list_remarks(result):
        if severity := REMARKS.get(remark.severity):
            place = remark.place
            identity = _number(seen, f"{place.path}\0{remark.code}")
            text = split_error(remark.text)[0]
            entries.append(_entry(text, remark.code, severity, place.path, place.line, identity))
    return entries


def _number(seen: Counter[str], identity: str) -> str:
    """Return the identity, with its number if it has been seen before."""
    seen[identity] += 1
    return identity if seen[identity] == 1 else f"{identity}\0{seen[identity]}"


def _entry(text: str, check: str, severity: str, path: str, line: int, identity: str) -> dict[str, Any]:
    return {
        "description": escape_line(text),
        "check_name": check,
        "fingerprint": sha256(identity.encode("utf-8", "surrogatepass")).hexdigest(),
        "severity": severity,
        "location": {"path": path, "lines": {"begin": line}},
    }
