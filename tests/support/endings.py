"""End what no later test needs: fixtures of the session after the last test that asks, and what a failed test left.

Servers, a JVM and a browser compute as long as they run, if nobody asks them anything, too. A socket that a failed test
left open would be the failure of the test in which the garbage is collected.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest


class Endings:
    """The pytest plugin that ends them.

    Where processes share the tests, the last test of a fixture may run in another process, or before others: then the
    fixture ends with the session, or is set up anew.
    """

    def __init__(self) -> None:
        self._last: dict[str, pytest.Item] = {}
        """Name of a fixture -> the last test that asks for it."""
        self._set_up: dict[pytest.FixtureDef[Any], Any] = {}
        """Fixture of the session that is set up -> its request, in this order."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._last = {name: item for item in session.items for name in getattr(item, "fixturenames", ())}

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> Iterator[None]:
        if fixturedef.scope == "session":
            self._set_up[fixturedef] = request
        return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Those of narrower scope have ended by now, of the tests that are over."""
        with ExitStack() as ending:
            for fixture in [each for each in self._set_up if self._last.get(each.argname) is item]:
                ending.callback(fixture.finish, self._set_up.pop(fixture))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        failed = item.session.testsfailed
        done = yield
        if item.session.testsfailed > failed:
            _collect_in_silence()
        return done


def _collect_in_silence() -> None:
    """Collect what the traceback of a failure held, of which no more need be said than that the test has failed."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        sys.__dict__.pop(name, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda _: None)
        gc.collect()
