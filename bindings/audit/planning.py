"""How an archive is divided into tasks: enough of them for all cores, few enough that what they find is soon added up.

Small files come together in a task, large ones are split; parts of a file that come together are read as one. Whatever
takes longest is begun first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from bindings.archive.formats.detect import Archive
from bindings.archive.reading import SPLIT_BYTES, Format, Split
from bindings.audit.tasks import Task
from exchange.errors import InputError

__all__ = ["LARGEST", "SMALLEST", "TASKS", "File", "Planner", "planned", "splits_of", "tasks_of"]

TASKS: Final = 4
"""Tasks for each core, so that none waits long for the last one."""

SMALLEST: Final = 4 << 20
"""Bytes of a task: less is not worth its start."""

LARGEST: Final = 256 << 20
"""Bytes of a task: more is too much to do again after a failure."""

FEW: Final = 64
"""So many files are all planned; of more, those that are small are taken whole without a look."""

PATIENCE: Final = 1.0
"""Seconds; planning that takes longer is done by the workers."""


class File(NamedTuple):
    """A file of an archive."""

    path: str
    form: Format
    size: int


Planned: TypeAlias = list[tuple[File, list[Split]]]
Planner: TypeAlias = Callable[[Sequence[File], int], Iterable[list[Split]]]
"""Finds the splits of files, each about so many bytes: in this process, or elsewhere."""


def splits_of(files: Sequence[File], split_bytes: int) -> Iterator[list[Split]]:
    """The splits of each file."""
    for file in files:
        yield file.form.plan(file.path, split_bytes)


def planned(archive: Archive, cores: int, planner: Planner = splits_of) -> list[Task]:
    """The tasks of an archive, for so many cores; ``planner`` does what takes long. Raises InputError for files that
    cannot be opened.
    """
    # Workers have working directories of their own.
    files = [File(str(Path(path).absolute()), form, _size(path)) for path, form in archive.all_files]
    total = sum(file.size for file in files)
    task_bytes = min(max(total // (TASKS * cores), SMALLEST), LARGEST)
    split_bytes = min(task_bytes, SPLIT_BYTES)
    return tasks_of(_planned(files, split_bytes, planner), task_bytes)


def _planned(files: Sequence[File], split_bytes: int, planner: Planner) -> Planned:
    looked_at = files if len(files) <= FEW else [file for file in files if file.size > split_bytes]
    found: dict[str, list[Split]] = {}
    until = time.monotonic() + PATIENCE
    for place, file in enumerate(looked_at):
        if time.monotonic() > until:
            rest = looked_at[place:]
            found |= {each.path: splits for each, splits in zip(rest, planner(rest, split_bytes), strict=True)}
            break
        found[file.path] = file.form.plan(file.path, split_bytes)
    return [(file, found.get(file.path) or [Split(file.path)]) for file in files]


def tasks_of(files: Planned, task_bytes: int) -> list[Task]:
    """Tasks of about so many bytes each, the largest first."""
    groups: list[tuple[int, list[tuple[Format, Split]]]] = []
    weight = task_bytes
    for file, splits in files:
        share = file.size // len(splits)
        for split in splits:
            if weight + share // 2 >= task_bytes:
                groups.append((0, []))
                weight = 0
            weight += share
            groups[-1] = weight, groups[-1][1]
            _put(groups[-1][1], file.form, split)
    groups.sort(key=lambda group: -group[0])
    return [Task(number, tuple(splits), weight) for number, (weight, splits) in enumerate(groups)]


def _put(splits: list[tuple[Format, Split]], form: Format, split: Split) -> None:
    if splits:
        before = splits[-1][1]
        if before.path == split.path and before.end == split.start and before.exact == split.exact:
            splits[-1] = form, before._replace(end=split.end)
            return
    splits.append((form, split))


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
