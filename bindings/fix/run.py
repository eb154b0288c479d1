"""Fix many files: those that are named, and the topologies below folders."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from difflib import unified_diff
from typing import NamedTuple

from bindings.fix.fix import FixedFile, NotFixable, fix_file
from bindings.sources.tree import SkippedFile, find_files, find_reason_to_skip
from exchange.entities.profile import Profile
from exchange.errors import HashstarError

__all__ = ["FailedFile", "diff_lines", "fix_files"]


class FailedFile(NamedTuple):
    """A file that could not be fixed, and why."""

    name: str
    error: HashstarError
    passed_over: bool = False
    """Whether it is not to be fixed, and the user named a folder, and not the file: then this is no failure."""


def fix_files(
    names: Iterable[str],
    codes: Container[str],
    *,
    vhost: str | None = None,
    profile: Profile | str | None = None,
    show: Callable[[str], None] = lambda text: None,
) -> Iterator[FixedFile | FailedFile]:
    """Yield each file that ``names`` stand for with its fixes, which are not written; see `bindings.fix.fix.fix_file`.

    Files below a folder that are no topologies are left out. ``show`` is called with the text of what is being done.
    Raises InputError if a pattern matches no file.
    """
    for file in find_files(names):
        if isinstance(file, SkippedFile) or (file.folder is not None and find_reason_to_skip(file.name) is not None):
            continue
        show(f"fixing {file.name} ...")
        try:
            yield fix_file(file.name, codes=codes, vhost=vhost, profile=profile)
        except HashstarError as error:
            yield FailedFile(file.name, error, file.folder is not None and isinstance(error, NotFixable))


def diff_lines(fixed: FixedFile) -> Iterator[str]:
    """Yield the lines of a unified diff, each with its line break; none if nothing is fixed."""
    before, after = (data.decode("utf-8") for data in (fixed.before, fixed.after))
    for line in unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), fixed.name, fixed.name
    ):  # fmt: skip
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
