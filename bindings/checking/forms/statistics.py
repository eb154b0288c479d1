"""How many findings there are of each code, and in each file: as a table for people and as JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypedDict

from bindings.checking.report import CheckResult, SourceReport
from bindings.checking.rules.table import RULES, SEVERITIES, Severity

__all__ = ["StatisticsJson", "build_statistics_json", "format_statistics"]


class CodeCountJson(TypedDict):
    """Findings of a rule."""

    code: str
    name: str
    severity: Severity
    findings: int


class FileCountJson(TypedDict):
    """Findings about a file."""

    source: str
    findings: int
    severities: dict[Severity, int]
    """Number of findings of each severity."""
    codes: dict[str, int]
    """Code -> number of findings."""


class StatisticsJson(TypedDict):
    """How many findings there are, those that are not listed too."""

    codes: list[CodeCountJson]
    files: list[FileCountJson]


def build_statistics_json(result: CheckResult) -> StatisticsJson:
    """Return the number of findings of each code and about each file; all count, those that are not listed too."""
    codes: list[CodeCountJson] = [
        {"code": code, "name": RULES[code].name, "severity": RULES[code].severity, "findings": count}
        for code, count in _by_code(result).items()
    ]
    files: list[FileCountJson] = [
        {
            "source": report.name,
            "findings": sum(_tally(report).values()),
            "severities": _by_severity(_tally(report)),
            "codes": dict(sorted(_tally(report).items())),
        }
        for report in result.reports
    ]
    return {"codes": codes, "files": files}


def format_statistics(result: CheckResult) -> Iterator[str]:
    """Yield the lines of a table with a row for each code and, if there are several files, of one with a row for each.

    Every number is right-aligned; the names of files stand last, since they can be long.
    """
    counts = _by_code(result)
    width = max((len(RULES[code].name) for code in counts), default=0)
    for code, count in counts.items():
        rule = RULES[code]
        yield f"{count:>9,}  {code}  {rule.severity:<7}  {rule.name:<{width}}".rstrip()
    yield f"{sum(counts.values()):>9,}  in all"
    if result.several:
        yield ""
        yield "  ".join(f"{f'{severity}s':>9}" for severity in reversed(SEVERITIES))
        for report in result.reports:
            numbers = _by_severity(_tally(report)).values()
            yield f"{'  '.join(f'{number:>9,}' for number in numbers)}  {report.name}"


def _tally(report: SourceReport) -> Counter[str]:
    total: Counter[str] = Counter()
    for of in report.vhosts:
        total.update(of.tally)
    return total


def _by_code(result: CheckResult) -> dict[str, int]:
    total: Counter[str] = Counter()
    for report in result.reports:
        total += _tally(report)
    return dict(sorted(total.items()))


def _by_severity(tally: Counter[str]) -> dict[Severity, int]:
    counts: Counter[Severity] = Counter()
    for code, count in tally.items():
        counts[RULES[code].severity] += count
    return {severity: counts[severity] for severity in reversed(SEVERITIES)}
