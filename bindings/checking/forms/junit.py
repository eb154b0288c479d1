"""A check's findings as JUnit's XML: a suite for each source, a case for each rule that was applied to it.

A document has failures exactly if the command exits with 1 or would without an error, and errors exactly if it exits
with 2. Findings that do not fail the check, as they are below ``--fail-on``, make their case a skipped one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

from bindings.checking.forms.junit_suites import Case, Suite, to_xml
from bindings.checking.forms.places import split_message
from bindings.checking.report import CheckResult, SourceReport
from bindings.checking.rules.finding import Finding
from bindings.checking.rules.table import RULES
from exchange.text.display import count_noun, escape_line, split_error


def to_junit(result: CheckResult, made: datetime | None = None) -> bytes:
    """Return the document in UTF-8; ``made`` is the time of the check, by default now."""
    suites = [Suite(report.name, list(_cases(report, result))) for report in result.reports]
    for name, error in result.errors:
        lines = split_error(str(error))
        suites.append(Suite(name, [Case("read", error=(type(error).__name__, lines[0]), details="\n".join(lines))]))
    if result.skipped:
        cases = [Case(name, skipped=reason) for name, reason in result.skipped]
        suites.append(Suite("skipped files", cases))
    return to_xml(suites, "hashstar.check", (made or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S"))


def _cases(report: SourceReport, result: CheckResult) -> Iterator[Case]:
    """Yield the cases of all rules, those without findings included: so a case keeps its name and its history."""
    findings: dict[str, list[str]] = defaultdict(list)
    for vhost, finding in report.findings():
        findings[finding.code] += _finding_lines(report, vhost, finding)
    if report.caveat:
        yield Case("release", skipped=report.caveat)
    for code in result.codes:
        rule, lines = RULES[code], findings[code]
        name = f"{code} {rule.name}"
        if not lines:
            yield Case(name)
            continue
        number = sum(of.tally.get(code, 0) for of in report.vhosts)
        message = lines[0] if number == 1 else f"{count_noun(number, rule.severity)}, the first: {lines[0]}"
        if result.fails(code):
            details = "\n".join([*lines, f"way out: {rule.way_out}", rule.page])
            yield Case(name, failure=(rule.severity, message), details=details)
        else:
            yield Case(name, skipped=f"{rule.severity}: {message}")


def _finding_lines(report: SourceReport, vhost: str, finding: Finding) -> list[str]:
    """Return the lines of a finding: the first with its position, those of a trail indented."""
    first, *rest = map(escape_line, split_message(finding))
    line = "" if finding.line is None else f":{finding.line}"
    where = f"virtual host '{vhost}': " if len(report.vhosts) > 1 else ""
    return [escape_line(f"{report.name}{line}: {where}") + first, *(f"  {each}" for each in rest)]
