"""A pass over an archive in this process, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bindings.archive.formats.detect import Archive
from bindings.audit.account import Account
from bindings.audit.planning import planned
from bindings.audit.selection import EVERYTHING, Selection
from bindings.audit.study import Study
from bindings.audit.tasks import Results, TooManyBad, order_of, perform
from exchange.errors import InputError

__all__ = ["Pass", "here"]


class Pass(NamedTuple):
    """What came of a pass over an archive."""

    values: tuple[Any, ...]
    """Of each study, in their order."""
    account: Account


def here(
    archive: Archive,
    studies: Sequence[Study[Any]],
    selection: Selection = EVERYTHING,
    *,
    keep_bad: str | None = None,
    max_bad: int | None = None,
    step: Callable[[int, int], None] = lambda done, of: None,
) -> Pass:
    """Read an archive once, for all studies; ``step`` is told how many bytes are read, and of how many.

    ``keep_bad`` is a new folder for bad records, as JSON lines. Raises InputError for files that cannot be opened and
    archives without records, `bindings.audit.tasks.TooManyBad` as soon as more than ``max_bad`` records are bad.
    """
    must_be_new(keep_bad)
    tasks = planned(archive, cores=1)
    total = sum(task.weight for task in tasks)
    done = 0

    def watched() -> Any:
        nonlocal done
        for task in tasks:
            step(done, total)
            yield task
            done += task.weight
        step(done, total)

    results = perform(watched(), order_of(studies, selection, keep_bad, max_bad))
    must_have_records(archive, results.account, max_bad)
    return finished(results, studies)


def finished(results: Results, studies: Sequence[Study[Any]]) -> Pass:
    """The pass, with the account told to each value."""
    values = zip(studies, results.values, strict=True)
    return Pass(tuple([study.finished(value, results.account) for study, value in values]), results.account)


def must_be_new(folder: str | None) -> None:
    """Raise InputError if there is something in a folder that is to be written."""
    if folder is None:
        return
    path = Path(folder)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(f"{folder}: exists already; remove it or choose another name")


def must_have_records(archive: Archive, account: Account, max_bad: int | None = None) -> None:
    """Raise InputError if nothing in an archive could be counted, saying what was there instead.

    Where no bad record is allowed, an archive that gave nothing at all raises TooManyBad.
    """
    if account.records:
        return
    met = {reason: facts.records for reason, facts in account.bad.items()} | dict(account.skipped)
    if not met:
        kind = TooManyBad if max_bad == 0 else InputError
        raise kind(f"{archive.path}: there are no records in it")
    told = "; ".join(f"{records:,}: {reason}" for reason, records in sorted(met.items(), key=lambda each: -each[1])[:3])
    raise InputError(f"{archive.path}: no record of it can be audited, of {account.read:,} that were read: {told}")
