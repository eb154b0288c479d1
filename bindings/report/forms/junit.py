"""A report as JUnit's XML, which every CI shows: a suite for each exchange, a case for each binding and each gate.

A document has failures exactly if the audit exits with 1. Each failed gate is a failure, and so is each dead binding
that a failed gate of binding coverage counts. Other dead bindings are skipped, with the reason, and so are ignored
bindings and those that cannot be hit.
"""

from __future__ import annotations

from typing import Final

from bindings.archive.figures import format_share, format_time
from bindings.checking.forms.junit_suites import Case, Suite, to_xml
from bindings.report.model import Report
from bindings.report.rows import BindingRow
from bindings.report.thresholds import Gate
from bindings.report.words import describe_condition, name_exchange
from exchange.text.display import count_noun
from exchange.topology.unread import format_not_proved

GATES: Final = "gates"
COVERAGE: Final = "fail_under"
"""Name of the gate that fails because of dead bindings."""


def to_junit(report: Report) -> bytes:
    """Return the document of a report, in UTF-8."""
    uncovered = {(gate.of, gate.scope) for gate in report.gates if gate.name == COVERAGE and not gate.passed}
    by_exchange: dict[str, list[Case]] = {}
    for row in report.bindings:
        source = row.use.binding.source
        failed = not uncovered.isdisjoint({("", ""), ("exchange", source)})
        by_exchange.setdefault(source, []).append(_binding_case(row, failed=failed))
    suites = [Suite(f"exchange {name_exchange(name)}", cases) for name, cases in sorted(by_exchange.items())]
    suites.append(Suite(GATES, list(map(_gate_case, report.gates))))
    if report.audited.unknown:
        suites.append(Suite("release", [Case("rules", skipped=" ".join(report.audited.unknown))]))
    if report.audited.unread:
        reason = format_not_proved(report.audited.unread)
        suites.append(Suite("not read", [Case(str(part), skipped=reason) for part in report.audited.unread]))
    return to_xml(suites, "hashstar.audit", format_time(report.made).partition(".")[0].removesuffix("Z"))


def _binding_case(row: BindingRow, *, failed: bool) -> Case:
    """Return the case of a binding; ``failed`` is whether a gate that counts the binding failed."""
    binding, use = row.use.binding, row.use
    name = f"{describe_condition(binding)} -> {binding.destination}"
    if row.ignored is not None:
        entry = row.ignored.entry
        return Case(name, skipped=f"ignored until {entry.until}: {entry.reason}")
    if row.state == "dead letters only":
        return Case(name, skipped="only dead letters can reach it")
    if row.state == "not eligible":
        return Case(name, skipped="cannot be hit: source or destination is missing, or the source's type is unknown")
    if row.state != "dead":
        return Case(name)
    message = f"nothing matched it in {count_noun(use.exposure, 'message')} through {name_exchange(binding.source)}"
    if use.bound is not None and use.exposure:
        message += f"; with 95 % confidence at most {format_share(use.bound)} do"
    return Case(name, ("dead", message)) if failed else Case(name, skipped=f"dead: {message}")


def _gate_case(gate: Gate) -> Case:
    name = f"{gate.name} {gate.scope}".rstrip()
    return Case(name) if gate.passed else Case(name, (gate.name, gate.message))
