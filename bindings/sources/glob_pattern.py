"""Glob patterns for names that no shell has expanded: ``topologies/**/*.bindings``.

As in a shell, ``*``, ``?`` and ``[...]`` match within a name, and ``**`` any number of folders; a name that begins with
a dot is matched only by a pattern that does. Unlike with Python's `glob`, the tree is walked once whatever the pattern
is, and ``**`` enters neither links to folders nor `NOT_ENTERED`: a hostile repository cannot make it endless.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import translate
from glob import has_magic
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from exchange.errors import InputError
from exchange.limits import FOLDER_FILES, GLOB_CHARACTERS

NOT_ENTERED: Final = "node_modules"
"""Name of folders with what others have written, in any number."""


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern: it has wildcards, and is not the name of a file that is there."""
    return len(name) <= GLOB_CHARACTERS and has_magic(name) and "://" not in name and not os.path.lexists(name)


def expand_pattern(pattern: str) -> list[str]:
    """Return the files and folders that a pattern matches, sorted.

    Raises InputError if there are none, or more than `FOLDER_FILES`.
    """
    parts = PurePath(pattern).parts
    fixed = list(takewhile(lambda part: not has_magic(part), parts))
    steps = [_Step.parse(part) for part in parts[len(fixed) :]]
    steps = [step for step, before in zip(steps, [None, *steps], strict=False) if step != DOUBLE or before != DOUBLE]
    matches: list[str] = []
    for match in _walk(PurePath(*fixed), steps):
        matches.append(match)
        if len(matches) > FOLDER_FILES:
            raise InputError(f"{pattern}: matches more than {FOLDER_FILES:,} files")
    if not matches:
        raise InputError(f"{pattern}: no file matches")
    return sorted(matches)


class _Step(NamedTuple):
    """One part of a pattern, between slashes."""

    name: re.Pattern[str] | None
    """Matches the names that the part matches; None for ``**``."""
    hidden: bool
    """Whether it may match names that begin with a dot."""

    @classmethod
    def parse(cls, part: str) -> _Step:
        return cls(None if part == "**" else re.compile(translate(part)), part.startswith("."))

    def matches(self, name: str) -> bool:
        return self.name is not None and (self.hidden or not name.startswith(".")) and bool(self.name.match(name))


DOUBLE: Final = _Step.parse("**")


def _walk(root: PurePath, steps: list[_Step]) -> Iterator[str]:
    """Yield the paths below ``root`` that all steps match in order.

    A folder is entered with the numbers of the steps that may match next: several, as ``**`` may end at any folder.
    """
    waiting = [(root, _with_empty({0}, steps))]
    if len(steps) in waiting[0][1] and root.parts and Path(root).is_dir():
        yield str(root)  # which ** matches, too
    while waiting:
        folder, states = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue  # a shell leaves it out, too
        for entry in entries:
            name, path, is_folder = entry.name, folder / entry.name, _is_folder(entry)
            by_name = {state + 1 for state in states if state < len(steps) and steps[state].matches(name)}
            by_stars = set()
            if not entry.is_symlink() and not name.startswith(".") and name != NOT_ENTERED:
                by_stars = {state for state in states if state < len(steps) and steps[state].name is None}
            reached = _with_empty(by_name | by_stars, steps)
            # a/** matches the folder a, and not a file of this name.
            if len(steps) in (reached if is_folder else by_name | _with_empty(by_stars, steps)):
                yield str(path)
            if is_folder and any(state < len(steps) for state in reached):
                waiting.append((path, reached))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _with_empty(states: set[int], steps: list[_Step]) -> set[int]:
    """Return the states, and those behind each ``**``, which matches no folder as well; no two stand in a row."""
    return states | {state + 1 for state in states if state < len(steps) and steps[state].name is None}
