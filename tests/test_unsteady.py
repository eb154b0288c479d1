"""A live test that fails is run once more, alone, and so is one that takes long; all else that fails is a failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import unsteady

CONFTEST = """
from tests.support import unsteady

def pytest_addoption(parser):
    parser.addoption("--tier")
    parser.addoption("--limit-cpu", action="store_true")

def pytest_configure(config):
    config.addinivalue_line("markers", "live: needs a server")
    unsteady.register(config)
"""
TESTS = """
from pathlib import Path
import pytest

@pytest.mark.live
@pytest.mark.parametrize("kind", {kinds})
def test_live(kind):
    runs = Path(__file__).with_name(kind)
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    assert kind == "sound" or (kind == "unsteady" and runs.read_text() == "xx")

def test_law():
    assert {law}

@pytest.mark.parametrize("kind", {costly})
def test_costly(kind, request, record_property):
    record_property("processor seconds", 9.5)
    runs = Path(__file__).with_name(kind)
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    assert kind == "slowed" or not request.config.getoption("limit_cpu")
"""


def judge(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kinds: list[str], *, costly: tuple[str, ...] = (), law: bool = True
) -> tuple[int, dict[str, int]]:
    """Run the tests in a folder and judge the outcome. Return the exit code, and how often each kind of test ran."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(TESTS.format(kinds=kinds, costly=costly, law=law))
    outcome = folder / "build" / "outcome.json"
    monkeypatch.setattr(unsteady, "ROOT", folder)
    monkeypatch.setattr(unsteady, "KEPT", folder / "build" / "unsteady.json")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # to load what these tests have no use for takes longer
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    environment = {**os.environ, unsteady.VARIABLE: str(outcome)}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q"], cwd=folder, env=environment, check=False, capture_output=True
    )
    code = unsteady.main([str(outcome)])
    return code, {kind: len((folder / kind).read_text()) for kind in [*kinds, *costly]}


@pytest.mark.process
def test_a_live_test_that_passes_alone_is_reported_and_forgiven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(tmp_path, monkeypatch, ["sound", "unsteady"]) == (0, {"sound": 1, "unsteady": 2})
    kept = json.loads((tmp_path / "build" / "unsteady.json").read_text())
    assert [failure["test"] for failure in kept["first"]] == ["test_it.py::test_live[unsteady]"]
    assert kept["alone"]["failures"] == []
    assert "test_live[unsteady] failed at a load of" in capsys.readouterr().out


@pytest.mark.process
def test_a_live_test_that_fails_again_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(tmp_path, monkeypatch, ["broken"]) == (1, {"broken": 2})


@pytest.mark.process
def test_a_test_that_takes_long_beside_others_only_is_forgiven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(tmp_path, monkeypatch, ["unsteady"], costly=("slowed",)) == (0, {"unsteady": 2, "slowed": 2})


@pytest.mark.process
def test_a_test_that_takes_long_alone_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = (1, {"sound": 1, "slowed": 2, "costly": 2})
    assert judge(tmp_path, monkeypatch, ["sound"], costly=("slowed", "costly")) == expected


@pytest.mark.process
def test_nothing_is_run_once_more_beside_another_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(tmp_path, monkeypatch, ["unsteady"], law=False) == (1, {"unsteady": 1})


@pytest.mark.process
def test_more_than_three_are_not_run_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ["broken", "worse", "bad", "lost"]
    assert judge(tmp_path, monkeypatch, kinds) == (1, dict.fromkeys(kinds, 1))


def test_a_run_that_did_not_end_is_a_failure(tmp_path: Path) -> None:
    assert unsteady.main([str(tmp_path / "missing.json")]) == 1
