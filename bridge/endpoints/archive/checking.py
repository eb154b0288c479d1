"""The checks of ``hashstar bridge check`` for archives. They only read: nothing is created, written or locked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bindings.archive.formats.detect import NO_COLUMNS, Archive, detect
from bindings.archive.mapping import FieldMapping
from bindings.archive.places import read_file_size
from bindings.sources.files import make_folders
from bridge.endpoint import Disconnected, Finding
from bridge.endpoints.archive.files import ArchiveFiles
from bridge.endpoints.archive.replay import ReplaySelection, Settled, name_within
from bridge.endpoints.archive.spool import DAMAGED, find_spools
from exchange.errors import InputError
from exchange.text.display import count_noun, list_some

ROOM: Final = 4
"""Number of full spools for which the disk should have room: some wait to become parts, and parts need room, too."""
MAX_LISTED_FILES: Final = 3
"""Maximum number of files that a finding names."""


def make_folder(root: Path) -> None:
    """Make a folder, unless it is there. Raises OSError; Disconnected if a file is there, or it may not be written."""
    try:
        make_folders(root)
    except (FileExistsError, NotADirectoryError):
        raise Disconnected(_explain_file(root)) from None
    except PermissionError:
        raise Disconnected(f"{root}: may not be made by this user") from None
    if not os.access(root, os.W_OK | os.X_OK):
        raise Disconnected(_explain_unwritable(root))


def check_target(root: Path, rotate_bytes: int) -> list[Finding]:
    """Check whether an archive can be written to a folder; ``rotate_bytes`` is the size of a full spool."""
    try:
        return _check_folder(root, rotate_bytes)
    except OSError as error:
        return [Finding("error", f"{root}: cannot be looked at: {error.strerror}", "url")]


def _check_folder(root: Path, rotate_bytes: int) -> list[Finding]:
    above = root
    while not os.path.lexists(above) and above != above.parent:
        above = above.parent
    is_there = above == root
    if not above.is_dir():
        return [Finding("error", _explain_file(root), "url")]
    if not os.access(above, os.W_OK | os.X_OK):
        problem = _explain_unwritable(root) if is_there else f"{root}: may not be made by this user in {above}"
        return [Finding("error", problem, "url")]
    findings = [Finding("ok", f"{root}: {'may be written to' if is_there else f'will be made in {above}'}", "url")]
    disk = os.statvfs(above)
    room = disk.f_bavail * disk.f_frsize
    if room < rotate_bytes * ROOM:
        findings.append(
            Finding(
                "warning",
                f"{root}: {room:,} bytes are free there, less than {ROOM} spools of {rotate_bytes:,} bytes "
                "(rotate_bytes): while the disk is full nothing is written",
                "url",
            )
        )
    else:
        findings.append(Finding("ok", f"{root}: {room:,} bytes are free there", "url"))
    if disk.f_files and not disk.f_favail:
        findings.append(Finding("error", f"{root}: its file system has no room for another file (inodes)", "url"))
    if is_there:
        findings += _check_spools(root)
    return findings


def _check_spools(root: Path) -> list[Finding]:
    """Return findings about spools that earlier runs left in the folder."""
    if not os.access(root, os.R_OK):
        return [
            Finding("error", f"{root}: may not be listed by this user, and spools are looked for at the start", "url")
        ]
    findings = []
    spools = find_spools(root)
    if spools:
        count = count_noun(len(spools), "spool")
        text = f"{root}: {count} of a bridge that runs or was killed; the next start makes parts of them"
        findings.append(Finding("ok", text, "url"))
    damaged = sorted(each.name for each in root.iterdir() if each.name.startswith(DAMAGED))
    if damaged:
        count, names = count_noun(len(damaged), "damaged spool"), list_some(damaged, MAX_LISTED_FILES)
        text = f"{root}: {count}, {names}: what is whole of them is in the archive; remove them"
        findings.append(Finding("warning", text, "url"))
    return findings


def check_source(path: str, selection: ReplaySelection, settled: Path | None, *, follow: bool) -> list[Finding]:
    """Check whether there is an archive at a path, and how far its replay is, which the file ``settled`` keeps."""
    findings = [*_check_archive(path, selection.mapping, follow), *_check_settled(settled, selection)]
    if settled is not None and not any(each.level == "error" for each in findings):
        findings += _check_changed(path, selection, settled)
    return findings


def _check_archive(path: str, mapping: FieldMapping, follow: bool) -> Sequence[Finding]:
    if not Path(path).exists():
        return [Finding("error", f"{path}: there is no such file or folder", "url")]
    try:
        archive = detect(path, mapping)
        size = sum(read_file_size(file) for file, _ in archive.files)
    except InputError as error:
        if follow and Path(path).is_dir() and not any(Path(path).iterdir()):
            return [Finding("ok", f"{path}: is empty so far", "url")]
        return [Finding.from_error(error, "url")]
    except OSError as error:
        return [Finding("error", f"{path}: cannot be read: {error.strerror}", "url")]
    counts = f"{count_noun(len(archive.files), 'file')}, {count_noun(size, 'byte')}"
    taken = f"; {note}" if (note := archive.taken) else ""
    findings = [Finding("ok", f"{path}: {', '.join(archive.formats)}; {counts}{taken}", "url"), *_check_files(archive)]
    if NO_COLUMNS in archive.unused:
        findings.append(Finding("warning", f"{path}: {NO_COLUMNS}", "columns"))
    return findings


def _check_files(archive: Archive) -> list[Finding]:
    closed = [file for file in [str(place) for place, _ in archive.files] if not os.access(file, os.R_OK)]
    if closed:
        text = f"{count_noun(len(closed), 'file')} may not be read by this user: {list_some(closed, MAX_LISTED_FILES)}"
        return [Finding("error", text, "url")]
    if archive.others:
        left_out = count_noun(len(archive.others), "file is no archive and is", "files are no archive and are")
        text = f"{left_out} left out: {list_some([*map(str, archive.others)], MAX_LISTED_FILES)}"
        return [Finding("warning", text, "url")]
    return []


def _check_settled(path: Path | None, selection: ReplaySelection) -> list[Finding]:
    if path is None:
        return [Finding("ok", "how far the replay is will not be kept: each run begins at the beginning", "state")]
    try:
        settled = Settled.read(path, selection)
    except InputError as error:
        return [Finding.from_error(error, "state")]
    if not (path.parent.is_dir() and os.access(path.parent, os.W_OK | os.X_OK)):
        return [Finding("error", f"{path}: how far the replay is cannot be kept there: no folder to write to", "state")]
    count = sum([records for records, _ in settled.files.values()])
    begins = f"continues after {count_noun(count, 'record')}" if settled.files else "begins at the beginning"
    return [Finding("ok", f"{path}: the replay {begins}", "state")]


def _check_changed(path: str, selection: ReplaySelection, settled: Path) -> list[Finding]:
    """Return which files are not those any more that were settled: they are read from their beginning."""
    known = list(Settled.read(settled, selection).files)
    files = [str(place) for place, _ in detect(path, selection.mapping).files]
    ArchiveFiles(known).look({name_within(path, file): file for file in files})
    changed = [each.name for each in known if each.is_gone]
    text = f"{settled}: replaced or cut since they were read: {list_some(changed, MAX_LISTED_FILES)}"
    return [Finding("warning", f"{text}: read from the beginning", "state")] if changed else []


def _explain_file(root: Path) -> str:
    return f"{root}: there is a file, where the archive's folder should be"


def _explain_unwritable(root: Path) -> str:
    return f"{root}: is read-only, or this user may not write to it"
