"""The report of a check as a value, from which all forms are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bindings.check.rules.finding import SEVERITIES, Finding, Part, Severity
from exchange.entities.entities import Binding
from exchange.field_json import encode_table

__all__ = ["Report", "VhostFindings", "finding_json", "part_json"]


class VhostFindings(NamedTuple):
    """The findings about one virtual host, in order."""

    vhost: str
    findings: Sequence[Finding]


class Report(NamedTuple):
    """All findings about a source."""

    name: str
    """The source as messages name it."""
    vhosts: Sequence[VhostFindings]
    profile: str = ""
    """Name of the profile whose rules were applied."""
    chosen_by: str | None = None
    """Why this profile was chosen; None where the user or the file names it, or the source is a broker."""

    def findings(self) -> Iterator[tuple[str, Finding]]:
        """Yield each finding with its virtual host."""
        for vhost, findings in self.vhosts:
            for finding in findings:
                yield vhost, finding

    @property
    def counts(self) -> dict[Severity, int]:
        """Number of findings of each severity, the most severe first."""
        counts = Counter(finding.rule.severity for _, finding in self.findings())
        return {severity: counts[severity] for severity in reversed(SEVERITIES)}


def finding_json(finding: Finding) -> dict[str, Any]:
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
        "line": finding.line,
        "part": None if finding.part is None else part_json(finding.part),
    }


def part_json(part: Part) -> dict[str, Any]:
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
    return {"kind": type(part).__name__.lower(), "name": part.name}
