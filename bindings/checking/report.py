"""The result of a check as a value, from which all forms are written: a report on each source, and what is not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bindings.checking.rules.finding import Finding
from bindings.checking.rules.table import NEVER, RULES, SEVERITIES, Severity
from bindings.sources.tree import SkippedFile
from exchange.errors import HashstarError
from exchange.text.display import hide_logins
from exchange.values.documents import document


@document("VhostJson", "vhost, findings")
class VhostFindings(NamedTuple):
    """The findings about one virtual host, in order."""

    vhost: str
    findings: Sequence[Finding]
    """Those that are listed: of very many of one kind, the first ones and one finding with the number of the others."""
    tally: Mapping[str, int]
    """Code -> number of findings, listed or not."""


@document("ReportJson", "source = name, profile, caveat if any, vhosts, counts")
class SourceReport(NamedTuple):
    """The findings about a file or a broker."""

    name: str
    """The file or address that was checked."""
    vhosts: Sequence[VhostFindings]
    profile: str = ""
    """The release of RabbitMQ whose rules were applied."""
    chosen_by: str | None = None
    """Why this profile was chosen; None where the user or the file names it, or the source is a broker."""
    path: str | None = None
    """The file that was read; None for standard input and brokers."""
    caveat: str | None = None
    """Why the rules are not those of the release that was named: it is newer than all that are known here."""
    known: int = 0
    """Number of findings that are not reported, as the baseline has them."""

    def findings(self) -> Iterator[tuple[str, Finding]]:
        """Yield each finding with its virtual host."""
        for of in self.vhosts:
            for finding in of.findings:
                yield of.vhost, finding

    @property
    def counts(self) -> dict[Severity, int]:
        """Number of listed findings of each severity, the most severe first."""
        return count_severities([self])


@document("ErrorJson", "source = name, message")
class SourceError(NamedTuple):
    """A source that could not be checked, and why."""

    name: str
    error: HashstarError

    @property
    def message(self) -> str:
        """The error, without passwords."""
        return hide_logins(str(self.error))


class KnownFinding(NamedTuple):
    """A finding as a baseline records it. The fingerprint decides; the rest is for those who read the file."""

    code: str
    vhost: str
    part: Any
    """What it was about, as in a finding; None for an expectation, or the file as a whole."""
    message: str
    fingerprint: str
    """Equal for the same finding, also where it moves to another line."""


@document("GoneJson", "source, finding.code, finding.vhost, finding.part, finding.message, finding.fingerprint")
class GoneFinding(NamedTuple):
    """A finding of the baseline that is not found any more."""

    source: str
    """The file."""
    finding: KnownFinding


@document("BaselineJson", "file = name, known, gone")
class BaselineUse(NamedTuple):
    """What a baseline did to a check."""

    name: str
    known: int
    """Number of findings that are not reported."""
    gone: Sequence[GoneFinding]


class CheckResult(NamedTuple):
    """What a check of one or several sources has found."""

    reports: Sequence[SourceReport]
    """One for each source that was read, in the order of the sources."""
    errors: Sequence[SourceError] = ()
    """The sources that could not be checked."""
    skipped: Sequence[SkippedFile] = ()
    """Files below folders that are no topologies, or of which that is not known as they cannot be read."""
    several: bool = False
    """Whether the user asked about several sources, or a folder; False for one file, even if it is an error."""
    codes: Sequence[str] = tuple(RULES)
    """The codes of the rules that were applied, sorted."""
    fail_on: Severity | Literal["never"] = "error"
    """Lowest severity that makes the exit code 1; with "never", no finding does."""
    baseline: BaselineUse | None = None
    """Only with ``--baseline``."""
    statistics: bool = False
    """Whether the user asked for the number of findings of each code."""
    root: Path = Path()
    """Absolute path of the folder to which forms for code hosts make paths relative: the root of the repository."""

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 2 if a source could not be checked, 1 for a finding that fails, else 0."""
        if self.errors:
            return max(failed.error.exit_code for failed in self.errors)
        return int(any(self.fails(code) for report in self.reports for of in report.vhosts for code in of.tally))

    def fails(self, code: str) -> bool:
        """Return whether a finding with this code makes the exit code 1."""
        if self.fail_on == NEVER:
            return False
        return SEVERITIES.index(RULES[code].severity) >= SEVERITIES.index(self.fail_on)


def count_severities(reports: Iterable[SourceReport]) -> dict[Severity, int]:
    """Return the number of listed findings of each severity, the most severe first."""
    counts = Counter(finding.rule.severity for report in reports for _, finding in report.findings())
    return {severity: counts[severity] for severity in reversed(SEVERITIES)}
