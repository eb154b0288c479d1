"""What `bridge check` looks at of archives, without a trace: nothing is made, written or locked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bindings.archive.formats.detect import Archive, detect
from bindings.archive.mapping import FieldMapping
from bindings.sources.files import make_folders
from bridge.endpoint import Disconnected, Finding
from bridge.endpoints.archive.replay import Settled
from bridge.endpoints.archive.spool import DAMAGED, spools_in
from exchange.errors import InputError

__all__ = ["check_source", "check_target", "make_folder"]

ROOM: Final = 4
"""Number of full spools for which there should be room: some wait to become parts, and parts are made beside them."""
NAMED: Final = 3
"""Maximum number of formats, or files, that a finding names."""


def make_folder(root: Path) -> None:
    """Make it, unless it is there. Raises OSError, or Disconnected if something else is there, or it is not ours."""
    try:
        make_folders(root)
    except (FileExistsError, NotADirectoryError):
        raise Disconnected(_in_the_way(root)) from None
    except PermissionError:
        raise Disconnected(f"{root}: may not be made by this user") from None
    if not os.access(root, os.W_OK | os.X_OK):
        raise Disconnected(_not_writable(root))


def check_target(root: Path, rotate_bytes: int) -> list[Finding]:
    """Whether an archive can be written to a folder; ``rotate_bytes`` is the size of a full spool."""
    try:
        return _target(root, rotate_bytes)
    except OSError as error:
        return [Finding("error", f"{root}: cannot be looked at: {error.strerror}", "url")]


def _target(root: Path, rotate_bytes: int) -> list[Finding]:
    there = root
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        return [Finding("error", _in_the_way(root), "url")]
    if not os.access(there, os.W_OK | os.X_OK):
        problem = _not_writable(root) if there == root else f"{root}: may not be made by this user in {there}"
        return [Finding("error", problem, "url")]
    found = [Finding("ok", f"{root}: {'may be written to' if there == root else f'will be made in {there}'}", "url")]
    disk = os.statvfs(there)
    room = disk.f_bavail * disk.f_frsize
    if room < rotate_bytes * ROOM:
        found.append(
            Finding(
                "warning",
                f"{root}: {room:,} bytes are free there, less than {ROOM} spools of {rotate_bytes:,} bytes "
                "(rotate_bytes): while the disk is full nothing is written",
                "url",
            )
        )
    else:
        found.append(Finding("ok", f"{root}: {room:,} bytes are free there", "url"))
    if disk.f_files and not disk.f_favail:
        found.append(Finding("error", f"{root}: its file system has no room for another file (inodes)", "url"))
    if there == root:
        found += _left_behind(root)
    return found


def _left_behind(root: Path) -> list[Finding]:
    """What earlier runs left in the folder."""
    if not os.access(root, os.R_OK):
        return [
            Finding("error", f"{root}: may not be listed by this user, and spools are looked for at the start", "url")
        ]
    found = []
    spools = spools_in(root)
    if spools:
        text = (
            f"{root}: {len(spools)} spool(s), of a bridge that runs or was killed; the next start makes parts of them"
        )
        found.append(Finding("ok", text, "url"))
    damaged = sorted(each.name for each in root.iterdir() if each.name.startswith(DAMAGED))
    if damaged:
        names = ", ".join(damaged[:NAMED])
        text = f"{root}: {len(damaged)} damaged spool(s), {names}: what is whole of them is in the archive; remove them"
        found.append(Finding("warning", text, "url"))
    return found


def check_source(path: str, mapping: FieldMapping, settled: Path | None, *, follow: bool) -> list[Finding]:
    """Whether there is an archive at a path, and how far the file ``settled`` says that a replay of it is."""
    return [*_archive(path, mapping, follow), *_settled(settled)]


def _archive(path: str, mapping: FieldMapping, follow: bool) -> Sequence[Finding]:
    if not Path(path).exists():
        return [Finding("error", f"{path}: there is no such file or folder", "url")]
    try:
        archive = detect(path, mapping)
        size = sum(Path(file).stat().st_size for file, _ in archive.files)
    except InputError as error:
        if follow and Path(path).is_dir() and not any(Path(path).iterdir()):
            return [Finding("ok", f"{path}: is empty so far", "url")]
        return [Finding("error", str(error), "url")]
    except OSError as error:
        return [Finding("error", f"{path}: cannot be read: {error.strerror}", "url")]
    counts = f"{len(archive.files):,} file(s), {size:,} bytes"
    return [Finding("ok", f"{path}: {', '.join(archive.names)}; {counts}", "url"), *_unreadable(archive)]


def _unreadable(archive: Archive) -> list[Finding]:
    closed = [file for file, _ in archive.files if not os.access(file, os.R_OK)]
    if closed:
        names = ", ".join(closed[:NAMED])
        return [Finding("error", f"{len(closed):,} file(s) may not be read by this user: {names}", "url")]
    if archive.others:
        names = ", ".join(archive.others[:NAMED])
        return [Finding("warning", f"{len(archive.others):,} file(s) are no archive and are left out: {names}", "url")]
    return []


def _settled(path: Path | None) -> list[Finding]:
    if path is None:
        return [Finding("ok", "how far the replay is will not be kept: each run begins at the beginning", "state")]
    try:
        settled = Settled.read(path)
    except InputError as error:
        return [Finding("error", str(error), "state")]
    if not (path.parent.is_dir() and os.access(path.parent, os.W_OK | os.X_OK)):
        return [Finding("error", f"{path}: how far the replay is cannot be kept there: no folder to write to", "state")]
    count = sum([records for records, _ in settled.files.values()])
    begins = f"goes on behind {count:,} records" if settled.files else "begins at the beginning"
    return [Finding("ok", f"{path}: the replay {begins}", "state")]


def _in_the_way(root: Path) -> str:
    return f"{root}: there is a file, where the archive's folder should be"


def _not_writable(root: Path) -> str:
    return f"{root}: may not be written to by this user"
