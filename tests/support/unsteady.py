"""Live tests that fail, and tests that take long, are run once more, alone, and both outcomes are kept.

A run of pytest with the environment variable `HASHSTAR_OUTCOME` writes there how it ended: each failed test with its
text, the load of the machine and the ends of all logs of containers; and each test that took more processor time than
one of its tier should. ``python -m tests.support.unsteady FILE...`` reads the files of a whole run. If only tests
marked `live` failed, and at most `MOST`, it runs them again with nothing beside them, writes both outcomes into
``build/unsteady.json`` and prints them; then it runs the tests that took long. It exits with 1 if one fails again, or
takes long again, if anything else failed, or if a run did not end by itself.

A test that is named there shows a fault of the test or of the product; a second time, it is mended before other work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.support.tiers import read_cost, strip_group

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = ROOT / "build" / "unsteady.json"
VARIABLE: Final = "HASHSTAR_OUTCOME"
"""Name of the environment variable with the file that a run writes its outcome to."""
MOST: Final = 3
"""Maximum number of failed live tests that are run once more."""
COSTLIEST: Final = 20
"""Maximum number of tests that took long that are run once more: those that took longest."""
LINES: Final = 60
"""Number of last lines kept of the log of each container."""
CHARACTERS: Final = 20_000
"""Maximum number of characters kept of the text of a failure."""


class Failure(NamedTuple):
    """A failed test."""

    test: str
    live: bool
    when: str
    text: str
    load: tuple[float, float, float]
    logs: dict[str, str]
    """Name of a container -> the end of its log."""


class Outcomes:
    """The pytest plugin that writes how a run ended."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._failures: list[Failure] = []
        self._costly: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = strip_group(report.nodeid)
        if cost := read_cost(report):
            self._costly[name] = cost
        if report.failed:
            live = "live" in report.keywords
            logs = dict(_read_logs()) if live and len(self._failures) < MOST else {}
            text = report.longreprtext[-CHARACTERS:]
            self._failures.append(Failure(name, live, str(report.when), text, os.getloadavg(), logs))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        failures = [failure._asdict() for failure in self._failures]
        self._file.write_text(json.dumps({"exit": int(exitstatus), "failures": failures, "costly": self._costly}))


def register(config: pytest.Config) -> None:
    """Register the plugin if the environment names a file, in the process that sees all reports."""
    if (file := os.environ.get(VARIABLE)) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(file)))


def main(files: Sequence[str]) -> int:
    """Judge the outcomes of a whole run, and return the exit code."""
    failures: list[Failure] = []
    costly: dict[str, float] = {}
    for file in files:
        outcome = _read(Path(file))
        if outcome is None or outcome["exit"] not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            print(f"unsteady: {file}: this run did not end by itself")
            return 1
        failures += [Failure(**failure) for failure in outcome["failures"]]
        costly |= outcome["costly"]
    tests = sorted({failure.test for failure in failures})
    if any(not failure.live for failure in failures) or len(tests) > MOST:
        print("unsteady: not run once more:", *tests, sep="\n  ")
        return 1
    passed = not tests or _pass_alone(tests, failures)
    return 0 if (not costly or _are_cheap_alone(costly)) and passed else 1


def _pass_alone(tests: Sequence[str], failures: Sequence[Failure]) -> bool:
    """Run live tests that failed once more, and print and keep both outcomes."""
    second = _run_alone("--tier=all", *tests)
    KEPT.parent.mkdir(exist_ok=True)
    kept = {"first": [failure._asdict() for failure in failures], "alone": second}
    KEPT.write_text(json.dumps(kept, indent=1))
    print(f"unsteady: {KEPT.relative_to(ROOT)}")
    for failure in failures:
        print(f"\nunsteady: {failure.test} failed at a load of {failure.load[0]:.1f}\n{failure.text}")
        for name, log in failure.logs.items():
            print(f"--- the end of the log of {name}\n{log}")
    passed = _has_passed(second)
    print(f"unsteady: alone, {'all passed: look for the fault' if passed else 'not all passed'}")
    return passed


def _are_cheap_alone(costly: Mapping[str, float]) -> bool:
    """Run tests that took long once more, of which those fail that still do."""
    tests = sorted(costly, key=lambda name: -costly[name])[:COSTLIEST]
    return _has_passed(_run_alone("--tier=quick", "--limit-cpu", *tests))


def _run_alone(*arguments: str) -> dict[str, Any] | None:
    again = KEPT.with_name("again.json")
    again.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-n", "0", *arguments]
    subprocess.run(command, cwd=ROOT, env={**os.environ, VARIABLE: str(again)}, check=False)
    return _read(again)


def _has_passed(outcome: dict[str, Any] | None) -> bool:
    return outcome is not None and outcome["exit"] == pytest.ExitCode.OK


def _read(file: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(file.read_text()))
    except FileNotFoundError:
        return None


def _read_logs() -> Iterator[tuple[str, str]]:
    """Yield the names of the containers that run here, with the ends of their logs."""
    try:
        names = _run("docker", "ps", "--format", "{{.Names}}").split()
        for name in names:
            yield name, _run("docker", "logs", "--tail", str(LINES), name)
    except (OSError, subprocess.TimeoutExpired):
        return


def _run(*command: str) -> str:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, check=False, text=True, errors="replace"
    )
    return done.stdout[-CHARACTERS:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
