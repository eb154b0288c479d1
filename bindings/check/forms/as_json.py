"""A check's findings as one JSON object.

About one file: ``{"source", "profile", "vhosts": [{"vhost", "findings": [...]}], "counts": {"error", "warning",
"note"}}``; a finding is ``{"code", "name", "severity", "message", "says", "way_out", "witness", "line", "part",
"related"}``. ``witness`` and ``line`` may be null, and so may ``part``: for an expectation, or for the whole file.

About several files or a folder: ``{"files": [the object of one file, ...], "errors": [{"source", "message"}],
"skipped": [{"source", "reason"}], "counts"}``.

With ``--baseline``, there is ``"baseline": {"file", "known", "gone": [...]}`` as well, and with ``--statistics`` the
object of `bindings.check.forms.statistics.statistics_json`. More fields may be added.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bindings.check.forms.reporter import Reporter, dump_lines
from bindings.check.forms.statistics import statistics_json
from bindings.check.report import CheckResult, Report, count_severities, finding_json, part_json
from bindings.check.rules.finding import Finding
from exchange.display import hide_login

__all__ = ["REPORTER", "to_json"]


def to_json(result: CheckResult) -> dict[str, Any]:
    """Return the result as JSON values; see the module."""
    whole = _reports(result)
    use = result.baseline
    if use is not None:
        gone = [{"source": file, **finding._asdict()} for file, finding in use.gone]
        whole["baseline"] = {"file": use.name, "known": use.known, "gone": gone}
    if result.statistics:
        whole["statistics"] = statistics_json(result)
    return whole


def _reports(result: CheckResult) -> dict[str, Any]:
    files = list(map(_report, result.reports))
    if files and not result.several:
        return files[0]
    return {
        "files": files,
        "errors": [{"source": name, "message": hide_login(str(error))} for name, error in result.errors],
        "skipped": [{"source": name, "reason": reason} for name, reason in result.skipped],
        "counts": count_severities(result.reports),
    }


def _report(report: Report) -> dict[str, Any]:
    vhosts = [{"vhost": of.vhost, "findings": list(map(_finding, of.findings))} for of in report.vhosts]
    return {"source": report.name, "profile": report.profile, "vhosts": vhosts, "counts": report.counts}


def _finding(finding: Finding) -> dict[str, Any]:
    return {**finding_json(finding), "related": list(map(part_json, finding.related))}


def _lines(result: CheckResult) -> Iterator[str]:
    return dump_lines(to_json(result))


REPORTER: Final[Reporter] = _lines
