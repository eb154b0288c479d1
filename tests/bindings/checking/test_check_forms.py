"""The forms of findings for CI, each read back by the rules of the system that reads it."""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.checking.forms import FORMS
from bindings.checking.forms.github import to_workflow_commands
from bindings.checking.report import CheckResult, SourceReport, VhostFindings
from bindings.checking.rules.finding import Finding
from bindings.checking.rules.table import NEVER, RULES, SEVERITIES
from exchange import Queue
from exchange.text.display import escape_line
from exchange.text.site import SITE
from tests.support.program import invoke

MIXED: Final = """exchange t: topic
queue q
queue lone
t -> q: "a.*", "a.b", "a.c"
expect t "b" -> q
"""
"""Has an error on line 5, two warnings on line 4 and a note on line 3."""
MISTAKE: Final = "exchange t topic\n"

COMMAND: Final = re.compile(r"::(?P<name>[a-z]+) (?P<properties>.*?)::(?P<message>.*)")
"""As the runner reads a line: the properties end at the first ``::``."""


run = partial(invoke, "check")


def test_the_guide_has_a_row_for_each_form() -> None:
    guide = Path(__file__).parents[3].joinpath("docs", "ci.md").read_text("utf-8")
    table = guide.partition("| `--format` |")[2].partition("\n\n")[0]
    assert {*re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)} == {*FORMS}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, the root of a repository, with a topology and a file that is none."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "mixed.bindings").write_text(MIXED)
    return tmp_path


def unescape(text: str, codes: str) -> str:
    """Undo the escapes of a workflow command, as the runner does: the percent sign last."""
    for code in codes.split():
        text = text.replace(code, chr(int(code[1:], 16)))
    return text.replace("%25", "%")


def read_command(line: str) -> tuple[str, dict[str, str], str]:
    """Return name, properties and message of a workflow command, as GitHub's runner reads them."""
    match = COMMAND.fullmatch(line)
    assert match, line
    pairs = [pair.partition("=") for pair in match["properties"].split(",")]
    properties = {key: unescape(value, "%0D %0A %3A %2C") for key, _, value in pairs}
    return match["name"], properties, unescape(match["message"], "%0D %0A")


def test_github_gets_a_command_for_each_finding(folder: Path) -> None:
    """With file, line and title, and the whole message; notes are notices."""
    result = run("mixed.bindings", "--format", "github")
    assert result.exit_code == 1
    commands = [read_command(line) for line in result.stdout.splitlines()]
    assert [(name, properties["line"], properties["title"]) for name, properties, _ in commands] == [
        ("warning", "4", "HS104 covered-binding"),
        ("warning", "4", "HS104 covered-binding"),
        ("notice", "3", "HS204 queue-without-bindings"),
        ("error", "5", "HS801 failed-expectation"),
    ]
    assert {properties["file"] for _, properties, _ in commands} == {"mixed.bindings"}
    first, *_, page = commands[-1][2].splitlines()
    assert first.startswith("expected: 't' <- 'b'")
    assert page == f"{SITE}findings/HS801/"
    assert "\nway out: correct the topology" in commands[-1][2]


def test_github_gets_the_column_of_a_mistake(folder: Path) -> None:
    (folder / "a,b:c%0A.bindings").write_text(MISTAKE)
    first, *_ = run(".", "--format", "github").stdout.splitlines()
    name, properties, message = read_command(first)
    assert name == "error"
    assert properties == {"file": "a,b:c%0A.bindings", "line": "1", "col": "12", "title": "cannot be checked"}
    assert message.startswith("a,b:c%0A.bindings:1:12: ")
    assert message.splitlines()[-1].strip() == "^^^^^"


@given(st.text(), st.text(min_size=1))
def test_whatever_is_in_a_name_the_runner_reads_it_back(name: str, message: str) -> None:
    """One line, whose file and message are those of the finding as they are shown to people."""
    findings = [Finding("HS204", Queue("q"), message, line=7)]
    report = SourceReport(name, [VhostFindings("/", findings, {"HS204": 1})], path=f"/root/{name}")
    (line,) = to_workflow_commands(CheckResult([report], root=Path("/elsewhere")))
    assert line.isprintable()
    command, properties, text = read_command(line)
    assert (command, properties["line"]) == ("notice", "7")
    assert properties["file"] == escape_line(Path(f"/root/{name}").as_posix())
    assert text.split("\n")[0] == escape_line(message)


def entries_of(*arguments: object) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(run(*arguments, "--format", "gitlab").stdout)
    return entries


def test_gitlab_gets_the_keys_that_it_requires(folder: Path) -> None:
    """https://docs.gitlab.com/ci/testing/code_quality/ lists them, and the severities."""
    (folder / "mistake.bindings").write_text(MISTAKE)
    entries = entries_of("mixed.bindings", "mistake.bindings")
    for entry in entries:
        assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert re.fullmatch("[0-9a-f]{64}", entry["fingerprint"])
        assert entry["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert "\n" not in entry["description"]
    assert [(entry["check_name"], entry["severity"], entry["location"]["lines"]["begin"]) for entry in entries] == [
        ("HS104", "major", 4), ("HS104", "major", 4), ("HS204", "info", 3), ("HS801", "critical", 5),
        ("unreadable", "blocker", 1),
    ]  # fmt: skip
    assert {entry["location"]["path"] for entry in entries} == {"mixed.bindings", "mistake.bindings"}


def test_fingerprints_of_gitlab_are_distinct_and_do_not_move(folder: Path) -> None:
    """Not with lines, nor with the way by which a file is named; they differ from file to file."""
    before = [entry["fingerprint"] for entry in entries_of("mixed.bindings")]
    assert len(set(before)) == len(before) == 4
    (folder / "mixed.bindings").write_text(f"# moved\n\n{MIXED}")
    assert [entry["fingerprint"] for entry in entries_of(folder / "mixed.bindings")] == before
    (folder / "other.bindings").write_text(MIXED)
    both = [entry["fingerprint"] for entry in entries_of(".")]
    assert len(set(both)) == 8
    assert set(before) < set(both)


def test_equal_findings_have_fingerprints_of_their_own(folder: Path) -> None:
    """Such as an expectation that is there twice: GitLab shows one of equal ones only."""
    (folder / "mixed.bindings").write_text(f'{MIXED}expect t "b" -> q\n')
    prints = [entry["fingerprint"] for entry in entries_of("mixed.bindings")]
    assert len(set(prints)) == len(prints) == 5


@pytest.mark.parametrize("variable", ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"])
def test_paths_are_relative_to_the_root_that_ci_names(
    variable: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job may have changed to a folder below it; a root in which we are not is none of ours."""
    (folder / "below").mkdir()
    (folder / "below/b.bindings").write_text(MIXED)
    monkeypatch.chdir(folder / "below")
    for root, path in ((folder, "below/b.bindings"), (folder / "other", "b.bindings"), ("", "b.bindings")):
        monkeypatch.setenv(variable, str(root))
        assert {entry["location"]["path"] for entry in entries_of("b.bindings")} == {path}
        _, properties, _ = read_command(run("b.bindings", "--format", "github").stdout.splitlines()[0])
        assert properties["file"] == path
        (log,) = json.loads(run("b.bindings", "--format", "sarif").stdout)["runs"]
        assert {
            location["physicalLocation"]["artifactLocation"]["uri"]
            for result in log["results"]
            for location in result["locations"]
        } == {path}


def test_sarif_has_one_run_for_all_files(folder: Path) -> None:
    """Rules once, each with its page; what could not be checked is a notification."""
    (folder / "other.bindings").write_text(MIXED)
    (folder / "mistake.bindings").write_text(MISTAKE)
    (folder / "package.json").write_text("{}")
    (log,) = json.loads(run(".", "--format", "sarif").stdout)["runs"]
    rules = log["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["HS104", "HS204", "HS801"]
    assert [rule["helpUri"] for rule in rules] == [f"{SITE}findings/{rule['id']}/" for rule in rules]
    uris = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in log["results"]]
    assert sorted(uris) == ["mixed.bindings"] * 4 + ["other.bindings"] * 4
    (invocation,) = log["invocations"]
    assert invocation["executionSuccessful"] is False
    assert [note["level"] for note in invocation["toolExecutionNotifications"]] == ["error", "note"]
    (log,) = json.loads(run("mixed.bindings", "--format", "sarif").stdout)["runs"]
    assert log["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def junit(*arguments: object) -> tuple[int, ET.Element]:
    result = run(*arguments, "--format", "junit")
    return result.exit_code, ET.fromstring(result.stdout)  # noqa: S314  our own


@pytest.mark.parametrize("fail_on", [*SEVERITIES, NEVER])
@pytest.mark.parametrize("select", ["HS1", "HS2", "HS8", "HS3", "HS"])
def test_junit_has_failures_exactly_if_the_check_fails(select: str, fail_on: str, folder: Path) -> None:
    """And what does not fail it is a skipped case."""
    code, root = junit("mixed.bindings", "--select", select, "--fail-on", fail_on)
    failures, skipped = root.findall(".//failure"), root.findall(".//skipped")
    assert (code == 1) == bool(failures)
    found = {"HS1": 1, "HS2": 1, "HS8": 1, "HS3": 0, "HS": 3}[select]
    assert len(failures) + len(skipped) == found
    assert [suite.attrib["failures"] for suite in root] == [str(len(failures))]


def test_junit_has_errors_exactly_if_a_file_cannot_be_checked(folder: Path) -> None:
    (folder / "mistake.bindings").write_text(MISTAKE)
    (folder / "package.json").write_text("{}")
    code, root = junit(".")
    assert code == 2
    assert [(suite.attrib["name"], suite.attrib["errors"]) for suite in root] == [
        ("mixed.bindings", "0"), ("mistake.bindings", "1"), ("skipped files", "0"),
    ]  # fmt: skip
    (error,) = root.findall(".//error")
    assert error.attrib["message"].startswith("mistake.bindings:1:12: ")
    assert "^" in (error.text or "")


def test_junit_has_a_case_for_each_rule_that_was_applied(folder: Path) -> None:
    """By name and in order, so that a case has a history; optional rules only where they are selected."""
    _, root = junit("mixed.bindings")
    names = [case.attrib["name"] for case in root.iter("testcase")]
    assert names == [f"{code} {rule.name}" for code, rule in RULES.items() if not rule.optional]
    _, root = junit("mixed.bindings", "--select", "HS205,HS1")
    assert "HS205 unroutable-key" in [case.attrib["name"] for case in root.iter("testcase")]
    _, root = junit("mixed.bindings", "--fail-on", "warning", "--select", "HS104")
    (failure,) = root.findall(".//failure")
    assert failure.attrib["message"].startswith("2 warnings, the first: mixed.bindings:4: ")
    assert (failure.text or "").splitlines()[-1] == f"{SITE}findings/HS104/"


def test_the_table_is_what_the_option_offers(folder: Path) -> None:
    for name, form in FORMS.items():
        assert form.encode(CheckResult([], several=True)) or name == "github"
        assert run("mixed.bindings", "--format", name).exit_code == 1
    assert run("mixed.bindings", "--format", "other").exit_code == 2


def test_statistics_count_all_findings_by_code_and_by_file(folder: Path) -> None:
    """Also those that are not listed, as there are more than a hundred of their kind."""
    many = ", ".join(f'"a.{number}"' for number in range(150))
    (folder / "many.bindings").write_text(f'exchange t: topic\nqueue q\nt -> q: "a.*", {many}\n')
    result = run(".", "--statistics")
    assert result.exit_code == 1
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[:4] == [
        ["152", "HS104", "warning", "covered-binding"], ["1", "HS204", "note", "queue-without-bindings"],
        ["1", "HS801", "error", "failed-expectation"], ["154", "in", "all"],
    ]  # fmt: skip
    assert lines[5:8] == [
        ["errors", "warnings", "notes"], ["0", "150", "0", "many.bindings"], ["1", "2", "1", "mixed.bindings"],
    ]  # fmt: skip
    document = json.loads(run(".", "--statistics", "--format", "json").stdout)
    assert document["statistics"] == {
        "codes": [
            {"code": "HS104", "name": "covered-binding", "severity": "warning", "findings": 152},
            {"code": "HS204", "name": "queue-without-bindings", "severity": "note", "findings": 1},
            {"code": "HS801", "name": "failed-expectation", "severity": "error", "findings": 1},
        ],
        "files": [
            {
                "source": "many.bindings",
                "findings": 150,
                "severities": {"error": 0, "warning": 150, "note": 0},
                "codes": {"HS104": 150},
            },
            {
                "source": "mixed.bindings",
                "findings": 4,
                "severities": {"error": 1, "warning": 2, "note": 1},
                "codes": {"HS104": 2, "HS204": 1, "HS801": 1},
            },
        ],
    }
    assert run("mixed.bindings", "--statistics").stdout.splitlines()[-1].split() == ["4", "in", "all"]
    assert run(".", "--statistics", "--format", "sarif").exit_code == 2


def test_a_form_is_written_to_a_file_and_text_is_printed(folder: Path) -> None:
    """A log of CI shows people what the report shows the code host."""
    text = run("mixed.bindings").stdout
    for name in FORMS:
        output = folder / f"{name}.out"
        result = run("mixed.bindings", "--format", name, "--output", output)
        assert (result.exit_code, result.stdout) == (1, text)
        if name != "junit":  # which has the time
            assert output.read_text() == run("mixed.bindings", "--format", name).stdout
    assert run("mixed.bindings", "--output", folder / "no/where").exit_code == 2
    result = run("gone.bindings", "--format", "gitlab", "--output", "gone.out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert json.loads((folder / "gone.out").read_text())[0]["check_name"] == "unreadable"


def test_a_name_that_is_not_text_is_shown_with_escapes(folder: Path) -> None:
    """On Linux, the name of a file is any bytes."""
    name = b"caf\xe9.bindings"
    (folder / os.fsdecode(name)).write_text(MIXED)
    (folder / os.fsdecode(b"caf\xe9.json")).write_text("{}")
    for form in FORMS:
        result = run(".", "--format", form, "--output", "out", "--baseline", "known.json", "--write-baseline")
        assert result.exit_code == 0, result.output
        assert "caf\\udce9.bindings" in result.stdout
        assert run(".", "--format", form, "--baseline", "known.json", "--output", "out").exit_code == 0
        assert run(os.fsdecode(name), "--format", form, "--output", "out").exit_code == 1
    assert "caf\\udce9.bindings" in (folder / "known.json").read_text()


def test_a_password_in_an_address_is_never_shown(folder: Path) -> None:
    address = "http://ann:secret@127.0.0.1:1/v"
    for form in FORMS:
        for names in ([address], [address, "mixed.bindings"]):
            result = run(*names, "--format", form, "--output", "out")
            assert result.exit_code == 2
            assert "secret" not in result.output + (folder / "out").read_text()


@pytest.mark.parametrize("form", FORMS)
def test_each_form_says_that_the_release_is_unknown(folder: Path, form: str) -> None:
    """Alone and beside other files: it is the only place for those who read no standard error."""
    (folder / "later.bindings").write_text("profile rabbitmq-9.1\nqueue q\n")
    for names in (["later.bindings"], ["later.bindings", "mixed.bindings"], ["."]):
        printed = " ".join(run(*names, "--format", form).stdout.split())
        assert "RabbitMQ 9.1 is newer than all that are known here" in printed
