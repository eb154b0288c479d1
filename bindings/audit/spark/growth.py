"""How far the files of a growing archive were taken: steps, one after another, that together take each record once.

A step is a list of splits, and what is known of the files when they are read. It is written down before anybody reads
it, and never changes after that, so a reader that fails reads the same again. A record whose end is not there yet is
left for a later step. Steps are small files under ``steps/``; those that nobody will ask for again are folded into one
file, ``taken=<step>.json``. Nobody's clock is asked.

Files are known by their names. Of each it is kept how it began and its inode, to tell apart

* one that has grown: read on where it was complete;
* one that another has taken the place of: read from its beginning;
* one that has got another name, as logs do that are rotated: read on under that name;
* one that is shorter than it was, but begins the same: what it lost stays counted, and what is added is read.

Names of files that are gone are kept, lest they be counted again when they come back.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from bindings.archive.formats.detect import detect, list_formats
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.reading import SPLIT_BYTES, CompletePart, Format, Split
from bindings.archive.rocketmq.store import find_log_folder, is_store
from bindings.sources.files import make_folders, replacing
from exchange.errors import InputError

__all__ = ["STEP_BYTES", "Growth", "Step", "write_whole"]

T = TypeVar("T")

STEP_BYTES: Final = 4 << 30
"""What a step takes of files at most, but for one split that is larger."""
HEAD_BYTES: Final = 1024
FOLDED: Final = 32
"""Steps that are no longer needed are folded when there are so many."""


class Taken(NamedTuple):
    """What is known of a file of which something was taken."""

    format: str
    end: int
    """How far, in the units of its format."""
    size: int
    """In bytes, when it was looked at; -1 when more of it is to be taken at once."""
    changed: int
    """When, in nanoseconds, as its file system says."""
    inode: int
    head_bytes: int
    head: str
    """A hash of how it began, of so many bytes."""
    is_open: bool
    """Whether it ended in what may be the beginning of a record."""


class Step(NamedTuple):
    """What is taken together."""

    splits: tuple[tuple[Format, Split], ...]
    notices: tuple[str, ...] = ()
    """What was met that a reader of the numbers should know."""
    open_files: int = 0
    """Files that ended in what may be the beginning of a record."""


class _Found(NamedTuple):
    """A file of the archive."""

    path: str
    size: int
    changed: int
    inode: int


class Growth:
    """The steps of an archive, kept in a folder. Only one may look at a time.

    Raises InputError when the folder cannot be used.
    """

    def __init__(
        self, archive: str, folder: Path, mapping: FieldMapping = USUAL, step_bytes: int = STEP_BYTES,
        split_bytes: int = SPLIT_BYTES,
    ) -> None:  # fmt: skip
        self._root = Path(archive).absolute()
        self._folder = folder
        self._mapping = mapping
        self._formats = {form.name: form for form in list_formats(mapping)}
        self._step_bytes = step_bytes
        self._split_bytes = split_bytes
        self._not_yet: dict[str, tuple[int, int, bool]] = {}
        """Files of which nothing could be taken -> their size and time, and whether they are of a known format."""
        self._told: set[str] = set()
        make_folders(folder / "steps")
        self.first, self._taken = self._folded()
        """The last step that is folded."""
        self.last = self.first
        """The last step there is."""
        while (path := self._step_path(self.last + 1)).exists():
            self._take(_read(path, _taken_in))

    def look(self) -> int:
        """The number of the last step there is, after steps were made of what is new in the archive.

        Raises InputError if the archive is not there, or somebody else makes steps too.
        """
        if not self._root.exists():
            raise InputError(f"{self._root}: there is no such file or folder")
        for step in self._new_steps():
            path = self._step_path(self.last + 1)
            try:
                write_whole(path, json.dumps(step).encode(), once=True)
            except FileExistsError:
                raise InputError(f"{self._folder}: something else follows this archive with the same state") from None
            self._take(_taken_in(step))
        return self.last

    def steps(self, after: int, last: int) -> list[Step]:
        """The steps behind one, up to another. Raises InputError if one of them is not there any more."""
        return [_read(self._step_path(number), self._step_of) for number in range(after + 1, last + 1)]

    def forget(self, number: int) -> None:
        """Nobody will ask for the steps up to this one again."""
        if number - self.first < FOLDED:
            return
        taken = self._folded()[1]
        for each in range(self.first + 1, number + 1):
            taken |= _read(self._step_path(each), _taken_in)
        write_whole(self._folder / f"taken={number:010}.json", json.dumps(taken).encode())
        self._tidy(number)
        self.first = number

    def _folded(self) -> tuple[int, dict[str, Taken]]:
        found = sorted(self._folder.glob("taken=*.json"))
        if not found:
            return 0, {}
        number = int(found[-1].stem.removeprefix("taken="))
        self._tidy(number)
        return number, _read(found[-1], _taken_of)

    def _tidy(self, number: int) -> None:
        """Remove what is in the folded file of this step."""
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

    def _step_of(self, step: dict[str, Any]) -> Step:
        splits = tuple(
            [
                (self._formats[form], Split(self._path_of(name), start, end, exact))
                for form, name, start, end, exact in step["splits"]
            ]
        )
        return Step(splits, tuple(step["notices"]), step["open_files"])

    def _path_of(self, name: str) -> str:
        return str(self._root / name) if name else str(self._root)

    def _new_steps(self) -> Iterator[dict[str, Any]]:
        """Steps of what is new, each of about ``step_bytes``; the last tells what was met on the way."""
        files: dict[str, Taken] = {}
        splits: list[tuple[str, str, int, int | None, bool]] = []
        notices: list[str] = []
        count = 0
        found = dict(_files(self._root))
        looked = _Look(found, self._taken)
        for name, file in found.items():
            new = self._settled(name, file, looked, notices)
            if new is None:
                continue
            known, settled = new
            for n, split in enumerate(settled.splits):
                splits.append((known.format, name, split.start, split.end, split.exact))
                count += _bytes_of(split, file, settled, self._formats[known.format].grows)
                if count >= self._step_bytes and n + 1 < len(settled.splits):
                    files[name] = known._replace(end=settled.splits[n + 1].start, size=-1)
                    yield _step(files, splits)
                    files, splits, count = {}, [], 0
            files[name] = known
            if count >= self._step_bytes:
                yield _step(files, splits)
                files, splits, count = {}, [], 0
        notices = [notice for notice in notices if notice not in self._told]
        self._told.update(notices)
        if files or notices:
            there = self._taken | files
            open_files = sum([there[name].is_open for name in found if name in there])
            open_files += sum([is_archive for name, (_, _, is_archive) in self._not_yet.items() if name in found])
            yield _step(files, splits, notices, open_files)

    def _settled(self, name: str, file: _Found, looked: _Look, notices: list[str]) -> tuple[Taken, CompletePart] | None:
        """What is new in a file and what is to be known of it then, or None if there is nothing to know."""
        known = self._taken.get(name)
        if known is None:
            known = self._renamed(name, file, looked, notices)
        elif (file.size, file.changed, file.inode) != (known.size, known.changed, known.inode):
            known = self._compared(known, file, looked, notices)
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
            settled = form.plan_complete(file.path, start, self._split_bytes)
        except InputError as error:
            notices.append(str(error))
            settled = CompletePart([], start, is_open=True)
        if not settled.end:
            if not form.in_place:
                self._not_yet[name] = (file.size, file.changed, True)
            return None
        self._not_yet.pop(name, None)
        head_bytes = min(HEAD_BYTES, file.size, settled.end if form.grows else file.size)
        head = _head(file.path, head_bytes)
        new = Taken(form.name, settled.end, file.size, file.changed, file.inode, head_bytes, head, settled.is_open)
        return None if new == self._taken.get(name) else (new, settled)

    def _form_of(self, path: str) -> Format | None:
        try:
            ((_, form),) = detect(path, self._mapping).files
        except InputError:
            return None
        return form

    def _compared(self, known: Taken, file: _Found, looked: _Look, notices: list[str]) -> Taken | None:
        """What is known of a file that has changed: nothing, if another is in its place."""
        has_moved = known.inode != file.inode and known.inode in looked.inodes
        if has_moved or file.size < known.head_bytes or _head(file.path, known.head_bytes) != known.head:
            notices.append(f"{file.path}: another file is in its place, which is read from its beginning")
            return None
        if file.size < known.size:
            lost = known.size - file.size
            notices.append(f"{file.path}: it is {lost} bytes shorter than it was; what it lost stays counted")
            if self._formats[known.format].grows:
                return known._replace(end=min(known.end, file.size))
        return known

    def _renamed(self, name: str, file: _Found, looked: _Look, notices: list[str]) -> Taken | None:
        """What is known of a file under the name that it had before, if it had one."""
        for old, known in looked.by_inode.get(file.inode, ()):
            has_moved = old not in looked.found or looked.found[old].inode != file.inode
            if has_moved and file.size >= known.size and _head(file.path, known.head_bytes) == known.head:
                notices.append(f"{file.path}: it was called {self._path_of(old)}, and is read on")
                return known
        return None


class _Look:
    """What is there when one looks, and what was known before."""

    def __init__(self, found: dict[str, _Found], known: dict[str, Taken]) -> None:
        self.found = found
        self.inodes = {file.inode for file in found.values()}
        self.by_inode: dict[int, list[tuple[str, Taken]]] = {}
        for name, taken in known.items():
            if taken.head_bytes:
                self.by_inode.setdefault(taken.inode, []).append((name, taken))


def write_whole(path: Path, data: bytes, *, once: bool = False) -> None:
    """Write a file that is there with all its bytes or not at all; ``once`` raises FileExistsError if it is there."""
    if not once:
        with replacing(path) as file:
            file.write(data)
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.once")
    try:
        with replacing(partial) as file:
            file.write(data)
        os.link(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _step(
    files: dict[str, Taken], splits: list[tuple[str, str, int, int | None, bool]],
    notices: list[str] | None = None, open_files: int = 0,
) -> dict[str, Any]:  # fmt: skip
    return {"files": files, "splits": splits, "notices": notices or [], "open_files": open_files}


def _taken_in(step: dict[str, Any]) -> dict[str, Taken]:
    return _taken_of(step["files"])


def _taken_of(files: dict[str, Any]) -> dict[str, Taken]:
    return {name: Taken(*fields) for name, fields in files.items()}


def _read(path: Path, of: Callable[[dict[str, Any]], T]) -> T:
    """Return what is made of a file of the state. Raises InputError for one that is not as it was written."""
    lost = "and without it nobody knows what was counted"
    try:
        return of(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read, {lost}: {error}") from None
    except (AttributeError, KeyError, TypeError):
        raise InputError(f"{path}: damaged, {lost}; give a new folder for the state") from None


def _files(root: Path) -> Iterator[tuple[str, _Found]]:
    """Return the files of an archive with their names in it, in order: an argument of `formats.detect.detect`."""
    if root.is_file():
        yield "", _found(str(root), root.stat())
        return
    yield from _files_below(str(root), "")


def _files_below(folder: str, prefix: str) -> Iterator[tuple[str, _Found]]:
    if is_store(folder):
        folder, prefix = find_log_folder(folder), f"{prefix}commitlog/"
        if not Path(folder).is_dir():
            return
    with os.scandir(folder) as entries:
        there = sorted(entries, key=lambda entry: entry.name)
    for entry in there:
        if entry.name[0] in "._":
            continue
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path, f"{prefix}{entry.name}/")
            elif entry.is_file():
                yield prefix + entry.name, _found(entry.path, entry.stat())
        except FileNotFoundError:  # it has gone since
            continue


def _found(path: str, stat: os.stat_result) -> _Found:
    return _Found(path, stat.st_size, stat.st_mtime_ns, stat.st_ino)


def _bytes_of(split: Split, file: _Found, settled: CompletePart, grows: bool) -> int:
    """About how many bytes a split has."""
    if grows and split.end is not None:
        return split.end - split.start
    return file.size // len(settled.splits)


def _head(path: str, count: int) -> str:
    try:
        with Path(path).open("rb") as file:
            return hashlib.sha256(file.read(count)).hexdigest()[:32]
    except OSError:
        return ""
