"""Archives are divided into tasks of equal size that read nothing twice; accounts of the parts add."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.detect import detect
from bindings.archive.formats.json_lines import JsonLines
from bindings.archive.inspection import Account
from bindings.archive.reading import Bad, Skipped, Split
from bindings.archive.record import Record, build_batch
from bindings.archive.sums import OTHER, REASONS, SAMPLES
from bindings.auditing.local import planning
from bindings.auditing.local.planning import PlannedFile, draw_tasks, group_into_tasks, plan_splits, plan_tasks
from bindings.auditing.local.selection import OTHER_VHOST, OUTSIDE, UNTIMED, Selection
from bindings.auditing.local.tasks import Task
from exchange import InputError, Message
from tests.support.archives.lines import write_lines
from tests.support.tiers import examples

FORM = JsonLines()
SOME = examples(60)
SIZES = st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 5)), min_size=1, max_size=30)


@SOME
@given(SIZES, st.integers(1, 20_000))
def test_tasks_have_each_byte_once_and_about_the_wanted_size(files: list[tuple[int, int]], size: int) -> None:
    made = []
    for number, (length, parts) in enumerate(files):
        path = f"f{number}"
        ends = [length * part // parts for part in range(parts + 1)]
        made.append((PlannedFile(path, FORM, length), [Split(path, *pair) for pair in itertools.pairwise(ends)]))
    tasks = group_into_tasks(made, size)
    assert [task.number for task in tasks] == list(range(len(tasks)))
    assert [task.weight for task in tasks] == sorted([task.weight for task in tasks], reverse=True)
    largest = max(length // parts for length, parts in files)
    assert all(task.weight <= size + largest for task in tasks)
    found = sorted((split.path, split.start, split.end) for task in tasks for _, split in task.splits)
    for path, length in ((f"f{number}", length) for number, (length, _) in enumerate(files)):
        stretches = [(start, end) for name, start, end in found if name == path]
        assert min(stretches)[0] == 0
        assert sum((end or 0) - start for start, end in stretches) == length


@SOME
@given(st.lists(st.integers(1, 1_000), min_size=1, max_size=50), st.integers(0, 10_000))
def test_a_sample_is_some_tasks_of_about_its_size_and_always_the_same_ones(weights: list[int], most: int) -> None:
    tasks = [Task(number, (), weight) for number, weight in enumerate(weights)]
    drawn, share = draw_tasks(tasks, most)
    assert (drawn, share) == draw_tasks(tasks, most)
    size = sum(task.weight for task in drawn)
    assert len({task.number for task in drawn}) == len(drawn) >= 1
    assert size <= most or size - drawn[-1].weight <= most / 2
    assert len(drawn) == len(tasks) or size >= most / 2
    assert share == size / sum(weights)
    assert len(drawn) == len(tasks) or size + max(weights) > most  # no room is left for any task


def test_many_small_files_are_few_tasks_and_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(planning.MAX_OPENED_FILES + 1):
        write_lines(tmp_path / f"{number}.jsonl", [Record(Message("amq.topic", "a"))])
    archive = detect(str(tmp_path))
    monkeypatch.delattr(JsonLines, "plan")
    (task,) = plan_tasks(archive, 2)
    assert [split for _, split in task.splits] == [Split(path) for path, _ in archive.files]


def test_workers_plan_what_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        write_lines(tmp_path / f"{number}.jsonl", [Record(Message("amq.topic", "a" * 200))] * 50)
    archive = detect(str(tmp_path))
    monkeypatch.setattr(planning, "MIN_TASK_BYTES", 1000)
    alone = plan_tasks(archive, 1)
    monkeypatch.setattr(planning, "MAX_PLANNING_SECONDS", -1.0)
    asked: list[int] = []

    def others(files: object, split_bytes: int) -> object:
        asked.append(len(list(files)))  # type: ignore[call-overload]
        return plan_splits(files, split_bytes)  # type: ignore[arg-type]

    assert plan_tasks(archive, 1, others) == alone  # type: ignore[arg-type]
    assert asked == [3]
    assert len(alone) > 3


TIMES = st.none() | st.integers(-50, 50)
ROWS = st.lists(st.tuples(TIMES, st.sampled_from([None, "/", "o\0"])), min_size=1, max_size=20)


@SOME
@given(ROWS, st.sampled_from([None, "/", "o\0"]), TIMES, TIMES)
def test_a_selection_takes_its_virtual_host_and_window(
    rows: list[tuple[int | None, str | None]], vhost: str | None, since: int | None, until: int | None
) -> None:
    if since is not None and until is not None and not range(since, until):
        with pytest.raises(InputError, match="until: must be after since: nothing is between them"):
            Selection(vhost, since, until)
        return
    selection = Selection(vhost, since, until)
    batch = build_batch([Record(Message("x", str(n)), time, name) for n, (time, name) in enumerate(rows)])
    expected, left_out = [], dict.fromkeys((OTHER_VHOST, UNTIMED, OUTSIDE), 0)
    for number, (time, name) in enumerate(rows):
        if vhost is not None and name not in (None, vhost):
            left_out[OTHER_VHOST] += 1
        elif time is None and (since is not None or until is not None):
            left_out[UNTIMED] += 1
        elif time is not None and ((since is not None and time < since) or (until is not None and time >= until)):
            left_out[OUTSIDE] += 1
        else:
            expected.append(str(number))
    taken, skipped = selection.apply(batch)
    assert taken.column("routing_key").to_pylist() == expected
    assert skipped == {reason: count for reason, count in left_out.items() if count}
    assert set(selection.columns) <= set(batch.schema.names)


def account_of(rng: Random) -> Account:
    account = Account()
    records = [Record(Message("x", "a"), rng.choice((None, rng.randrange(99)))) for _ in range(rng.randrange(4))]
    if records:
        account.add(build_batch(records))
    for _ in range(rng.randrange(6)):
        account.add(Skipped(rng.choice("ab"), rng.randrange(1, 3)))
        account.add(Bad(rng.choice("fg"), rng.randrange(99), rng.choice("ab"), b"x", rng.choice((1, None))))
    return account


@SOME
@given(st.integers(0, 2**32))
def test_accounts_add(seed: int) -> None:
    rng = Random(seed)
    a, b, c = (account_of(rng) for _ in range(3))
    assert a + Account() == a
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    total = a + b + c
    assert (
        total.read
        == total.records + total.unread.skipped_records + total.unread.bad_records
        == a.read + b.read + c.read
    )
    assert all(0 < len(samples) <= SAMPLES for samples in total.unread.samples.values())
    assert total.unread.samples.keys() == total.unread.bad.keys()
    assert total.window == (None if total.span.first is None else (total.span.first, total.span.last))


def test_the_number_of_reasons_is_bounded() -> None:
    account = Account()
    for number in range(REASONS + 5):
        account.add(Bad("f", number, f"reason {number}"))
    bad = (account + account).unread.bad
    assert len(bad) == REASONS + 1
    assert bad[OTHER] == 10


@SOME
@given(st.lists(st.integers(0, REASONS + 30), max_size=400), st.integers(0, 400), st.integers(0, 400))
def test_accounts_with_too_many_reasons_add(reasons: list[int], first: int, second: int) -> None:
    """Those that come first in the alphabet are kept, however an archive is divided."""
    bad = [
        Bad("f", place, f"reason {number:03}", records=1 if place % 3 else None) for place, number in enumerate(reasons)
    ]
    first, second = sorted((first, second))
    whole, *parts = (
        sum_of(listed) for listed in (bad, bad[second:], bad[:first], bad[first:second])
    )  # in another order than in the archive
    assert parts[0] + parts[1] + parts[2] == parts[0] + (parts[1] + parts[2]) == whole
    assert whole.unread.bad_records == len(bad)
    assert whole.unread.uncounted.total() == sum(each.records is None for each in bad)


def sum_of(listed: list[Bad]) -> Account:
    account = Account()
    for each in listed:
        account.add(each)
    return account
