"""The result of a check as a value, from which all forms are written: a report on each source, and what is not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

from bindings.check.rules.finding import RULES, SEVERITIES, Finding, Part, Severity
from bindings.check.rules.life import LifeJson, life_json
from bindings.sources.tree import SkippedFile
from exchange.entities.entities import Binding, Exchange, Queue
from exchange.errors import HashstarError
from exchange.values.field_json import encode_table
from exchange.values.json_types import BindingJson

__all__ = [
    "BaselineUse", "BindingPartJson", "CheckResult", "FindingJson", "KnownFinding", "NamedPartJson", "Report",
    "SourceError", "VhostFindings", "count_severities", "finding_json", "part_json",
]  # fmt: skip


class VhostFindings(NamedTuple):
    """The findings about one virtual host, in order."""

    vhost: str
    findings: Sequence[Finding]
    """Those that are listed: of very many of one kind, the first ones and one finding with the number of the others."""
    tally: Mapping[str, int]
    """Code -> number of findings, listed or not."""


class Report(NamedTuple):
    """All findings about a source."""

    name: str
    """The source as messages name it."""
    vhosts: Sequence[VhostFindings]
    profile: str = ""
    """Name of the profile whose rules were applied."""
    chosen_by: str | None = None
    """Why this profile was chosen; None where the user or the file names it, or the source is a broker."""
    path: str | None = None
    """The file that was read; None for standard input and brokers."""
    caveat: str = ""
    """What is to be said of the profile before the findings; "" for nothing."""
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


class SourceError(NamedTuple):
    """A source that could not be checked, and why."""

    name: str
    error: HashstarError


class KnownFinding(NamedTuple):
    """A finding as a baseline records it. The fingerprint decides; the rest is for those who read the file."""

    code: str
    vhost: str
    part: Any
    """What it is about, as `part_json` returns it; None for an expectation, or the file as a whole."""
    message: str
    fingerprint: str


class BaselineUse(NamedTuple):
    """What a baseline did to a check."""

    name: str
    known: int
    """Number of findings that are not reported."""
    gone: Sequence[tuple[str, KnownFinding]]
    """Findings of the baseline that are not found any more, each with its file."""


class CheckResult(NamedTuple):
    """What a check of one or several sources has found."""

    reports: Sequence[Report]
    """One for each source that was read, in the order of the sources."""
    errors: Sequence[SourceError] = ()
    """The sources that could not be checked."""
    skipped: Sequence[SkippedFile] = ()
    """Files below folders that are no topologies, or of which that is not known as they cannot be read."""
    several: bool = False
    """Whether the user asked about several sources, or a folder; False for one file, even if it is an error."""
    codes: Sequence[str] = tuple(RULES)
    """The codes of the rules that were applied, sorted."""
    fail_on: Severity = "error"
    """Lowest severity that makes the exit code 1."""
    baseline: BaselineUse | None = None
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
        return SEVERITIES.index(RULES[code].severity) >= SEVERITIES.index(self.fail_on)


def count_severities(reports: Iterable[Report]) -> dict[Severity, int]:
    """Return the number of listed findings of each severity, the most severe first."""
    counts = Counter(finding.rule.severity for report in reports for _, finding in report.findings())
    return {severity: counts[severity] for severity in reversed(SEVERITIES)}


class NamedPartJson(TypedDict):
    """An exchange, a queue or a policy."""

    kind: Literal["exchange", "queue", "policy"]
    name: str


class BindingPartJson(BindingJson):
    """A binding."""

    kind: Literal["binding"]


class FindingJson(TypedDict):
    """A finding about a topology."""

    code: str
    """The rule, such as `HS101`; `hashstar check --explain CODE` prints its meaning."""
    name: str
    severity: Severity
    message: str
    """The finding in a sentence."""
    says: str
    """The meaning of the rule."""
    way_out: str
    """What the owner can do."""
    witness: str | None
    """A routing key, the shortest where possible, that shows it."""
    life: LifeJson | None
    """What may happen to a message with this key in queues, event by event; null for all but HS321 to HS324."""
    line: int | None
    """The line of the file; null where the source has no lines."""
    part: NamedPartJson | BindingPartJson | None
    """What it is about; null for an expectation, or for the file as a whole."""


def finding_json(finding: Finding) -> FindingJson:
    """Return a finding and its rule as JSON values; ``part`` is null for an expectation, or the file as a whole."""
    rule = finding.rule
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "message": finding.message,
        "says": rule.meaning,
        "way_out": rule.way_out,
        "witness": finding.witness,
        "life": None if finding.life is None else life_json(finding.life),
        "line": finding.line,
        "part": None if finding.part is None else part_json(finding.part),
    }


def part_json(part: Part) -> NamedPartJson | BindingPartJson:
    """Return the kind and the name of a part as JSON values, with the field names of RabbitMQ."""
    if isinstance(part, Binding):
        return {
            "kind": "binding",
            "source": part.source,
            "destination_type": part.destination.kind,
            "destination": part.destination.name,
            "routing_key": part.routing_key,
            "arguments": encode_table(part.arguments),
        }
    kind: Literal["exchange", "queue", "policy"] = (
        "exchange" if isinstance(part, Exchange) else "queue" if isinstance(part, Queue) else "policy"
    )
    return {"kind": kind, "name": part.name}
