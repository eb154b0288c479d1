"""How processes of xdist share the tests of a run: module by module, with few messages about each test.

Of six messages a test, three say nothing: that it begins, that its set-up has passed, and that it is over, as xdist
says that once more. They cost the process that sends and the one that judges about a quarter of a millisecond, so that
ten thousand tests take some seconds less without them.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

SLOW: Final = 0.1
"""Time of a set-up from which on `--durations` may list it, in seconds."""


class ByShared(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Give each test module to one process, and all tests that share Spark, or servers, to the same one."""

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget a module that is done: each report of a test would count the tests of all again."""
        name = self.collection[item_index]
        scope = self._split_scope(name)
        self.assigned_work[node][scope][name] = True
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]
        self.config.hook.pytest_runtest_logfinish(nodeid=name, location=("", None, ""))
        self._reschedule(node)

    def _split_scope(self, nodeid: str) -> str:
        # `--dist loadgroup` appends the group of a mark to the name of its tests.
        module, _, test = nodeid.partition("::")
        name, _, group = test.rpartition("@")
        return group if name and "]" not in group else module


def send_less(config: pytest.Config) -> None:
    """Keep a process that shares tests from sending what says nothing; with `-v`, that a test begins is printed."""
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor" and config.option.verbose <= 0:
            plugin.sendevent = sending_less(plugin.sendevent)


def sending_less(send: Any) -> Any:
    """Return a function that sends an event of xdist unless it says nothing."""

    def send_some(name: str, **values: Any) -> None:
        if not (name in {"logstart", "logfinish"} or (name == "testreport" and _says_nothing(values["data"]))):
            send(name, **values)

    return send_some


def _says_nothing(report: dict[str, Any]) -> bool:
    return (
        report["when"] == "setup"
        and report["outcome"] == "passed"
        and not report["sections"]
        and report["duration"] < SLOW
    )
