"""A check's findings for people: by kind, each kind with what it means and the way out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby, islice
from textwrap import fill
from typing import Final, NamedTuple

from bindings.checking.forms.places import list_remarks, split_message
from bindings.checking.forms.statistics import format_statistics
from bindings.checking.report import CheckResult, SourceReport, count_severities
from bindings.checking.rules.finding import Finding
from bindings.checking.rules.table import Rule, Severity
from exchange.text.display import count_noun, count_rest

WIDTH: Final = 100
MAX_NAMED_FILES: Final = 10
"""Maximum number of skipped files that are named; the others are counted."""
MAX_NAMED_FINDINGS: Final = 10
"""Maximum number of findings named that a baseline has and that are gone."""


class _Placed(NamedTuple):
    """A finding, and what stands before its message."""

    finding: Finding
    position: str


def to_text(result: CheckResult) -> Iterator[str]:
    """Yield the lines; the last one has the counts.

    The findings about one file are grouped by virtual host and code, those about several files by code alone: what a
    code means is printed once.
    """
    if result.statistics:
        return chain(_caveats(result), format_statistics(result), _outcome_lines(result))
    if result.several:
        return _lines_of_several(result)
    return chain(_caveats(result), chain.from_iterable(map(_lines_of_one, result.reports)))


def format_baseline(result: CheckResult, written: bool) -> Iterator[str]:
    """Yield what became of the baseline; nothing without one."""
    use = result.baseline
    if use is None:
        return
    if written:
        known = count_noun(use.known, "finding")
        yield f"{use.name}: {'not written, because of the errors' if result.errors else f'{known} recorded'}"
    elif use.gone:
        yield f"{use.name}: {count_noun(len(use.gone), 'finding')} gone; --write-baseline removes:"
        yield from (f"  {file}: {finding.code} {finding.message}" for file, finding in use.gone[:MAX_NAMED_FINDINGS])
        yield from count_rest(len(use.gone), MAX_NAMED_FINDINGS)


def explain_rule(rule: Rule) -> str:
    """Return the meaning of a code, and the way out."""
    text = f"{rule.code} {rule.name} ({rule.severity})\n  {rule.meaning}\n  way out: {rule.way_out}\n  {rule.page}"
    return f"{text}\n  looked for only with --select {rule.code}" if rule.optional else text


def _lines_of_one(report: SourceReport) -> Iterator[str]:
    several = len(report.vhosts) > 1
    for of in report.vhosts:
        if several and of.findings:
            yield f"virtual host '{of.vhost}'"
            yield ""
        placed = [_Placed(finding, _position(report.name, finding, "")) for finding in of.findings]
        yield from _groups(placed)
    if report.chosen_by is not None:
        yield f"{report.name}: by the rules of {report.profile}, {report.chosen_by}"
    yield f"{report.name}: {_counts(report.counts, report.known)}"


def _caveats(result: CheckResult) -> Iterator[str]:
    """Yield what is to be known before the findings; what could not be checked is printed to standard error."""
    for remark in list_remarks(result):
        if remark.severity == "warning":
            yield remark.text
            yield ""


def _lines_of_several(result: CheckResult) -> Iterator[str]:
    placed = [
        _Placed(finding, f"{_position(report.name, finding, report.name)}{where}")
        for report in result.reports
        for of in report.vhosts
        for where in [f"virtual host '{of.vhost}': " if len(report.vhosts) > 1 else ""]
        for finding in of.findings
    ]
    yield from _caveats(result)
    yield from _groups(sorted(placed, key=lambda each: each.finding.code))
    for report in result.reports:
        rules = "" if report.chosen_by is None else f" (by the rules of {report.profile}, {report.chosen_by})"
        yield f"{report.name}: {_counts(report.counts, report.known)}{rules}"
    yield from _outcome_lines(result)


def _outcome_lines(result: CheckResult) -> Iterator[str]:
    """Yield what was checked and what was skipped, if more than one file was asked for."""
    if not result.several:
        return
    skipped = (remark.text for remark in list_remarks(result) if remark.severity == "note")
    yield from islice(skipped, MAX_NAMED_FILES)
    yield from count_rest(len(result.skipped), MAX_NAMED_FILES, " skipped", indent="")
    counts = _counts(count_severities(result.reports), sum(report.known for report in result.reports))
    yield f"{', '.join(_outcomes(result))}: {counts}"


def _outcomes(result: CheckResult) -> Iterator[str]:
    yield f"{count_noun(len(result.reports), 'file')} checked"
    if result.errors:
        yield f"{len(result.errors):,} not checked"
    if result.skipped:
        yield f"{len(result.skipped):,} skipped"


def _counts(counts: Mapping[Severity, int], known: int) -> str:
    """Return ``2 warnings, 1 note, 3 in the baseline``."""
    found = [count_noun(count, severity) for severity, count in counts.items() if count]
    if known:
        return ", ".join([*(found or ["nothing new"]), f"{known:,} in the baseline"])
    return ", ".join(found) or "nothing found"


def _position(name: str, finding: Finding, otherwise: str) -> str:
    """Return what stands before a finding: the file and the line, or only what is given for findings without a line."""
    if finding.line is not None:
        return f"{name}:{finding.line}: "
    return f"{otherwise}: " if otherwise else ""


def _groups(placed: Iterable[_Placed]) -> Iterator[str]:
    """Yield the lines of findings that are sorted by code."""
    for _, group in groupby(placed, key=lambda each: each.finding.code):
        yield from _group_lines(list(group))
        yield ""


def _group_lines(placed: list[_Placed]) -> Iterator[str]:
    rule = placed[0].finding.rule
    yield f"{rule.code} {rule.name}: {count_noun(len(placed), rule.severity)}"
    yield from fill(rule.meaning, WIDTH, initial_indent="  ", subsequent_indent="  ").splitlines()
    for finding, position in placed:
        first, *rest = split_message(finding)
        yield f"    {position}{first}{_witness(finding)}"
        yield from (f"      {line}" for line in rest)
    yield from fill(f"way out: {rule.way_out}", WIDTH, initial_indent="  ", subsequent_indent="  ").splitlines()


def _witness(finding: Finding) -> str:
    key = finding.witness
    # Not where the message names the key already, or the life in the next line.
    is_named = finding.life is not None or f"'{key}'" in finding.message
    return "" if key is None or is_named else f" (the key '{key}', for one)"
