"""The files of an archive that grows or changes: which of them are known, whatever they are called now.

A name may become another file's, as when logs are rotated. How far a file was read counts for that file, and not for
the next one of its name: else as many records of that one would be left out. Files grow at their ends only, so one is
known by its beginning, its size, and its number on its file system (`Fingerprint`).

==========================================  ========================================================================
a path has                                  what is there
==========================================  ========================================================================
a file as it was, or grown                  the file that is known by this name
the file that had another name              that one: it was moved, as by ``logrotate``; it is read on before others, as
                                            what is left of it is older
anything else                               another file, which is read from its beginning: it was replaced, or
                                            truncated and written anew
==========================================  ========================================================================
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from bindings.sources.files import open_file

LOG: Final = logging.getLogger(__name__)

BEGINNING: Final = 4 << 10
"""Maximum size of the beginning by which a file is known, in bytes."""


class Fingerprint(NamedTuple):
    """What distinguishes a file from others, and stays when it grows; of one that was never looked at, nothing."""

    size: int = 0
    """Size of the file, in bytes."""
    inode: int = 0
    length: int = 0
    """Size of its beginning, in bytes."""
    digest: str = ""
    """Digest of that."""

    @classmethod
    def take(cls, path: str, state: os.stat_result) -> tuple[Fingerprint, bytes]:
        """Return the fingerprint of a file, and its beginning. Raises OSError.

        Zeros do not count at the end of the beginning: some files are allocated before they are written.
        """
        with open_file(path) as file:
            beginning = bytes(file.read(BEGINNING)).rstrip(b"\0")
        return cls(state.st_size, state.st_ino, len(beginning), _digest(beginning)), beginning

    def may_have_become(self, other: Fingerprint, beginning: bytes) -> bool:
        """Return whether a file may be this one, grown or not; ``beginning`` is that of the ``other`` fingerprint."""
        return other.size >= self.size and (not self.length or _digest(beginning[: self.length]) == self.digest)


NEVER_SEEN: Final = Fingerprint()
"""Fingerprint that any file may have."""


@dataclass(slots=True, eq=False)
class ArchiveFile:
    """A file of an archive, which may be moved. One that takes its name is another."""

    name: str
    """Its present path, relative to the archive."""
    fingerprint: Fingerprint = NEVER_SEEN
    is_gone: bool = False
    """Whether its name is another's now, and it has none: nothing needs to be kept of it."""


class RecordPosition(NamedTuple):
    """Where a delivery of an archive is."""

    given: int
    """Its number among the deliveries of its lane, from 1."""
    file: ArchiveFile
    number: int
    """Number of the record in the file, from 0."""


class ArchiveFiles:
    """The files of an archive, as they were at the last look."""

    def __init__(self, known: Iterable[ArchiveFile]) -> None:
        self._files = {each.name: each for each in known}
        self._states: dict[str, os.stat_result] = {}
        """Name -> the state at the last look."""

    @property
    def size(self) -> int:
        """Size of all files, in bytes."""
        return sum([state.st_size for state in list(self._states.values())])

    def look(self, paths: Mapping[str, str]) -> list[ArchiveFile]:
        """Return the files at names, those that were moved first. ``paths`` maps names to paths. Raises OSError."""
        before, self._states = self._states, {name: Path(path).stat() for name, path in paths.items()}
        changed = {
            name: Fingerprint.take(paths[name], state)
            for name, state in self._states.items()
            if not _is_same(before.get(name), state)
        }
        others = {}  # name -> what is there, if it is not the file that is known by this name
        for name, (now, beginning) in changed.items():
            file = self._files.get(name)
            if file is not None and file.fingerprint.may_have_become(now, beginning):
                file.fingerprint = now
            else:
                others[name] = now, beginning
        moved = self._place(others, paths)
        return [*moved, *[file for name in paths if (file := self._files[name]) not in moved]]

    def _place(self, others: Mapping[str, tuple[Fingerprint, bytes]], paths: Mapping[str, str]) -> list[ArchiveFile]:
        """Give names to moved and to new files, and return the moved ones."""
        lost = [file for name, file in self._files.items() if name in others or name not in paths]
        by_inode = {file.fingerprint.inode: file for file in lost if file.fingerprint.length}
        moved = {}
        for name, (now, beginning) in others.items():
            file = by_inode.get(now.inode)
            if file is not None and file.fingerprint.may_have_become(now, beginning):
                moved[name] = file
                del by_inode[now.inode]
        for file in moved.values():
            del self._files[file.name]
        for name, (now, _) in others.items():
            displaced, file = self._files.get(name), moved.get(name) or ArchiveFile(name)
            if displaced is not None:
                displaced.is_gone = True
                LOG.warning("%s: is not the file that it was: it is read from its beginning", paths[name])
            file.name, file.fingerprint, self._files[name] = name, now, file
        return list(moved.values())


def _is_same(before: os.stat_result | None, now: os.stat_result) -> bool:
    """Return whether nothing was written to a file, or put in its place, between two looks."""
    same = ("st_ino", "st_size", "st_mtime_ns")
    return before is not None and all(getattr(before, each) == getattr(now, each) for each in same)


def _digest(beginning: bytes) -> str:
    return blake2b(beginning, digest_size=16).hexdigest()
