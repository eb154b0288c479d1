"""What the reports of a check are made from, whatever their form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bindings.check.finding import SEVERITIES, Finding, Part, Severity
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
    """What messages call the source."""
    vhosts: Sequence[VhostFindings]
    profile: str = ""
    """The name of the profile whose rules hold."""
    chosen_by: str | None = None
    """Why it is this profile; None where the user or the file names it, or it is that of a broker."""

    def findings(self) -> Iterator[tuple[str, Finding]]:
        """Each with its virtual host."""
        for vhost, findings in self.vhosts:
            for finding in findings:
                yield vhost, finding

    @property
    def counts(self) -> dict[Severity, int]:
        """How many there are, from the gravest on."""
        found = Counter(finding.rule.severity for _, finding in self.findings())
        return {severity: found[severity] for severity in reversed(SEVERITIES)}


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding and its rule; ``part`` is null of an expectation, or of a file as a whole."""
    rule = finding.rule
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "message": finding.message,
        "says": rule.says,
        "way_out": rule.way_out,
        "witness": finding.witness,
        "line": finding.line,
        "part": None if finding.part is None else part_json(finding.part),
    }


def part_json(part: Part) -> dict[str, Any]:
    """What a finding is about: its kind and what names it, in RabbitMQ's words."""
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
