"""What of a folder outlives a loss of power: bytes that were synced, in files whose names were synced with the folder.

What was removed stays removed, and what was renamed without a sync is gone: the worst that a file system may do.
"""

from __future__ import annotations

import os
from pathlib import Path


class Disk:
    """Takes note of what is synced. Nothing reaches a real disk."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        """Inode of a file -> number of its bytes that are synced."""
        self._names: dict[Path, frozenset[str]] = {}
        """Folder -> names in it that are synced."""

    def sync(self, file: int) -> None:
        """Sync a file, as ``os.fsync`` does."""
        state = os.fstat(file)
        self._sizes[state.st_ino] = state.st_size

    def sync_folder(self, folder: Path) -> None:
        """Sync the names in a folder."""
        self._names[folder] = frozenset([each.name for each in folder.iterdir()])

    def lose_power(self, root: Path) -> None:
        """Leave of all below a folder, which itself is safe, what is synced."""
        for path in sorted(root.rglob("*")):
            if path.is_file():
                if not self._has_name(path, root):
                    path.unlink()
                elif path.stat().st_size > (synced := self._sizes.get(path.stat().st_ino, 0)):
                    os.truncate(path, synced)

    def _has_name(self, path: Path, root: Path) -> bool:
        above = [each for each in path.parents if each.is_relative_to(root) and each != root]
        return all(each.name in self._names.get(each.parent, ()) for each in (path, *above))
