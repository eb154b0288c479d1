"""Tests that have passed for the same files need not run again: a night that was broken off goes on after them.

A run of pytest with the environment variable `HASHSTAR_PASSED` leaves out the tests that the file of that name lists,
and adds to it each test that passes, or is skipped, at once. Who names the file sees to it that the tests and what they
test are the same.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.support.tiers import strip_group

VARIABLE: Final = "HASHSTAR_PASSED"
"""Name of the environment variable with the file."""


class Passed:
    """The pytest plugin that leaves tests out and lists them."""

    def __init__(self, file: Path, *, writes: bool) -> None:
        self._file = file if writes else None
        self._before = frozenset(file.read_text("utf-8").splitlines()) if file.exists() else frozenset()
        self._failed: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left = [item for item in items if item.nodeid in self._before]
        if left:
            items[:] = [item for item in items if item.nodeid not in self._before]
            config.hook.pytest_deselected(items=left)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = strip_group(report.nodeid)
        if report.failed:
            self._failed.add(name)
        elif report.when == "teardown" and name not in self._failed and self._file is not None:
            with self._file.open("a", encoding="utf-8") as listed:
                listed.write(name + "\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._before:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_unconfigure(self) -> None:
        if self._file is not None and self._file.exists():
            print(f"{len(self._file.read_text('utf-8').splitlines())} passed, with those of earlier runs")


def register(config: pytest.Config) -> None:
    """Register the plugin if the environment names a file: all processes leave out, the one with all reports lists."""
    if file := os.environ.get(VARIABLE):
        config.pluginmanager.register(Passed(Path(file), writes=not hasattr(config, "workerinput")))
