"""``bridge check``: all endpoints are checked, each within its time, and any exception becomes a finding."""

from __future__ import annotations

import ast
import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bridge.cli import hashstar
from bridge.daemon.config import Config
from bridge.daemon.probe import CheckReport, check, encode_report, format_report
from bridge.endpoint import Disconnected, Finding
from bridge.endpoints.memory import MemorySource, MemoryTarget
from bridge.mistakes import ConfigWarning
from bridge.pump.pump import Inlet
from bridge.table import Table
from exchange.commands.console import PROGRAM
from exchange.errors import PatternError
from tests.bridge.daemon.test_config import RIGHT, read


class Looking(MemoryTarget):
    """A target whose check returns or raises what is given; it must not be opened."""

    def __init__(self, name: str, result: Sequence[Finding] | BaseException | None) -> None:
        super().__init__(name)
        self._result = result

    async def check(self) -> Sequence[Finding]:
        if self._result is None:
            await asyncio.Event().wait()
            raise AssertionError("nobody sets it")
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    async def open(self, receiver: object) -> None:
        raise AssertionError("check opens nothing")


def config(tmp_path: Path, *targets: Looking, warnings: Sequence[ConfigWarning] = ()) -> Config:
    """Build a configuration with these targets."""
    return replace(
        read(tmp_path, RIGHT),
        inlets=(Inlet(MemorySource(name="in")),),
        targets={f"q{n}": target for n, target in enumerate(targets)},
        warnings=tuple(warnings),
    )


def report(
    tmp_path: Path, *targets: Looking, warnings: Sequence[ConfigWarning] = (), offline: bool = False
) -> CheckReport:
    return asyncio.run(check(config(tmp_path, *targets, warnings=warnings), offline=offline, seconds=0.2))


def test_a_finding_is_one_line_whatever_an_error_has_below_it(tmp_path: Path) -> None:
    """The caret under a key of the file, or under a pattern, and a line break in what a broker sends."""
    table = Table({"token": "t"}, str(tmp_path / "bridge.toml"), "targets.file")
    (tmp_path / "bridge.toml").write_text('[targets.file]\ntoken = "t"\n')
    mistake, pattern = table.error("token", "is wrong"), PatternError("is wrong", "a.#b", (2, 4))
    assert "^^^^^" in str(mistake)
    assert "^^" in str(pattern)
    raised = (Disconnected(str(mistake)), mistake, pattern)
    targets = [Looking(f"t{n}", error) for n, error in enumerate(raised)]
    targets += [Looking(f"f{n}", [Finding.from_error(error, "url")]) for n, error in enumerate(raised)]
    targets.append(Looking("sent", [Finding._make(["error", "first\nsecond", "url"])]))
    found = report(tmp_path, *targets)
    wrong = f"{tmp_path / 'bridge.toml'}:2: [targets.file] token: is wrong"
    texts = [each.text for checked in found.checked for each in checked.findings if each.level == "error"]
    assert texts == [*[wrong, wrong, "is wrong"] * 2, "first\\nsecond"]


def test_findings_are_shown_by_endpoint_with_their_keys(tmp_path: Path) -> None:
    found = report(
        tmp_path,
        Looking("good", [Finding("ok", "topic 'a': 12 partitions", "queues.a")]),
        Looking(
            "bad", [Finding("error", "topic 'b': there is none; create it", "queues.b"), Finding("warning", "slow")]
        ),
        warnings=[ConfigWarning("", "dead_letters", "none"), ConfigWarning("sources.in.policy", "window", "small")],
    )
    assert list(format_report(found)) == [
        str(tmp_path / "bridge.toml"),
        "  warning      dead_letters: none",
        "[sources.in]",
        "  warning      [sources.in] window: small",
        "  not checked  its system: this kind of endpoint has no check",
        "[targets.good]",
        "  ok           topic 'a': 12 partitions",
        "[targets.bad]",
        "  error        [targets.bad] queues.b: topic 'b': there is none; create it",
        "  warning      [targets.bad] slow",
        "not ready: 1 error, 3 warnings, 1 not checked",
    ]


def test_the_object_has_all_findings_and_the_verdict(tmp_path: Path) -> None:
    found = encode_report(report(tmp_path, Looking("bad", [Finding("error", "gone", "queues.b")])))
    assert (found["version"], found["ready"], found["errors"], found["warnings"]) == (1, False, 1, 0)
    assert (found["sources"], found["targets"], found["offline"]) == (1, 1, False)
    assert found["not_checked"] == 1
    assert found["findings"] == [
        {
            "table": "sources.in", "endpoint": "in", "level": "not checked",
            "text": "its system: this kind of endpoint has no check", "key": "",
        },
        {"table": "targets.bad", "endpoint": "bad", "level": "error", "text": "gone", "key": "queues.b"}
    ]  # fmt: skip


def test_any_exception_of_an_endpoint_is_an_error_finding_without_its_password(tmp_path: Path) -> None:
    found = report(
        tmp_path,
        Looking("one", Disconnected("one: 127.0.0.1:1: refused")),
        Looking("two", OverflowError()),
        Looking("three", ValueError("cannot parse amqp://u:hush/h@sh@host/")),
        Looking("four", asyncio.CancelledError()),
    )
    texts = [finding["text"] for finding in encode_report(found)["findings"] if finding["endpoint"] != "in"]
    assert texts == ["127.0.0.1:1: refused", "OverflowError", "cannot parse amqp://***@host/", "CancelledError"]
    assert found.errors == 4


def test_an_endpoint_that_does_not_answer_does_not_delay_others(tmp_path: Path) -> None:
    found = report(tmp_path, Looking("silent", None), Looking("mute", None), Looking("good", [Finding("ok", "there")]))
    assert [(each["endpoint"], each["text"]) for each in encode_report(found)["findings"]] == [
        ("in", "its system: this kind of endpoint has no check"),
        ("silent", "no answer in 0.2 s"),
        ("mute", "no answer in 0.2 s"),
        ("good", "there"),
    ]


def test_offline_no_endpoint_is_asked(tmp_path: Path) -> None:
    found = report(
        tmp_path, Looking("silent", None), warnings=[ConfigWarning("", "dead_letters", "none")], offline=True
    )
    assert list(format_report(found))[-1] == (
        "the file is right, and nothing was connected to: 1 source, 1 target, 1 warning"
    )
    assert (found.errors, found.not_checked) == (0, 2)
    assert "  not checked  its system: --offline" in list(format_report(found))


@pytest.mark.parametrize("path", sorted(Path("bridge").rglob("checking.py")), ids=str)
def test_no_check_passes_over_in_silence_what_a_system_does_not_show(path: Path) -> None:
    """Each exception that a check handles leads to a finding, or to the name of what was not looked at."""
    tree = ast.parse(path.read_text())
    closing = [each for parent in ast.walk(tree) if isinstance(parent, ast.Try) for each in parent.finalbody]
    allowed = {id(handler) for each in closing for handler in ast.walk(each)}
    silent = [
        f"line {handler.lineno}"
        for handler in ast.walk(tree)
        if isinstance(handler, ast.ExceptHandler) and id(handler) not in allowed
        if all(isinstance(each, ast.Continue | ast.Pass | ast.Return) for each in handler.body)
        and not any(isinstance(each, ast.Call) for each in ast.walk(handler))
    ]
    assert not silent


def test_a_command_ends_the_process_of_a_program_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller, as these tests are, would end for a loop that takes a moment to close."""
    ended: list[int] = []

    def end(seconds: float, code: int) -> threading.Timer:
        ended.append(code)
        return threading.Timer(seconds, print)

    monkeypatch.setattr("bridge.daemon.signals.end_process_within", end)
    read(tmp_path, RIGHT)
    for owner, expected in ((None, []), (PROGRAM, [0])):
        command = ["bridge", "check", "--offline", str(tmp_path / "bridge.toml")]
        done = CliRunner().invoke(hashstar, command, obj=owner)
        assert (done.exit_code, ended) == (0, expected), done.output
