"""A check's findings as GitHub's workflow commands, which a runner shows as annotations of a change.

``::error file=orders.bindings,line=4,title=HS104 covered-binding::message``. The runner reads everything to the end of
the line: a line break in a message is ``%0A``, and in a property a colon and a comma are escaped as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindings.checking.forms.places import SourceRemark, find_relative_path, list_remarks, split_message
from bindings.checking.report import CheckResult
from bindings.checking.rules.finding import Finding
from bindings.checking.rules.table import Severity
from exchange.text.display import escape_line, split_error

COMMANDS: Final[dict[Severity, str]] = {"note": "notice", "warning": "warning", "error": "error"}

DATA: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
"""How a message is escaped."""
PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})
"""How the value of a property is escaped."""


def to_workflow_commands(result: CheckResult) -> Iterator[str]:
    """Yield one command for each finding, each source that could not be checked, and each unknown release."""
    for remark in list_remarks(result):
        if remark.severity != "note":
            yield _of_remark(remark)
    for report in result.reports:
        file = find_relative_path(report, result.root) if report.path is not None else ""
        for _, finding in report.findings():
            yield _of_finding(file, finding)


def _of_finding(file: str, finding: Finding) -> str:
    rule = finding.rule
    text = [*split_message(finding), f"way out: {rule.way_out}", rule.page]
    place = {"file": file, "line": str(finding.line or "") if file else ""}
    return _command(COMMANDS[rule.severity], {**place, "title": f"{rule.code} {rule.name}"}, text)


def _of_remark(remark: SourceRemark) -> str:
    place = remark.place
    properties = {"file": place.path, "line": str(place.line), "col": str(place.column), "title": remark.title}
    return _command(COMMANDS[remark.severity], properties, split_error(remark.text))


def _command(name: str, properties: dict[str, str], text: list[str]) -> str:
    given = ",".join(f"{key}={escape_line(value).translate(PROPERTY)}" for key, value in properties.items() if value)
    message = "\n".join(map(escape_line, text)).translate(DATA)
    return f"::{name} {given}::{message}"
