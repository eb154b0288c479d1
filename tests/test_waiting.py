"""Waits end before the test in which they are, so that a failure has words; both take what the machine needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import alarm, waiting
from tests.support.tiers import examples

ROOT = Path(__file__).parents[1]


@examples(200)
@given(
    st.floats(0, 1000), st.floats(1, 100), st.floats(0, 1000), st.floats(1, 100), st.floats(1, 5000), st.floats(0, 1)
)
def test_a_wait_ends_before_its_test_however_slow_and_busy_the_machine_becomes(
    load: float, slowness: float, later: float, slower: float, seconds: float, share: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        now = 1e6
        patch.setattr("tests.support.waiting.time.monotonic", lambda: now)
        patch.setattr(waiting, "_ends", now)
        patch.setattr(waiting, "find_slowness", lambda: slowness)
        patch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
        limit = waiting.begin_test(seconds)
        assert seconds <= limit <= max(seconds, waiting.MOST)
        end = now + limit
        patch.setattr(waiting, "find_slowness", lambda: slower)
        patch.setattr(os, "getloadavg", lambda: (later, 0.0, 0.0))
        now += share * limit
        assert now + waiting.find_limit() <= end + waiting.PAUSE
        assert waiting.find_limit() >= min(waiting.LIMIT, 0.9 * (end - now))


def test_a_test_without_a_limit_has_waits_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_ends", 0.0)
    assert waiting.begin_test(0) == 0
    assert waiting.LIMIT <= waiting.find_limit() < float("inf")


@examples(200)
@given(st.lists(st.tuples(st.floats(0, 400), st.sampled_from([0.0, 20.0, 240.0, 264.0, 3000.0])), min_size=1))
def test_whatever_tests_follow_each_other_an_alarm_is_set_a_little_after_the_limit_of_each(
    tests: list[tuple[float, float]],
) -> None:
    alarms: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        now = 1e6
        patch.setattr(alarm, "_alarm", 0.0)
        patch.setattr("tests.support.alarm.time.monotonic", lambda: now)
        patch.setattr("tests.support.alarm.faulthandler.cancel_dump_traceback_later", alarms.clear)
        patch.setattr(
            "tests.support.alarm.faulthandler.dump_traceback_later",
            lambda seconds, **_options: alarms.append(now + seconds),
        )
        for took, limit in tests:
            alarm.end_process_after(limit, 2)
            assert len(alarms) == bool(limit)
            assert all(alarm.LEAST * limit <= each - now <= alarm.MOST * limit for each in alarms)
            now += min(took, limit or took)


STUCK = """
import signal, time
import pytest
from tests.support import waiting

waiting.stretch = lambda seconds: seconds
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})

def test_short(): ...

@pytest.mark.timeout(3)
def test_stuck():
    while True:
        time.sleep(60)
"""


TESTS = """
import pytest
from tests.support import waiting

waiting.stretch = lambda seconds: 3 * seconds

@pytest.fixture
def limit(request):
    return request.node.get_closest_marker("timeout").args[0]

def test_plain(limit):
    assert limit == 320
    assert 280 < waiting.find_limit() <= 288

@pytest.mark.timeout(20)
def test_short(limit):
    assert limit == 100
    assert 80 < waiting.find_limit() <= 90

@pytest.mark.timeout(0)
def test_any(limit):
    assert limit == 0
"""


def run(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """Run tests with our settings in a process of their own."""
    (folder / "conftest.py").write_text("from tests.conftest import *")
    (folder / "test_it.py").write_text(tests)
    options = ["-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={folder}", "-q"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    command = [sys.executable, "-m", "pytest", *options, str(folder)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False,
        timeout=waiting.find_limit(),
    )  # fmt: skip


@pytest.mark.process
@pytest.mark.smoke
def test_a_test_has_the_limit_that_the_machine_asks_for(tmp_path: Path) -> None:
    done = run(tmp_path, TESTS)
    assert "3 passed" in done.stdout, done.stdout


@pytest.mark.process
def test_a_test_that_cannot_be_interrupted_ends_the_process_and_shows_where_it_is(tmp_path: Path) -> None:
    done = run(tmp_path, STUCK)
    assert done.returncode == 1
    assert "in test_stuck" in done.stderr
    assert "in test_short" not in done.stderr
