"""A check's findings as one JSON object: `CheckJson` for one file, `CheckedFilesJson` for several or a folder.

More fields may be added.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NotRequired, TypedDict, cast

from bindings.check.forms.reporter import Reporter, dump_lines
from bindings.check.forms.statistics import StatisticsJson, statistics_json
from bindings.check.report import (
    BindingPartJson,
    CheckResult,
    FindingJson,
    NamedPartJson,
    Report,
    count_severities,
    finding_json,
    part_json,
)
from bindings.check.rules.finding import Finding, Severity
from exchange.text.display import hide_logins

__all__ = ["REPORTER", "CheckJson", "CheckedFilesJson", "to_json"]


class RelatedFindingJson(FindingJson):
    """A finding about a topology."""

    related: list[NamedPartJson | BindingPartJson]
    """Other parts that it is about."""


class VhostJson(TypedDict):
    """The findings about a virtual host."""

    vhost: str
    findings: list[RelatedFindingJson]


class ReportJson(TypedDict):
    """The findings about a file or a broker."""

    source: str
    """The file or address that was checked."""
    profile: str
    """The release of RabbitMQ whose rules were applied."""
    vhosts: list[VhostJson]
    counts: dict[Severity, int]
    """Number of findings of each severity."""


class GoneJson(TypedDict):
    """A finding of the baseline that is not found any more."""

    source: str
    """The file."""
    code: str
    vhost: str
    part: Any
    """What it was about, as in a finding."""
    message: str
    fingerprint: str
    """Equal for the same finding, also where it moves to another line."""


class BaselineJson(TypedDict):
    """What the baseline did."""

    file: str
    known: int
    """Number of findings that are not reported."""
    gone: list[GoneJson]


class ExtrasJson(TypedDict):
    """What further options add."""

    baseline: NotRequired[BaselineJson]
    """Only with `--baseline`."""
    statistics: NotRequired[StatisticsJson]
    """Only with `--statistics`."""


class CheckJson(ReportJson, ExtrasJson):
    """The findings about one file or broker: `hashstar check --format json`."""


class ErrorJson(TypedDict):
    """A file that could not be checked."""

    source: str
    message: str


class SkippedJson(TypedDict):
    """A file below a folder that is no topology."""

    source: str
    reason: str


class CheckedFilesJson(ExtrasJson):
    """The findings about several files, or a folder: `hashstar check --format json`."""

    files: list[ReportJson]
    errors: list[ErrorJson]
    skipped: list[SkippedJson]
    counts: dict[Severity, int]
    """Number of findings of each severity, in all files."""


def to_json(result: CheckResult) -> CheckJson | CheckedFilesJson:
    """Return the result as JSON values."""
    whole = _reports(result)
    use = result.baseline
    if use is not None:
        gone: list[GoneJson] = [
            {
                "source": file,
                "code": finding.code,
                "vhost": finding.vhost,
                "part": finding.part,
                "message": finding.message,
                "fingerprint": finding.fingerprint,
            }
            for file, finding in use.gone
        ]
        whole["baseline"] = {"file": use.name, "known": use.known, "gone": gone}
    if result.statistics:
        whole["statistics"] = statistics_json(result)
    return whole


def _reports(result: CheckResult) -> CheckJson | CheckedFilesJson:
    files = list(map(_report, result.reports))
    if files and not result.several:
        return cast(CheckJson, files[0])
    return {
        "files": files,
        "errors": [{"source": name, "message": hide_logins(str(error))} for name, error in result.errors],
        "skipped": [{"source": name, "reason": reason} for name, reason in result.skipped],
        "counts": count_severities(result.reports),
    }


def _report(report: Report) -> ReportJson:
    vhosts: list[VhostJson] = [
        {"vhost": of.vhost, "findings": list(map(_finding, of.findings))} for of in report.vhosts
    ]
    return {"source": report.name, "profile": report.profile, "vhosts": vhosts, "counts": report.counts}


def _finding(finding: Finding) -> RelatedFindingJson:
    return {**finding_json(finding), "related": list(map(part_json, finding.related))}


def _lines(result: CheckResult) -> Iterator[str]:
    return dump_lines(to_json(result))


REPORTER: Final[Reporter] = _lines
