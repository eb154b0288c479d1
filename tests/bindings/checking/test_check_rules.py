"""Each rule through each command that shows findings: in each form of a file and of an answer.

Driven by the table of rules: a rule without an example fails here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from click.testing import CliRunner, Result

from bindings.checking.rules.table import RULES, SEVERITIES
from bindings.commands.check import check_command
from bindings.commands.graph import graph_command
from tests.bindings.checking.test_check import OF_APPLICATIONS, OF_FILES, document_of
from tests.support.cases import with_each

FORMS = (".bindings", ".json")


def example(code: str, form: str) -> str:
    """Return the text of a file in which the rule finds something."""
    if code in OF_FILES:
        return OF_FILES[code][form]
    document = document_of(code)
    return document.dump() if form == ".bindings" else document.definitions().dump()


CASES = [(code, form) for code in RULES if code not in OF_APPLICATIONS for form in OF_FILES.get(code, FORMS)]
each_example = with_each("code, form", CASES)
"""Run a test with the code of each rule, in each form of a file that breaks it."""


def write(code: str, form: str, folder: Path) -> Path:
    path = folder / f"{code}{form}"
    path.write_text(example(code, form), encoding="utf-8")
    return path


def check(code: str, path: Path, form: str) -> Result:
    """Run the command; its exit code is that of the most severe finding."""
    result = CliRunner().invoke(
        check_command, [str(path), "--select", f"HS,{code}", "--fail-on", RULES[code].severity, "--format", form]
    )
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert result.exit_code == 1
    return result


@each_example
def test_the_text_has_the_finding_with_its_line(code: str, form: str, tmp_path: Path) -> None:
    """Under the rule's heading, with its way out."""
    path = write(code, form, tmp_path)
    lines = check(code, path, "text").stdout.splitlines()
    heading = next(line for line in lines if line.startswith(f"{code} {RULES[code].name}: "))
    reported = [line for line in lines[lines.index(heading) :] if line.startswith("    ")]
    assert reported
    if code not in OF_FILES or path.suffix == ".bindings":
        assert str(path) in reported[0]
    assert lines[-1].startswith(f"{path}: ")


@each_example
def test_json_and_sarif_have_the_finding(code: str, form: str, tmp_path: Path) -> None:
    """The same message and line in both."""
    path = write(code, form, tmp_path)
    (vhost,) = json.loads(check(code, path, "json").stdout)["vhosts"]
    findings: list[dict[str, Any]] = [finding for finding in vhost["findings"] if finding["code"] == code]
    assert findings
    assert {finding["severity"] for finding in findings} == {RULES[code].severity}
    (run,) = json.loads(check(code, path, "sarif").stdout)["runs"]
    results = [result for result in run["results"] if result["ruleId"] == code]
    for finding, result in zip(findings, results, strict=True):
        assert finding["message"] in result["message"]["text"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["region"]["startLine"] == (finding["line"] or 1)


@each_example
def test_the_graph_shows_the_finding_as_text_and_as_a_picture(code: str, form: str, tmp_path: Path) -> None:
    """A finding about an exchange, a queue or a binding is marked there; the picture is XML."""
    path = write(code, form, tmp_path)
    output = path.with_suffix(".svg")
    # What was read is the same however it was written: the one form is shown as text, the other as a picture.
    as_text = path.suffix == ".json" and ".bindings" in OF_FILES.get(code, FORMS)
    for options in ([], ["--no-findings"]) if as_text else (["-o", str(output)],):
        result = CliRunner().invoke(graph_command, [str(path), *options])
        assert result.exception is None, result.output
        assert result.exit_code == 0
    if as_text:
        return
    picture = output.read_text(encoding="utf-8")
    ET.fromstring(picture)  # noqa: S314  our own
    parts = json.loads(check(code, path, "json").stdout)["vhosts"][0]["findings"]
    drawn = [
        f for f in parts if f["code"] == code and (f["part"] or {}).get("kind") in ("exchange", "queue", "binding")
    ]
    if drawn and not RULES[code].optional:
        assert f"{code}: " in picture
        assert any(f" {severity}" in picture for severity in SEVERITIES)
