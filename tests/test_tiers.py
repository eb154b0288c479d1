"""What each tier of the tests runs, and what a test without a mark may take."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiers import order

ROOT = Path(__file__).parents[1]
CONFTEST = "from tests.conftest import *"
TESTS = """
import pytest
from hypothesis import given, strategies as st
from tests.support.tiers import examples

@pytest.fixture
def spark(): ...

@pytest.fixture
def page(spark): ...

def test_plain(): ...

@pytest.mark.live
def test_server(): ...

@pytest.mark.process
@pytest.mark.smoke
def test_smoke(): ...

def test_of_a_fixture(page): ...

@examples(60)
@given(st.integers())
def test_law(number): print("an example")

def test_slow(monkeypatch):
    monkeypatch.setattr("tests.support.tiers._cpu_seconds", lambda: 1e9)
"""


@pytest.mark.parametrize(
    ("tier", "passed", "failed", "examples"),
    [
        ("quick", {"plain", "smoke", "law"}, {"slow"}, 6),
        ("rest", {"server", "of_a_fixture", "law"}, set(), 60),
        ("night", {"plain", "server", "smoke", "of_a_fixture", "law", "slow"}, set(), 600),
    ],
)
def test_a_tier_runs_what_it_states(
    tier: str, passed: set[str], failed: set[str], examples: int, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    options = ["-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={tmp_path}", "-rA", "-q"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--tier={tier}", str(tmp_path)], cwd=ROOT, env=environment,
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    outcomes = {
        outcome: set(re.findall(rf"^{outcome} .*::test_(\w+)", done.stdout, flags=re.MULTILINE))
        for outcome in ("PASSED", "FAILED")
    }
    assert outcomes == {"PASSED": passed, "FAILED": failed}, done.stdout + done.stderr
    assert done.stdout.count("an example") == examples


def test_modules_with_servers_of_rocketmq_are_whole_and_last() -> None:
    class Item:
        def __init__(self, nodeid: str, *fixturenames: str) -> None:
            self.nodeid, self.fixturenames = nodeid, fixturenames

    items = [
        Item("a.py::one"), Item("a.py::two", "rocketmq_set"), Item("b.py::one"), Item("c.py::one", "rocketmq_set"),
        Item("d.py::one", "rabbitmq_set"),
    ]  # fmt: skip
    order(items)  # type: ignore[arg-type]
    assert [item.nodeid for item in items] == ["b.py::one", "d.py::one", "a.py::one", "a.py::two", "c.py::one"]
