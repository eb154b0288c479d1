"""A process that hangs while it fuzzes is ended, and what it read is kept."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.campaign import Campaign, Limits
from tests.fuzz.target import Target
from tests.fuzz.watch import Child, Progress
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fuzzing needs Linux")


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def _has_made(child: Child, steps: int) -> bool:
    return child.progress.steps == steps


def test_a_process_is_stuck_once_it_has_made_no_step_for_longer_than_it_may(tmp_path: Path) -> None:
    reader, tell = os.pipe()
    clock = Clock()

    def run(progress: Progress) -> None:
        while os.read(reader, 1):
            progress.begin(b"an input")

    child = Child(run, tmp_path / "log", 10, clock)
    try:
        for steps in range(1, 4):
            os.write(tell, b".")
            wait_until(partial(_has_made, child, steps))
            assert not child.is_stuck()
            clock.now += 9
            assert not child.is_stuck()
        clock.now += 2
        assert child.is_stuck()
        assert child.poll() is None
    finally:
        child.kill(tmp_path / "log")
    assert child.progress.last == b"an input"


class Scripted(Campaign):
    """A campaign whose process does what a test wants, in place of libFuzzer. It may stand still for two seconds."""

    def __init__(
        self, work: Path, script: Callable[[Callable[[bytes], None]], None], check: Callable[[bytes], Any]
    ) -> None:
        super().__init__("scripted", Target(check), 600, work / "seeds", work, Limits(2048, 1, grace=-4))
        self._script = script

    def _fuzz(self, seconds: int, progress: Progress) -> Any:
        log = os.open(self._logs[-1], os.O_WRONLY | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        self._script(self._keeping(self._work / "findings", progress))
        os._exit(0)


@pytest.mark.timeout(300)
def test_an_input_that_blocks_is_a_finding_with_the_stacks_of_all_threads(tmp_path: Path) -> None:
    def hang(data: bytes) -> None:
        if data == b"the second":
            if (tmp_path / "again").exists():
                return
            (tmp_path / "again").touch()
            threading.Thread(target=wait_in_a_thread).start()
            threading.Event().wait()

    def wait_in_a_thread() -> None:
        threading.Event().wait()

    def script(run: Callable[[bytes], None]) -> None:
        run(b"the first")
        run(b"the second")

    campaign = Scripted(tmp_path, script, hang)
    campaign.start()
    wait_until(campaign.has_ended)
    outcome = campaign.outcome()
    assert [path.name for path in outcome.findings] == ["hang"]
    assert outcome.findings[0].read_bytes() == b"the second"
    text = outcome.findings[0].with_suffix(".txt").read_text()
    assert "while it read this input" in text
    assert "in hang" in text
    assert "in wait_in_a_thread" in text
    assert not outcome.note


@pytest.mark.timeout(300)
def test_a_process_that_hangs_at_exit_after_all_runs_is_a_note_and_no_finding(tmp_path: Path) -> None:
    def script(run: Callable[[bytes], None]) -> None:
        run(b"an input")
        os.write(1, b"Done 1 runs in 0 second(s)\n")
        threading.Event().wait()

    campaign = Scripted(tmp_path, script, bytes)
    campaign.start()
    wait_until(campaign.has_ended)
    outcome = campaign.outcome()
    assert not outcome.findings
    assert "hung at exit" in outcome.note
    assert "hung at exit" in outcome.line
    assert "in script" in (tmp_path / "log-0").read_text()


@pytest.mark.timeout(300)
def test_a_process_that_hangs_between_two_inputs_is_a_finding_with_the_one_before(tmp_path: Path) -> None:
    def script(run: Callable[[bytes], None]) -> None:
        if not (tmp_path / "log-1").exists():
            run(b"an input")
            threading.Event().wait()

    campaign = Scripted(tmp_path, script, bytes)
    campaign.start()
    wait_until(campaign.has_ended)
    (finding,) = campaign.outcome().findings
    assert finding.read_bytes() == b"an input"
    assert "after it had read this input" in finding.with_suffix(".txt").read_text()


@pytest.mark.timeout(120)
def test_a_thread_that_waits_for_the_interpreter_does_not_keep_a_target_from_its_exit(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="atheris has wheels for Linux with x86-64 only")
    from pyarrow import csv

    class Late(io.BytesIO):
        """A file of which threads that read ahead have a part late, when the target has returned."""

        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > 1000:
                time.sleep(1)
            return super().read(size)

    kept = []

    def run(data: bytes) -> None:
        kept.append(csv.open_csv(Late(b"a,b\n" + b"1,2\n" * 100_000), csv.ReadOptions(block_size=1000)))

    campaign = Campaign("late", Target(run), 600, tmp_path / "seeds", tmp_path, Limits(2048, 1, runs=3, grace=0))
    campaign.start()
    wait_until(campaign.has_ended)
    outcome = campaign.outcome()
    assert "Done 3 runs in" in (tmp_path / "log-0").read_text()
    assert (outcome.findings, outcome.note) == ((), "")
