"""A running audit on Spark: each record once, through restarts, kills and changes of the topology."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from bindings.auditing.local.run import Pass
from bindings.auditing.local.selection import Selection
from bindings.auditing.local.studies import CoverageStudy
from bindings.auditing.spark.streaming import LATE, PATIENCE, Following, Update, follow
from exchange import InputError, Queue, Topology
from tests.bindings.auditing.test_growth import LINE, counts
from tests.support.archives.growing import STUDY, count_at_once, make_growing_files
from tests.support.waiting import find_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def followed(spark: SparkSession, folder: Path, state: str = "state", **options: object) -> Pass:
    """Return what is counted after everything present was read."""
    following = follow(spark, str(folder / "archive"), [STUDY], str(folder / state), **options)  # type: ignore[arg-type]
    following.wait()
    return following.total()


@pytest.mark.parametrize("seed", range(1))
def test_the_running_sum_equals_that_of_the_whole_archive(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(seed)
    files = make_growing_files(rng, tmp_path / "archive", 40)
    updates: list[Update] = []
    for part in (0.4, 1.0):
        for file in files:
            file.write(int(len(file.content) * part))
        total = followed(spark, tmp_path, step_bytes=4000, on_update=updates.append)
    assert counts(total) == counts(count_at_once(files, tmp_path / "copy"))
    assert [update.batch for update in updates] == list(range(len(updates)))
    assert counts(updates[-1].total) == counts(total)
    assert sum(update.records for update in updates) == total.account.read


class Batches:
    """What was counted."""

    failure: Exception | None = None
    counted = 0


class Busy:
    """A Spark on a machine so busy that a Python is not there in time, with a clock of its own.

    Its queries end one after the other with these outcomes: what Spark says after 10 seconds; None is a good end. A
    number instead is that of micro-batches which a query counts before its Python is late.
    """

    def __init__(self, *outcomes: str | int | None) -> None:
        self.batches = Batches()
        self.left = list(outcomes)
        self.now = 0.0
        self.following = Following(lambda: self, self.batches, None, lambda: self.now)  # type: ignore[arg-type,return-value]

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802  as Spark spells it
        self.now += 10
        outcome = self.left.pop(0)
        if outcome is None:
            return True
        if isinstance(outcome, int):
            self.batches.counted += outcome
            outcome = LATE
        raise RuntimeError(f"[STREAM_FAILED] Query terminated with exception: {outcome}")


OFTEN: Final = int(PATIENCE / 10)


@pytest.mark.parametrize("seconds", [None, 60])
def test_a_query_whose_python_was_late_is_started_again(seconds: float | None) -> None:
    busy = Busy(LATE, LATE, None)
    assert busy.following.wait(seconds)
    assert busy.left == []


def test_a_query_is_started_again_for_ten_minutes_and_that_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    busy = Busy(*[LATE] * OFTEN, None)
    assert busy.following.wait()
    assert [record.message.partition("; ")[2] for record in caplog.records] == [
        "the query is started again, for 10 minutes"
    ]


def test_a_query_is_not_started_for_ever() -> None:
    busy = Busy(*[LATE] * (OFTEN + 1), None)
    with pytest.raises(InputError, match=r"for 10 minutes, and none answered .* the same command continues$"):
        busy.following.wait()
    assert busy.left == [None]


def test_a_micro_batch_begins_the_ten_minutes_anew() -> None:
    busy = Busy(*[LATE] * OFTEN, 1, *[LATE] * (OFTEN - 1), None)
    with pytest.raises(InputError, match="for 10 minutes"):
        Busy(*[LATE] * OFTEN, 0, None).following.wait()
    assert busy.following.wait()
    assert busy.left == []


def test_a_query_that_fails_otherwise_is_not_started_again() -> None:
    busy = Busy("out of disk", None)
    with pytest.raises(RuntimeError, match="out of disk"):
        busy.following.wait()
    assert busy.left == [None]


KILLED = """
import os, signal, sys, threading
from bindings.auditing.spark.ledger import BatchLedger
from bindings.auditing.spark.session import open_session
from bindings.auditing.spark.streaming import follow
from tests.support.archives.growing import STUDY

folder, moments = sys.argv[1], ("stored", "counted")
all_are_there = threading.Barrier(len(moments))

def kill():
    all_are_there.wait()
    os.kill(os.getpid(), signal.SIGKILL)

def on_update(update):
    if update.batch == 1:
        kill()

def put(ledger, batch, entry):
    if batch == 1 and ledger._folder.parent.name == "counted":
        kill()
    return as_it_was(ledger, batch, entry)

as_it_was, BatchLedger.put = BatchLedger.put, put
with open_session("local[2]", conf={"spark.driver.memory": "1g"}) as spark:
    running = [
        follow(
            spark.newSession(), f"{folder}/archive", [STUDY], f"{folder}/{moment}", on_update=on_update, step_bytes=1
        )
        for moment in moments
    ]
    # At once: each starts its query again if a Python was late.
    waiting = [threading.Thread(target=following.wait) for following in running]
    for each in waiting:
        each.start()
    for each in waiting:
        each.join()
"""
"""Ends when the second batch of one stream is stored, and that of another is counted and not stored."""


def test_a_kill_between_store_and_checkpoint_counts_nothing_twice(spark: SparkSession, tmp_path: Path) -> None:
    """At both moments: two streams run in one process, and a kill ends both."""
    (tmp_path / "archive").mkdir()
    for n in range(3):
        (tmp_path / "archive" / f"{n}.jsonl").write_text(LINE % n * (n + 1))
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        cwd=Path(__file__).parents[3], timeout=find_limit(), check=False, capture_output=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    for moment, stored in (("stored", 2), ("counted", 1)):
        (epoch,) = (tmp_path / moment).iterdir()
        assert sorted(path.name for path in epoch.glob("account/*")) == [f"batch={n:010}.json" for n in range(stored)]
        total = followed(spark, tmp_path, state=moment)
        assert total.account.records == total.values[0].messages == 6


def test_another_topology_begins_another_epoch_with_a_notice(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "m.jsonl").write_text(LINE % 1)
    places = str(tmp_path / "archive"), str(tmp_path / "state")
    other = CoverageStudy(Topology(queues=[Queue("q")]))
    begun = []
    for study in (STUDY, STUDY, other, STUDY):
        following = follow(spark, places[0], [study], places[1])
        following.wait()
        begun.append(following.begun)
        assert following.total().account.records == 1
    assert "with all that is in the archive" in (begun[0] or "")
    assert "not those of 1 earlier one" in (begun[2] or "")
    assert (begun[1], begun[3]) == (None, None)


def test_a_state_of_another_archive_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.jsonl").write_text(LINE % 1)
    follow(spark, str(tmp_path / "a"), [STUDY], str(tmp_path / "state")).wait()
    with pytest.raises(InputError, match="give another folder"):
        follow(spark, str(tmp_path / "b"), [STUDY], str(tmp_path / "state"))


def test_following_goes_on_while_the_archive_grows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    file = tmp_path / "archive" / "m.jsonl"
    updates: list[Update] = []
    following = follow(
        spark, str(tmp_path / "archive"), [STUDY], str(tmp_path / "state"), every=0.2, on_update=updates.append,
        selection=Selection(vhost="/"),
    )  # fmt: skip
    try:
        for n in range(3):
            with file.open("a") as opened:
                opened.write(LINE % n + (LINE % n)[:10])
                opened.flush()
                until(lambda n=n: bool(updates) and updates[-1].total.account.records == n + 1, following)
                opened.write(" " * 0 + "\n")
    finally:
        following.stop()
    assert updates[-1].open_files == 1


def until(happens: object, following: Following) -> None:
    """Wait for a condition; a failure of the stream fails the test."""
    end = time.monotonic() + find_limit()
    while not happens():  # type: ignore[operator]
        assert not following.wait(0.1)
        assert time.monotonic() < end


def test_a_failure_is_raised_and_its_batch_comes_again(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "m.jsonl").write_text(LINE % 1)

    def fail(update: Update) -> None:
        raise InputError(f"no room for {update.total.account.records}")

    for _ in range(2):
        following = follow(spark, str(tmp_path / "archive"), [STUDY], str(tmp_path / "state"), on_update=fail)
        with pytest.raises(InputError, match="no room for 1"):
            following.wait()
    assert followed(spark, tmp_path).account.records == 1
