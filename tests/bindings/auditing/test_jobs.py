"""Counted in one process or in several, a report is the same to the last count; no process outlives its pass."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.detect import detect
from bindings.auditing.engine import choose_engine
from bindings.auditing.local import planning, workers
from bindings.auditing.local.planning import MAX_GROUPS, count_groups
from bindings.auditing.local.run import run_here
from bindings.auditing.local.studies import CompareStudy, CoverageStudy, VerifyStudy
from bindings.auditing.local.study import Study
from bindings.auditing.local.tasks import Task, TooManyBad
from exchange import LATEST_PROFILE, InputError
from tests.bindings.counts.test_tally import slow_tally
from tests.support import topologies
from tests.support.archives.lines import records_for, topology_for, write_lines
from tests.support.bindings.exact import exact
from tests.support.tiers import examples
from tests.support.waiting import find_limit, wait_until

LINE = '{"exchange": "amq.topic", "routing_key": "a"}\n'


@pytest.fixture
def in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small archives have several groups of tasks."""
    monkeypatch.setattr(planning, "MIN_BYTES_OF_GROUPS", 1)
    monkeypatch.setattr(planning, "MIN_TASK_BYTES", 1_000)


@pytest.mark.process
@pytest.mark.usefixtures("in_groups")
@pytest.mark.parametrize("seed", range(3))
def test_any_number_of_processes_gives_the_same_values(tmp_path: Path, seed: int) -> None:
    """Heavy hitters, too, which depend on how messages are divided."""
    rng = Random(seed)
    topology = topology_for(rng, LATEST_PROFILE)
    after = topologies.edit(rng, topology)
    studies: list[Study[Any]] = [CoverageStudy(topology), VerifyStudy(topology), CompareStudy(topology, after)]
    records = records_for(rng, topology, 200)
    for number in range(4):
        write_lines(tmp_path / f"{number}.jsonl", records[number::4])
    archive = detect(str(tmp_path))
    assert len(planning.plan_groups(archive)) > 3
    alone = run_here(archive, studies)
    assert exact(alone.values[0]) == slow_tally(topology, records)
    for jobs in (2, 3):
        assert run_here(archive, studies, jobs=jobs) == alone


@examples(30)
@given(st.lists(st.integers(0, 9_000), max_size=8), st.integers(500, 5_000))
def test_groups_have_each_file_once_whatever_the_machine(sizes: list[int], smallest: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "MIN_BYTES_OF_GROUPS", 1)
        patch.setattr(planning, "MIN_TASK_BYTES", smallest)
        for number, size in enumerate(sizes):
            Path(folder, f"{number}.jsonl").write_text(LINE * (size // len(LINE) + 1))
        if not sizes:
            return
        groups = planning.plan_groups(detect(folder))
    assert 1 <= len(groups) <= MAX_GROUPS
    splits = [(split.path, split.start, split.end) for group in groups for task in group for _, split in task.splits]
    assert len({*splits}) == len(splits)
    assert len({path for path, _, _ in splits}) == len(sizes)
    assert all(groups)


def test_a_small_archive_is_counted_in_this_process() -> None:
    assert count_groups(planning.MIN_BYTES_OF_GROUPS - 1) == 1
    assert count_groups(planning.MIN_BYTES_OF_GROUPS) == MAX_GROUPS


@pytest.mark.process
@pytest.mark.usefixtures("in_groups")
def test_what_goes_wrong_in_a_process_is_raised_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        (tmp_path / f"{number}.jsonl").write_text(LINE * 40 + "{\n" * 2)
    archive = detect(str(tmp_path))
    study = CoverageStudy(topology_for(Random(0), LATEST_PROFILE))
    with pytest.raises(TooManyBad, match="more than 1 bad records"):
        run_here(archive, [study], jobs=2, max_bad=1)
    # No single process sees more than it may.
    with pytest.raises(TooManyBad, match="more than 7 bad records"):
        run_here(archive, [study], jobs=2, max_bad=7)
    assert run_here(archive, [study], jobs=2, max_bad=8).account.unread.bad_records == 8
    groups = planning.plan_groups
    monkeypatch.setattr("bindings.auditing.local.run.plan_groups", lambda archive: _without_files(groups(archive)))
    with pytest.raises(InputError, match="jsonl: cannot be read"):
        run_here(archive, [study], jobs=2)


def _without_files(groups: list[list[Task]]) -> list[list[Task]]:
    for path in {split.path for group in groups for task in group for _, split in task.splits}:
        Path(str(path)).unlink()
    return groups


@pytest.mark.process
@pytest.mark.usefixtures("in_groups")
def test_a_process_that_the_system_ends_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        (tmp_path / f"{number}.jsonl").write_text(LINE * 40)
    begin = workers._start

    def begin_and_kill() -> subprocess.Popen[bytes]:
        process = begin()
        process.kill()
        return process

    monkeypatch.setattr(workers, "_start", begin_and_kill)
    with pytest.raises(InputError, match=r"a process that counts ended with .*: --jobs 1 counts in this process"):
        run_here(detect(str(tmp_path)), [CoverageStudy(topology_for(Random(0), LATEST_PROFILE))], jobs=2)


SCRIPT = """
import sys
from bindings.auditing.local import planning
planning.MIN_BYTES_OF_GROUPS, planning.MIN_TASK_BYTES = 1, 1_000
import bindings
report = bindings.audit(sys.argv[1], sys.argv[2], jobs=2)
print("messages", report.audited.records.counted)
"""
"""Without a guard, which processes of `multiprocessing` would need."""


@pytest.mark.process
def test_a_script_without_a_guard_and_a_folder_with_names_of_modules_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "t.bindings").write_text('queue q\namq.topic -> q: "a"\n')
    (tmp_path / "there").mkdir()
    for name in ("queue", "pickle", "bindings", "exchange"):
        (tmp_path / "there" / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    (tmp_path / "archive").mkdir()
    for number in range(4):
        (tmp_path / "archive" / f"{number}.jsonl").write_text(LINE * 40)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "t.bindings"), str(tmp_path / "archive")],
        cwd=tmp_path / "there", env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True, timeout=find_limit(), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "messages 160\n"), done.stderr


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_an_interrupt_ends_all_processes_and_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "t.bindings").write_text('queue q\namq.topic -> q: "a"\n')
    (tmp_path / "archive").mkdir()
    for number in range(4):
        (tmp_path / "archive" / f"{number}.jsonl").write_text(LINE * 200_000)
    (tmp_path / "script.py").write_text(
        SCRIPT.replace("import bindings\n", "import bindings\nprint('began', flush=True)\n")
    )
    running = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "t.bindings"), str(tmp_path / "archive")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    with running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == "began\n"
        # At once: the processes have not imported anything yet.
        counting = wait_until(lambda: found if len(found := _children_of(running.pid)) == 2 else None)
        os.killpg(running.pid, signal.SIGINT)
        assert running.stderr.read().count("Traceback") == 1
        assert running.wait(find_limit()) != 0
        wait_until(lambda: not counting & _find_processes().keys())


def _children_of(parent: int) -> set[int]:
    return {process for process, of in _find_processes().items() if of == parent}


def _find_processes() -> dict[int, int]:
    """Return the processes that run, each with the one that began it."""
    found = subprocess.run(["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in found.splitlines()]
    return {int(process): int(parent) for process, parent, state in rows if "Z" not in state}


def test_the_number_of_processes_is_that_of_cores_or_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.jsonl").write_text(LINE * 100)
    archive = detect(str(tmp_path / "m.jsonl"))
    monkeypatch.setattr("bindings.auditing.engine.find_active_session", lambda: None)
    monkeypatch.setattr("bindings.auditing.engine.count_usable_cores", lambda: 6)
    assert choose_engine(archive, refused="--no-spark").jobs == 1
    monkeypatch.setattr(planning, "MIN_BYTES_OF_GROUPS", 1)
    monkeypatch.setattr(planning, "MIN_TASK_BYTES", 1_000)
    assert str(choose_engine(archive, refused="--jobs", jobs=3)) == "counted by 3 processes: --jobs"
    monkeypatch.setattr(planning, "MIN_TASK_BYTES", 10)
    assert choose_engine(archive, refused="--no-spark").jobs == 6
    assert choose_engine(archive, refused="--jobs", jobs=99).jobs == MAX_GROUPS


@pytest.mark.parametrize(("text", "cores"), [("max 100000", 4), ("250000 100000", 2), ("50000 100000", 1), ("", 4)])
def test_a_container_with_a_quota_has_no_more_cores_than_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, cores: int
) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text(text)
    monkeypatch.setattr(workers, "QUOTA", quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert workers.count_usable_cores() == cores
