"""Compare topology files with what they were at a revision of their git repository.

A file that is new is compared with nothing, and so is one that is gone. A file that git holds to be renamed is compared
with what it was under its old name. Each virtual host is compared by itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from bindings.diffing.diff import SECONDS, Diff, diff
from bindings.diffing.messages import Moved
from bindings.sources.files import read_content
from bindings.sources.git import Commit, find_repository
from bindings.sources.management import is_address
from bindings.sources.open import STDIN, Source, read_source
from bindings.sources.tree import expand_patterns, find_reason_to_skip, may_be_topology
from exchange.entities.profile import Profile
from exchange.entities.releases import LATEST_PROFILE
from exchange.errors import HashstarError, InputError
from exchange.topology.topology import Topology
from exchange.topology.unread import find_unread

SHARE: Final = 4
"""One virtual host may take this many times its equal share of the time left."""

State: TypeAlias = Literal["same", "changed", "renamed", "new", "gone"]


def list_caveats(*named: Profile | None, rules: Profile | None = None) -> tuple[str, ...] | None:
    """Return which releases are newer than all that are known here; None for none of them.

    ``named`` are the profiles that sources name, or by which they are compared; ``rules`` the one for both, if it is.
    """
    caveats = (each.caveat if rules is None else each.caveat_under(rules) for each in named if each is not None)
    return tuple(dict.fromkeys(filter(None, caveats))) or None


class VhostDiff(NamedTuple):
    """The difference of one virtual host."""

    vhost: str
    profile: str
    """Name of the profile by which it was compared, of two that of the new topology."""
    diff: Diff
    old_profile: str | None = None
    """Name of the profile of the old topology, if it is another one."""
    releases: tuple[str, str] | None = None
    """The two releases that are compared, for people; None if there is one."""
    caveats: tuple[str, ...] | None = None
    """Which releases are newer than all that are known here, and by whose rules they are judged."""


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The difference of one file, or why it could not be compared."""

    name: str
    """The file as the user named it; one that was found, relative to the current folder."""
    before: str
    """What it was compared with, for people: ``main (0d1ab10)``."""
    state: State
    vhosts: tuple[VhostDiff, ...] = ()
    """The virtual hosts whose topologies are not equal."""
    several: bool = False
    """Whether the file has, or had, several virtual hosts."""
    old_name: str | None = None
    """Its name at the revision, from the root of the repository; None for a new file."""
    error: HashstarError | None = None
    """Why it could not be compared; None if it was."""

    @property
    def differs(self) -> bool:
        """Whether a virtual host differs, or may."""
        return any(each.diff.differs for each in self.vhosts)


class _Pair(NamedTuple):
    """A file and its topologies at both times, by virtual host."""

    file: FileDiff
    topologies: tuple[tuple[Topology, Topology], ...] = ()
    named: tuple[Profile | None, ...] = ()
    """The profiles that the file names at both times, where no option names one."""


class Comparison(NamedTuple):
    """The output of ``hashstar diff``: two topologies compared, or files with a revision of their git repository."""

    files: Sequence[FileDiff]
    """Two topologies are one file with one virtual host."""
    against: str | None = None
    """The revision; None for two topologies."""
    messages: Moved | None = None
    """The messages that the two route differently; None where none were given."""


def diff_against(
    revision: str,
    names: Sequence[str] = (),
    *,
    merge_base: bool = False,
    vhost: str | None = None,
    profile: Profile | str | None = None,
    allow_unread: bool = False,
    seconds: float = SECONDS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[FileDiff]:
    """Return the difference of each file to what it was at a revision of the repository that it is in.

    A name may be a folder: it stands for the topology files below it that are not the same as at the revision; no name
    stands for the current folder. With ``merge_base``, the best common ancestor of the revision and HEAD is taken
    instead. Only ``vhost`` is compared if it is given. ``profile`` is that of all comparisons, else each follows the
    old file, else the new one. With ``allow_unread``, claims are made although parts of a file were not
    read. All comparisons together take ``seconds``; what is not decided then is reported as undecided.
    ``progress`` is called with the numbers of virtual hosts compared and to compare.

    A file that cannot be read is an error of its result. Raises InputError where there is no git, no repository, or no
    such revision, and for a name that is no file.
    """
    commits: dict[Path, Commit] = {}
    pairs: list[_Pair] = []
    for name in expand_patterns(names or ["."]):
        if name == STDIN or is_address(name):
            raise InputError("only files in a git repository can be compared with a revision")
        repository = find_repository(Path(name))
        commit = commits.get(repository.root)
        if commit is None:
            commit = commits[repository.root] = repository.commit(revision, merge_base=merge_base)
        found = _below(name, commit) if os.path.isdir(name) else [name]  # noqa: PTH112  as in sources/git.py
        pairs += [_read(each, commit, vhost, profile, allow_unread=allow_unread) for each in found]
    if vhost is not None and not any(pair.topologies or pair.file.error for pair in pairs):
        raise InputError(f"no file that differs has a virtual host {vhost!r}")
    return _compare(pairs, seconds, progress)


def _below(folder: str, commit: Commit) -> Iterator[str]:
    """Yield the topology files below a folder that differ, but not the old name of one that was renamed."""
    renamed = frozenset(commit.renamed.values())
    for path in commit.differing(Path(folder)):
        if not may_be_topology(os.path.relpath(path, folder)) or path.is_symlink():
            continue  # a link may lead anywhere; a file in the repository that it leads to is listed itself
        name, relative = commit.repository.name_of(path), os.path.relpath(path)
        if (path.exists() or name not in renamed) and any(
            find_reason_to_skip(relative, content) is None for content in _contents(relative, name, commit)
        ):
            yield relative


def _contents(name: str, old_name: str, commit: Commit) -> Iterator[bytes]:
    """Yield what a file is now and what it was, if it can be read."""
    with suppress(InputError):
        if os.path.lexists(name):
            yield read_content(name)
    with suppress(InputError):
        content = commit.read(commit.renamed.get(old_name, old_name))
        if content is not None:
            yield content


def _read(name: str, commit: Commit, vhost: str | None, profile: Profile | str | None, *, allow_unread: bool) -> _Pair:
    """Return a file with its topologies before and after, of the virtual hosts that may differ."""
    label = commit.id[:7] if commit.id.startswith(commit.revision) else f"{commit.revision} ({commit.id[:7]})"
    path = commit.repository.name_of(Path(name))
    file = FileDiff(name, label, "changed", old_name=path)
    try:
        old = commit.read(path)
        if old is None and path in commit.renamed:
            file = replace(file, state="renamed", old_name=commit.renamed[path])
            old = commit.read(commit.renamed[path])
        new = read_content(name) if os.path.lexists(name) else None
        if old is None and new is None:
            raise InputError(f"{name}: there is no such file, neither now nor at {label}")
        if old is None:
            file = replace(file, state="new", old_name=None)
        elif new is None:
            file = replace(file, state="gone")
        elif old == new:
            return _Pair(file if file.state == "renamed" else replace(file, state="same"))
        before = None if old is None else read_source(old, f"{commit.revision}:{file.old_name}", vhost)
        after = None if new is None else read_source(new, name, vhost, path=name)
        before, after = (None if each is None else each.allowing_unread(allow_unread) for each in (before, after))
        topologies = tuple(_topologies(before, after, vhost, profile))
    except HashstarError as error:
        return _Pair(replace(file, error=error))
    several = any(source is not None and len(source.vhosts) > 1 for source in (before, after))
    named = () if profile else tuple(each.profile for each in (before, after) if each is not None)
    return _Pair(replace(file, several=several), topologies, named)


def _topologies(
    before: Source | None, after: Source | None, vhost: str | None, profile: Profile | str | None
) -> Iterator[tuple[Topology, Topology]]:
    """Yield the topologies of each virtual host that are not equal; one that is not there is empty."""
    sources = before, after
    named = {source.profile.written for source in sources if source is not None and source.profile is not None}
    is_unknown = any(source and source.profile and source.profile.caveat for source in sources)
    has_other_release = profile is None and len(named) > 1 and is_unknown
    rules = profile or next((source.profile for source in sources if source and source.profile), LATEST_PROFILE)
    for name in dict.fromkeys(name for source in sources if source is not None for name in source.vhosts):
        if vhost is None or name == vhost:
            old, new = (
                Topology(vhost=name, profile=rules)
                if source is None or name not in source.vhosts
                else source.routable(name, rules)
                for source in sources
            )
            if old != new or find_unread(old, new) or has_other_release:
                yield old, new


def _compare(pairs: Sequence[_Pair], seconds: float, progress: Callable[[int, int], None]) -> list[FileDiff]:
    end = time.monotonic() + seconds
    total = sum(len(pair.topologies) for pair in pairs)
    done = 0
    results: list[FileDiff] = []
    for file, topologies, named in pairs:
        vhosts: list[VhostDiff] = []
        for old, new in topologies:
            progress(done, total)
            # One that is hard to decide leaves time for the others.
            left = max(0.0, end - time.monotonic())
            result = diff(old, new, seconds=left * min(1.0, SHARE / (total - done)))
            vhosts.append(
                VhostDiff(
                    old.vhost, old.profile.name, result, caveats=list_caveats(*named, old.profile, rules=old.profile)
                )
            )
            done += 1
        results.append(replace(file, vhosts=tuple(vhosts)))
    return results
