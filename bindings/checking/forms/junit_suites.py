"""JUnit's XML, which every CI shows: suites of cases, each of which passed, failed, was skipped or ended in an error.

The elements and attributes are those that both Ant's and Jenkins' readers know, in the order that the stricter one
requires.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from exchange.text.display import escape_line, escape_lines


class Case(NamedTuple):
    """A case of a suite; it passed if it neither failed, nor was skipped, nor ended in an error."""

    name: str
    failure: tuple[str, str] | None = None
    """Type and message of the failure."""
    skipped: str | None = None
    """Why it was skipped."""
    error: tuple[str, str] | None = None
    """Type and message of the error: what was to be tried could not be."""
    details: str | None = None
    """Text of a failure or an error, of several lines, where the message is only the first of them."""


class Suite(NamedTuple):
    """Cases under one name."""

    name: str
    cases: Sequence[Case]


def to_xml(suites: Iterable[Suite], package: str, made: str) -> bytes:
    """Return the document in UTF-8. ``package`` is that of all suites, ``made`` is ISO 8601 in UTC, without a zone."""
    root = Element("testsuites")
    for number, suite in enumerate(suites):
        _add_suite(root, suite, number, package, made)
    indent(root, " ")
    document: bytes = tostring(root, "UTF-8", xml_declaration=True)
    return document + b"\n"


def _add_suite(root: Element, suite: Suite, number: int, package: str, made: str) -> None:
    listed = list(_with_distinct_names(suite.cases))
    element = SubElement(root, "testsuite", {
        "name": escape_line(suite.name),
        "package": package,
        "id": str(number),
        "timestamp": made,
        "hostname": "localhost",
        "tests": str(len(listed)),
        "failures": str(sum([case.failure is not None for case in listed])),
        "errors": str(sum([case.error is not None for case in listed])),
        "skipped": str(sum([case.skipped is not None for case in listed])),
        "time": "0",
    })  # fmt: skip
    SubElement(element, "properties")
    for case in listed:
        _add_case(element, case, suite.name)
    SubElement(element, "system-out")
    SubElement(element, "system-err")


def _add_case(suite: Element, case: Case, suite_name: str) -> None:
    names = {"name": escape_line(case.name), "classname": escape_line(suite_name), "time": "0"}
    element = SubElement(suite, "testcase", names)
    for tag, outcome in (("error", case.error), ("failure", case.failure)):
        if outcome is not None:
            kind, message = map(escape_line, outcome)
            text = message if case.details is None else escape_lines(case.details)
            SubElement(element, tag, {"message": message, "type": kind}).text = text
            return
    if case.skipped is not None:
        SubElement(element, "skipped", {"message": escape_line(case.skipped)})


def _with_distinct_names(cases: Iterable[Case]) -> Iterator[Case]:
    """Yield the cases, numbered where names are equal: readers of JUnit's XML identify a case by its name."""
    seen: dict[str, int] = {}
    for case in cases:
        name = escape_line(case.name)
        seen[name] = seen.get(name, 0) + 1
        yield case if seen[name] == 1 else case._replace(name=f"{case.name} ({seen[name]})")
