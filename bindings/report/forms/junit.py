"""A report as JUnit's XML, which every CI shows: a suite for each exchange, a case for each binding and each gate.

A document has failures exactly if the audit exits with 1. Each failed gate is a failure, and so is each dead binding
that a failed gate of binding coverage counts. Other dead bindings are skipped, with the reason, and so are ignored
bindings and those that cannot be hit. The elements and attributes are those that both Ant's and Jenkins' readers know,
in the order that the stricter one requires.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from bindings.report.figures import format_share, format_time
from bindings.report.forms.reporter import BytesReporter
from bindings.report.gates import Gate
from bindings.report.model import BindingRow, Report
from bindings.report.words import describe_condition, name_exchange
from exchange.display import count_noun, escape_line

__all__ = ["REPORTER", "to_junit"]

GATES: Final = "gates"
COVERAGE: Final = "fail_under"
"""Name of the gate that fails because of dead bindings."""


class _Case(NamedTuple):
    """A case of a suite; it passed if it neither failed nor was skipped."""

    name: str
    failure: tuple[str, str] | None = None
    """Type and message of the failure."""
    skipped: str | None = None


def to_junit(report: Report) -> bytes:
    """Return the document of a report, in UTF-8."""
    uncovered = {(gate.of, gate.scope) for gate in report.gates if gate.name == COVERAGE and not gate.passed}
    by_exchange: dict[str, list[_Case]] = {}
    for row in report.bindings:
        source = row.use.binding.source
        failed = not uncovered.isdisjoint({("", ""), ("exchange", source)})
        by_exchange.setdefault(source, []).append(_binding_case(row, failed=failed))
    root = Element("testsuites")
    made = format_time(report.made).partition(".")[0].removesuffix("Z")
    suites = [(f"exchange {name_exchange(name)}", cases) for name, cases in sorted(by_exchange.items())]
    for number, (name, cases) in enumerate([*suites, (GATES, list(map(_gate_case, report.gates)))]):
        _add_suite(root, name, number, cases, made)
    indent(root, " ")
    document: bytes = tostring(root, "UTF-8", xml_declaration=True)
    return document + b"\n"


def _binding_case(row: BindingRow, *, failed: bool) -> _Case:
    """Return the case of a binding; ``failed`` is whether a gate that counts the binding failed."""
    binding, use = row.use.binding, row.use
    name = f"{describe_condition(binding)} -> {binding.destination}"
    if row.ignored is not None:
        entry = row.ignored.entry
        return _Case(name, skipped=f"ignored until {entry.until}: {entry.reason}")
    if row.state == "not eligible":
        return _Case(name, skipped="cannot be hit: source or destination is missing, or the source's type is unknown")
    if row.state != "dead":
        return _Case(name)
    message = f"nothing matched it in {count_noun(use.exposure, 'message')} through {name_exchange(binding.source)}"
    if use.bound is not None and use.exposure:
        message += f"; with 95 % confidence at most {format_share(use.bound)} do"
    return _Case(name, ("dead", message)) if failed else _Case(name, skipped=f"dead: {message}")


def _gate_case(gate: Gate) -> _Case:
    name = f"{gate.name} {gate.scope}".rstrip()
    return _Case(name) if gate.passed else _Case(name, (gate.name, gate.message))


def _add_suite(root: Element, name: str, number: int, cases: Iterable[_Case], made: str) -> None:
    listed = list(_with_distinct_names(cases))
    suite = SubElement(root, "testsuite", {
        "name": escape_line(name),
        "package": "hashstar.audit",
        "id": str(number),
        "timestamp": made,
        "hostname": "localhost",
        "tests": str(len(listed)),
        "failures": str(sum([case.failure is not None for case in listed])),
        "errors": "0",
        "skipped": str(sum([case.skipped is not None for case in listed])),
        "time": "0",
    })  # fmt: skip
    SubElement(suite, "properties")
    for case in listed:
        element = SubElement(
            suite, "testcase", {"name": escape_line(case.name), "classname": escape_line(name), "time": "0"}
        )
        if case.failure is not None:
            kind, message = map(escape_line, case.failure)
            SubElement(element, "failure", {"message": message, "type": kind}).text = message
        elif case.skipped is not None:
            SubElement(element, "skipped", {"message": escape_line(case.skipped)})
    SubElement(suite, "system-out")
    SubElement(suite, "system-err")


def _with_distinct_names(cases: Iterable[_Case]) -> Iterator[_Case]:
    """Yield the cases, numbered where names are equal: readers of JUnit's XML identify a case by its name."""
    seen: dict[str, int] = {}
    for case in cases:
        name = escape_line(case.name)
        seen[name] = seen.get(name, 0) + 1
        yield case if seen[name] == 1 else case._replace(name=f"{case.name} ({seen[name]})")


REPORTER: Final = BytesReporter(to_junit)
