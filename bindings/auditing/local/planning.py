"""Divide an archive into tasks: enough for all cores, but few enough that adding their results is fast.

Small files share a task, large files are split; adjacent splits of a file in one task are read as one split. The
largest task begins first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Final, NamedTuple, TypeAlias

from bindings.archive.formats.detect import Archive, make_absolute
from bindings.archive.formats.recognition import Undetected
from bindings.archive.places import Place, read_file_size
from bindings.archive.reading import SPLIT_BYTES, Format, Split
from bindings.auditing.local.tasks import Task

TASKS_PER_CORE: Final = 4
"""Number of tasks per core; with several, no core waits long for the last task."""

MIN_TASK_BYTES: Final = 4 << 20
"""Minimum size of a task, in bytes; a smaller one would cost more to start than to run."""

MAX_TASK_BYTES: Final = 256 << 20
"""Maximum size of a task, in bytes; this much is read again after a failure."""

MIN_BYTES_OF_GROUPS: Final = 256 << 20
"""Size from which an archive has several groups, in bytes: a smaller one is counted while processes start."""

MAX_GROUPS: Final = 16
"""Maximum number of groups, and so of processes: their results are added one after another."""

CORES_OF_SAMPLES: Final = 64
"""Number of cores to plan for if a sample is drawn: `TASKS_PER_CORE` times as many parts, if they are not too small."""

MAX_OPENED_FILES: Final = 64
"""Maximum number of files that are all opened to plan them; above it, small files become one split, unopened."""

MAX_PLANNING_SECONDS: Final = 1.0
"""Time after which ``planner`` plans the remaining files, in seconds."""


class PlannedFile(NamedTuple):
    """A file of an archive."""

    path: Place
    form: Format
    size: int


Planned: TypeAlias = Iterable[tuple[PlannedFile, list[Split]]]
Planner: TypeAlias = Callable[[Sequence[PlannedFile], int], Iterable[list[Split]]]
"""Returns the splits of each file, of about the given number of bytes each; may plan them in other processes."""


def plan_splits(files: Sequence[PlannedFile], split_bytes: int) -> Iterator[list[Split]]:
    """Yield the splits of each file, of about this number of bytes each."""
    for file in files:
        yield file.form.plan(file.path, split_bytes)


def plan_tasks(archive: Archive, cores: int, planner: Planner = plan_splits) -> list[Task]:
    """Return the tasks of an archive for some cores; after `MAX_PLANNING_SECONDS`, ``planner`` plans the rest.

    Raises InputError for files that cannot be opened.
    """
    files = [PlannedFile(make_absolute(path), form, read_file_size(path)) for path, form in archive.all_files]
    total = sum(file.size for file in files)
    task_bytes = min(max(total // (TASKS_PER_CORE * cores), MIN_TASK_BYTES), MAX_TASK_BYTES)
    split_bytes = min(task_bytes, SPLIT_BYTES)
    return group_into_tasks(plan_files(files, split_bytes, planner), task_bytes)


def plan_file(path: Place, form: Format) -> list[Task]:
    """Return the tasks of one file, whatever else is in its archive; one of many is not opened, as in `plan_files`.

    Raises InputError if it cannot be opened.
    """
    file = PlannedFile(make_absolute(path), form, read_file_size(path))
    is_one = isinstance(form, Undetected) and file.size <= SPLIT_BYTES
    splits = ([] if is_one else form.plan(file.path, SPLIT_BYTES)) or [Split(file.path)]
    return group_into_tasks([(file, splits)], MAX_TASK_BYTES)


def plan_groups(archive: Archive) -> list[list[Task]]:
    """Return the tasks of an archive in groups of about the same size, each of which one process counts.

    They depend on the archive only, not on this machine: heavy hitters depend on how messages are divided, and a report
    is to be the same everywhere. Raises InputError for files that cannot be opened.
    """
    tasks = plan_tasks(archive, cores=MAX_GROUPS // TASKS_PER_CORE)
    groups = max(1, min(count_groups(sum(task.weight for task in tasks)), len(tasks)))
    return [tasks[start::groups] for start in range(groups)]


def count_groups(size: int) -> int:
    """Return the number of groups of an archive of this many bytes."""
    return 1 if size < MIN_BYTES_OF_GROUPS else min(size // MIN_TASK_BYTES, MAX_GROUPS)


def draw_tasks(tasks: Sequence[Task], most_bytes: int) -> tuple[list[Task], float]:
    """Return some tasks that read about ``most_bytes`` altogether, at least half as many, and the share of all bytes.

    They are drawn by chance, but always the same ones: a sample of all files and times, not of the first ones. Where
    files cannot be split, the last one may exceed ``most_bytes``: a small file alone must not stand for all.
    """
    drawn: list[Task] = []
    left = most_bytes
    for task in Random(0).sample([*tasks], len(tasks)):
        if drawn and left < task.weight and left <= most_bytes // 2:
            break
        drawn.append(task)
        left -= task.weight
    total = sum(task.weight for task in tasks)
    return drawn, sum(task.weight for task in drawn) / total if total else 1.0


def plan_files(files: Sequence[PlannedFile], split_bytes: int, planner: Planner = plan_splits) -> Planned:
    """Return files with their splits; many are not opened if they are not larger than one. Raises as `plan_tasks`."""
    opened = files if len(files) <= MAX_OPENED_FILES else [file for file in files if file.size > split_bytes]
    splits_by_path: dict[Place, list[Split]] = {}
    until = time.monotonic() + MAX_PLANNING_SECONDS
    for number, file in enumerate(opened):
        if time.monotonic() > until:
            rest = opened[number:]
            splits_by_path |= {each.path: splits for each, splits in zip(rest, planner(rest, split_bytes), strict=True)}
            break
        splits_by_path[file.path] = file.form.plan(file.path, split_bytes)
    return ((file, splits_by_path.get(file.path) or [Split(file.path)]) for file in files)


def group_into_tasks(files: Planned, task_bytes: int) -> list[Task]:
    """Return tasks of about this number of bytes each, the largest first."""
    groups: list[tuple[int, list[tuple[Format, Split]]]] = []
    weight = task_bytes  # full, so that the first split opens a group
    for file, splits in files:
        share = file.size // len(splits)
        for number, split in enumerate(splits):
            form = replace(file.form, is_first=False) if number and isinstance(file.form, Undetected) else file.form
            if weight + share // 2 >= task_bytes:
                groups.append((0, []))
                weight = 0
            weight += share
            groups[-1] = weight, groups[-1][1]
            _append(groups[-1][1], form, split)
    groups.sort(key=lambda group: -group[0])
    return [Task(number, tuple(splits), weight) for number, (weight, splits) in enumerate(groups)]


def _append(splits: list[tuple[Format, Split]], form: Format, split: Split) -> None:
    """Append a split, or extend the last split if the new one continues it."""
    if splits:
        before = splits[-1][1]
        if before.path == split.path and before.end == split.start and before.exact == split.exact:
            splits[-1] = splits[-1][0], before._replace(end=split.end)
            return
    splits.append((form, split))
