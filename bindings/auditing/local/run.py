"""Run a pass over an archive on this machine, without Spark: in this process, or in several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

from bindings.archive.formats.detect import Archive
from bindings.archive.inspection import Account
from bindings.auditing.local.cache import CachedFiles, TallyCache
from bindings.auditing.local.planning import CORES_OF_SAMPLES, draw_tasks, plan_groups, plan_tasks
from bindings.auditing.local.selection import EVERYTHING, UNTIMED, Selection
from bindings.auditing.local.study import Study
from bindings.auditing.local.tasks import (
    PassSettings,
    Results,
    Task,
    TooManyBad,
    borrow_counters,
    check_bad,
    count_tasks,
    find_needed_columns,
    order_for,
)
from bindings.auditing.local.workers import run_groups
from exchange.errors import InputError
from exchange.text.display import count_noun


class NoRecords(InputError):
    """No record of an archive can be counted."""


class Pass(NamedTuple):
    """The results of a pass over an archive."""

    values: tuple[Any, ...]
    """The value of each study, in order."""
    account: Account
    share: float = 1.0
    """Share of the archive that was read, by its bytes."""
    reused: int = 0
    """Number of files whose counts were taken from a cache."""
    fault: str = ""
    """Why other counts were not kept there; empty if they were."""


def run_here(
    archive: Archive,
    studies: Sequence[Study[Any]],
    selection: Selection = EVERYTHING,
    *,
    jobs: int = 1,
    keep_bad: str | None = None,
    max_bad: int | None = None,
    most_bytes: int | None = None,
    may_be_empty: bool = False,
    cache: Path | None = None,
    step: Callable[[int, int], None] = lambda done, of: None,
) -> Pass:
    """Read an archive once, for all studies, in this process, or in ``jobs`` others if it is large enough for several.

    The result does not depend on the number. Of an archive larger than ``most_bytes``, only some tasks are read, see
    `draw_tasks`; None for all. ``step`` is called with the number of bytes read so far, and the total number.
    ``keep_bad`` is a new folder for bad records, as JSON lines. ``cache`` is a folder with the results of files, see
    `bindings.auditing.local.cache`: each file is counted by itself then. Raises InputError for files that cannot be
    opened, NoRecords for archives without records unless ``may_be_empty``, `bindings.auditing.local.tasks.TooManyBad`
    if more than ``max_bad`` records are bad: at once if a group of tasks has that many, else at the end.
    """
    require_new(keep_bad)
    order = order_for(studies, selection, keep_bad, max_bad)
    cached = None if cache is None else _open_cache(archive, cache, studies, order)
    groups, share = plan_groups(archive) if cached is None else cached.groups, 1.0
    if most_bytes is not None and _weight_of(groups) > most_bytes:
        drawn, share = draw_tasks(plan_tasks(archive, cores=CORES_OF_SAMPLES), most_bytes)
        groups = [drawn]
    total, done = _weight_of(groups), 0

    def add_weight(weight: int) -> None:
        nonlocal done
        done += weight
        step(done, total)

    step(0, total)
    count = partial(run_groups, jobs=jobs) if jobs > 1 and len(groups) > 1 else _count_groups
    counted = count(groups, order, step=add_weight)
    again = partial(count_tasks, order=order)
    results = reduce(Results.plus, counted) if cached is None else cached.join(counted, again)
    check_bad(results.account, max_bad)
    if not may_be_empty:
        require_records(archive, results.account, max_bad)
    passed = finish(results, studies)._replace(share=share)
    return passed if cached is None else passed._replace(reused=cached.reused, fault=cached.fault)


def _open_cache(archive: Archive, folder: Path, studies: Sequence[Study[Any]], order: PassSettings) -> CachedFiles:
    if order.keep_bad is not None:
        raise InputError("bad records of files in a cache are not read again: omit --keep-bad or --cache")
    with borrow_counters(order) as counters:
        columns = find_needed_columns(counters, order.selection)
    return CachedFiles(archive, TallyCache(folder, studies, order.selection, columns))


def _weight_of(groups: Sequence[Sequence[Task]]) -> int:
    return sum(task.weight for group in groups for task in group)


def _count_groups(
    groups: Sequence[Sequence[Task]], order: PassSettings, step: Callable[[int], None]
) -> Iterator[Results]:
    return (count_tasks(group, order, step) for group in groups)


def finish(results: Results, studies: Sequence[Study[Any]]) -> Pass:
    """Finish a pass: hand the account to each study's value."""
    values = zip(studies, results.values, strict=True)
    return Pass(tuple([study.finish(value, results.account) for study, value in values]), results.account)


def require_new(folder: str | None) -> None:
    """Raise InputError if the folder, which is to be written, exists and is not empty."""
    if folder is None:
        return
    path = Path(folder)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(f"{folder}: exists already; remove it or choose another name")


def require_records(archive: Archive, account: Account, max_bad: int | None = None) -> None:
    """Raise NoRecords if no record of an archive was counted, with the reasons why its records were not.

    Raises TooManyBad if the archive has no records at all, and no bad record is allowed.
    """
    if account.records:
        return
    shown = Counter({account.unread.explain(reason): records for reason, records in account.unread.bad.items()})
    unread = shown + account.unread.skipped
    if not unread:
        kind = TooManyBad if max_bad == 0 else NoRecords
        raise kind(f"{archive.path}: there are no records in it")
    reasons = "; ".join(f"{records:,}: {reason}" for reason, records in unread.most_common(3))
    hint = "; if a column has the times, name it: --column timestamp=NAME" if UNTIMED in unread else ""
    raise NoRecords(
        f"{archive.path}: no record of it can be audited, of {count_noun(account.read, 'record')} read: {reasons}{hint}"
    )
