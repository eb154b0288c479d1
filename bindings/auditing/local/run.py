"""Run a pass over an archive in this process, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bindings.archive.formats.detect import Archive
from bindings.archive.inspection import Account
from bindings.auditing.local.planning import PARTS, draw_tasks, plan_tasks
from bindings.auditing.local.selection import EVERYTHING, Selection
from bindings.auditing.local.study import Study
from bindings.auditing.local.tasks import Results, Task, TooManyBad, count_tasks, order_for
from exchange.errors import InputError

__all__ = ["NoRecords", "Pass", "finish", "must_be_new", "must_have_records", "run_here"]


class NoRecords(InputError):
    """No record of an archive can be counted."""


class Pass(NamedTuple):
    """The results of a pass over an archive."""

    values: tuple[Any, ...]
    """The value of each study, in order."""
    account: Account
    share: float = 1.0
    """Share of the archive that was read, by its bytes."""


def run_here(
    archive: Archive,
    studies: Sequence[Study[Any]],
    selection: Selection = EVERYTHING,
    *,
    keep_bad: str | None = None,
    max_bad: int | None = None,
    most_bytes: int | None = None,
    step: Callable[[int, int], None] = lambda done, of: None,
) -> Pass:
    """Read an archive once, for all studies, in this process.

    Of an archive larger than ``most_bytes``, only some tasks are read, see `draw_tasks`; None for all. ``step`` is
    called with the number of bytes read so far, and the total number. ``keep_bad`` is a new folder for bad records, as
    JSON lines. Raises InputError for files that cannot be opened, NoRecords for archives without records,
    `bindings.auditing.local.tasks.TooManyBad` as soon as more than ``max_bad`` records are bad.
    """
    must_be_new(keep_bad)
    tasks, share = plan_tasks(archive, cores=1), 1.0
    if most_bytes is not None and sum(task.weight for task in tasks) > most_bytes:
        tasks, share = draw_tasks(plan_tasks(archive, cores=PARTS), most_bytes)
    total = sum(task.weight for task in tasks)
    done = 0

    def report_steps() -> Iterator[Task]:
        nonlocal done
        for task in tasks:
            step(done, total)
            yield task
            done += task.weight
        step(done, total)

    results = count_tasks(report_steps(), order_for(studies, selection, keep_bad, max_bad))
    must_have_records(archive, results.account, max_bad)
    return finish(results, studies)._replace(share=share)


def finish(results: Results, studies: Sequence[Study[Any]]) -> Pass:
    """Finish a pass: hand the account to each study's value."""
    values = zip(studies, results.values, strict=True)
    return Pass(tuple([study.finish(value, results.account) for study, value in values]), results.account)


def must_be_new(folder: str | None) -> None:
    """Raise InputError if the folder, which is to be written, exists and is not empty."""
    if folder is None:
        return
    path = Path(folder)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(f"{folder}: exists already; remove it or choose another name")


def must_have_records(archive: Archive, account: Account, max_bad: int | None = None) -> None:
    """Raise NoRecords if no record of an archive was counted, with the reasons why its records were not.

    Raises TooManyBad if the archive has no records at all, and no bad record is allowed.
    """
    if account.records:
        return
    unread = account.unread.bad + account.unread.skipped
    if not unread:
        kind = TooManyBad if max_bad == 0 else NoRecords
        raise kind(f"{archive.path}: there are no records in it")
    reasons = "; ".join(f"{records:,}: {reason}" for reason, records in unread.most_common(3))
    raise NoRecords(f"{archive.path}: no record of it can be audited, of {account.read:,} that were read: {reasons}")
