"""A check's findings as one JSON object: of one file, or of several or a folder. More fields may be added."""

from __future__ import annotations

from typing import Any, NamedTuple

from bindings.checking.forms.statistics import Statistics, count_findings
from bindings.checking.report import CheckResult, SourceReport, count_severities
from bindings.checking.rules.table import Severity
from exchange.values.documents import document, encode_as

__all__ = ["CheckResult", "CheckedFile", "to_json"]


def _statistics(checked: CheckResult | CheckedFile) -> Statistics | None:
    """Only with `--statistics`."""
    result = checked if isinstance(checked, CheckResult) else checked.result
    return count_findings(result) if result.statistics else None


def _counts(result: CheckResult) -> dict[Severity, int]:
    """Number of findings of each severity, in all files."""  # noqa: D401  it describes a field
    return count_severities(result.reports)


@document("CheckJson", "*report, result.baseline if any, statistics if any", statistics=_statistics)
class CheckedFile(NamedTuple):
    """The findings about one file or broker: `hashstar check --format json`."""

    report: SourceReport
    result: CheckResult


document(
    "CheckedFilesJson",
    "files = reports, errors, skipped, counts, baseline if any, statistics if any",
    counts=_counts,
    statistics=_statistics,
)(CheckResult)


def to_json(result: CheckResult) -> Any:
    """Return the result as JSON values."""
    if result.reports and not result.several:
        return encode_as(CheckedFile, CheckedFile(result.reports[0], result))
    return encode_as(CheckResult, result)
