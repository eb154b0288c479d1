"""Record how far the files of a growing archive were read: as a series of steps that read each record exactly once.

A step is a list of splits, with the state of their files after these splits. It is written to disk before it is read,
and never changes, so a reader that fails reads the same splits again. A record whose end is not written yet is left for
a later step. Steps are small files under ``steps/``; steps that will not be read again are folded into one file,
``taken=<step>.json``. No clock is used.

Files are identified by name. The inode of each file and a hash of its first bytes are kept to distinguish

* a file that has grown: reading continues where it was complete;
* a file that was replaced by another: it is read from its beginning;
* a file that was renamed, as rotated logs are: reading continues under the new name;
* a file that is shorter than before, but begins the same: lost records stay counted, and added records are read.

The names of removed files are kept, so that their records are not counted again if the files come back.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from bindings.archive.formats.detect import detect, refuse_within
from bindings.archive.formats.lakes import find_table_kind, refuse_part
from bindings.archive.formats.recognition import list_formats
from bindings.archive.formats.spark_sink import SINK, list_committed_files
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.places import CATALOG, parse_address
from bindings.archive.reading import SPLIT_BYTES, CompletePart, Format, Split
from bindings.archive.rocketmq.store import find_log_folder, is_store
from bindings.sources.files import make_folders, open_file
from exchange.errors import InputError
from exchange.files.replacing import replace_file
from exchange.values.json_text import parse_leniently

T = TypeVar("T")

STEP_BYTES: Final = 4 << 30
"""Size from which a step is closed, in bytes of files; its last split may exceed it."""
HEAD_BYTES: Final = 1024
"""Maximum number of bytes at the beginning of a file whose hash identifies it."""
FOLDED: Final = 32
"""Minimum number of finished steps that are folded into one file."""


class Taken(NamedTuple):
    """The state of a file of which at least one split was taken."""

    format: str
    end: int
    """Position up to which the file was taken, in the units of its format."""
    size: int
    """Size in bytes when the file was examined; -1 if the next step takes more of it."""
    changed: int
    """Modification time in nanoseconds, by the file system."""
    inode: int
    head_bytes: int
    head: str
    """Hash of its first ``head_bytes``."""
    is_open: bool
    """Whether the file ended in what may be the beginning of a record."""


class MicroBatch(NamedTuple):
    """Splits that are read in one micro-batch."""

    splits: tuple[tuple[Format, Split], ...]
    notices: tuple[str, ...] = ()
    """Notices for users of the counts: files that were replaced, cut or renamed."""
    open_files: int = 0
    """Number of files that end in what may be the beginning of a record."""


class _File(NamedTuple):
    """A file of the archive, as it is on disk now."""

    path: str
    size: int
    changed: int
    inode: int


class Growth:
    """The steps of an archive, kept in a folder that only one process may use at a time.

    Raises InputError if the folder cannot be used.
    """

    def __init__(
        self, archive: str, folder: Path, mapping: FieldMapping = USUAL, step_bytes: int = STEP_BYTES,
        split_bytes: int = SPLIT_BYTES,
    ) -> None:  # fmt: skip
        if (stored := parse_address(archive)) is not None:
            raise InputError(f"{stored}: archives in stores are audited, but not followed")
        if archive.startswith(CATALOG):
            raise InputError(f"{archive}: tables of Iceberg are audited, but not followed: rows removed stay counted")
        refuse_within(folder, [archive], "the files of the state")
        self._root = Path(archive).absolute()
        self._folder = folder
        self._mapping = mapping
        self._formats = {form.name: form for form in list_formats(mapping)}
        self._step_bytes = step_bytes
        self._split_bytes = split_bytes
        self._not_yet: dict[str, tuple[int, int, bool]] = {}
        """File of which nothing could be taken -> its size, modification time, and whether its format is known."""
        self._reported: set[str] = set()
        """Notices that are already in a step of this process."""
        make_folders(folder / "steps")
        self.first, self._taken = self._load_folded()
        """``first`` is the number of the last folded step, 0 if there is none."""
        self.last = self.first
        """Number of the last step."""
        while (path := self._step_path(self.last + 1)).exists():
            self._take(_read(path, _parse_step_files))

    def look(self) -> int:
        """Write steps for what is new in the archive, and return the number of the last step.

        Raises InputError if the archive does not exist, or if another process also writes steps.
        """
        if not self._root.exists():
            raise InputError(f"{self._root}: there is no such file or folder")
        for step in self._new_steps():
            path = self._step_path(self.last + 1)
            try:
                write_whole(path, json.dumps(step).encode(), once=True)
            except FileExistsError:
                raise InputError(f"{self._folder}: something else follows this archive with the same state") from None
            self._take(_parse_step_files(step))
        return self.last

    def steps(self, after: int, last: int) -> list[MicroBatch]:
        """Return the steps from ``after`` + 1 to ``last``. Raises InputError if one of them is folded or lost."""
        return [_read(self._step_path(number), self._step_of) for number in range(after + 1, last + 1)]

    def forget(self, number: int) -> None:
        """Fold the steps up to this one, which will not be read again, if there are at least ``FOLDED``."""
        if number - self.first < FOLDED:
            return
        taken = self._load_folded()[1]
        for each in range(self.first + 1, number + 1):
            taken |= _read(self._step_path(each), _parse_step_files)
        write_whole(self._folder / f"taken={number:010}.json", json.dumps(taken).encode())
        self._tidy(number)
        self.first = number

    def _load_folded(self) -> tuple[int, dict[str, Taken]]:
        files = sorted(self._folder.glob("taken=*.json"))
        if not files:
            return 0, {}
        number = int(files[-1].stem.removeprefix("taken="))
        self._tidy(number)
        return number, _read(files[-1], _parse_taken)

    def _tidy(self, number: int) -> None:
        """Remove the files that are folded into ``taken=<number>.json``."""
        for path in self._folder.glob("taken=*.json"):
            if int(path.stem.removeprefix("taken=")) < number:
                path.unlink(missing_ok=True)
        for path in (self._folder / "steps").glob("*.json"):
            if int(path.stem) <= number:
                path.unlink(missing_ok=True)

    def _step_path(self, number: int) -> Path:
        return self._folder / "steps" / f"{number:010}.json"

    def _take(self, taken: dict[str, Taken]) -> None:
        self.last += 1
        self._taken |= taken

    def _step_of(self, step: dict[str, Any]) -> MicroBatch:
        splits = tuple(
            [
                (self._formats[form], Split(self._path_of(name), start, end, exact))
                for form, name, start, end, exact in step["splits"]
            ]
        )
        return MicroBatch(splits, tuple(step["notices"]), step["open_files"])

    def _path_of(self, name: str) -> str:
        return str(self._root / name) if name else str(self._root)

    def _new_steps(self) -> Iterator[dict[str, Any]]:
        """Yield the steps for what is new, each of about ``step_bytes``; the last step has the notices."""
        files: dict[str, Taken] = {}
        splits: list[tuple[str, str, int, int | None, bool]] = []
        notices: list[str] = []
        count = 0
        present = dict(_files(self._root))
        before = _Before(present, self._taken)
        for name, file in present.items():
            new = self._find_new(name, file, before, notices)
            if new is None:
                continue
            known, complete = new
            for n, split in enumerate(complete.splits):
                splits.append((known.format, name, split.start, split.end, split.exact))
                count += _bytes_of(split, file, complete, self._formats[known.format].grows)
                if count >= self._step_bytes and n + 1 < len(complete.splits):
                    files[name] = known._replace(end=complete.splits[n + 1].start, size=-1)
                    yield _step(files, splits)
                    files, splits, count = {}, [], 0
            files[name] = known
            if count >= self._step_bytes:
                yield _step(files, splits)
                files, splits, count = {}, [], 0
        notices = [notice for notice in notices if notice not in self._reported]
        self._reported.update(notices)
        if files or notices:
            known_files = self._taken | files
            open_files = sum([known_files[name].is_open for name in present if name in known_files])
            open_files += sum([is_archive for name, (_, _, is_archive) in self._not_yet.items() if name in present])
            yield _step(files, splits, notices, open_files)

    def _find_new(
        self, name: str, file: _File, before: _Before, notices: list[str]
    ) -> tuple[Taken, CompletePart] | None:
        """Return the state of a file after this step, and its new splits; None if nothing is new."""
        known = self._taken.get(name)
        if known is None:
            known = self._under_old_name(name, file, before, notices)
        elif (file.size, file.changed, file.inode) != (known.size, known.changed, known.inode):
            known = self._if_same_file(known, file, before, notices)
        elif not self._formats[known.format].in_place or known.end >= file.size:
            return None
        if known is None and self._not_yet.get(name, ())[:2] == (file.size, file.changed):
            return None
        form = self._formats[known.format] if known is not None else self._form_of(file.path)
        if form is None:
            self._not_yet[name] = (file.size, file.changed, False)
            return None
        start = 0 if known is None else known.end
        try:
            complete = form.plan_complete(file.path, start, self._split_bytes)
        except InputError as error:
            notices.append(str(error))
            complete = CompletePart([], start, is_open=True)
        if not complete.end:
            if not form.in_place:
                self._not_yet[name] = (file.size, file.changed, True)
            return None
        self._not_yet.pop(name, None)
        head_bytes = min(HEAD_BYTES, file.size, complete.end if form.grows else file.size)
        head = _head(file.path, head_bytes)
        new = Taken(form.name, complete.end, file.size, file.changed, file.inode, head_bytes, head, complete.is_open)
        return None if new == self._taken.get(name) else (new, complete)

    def _form_of(self, path: str) -> Format | None:
        try:
            ((_, form),) = detect(path, self._mapping).files
        except InputError:
            return None
        return form

    def _if_same_file(self, known: Taken, file: _File, before: _Before, notices: list[str]) -> Taken | None:
        """Return the known state of a file that has changed; None if another file has replaced it."""
        has_moved = known.inode != file.inode and known.inode in before.inodes
        if has_moved or file.size < known.head_bytes or _head(file.path, known.head_bytes) != known.head:
            notices.append(f"{file.path}: another file is in its place, which is read from its beginning")
            return None
        if file.size < known.size:
            lost = known.size - file.size
            notices.append(f"{file.path}: it is {lost} bytes shorter than it was; what it lost stays counted")
            if self._formats[known.format].grows:
                return known._replace(end=min(known.end, file.size))
        return known

    def _under_old_name(self, name: str, file: _File, before: _Before, notices: list[str]) -> Taken | None:
        """Return the known state of a renamed file under its old name; None if it was not renamed."""
        for old, known in before.by_inode.get(file.inode, ()):
            has_moved = old not in before.present or before.present[old].inode != file.inode
            if has_moved and file.size >= known.size and _head(file.path, known.head_bytes) == known.head:
                notices.append(f"{file.path}: it was called {self._path_of(old)}, and is read on")
                return known
        return None


class _Before:
    """The files that are present now, and the known states of files by inode."""

    def __init__(self, present: dict[str, _File], known: dict[str, Taken]) -> None:
        self.present = present
        self.inodes = {file.inode for file in present.values()}
        self.by_inode: dict[int, list[tuple[str, Taken]]] = {}
        for name, taken in known.items():
            if taken.head_bytes:
                self.by_inode.setdefault(taken.inode, []).append((name, taken))


def write_whole(path: Path, data: bytes, *, once: bool = False) -> None:
    """Write a file atomically; with ``once``, raise FileExistsError if it exists already."""
    if not once:
        with replace_file(path) as file:
            file.write(data)
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.once")
    try:
        with replace_file(partial) as file:
            file.write(data)
        os.link(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _step(
    files: dict[str, Taken], splits: list[tuple[str, str, int, int | None, bool]],
    notices: list[str] | None = None, open_files: int = 0,
) -> dict[str, Any]:  # fmt: skip
    return {"files": files, "splits": splits, "notices": notices or [], "open_files": open_files}


def _parse_step_files(step: dict[str, Any]) -> dict[str, Taken]:
    return _parse_taken(step["files"])


def _parse_taken(files: dict[str, Any]) -> dict[str, Taken]:
    return {name: Taken(*fields) for name, fields in files.items()}


def _read(path: Path, of: Callable[[dict[str, Any]], T]) -> T:
    """Read a JSON file of the state, and return ``of`` of its value. Raises InputError for a damaged file."""
    lost = "and without it what was counted is not known"
    try:
        with open_file(path) as file:
            return of(parse_leniently(file.read()))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read, {lost}: {error}") from None
    except (AttributeError, KeyError, TypeError):
        raise InputError(f"{path}: damaged, {lost}; give a new folder for the state") from None


def _files(root: Path) -> Iterator[tuple[str, _File]]:
    """Yield name and file for the files of an archive, in order; names are relative, "" if the archive is one file."""
    if root.is_file():
        yield "", _file(str(root), root.stat())
        return
    refuse_part(root)
    yield from _files_below(str(root), "")


def _files_below(folder: str, prefix: str) -> Iterator[tuple[str, _File]]:
    if is_store(folder):
        folder, prefix = find_log_folder(folder), f"{prefix}commitlog/"
        if not Path(folder).is_dir():
            return
    kind = find_table_kind(Path(folder))
    if kind == SINK:  # which only adds
        for name in list_committed_files(Path(folder)):
            path = Path(folder, name)
            with suppress(FileNotFoundError):  # removed since, by hand
                yield prefix + name, _file(str(path), path.stat())
        return
    if kind:
        raise InputError(f"{folder}: tables of {kind} are audited, but not followed: rows removed later would count")
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        if entry.name[0] in "._":
            continue
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path, f"{prefix}{entry.name}/")
            elif entry.is_file():
                yield prefix + entry.name, _file(entry.path, entry.stat())
        except FileNotFoundError:  # removed since it was listed
            continue


def _file(path: str, stat: os.stat_result) -> _File:
    return _File(path, stat.st_size, stat.st_mtime_ns, stat.st_ino)


def _bytes_of(split: Split, file: _File, complete: CompletePart, grows: bool) -> int:
    """Return the approximate size of a split, in bytes."""
    if grows and split.end is not None:
        return split.end - split.start
    return file.size // len(complete.splits)


def _head(path: str, count: int) -> str:
    try:
        with open_file(path) as file:
            return hashlib.sha256(file.read(count)).hexdigest()[:32]
    except OSError:
        return ""
