"""What keeps the applications of one test from those of others."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_shared_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the tasks that apps of other tests share: Celery gives them to every app of a process."""
    state = pytest.importorskip("celery._state")
    own = {each for each in state._on_app_finalizers if each.__module__ == "celery.app.builtins"}
    monkeypatch.setattr(state, "_on_app_finalizers", own)
