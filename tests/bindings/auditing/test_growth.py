"""Each record of growing files is counted once, and the sum is kept, at whatever moment the process ends."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.json_lines import JsonLines
from bindings.archive.inspection import Account
from bindings.archive.reading import Bad
from bindings.archive.sums import Span, Unread
from bindings.auditing.local.run import Pass
from bindings.auditing.local.selection import EVERYTHING
from bindings.auditing.local.tasks import Task, count_tasks, decode_account, encode_account, order_for
from bindings.auditing.spark import growth as growth_module
from bindings.auditing.spark.growth import Growth
from bindings.auditing.spark.ledger import BatchLedger, LedgerEntry
from exchange import InputError
from tests.support.archives.growing import STUDY, count_at_once, make_growing_files
from tests.support.bindings.exact import exact
from tests.support.tiers import examples, scale

LINE = '{"exchange": "orders", "routing_key": "order.new.%s"}\n'
SEEDS = examples(20)


class Stream:
    """A stream as Spark runs it: only its checkpoint outlives a process."""

    def __init__(self, archive: Path, state: Path, step_bytes: int = 1 << 30, folded: int = 2) -> None:
        self.archive, self.state, self.step_bytes, self.folded = archive, state, step_bytes, folded
        self.offsets = [0]
        self.done = 0
        self.notices: list[str] = []

    def run(self) -> Pass:
        """Count what is new; after a kill, begin with the batch that was not done."""
        growth = Growth(str(self.archive), self.state / "files", step_bytes=self.step_bytes, split_bytes=300)
        ledger = BatchLedger(self.state, {"coverage": STUDY}, self.folded)
        if self.done < len(self.offsets) - 1:
            self._batch(growth, ledger)
        while (last := growth.look()) > self.offsets[-1]:
            self.offsets.append(min(self.offsets[-1] + 1, last))
            self._batch(growth, ledger)
        _, entry = ledger.total()
        return Pass((STUDY.finish(entry.values["coverage"], entry.account),), entry.account)

    def _batch(self, growth: Growth, ledger: BatchLedger) -> None:
        batch = self.done
        ledger.fold(batch - 1)
        steps = growth.steps(self.offsets[batch], self.offsets[batch + 1])
        splits = tuple([split for step in steps for split in step.splits])
        self.notices += [notice for step in steps for notice in step.notices]
        results = count_tasks([Task(0, splits, 0)], order_for([STUDY], EVERYTHING))
        ledger.put(batch, LedgerEntry({"coverage": results.values[0]}, results.account))
        self.done += 1
        growth.forget(self.offsets[self.done - 1])


def counts(passed: Pass) -> tuple[Any, ...]:
    """Return the counts of a pass; only the numbers of bad records, since their offsets may differ."""
    account = passed.account
    tally = replace(exact(passed.values[0]), unread=Unread())
    return tally, account.records, account.window, account.unread.skipped, account.unread.bad


@given(seed=st.integers(0, 2**32), step_bytes=st.sampled_from([100, 2000, 1 << 30]))
@SEEDS
def test_a_growing_archive_is_counted_as_the_whole_one(
    seed: int, step_bytes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = Random(seed)
    folder = tmp_path_factory.mktemp("growth")
    files = make_growing_files(rng, folder / "archive", 12)
    stream = Stream(folder / "archive", folder / "state", step_bytes)
    (folder / "archive").mkdir()
    written = [0] * len(files)
    while written != [len(file.content) for file in files]:
        n = rng.randrange(len(files))
        written[n] = min(written[n] + rng.choice([1, 40, 400, 10**6]), len(files[n].content))
        files[n].write(written[n])
        if rng.random() < 0.2:
            stream.run()
    total = stream.run()
    assert counts(total) == counts(count_at_once(files, folder / "copy"))
    assert stream.notices == []


@contextmanager
def watched_files(monkeypatch: pytest.MonkeyPatch, moment: Callable[[], None]) -> Iterator[None]:
    """Call ``moment`` before and after each time that a file is renamed, linked or removed."""

    def watched(operation: Callable[..., Any]) -> Callable[..., Any]:
        def operate(*arguments: Any, **named: Any) -> Any:
            moment()
            done = operation(*arguments, **named)
            moment()
            return done

        return operate

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", watched(Path.replace))
        patch.setattr(Path, "unlink", watched(Path.unlink))
        patch.setattr(os, "link", watched(os.link))
        yield


def test_a_kill_at_any_moment_neither_loses_nor_doubles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each moment the state is copied as a kill would leave it; later the stream goes on from each copy."""
    monkeypatch.setattr(growth_module, "FOLDED", 2)
    stream = Stream(tmp_path / "archive", tmp_path / "state")
    stream.archive.mkdir()
    file = stream.archive / "a.jsonl"
    kept: list[tuple[int, list[int], int]] = []

    def keep() -> None:
        if stream.state.exists():
            shutil.copytree(stream.state, tmp_path / str(len(kept)))
        kept.append((written, list(stream.offsets), stream.done))

    def append(number: int) -> None:
        with file.open("a") as opened:
            opened.write(LINE % number)

    for written in range(6):
        append(written)
        with watched_files(monkeypatch, keep):
            stream.run()
    assert len(kept) > 60
    step = max(1, len(kept) // scale(len(kept)))
    for number, (written, stream.offsets, stream.done) in list(enumerate(kept))[::step]:
        os.truncate(file, sum(len(LINE % n) for n in range(written + 1)))
        shutil.rmtree(stream.state)
        if (copy := tmp_path / str(number)).exists():
            copy.rename(stream.state)
        for rest in range(written + 1, 6):
            append(rest)
            stream.run()
        total = stream.run()
        assert total.account.records == 6
        assert total.values[0].messages == 6
        assert sum(1 for _ in (stream.state / "account").glob("batch=*")) <= 3


def test_a_record_without_its_end_waits_and_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "m.jsonl"
    file.write_text(LINE % 1 + (LINE % 2)[:20])
    stream = Stream(tmp_path / "a", tmp_path / "state")
    assert (stream.run().account.records, stream.run().account.unread.bad) == (1, {})
    assert Growth(str(tmp_path / "a"), tmp_path / "state" / "files").steps(0, 1)[0].open_files == 1
    file.write_text(LINE % 1 + LINE % 2)
    assert stream.run().account.records == 2


def test_a_rotated_log_is_read_on_under_its_new_name(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    stream = Stream(folder, tmp_path / "state")
    (folder / "m.jsonl").write_text(LINE % 1)
    stream.run()
    with (folder / "m.jsonl").open("a") as file:
        file.write(LINE % 2)
    (folder / "m.jsonl").rename(folder / "m.jsonl.1")
    (folder / "m.jsonl").write_text(LINE % 1 + LINE % 2)  # as it began before
    assert stream.run().account.records == 4
    assert [notice.rpartition(": ")[2] for notice in stream.notices] == [
        "another file is in its place, which is read from its beginning",
        f"it was called {folder / 'm.jsonl'}, and is read on",
    ]


def test_a_file_that_lost_its_end_is_reported_and_read_on(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    stream = Stream(folder, tmp_path / "state")
    (folder / "m.jsonl").write_text(LINE % 1 * 99 + LINE % 2)
    stream.run()
    (folder / "m.jsonl").write_text(LINE % 1 * 99)
    assert stream.run().account.records == 100
    (notice,) = stream.notices
    assert notice.endswith(f"it is {len(LINE % 2)} bytes shorter than it was; what it lost stays counted")
    (folder / "m.jsonl").write_text(LINE % 1 * 99 + LINE % 3)
    assert stream.run().account.records == 101


def test_a_changed_file_that_is_read_as_a_whole_is_reported_once(tmp_path: Path) -> None:
    file = next(
        f for seed in range(99) for f in make_growing_files(Random(seed), tmp_path / "a", 3) if f.path.suffix == ".gz"
    )
    file.write(len(file.content))
    stream = Stream(tmp_path / "a", tmp_path / "state")
    before = stream.run().account.records
    with file.path.open("ab") as opened:
        opened.write(file.content)
    assert stream.run().account.records == stream.run().account.records == before
    (notice,) = stream.notices
    assert notice.endswith("what was added is not counted")


def test_files_that_go_and_come_back_are_counted_once(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    stream = Stream(folder, tmp_path / "state")
    for n in range(3):
        (folder / f"{n}.jsonl").write_text(LINE % n)
    stream.run()
    (folder / "1.jsonl").rename(tmp_path / "away")
    stream.run()
    (tmp_path / "away").rename(folder / "1.jsonl")
    assert stream.run().account.records == 3


def test_a_missing_archive_is_an_error(tmp_path: Path) -> None:
    growth = Growth(str(tmp_path / "a"), tmp_path / "state")
    with pytest.raises(InputError, match="no such file or folder"):
        growth.look()


def test_two_processes_cannot_follow_with_one_state(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    growths = [Growth(str(tmp_path / "a"), tmp_path / "state") for _ in range(2)]
    (tmp_path / "a" / "m.jsonl").write_text(LINE % 1)
    growths[0].look()
    with pytest.raises(InputError, match="something else follows"):
        growths[1].look()


def entry(records: int) -> LedgerEntry:
    return LedgerEntry({"coverage": STUDY.zero()}, Account(Span(records)))


def test_a_batch_that_comes_again_replaces_its_counts(tmp_path: Path) -> None:
    for ledger in (BatchLedger(tmp_path, {"coverage": STUDY}), BatchLedger(tmp_path, {"coverage": STUDY})):
        ledger.put(0, entry(1))
        assert ledger.put(1, entry(2)).account.records == 3
        assert ledger.total()[1].account.records == 3
        tmp_path.joinpath("account", "batch=0000000001.json").unlink()


@pytest.mark.parametrize(
    ("batches", "then", "message"),
    [
        (range(1), 2, "batch 1 counted is not there"),
        (range(3), 1, "batch 2 is there already"),
        (range(5), 2, "counted and folded"),
    ],
)
def test_the_ledger_of_another_stream_is_not_written(batches: range, then: int, message: str, tmp_path: Path) -> None:
    ledger = BatchLedger(tmp_path, {"coverage": STUDY}, folded=4)
    for batch in batches:
        ledger.put(batch, entry(1))
        ledger.fold(batch)
    with pytest.raises(InputError, match=message):
        BatchLedger(tmp_path, {"coverage": STUDY}).put(then, entry(1))
    assert ledger.total()[1].account.records == len(batches)


def test_an_account_survives_json(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text(LINE % 1 + "{\udcff}\n".encode("utf-8", "surrogateescape").decode("latin-1"))
    passed = count_tasks(
        [Task(0, ((JsonLines(), JsonLines().plan(str(tmp_path / "m.jsonl"))[0]),), 0)], order_for([STUDY], EVERYTHING)
    )
    account = passed.account
    assert account.unread.bad
    account.add(Bad("a", 0, "damaged", records=40))
    account.add(Bad("b", 0, "damaged", records=None))
    read = decode_account(encode_account(account))
    assert read == account
