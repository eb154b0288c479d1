"""How many findings there are of each code, and in each file: as a table for people and as JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from bindings.checking.report import CheckResult, SourceReport
from bindings.checking.rules.table import RULES, SEVERITIES, Severity
from exchange.values.documents import document


@document("CodeCountJson")
class CodeCount(NamedTuple):
    """Findings of a rule."""

    code: str
    name: str
    severity: Severity
    findings: int


@document("FileCountJson")
class FileCount(NamedTuple):
    """Findings about a file."""

    source: str
    findings: int
    severities: dict[Severity, int]
    """Number of findings of each severity."""
    codes: dict[str, int]
    """Code -> number of findings."""


@document("StatisticsJson")
class Statistics(NamedTuple):
    """How many findings there are, those that are not listed too."""

    codes: list[CodeCount]
    files: list[FileCount]


def count_findings(result: CheckResult) -> Statistics:
    """Return the number of findings of each code and about each file, including those that are not listed."""
    codes = [CodeCount(code, RULES[code].name, RULES[code].severity, count) for code, count in _by_code(result).items()]
    tallies = [(report.name, _tally(report)) for report in result.reports]
    files = [
        FileCount(name, tally.total(), _by_severity(tally), dict(sorted(tally.items()))) for name, tally in tallies
    ]
    return Statistics(codes, files)


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
    for checked in report.vhosts:
        total.update(checked.tally)
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
