"""What forms of findings have in common: where findings and faults are, and messages as lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bindings.checking.report import CheckResult, SourceError, SourceReport
from bindings.checking.rules.finding import Finding
from bindings.checking.rules.table import Severity
from bindings.sources.applications.open import is_application
from bindings.sources.language.errors import LanguageError
from bindings.sources.management import is_address

TRAILED: Final = frozenset({"HS801", "HS811"})
"""Codes of findings whose message goes on with the trail of a route, in lines of its own."""


def find_relative_path(report: SourceReport, root: Path) -> str:
    """Return the path of a source relative to ``root``, with slashes; its whole path if it is not below that.

    Standard input is ``stdin``, a broker its address, and an application what it was named as.
    """
    if report.path is None:
        return report.name if is_address(report.name) or is_application(report.name) else "stdin"
    return _relative(report.path, root)


def _relative(name: str, root: Path) -> str:
    path = Path(name).absolute()
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


class FaultPlace(NamedTuple):
    """Where a source is wrong that could not be checked; line and column from 1."""

    path: str
    line: int
    column: int


class SourceRemark(NamedTuple):
    """What is to be known of a source besides its findings: what was checked otherwise than asked, or not at all."""

    severity: Severity
    """``note`` where nothing is amiss: the file is no topology."""
    code: str
    """The kind of the remark for programs, ``title`` for people."""
    title: str
    text: str
    """A sentence that names the source; of several lines where a place in it is shown. Without passwords."""
    place: FaultPlace


def list_remarks(result: CheckResult) -> Iterator[SourceRemark]:
    """Yield all remarks: of unknown releases, of sources that could not be checked, of files that are no topologies."""
    for report in result.reports:
        if report.caveat:
            place = FaultPlace(find_relative_path(report, result.root), 1, 1)
            yield SourceRemark(
                "warning", "unknown-release", "unknown release", f"{report.name}: {report.caveat}", place
            )
    for failed in result.errors:
        yield SourceRemark("error", "unreadable", "cannot be checked", failed.message, _locate(failed, result.root))
    for name, reason in result.skipped:
        place = FaultPlace(_relative(name, result.root), 1, 1)
        yield SourceRemark("note", "skipped", "skipped", f"{name}: skipped: {reason}", place)


def _locate(failed: SourceError, root: Path) -> FaultPlace:
    """Return where a source is wrong: at its beginning if its error does not name a line."""
    path = failed.name if is_address(failed.name) else _relative(failed.name, root)
    error = failed.error
    return FaultPlace(path, error.line, error.column) if isinstance(error, LanguageError) else FaultPlace(path, 1, 1)


def split_message(finding: Finding) -> list[str]:
    """Return the message of a finding as lines: several with the trail of a route, or with a life that shows it."""
    if finding.life is not None:
        return [finding.message, str(finding.life)]
    # Any other line break belongs to a name.
    return finding.message.split("\n") if finding.code in TRAILED else [finding.message]
