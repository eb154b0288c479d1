"""Detect the archive at a path: its files with their formats, by content, or by name if the content is damaged.

`bindings.archive.formats.recognition` says which format a file has. A folder is an archive of all files below it. Files
that are no archive count as bad, unless they are empty, or known companions of archives (indexes, side files), or their
names begin with ``.`` or ``_``. In the store of a RocketMQ broker the commit log is the archive.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import lru_cache
from itertools import pairwise, repeat
from pathlib import Path
from typing import Final, NamedTuple

from bindings.archive.columns import NEEDED, TAKEN, explain_absent, explain_missing, find_first_name
from bindings.archive.formats.connect import Connect
from bindings.archive.formats.lakes import (
    HIDDEN,
    TABLE_FOLDERS,
    explain_address,
    list_catalog_files,
    list_stored_files,
    list_table_files,
    refuse_matched,
)
from bindings.archive.formats.mapped_lines import KafkaLines, MappedLines
from bindings.archive.formats.recognition import (
    FORMATS,
    NO_ARCHIVE,
    Recognise,
    Undetected,
    list_formats,
    recognise_format,
)
from bindings.archive.kafka.segment import KafkaSegment
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.places import CATALOG, Place, RemoteFile, parse_address, read_file_size, show_place, to_path
from bindings.archive.reading import SPLIT_BYTES, Bias, Format, NoArchive, Split
from bindings.archive.rocketmq.log import RocketmqLog
from bindings.archive.rocketmq.store import STORE_FOLDERS, find_log_folder, is_store
from bindings.archive.sums import Detected, FileKind, split_path
from bindings.sources.files import NO_FILE
from bindings.sources.glob_pattern import expand_pattern, is_pattern
from exchange.errors import InputError

MOST_DETECTED: Final = 64
"""Maximum number of files of a folder that are all looked at before an audit; of more, most when they are read."""
EMPTY_GZIP_BYTES: Final = 512
"""Maximum size of a gzipped file that may hold nothing, and is no file of an archive then."""
STORE_CALLS: Final = 16
"""Number of files of a store that are looked at at a time: each costs a few requests."""
NO_RECORDS: Final = "the places of exchange and routing key are for records of Kafka and RocketMQ, and it has none"
NO_COLUMNS: Final = "columns are named, and it is read by its own names"
RECORDS: Final = (Connect, RocketmqLog, KafkaSegment, KafkaLines)
"""Formats of records whose exchange and routing key a mapping places."""


NOTHING_THERE: Final = "there is nothing in it, or nothing but empty files"


class EmptyArchive(InputError):
    """An archive without a file that has content, where one is needed to know its format."""


class ArchiveContents(NamedTuple):
    """What a report says of the files of an archive, in the order of the first file of each."""

    formats: tuple[str, ...]
    files: int
    """Number of files of these formats."""
    biases: tuple[Bias, ...]
    notes: tuple[str, ...]
    others: tuple[str, ...]
    """Files of no known format."""
    kinds: tuple[tuple[str, FileKind], ...]
    """Each file that was looked at before it was read, and what it is."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The files at a path: those of a known format, and the others."""

    path: str
    files: tuple[tuple[Place, Format], ...]
    others: tuple[Place, ...] = ()
    """Files of no known format."""
    repeated: int = 0
    """Number of paths that are left out because they lead to a file that the archive has under another path."""
    unused: tuple[str, ...] = ()
    """What a mapping of fields says that decides nothing here: `NO_RECORDS`, `NO_COLUMNS`."""

    @property
    def all_files(self) -> tuple[tuple[Place, Format], ...]:
        """All files with their formats: a file of no known format is read as one bad record."""
        return (*self.files, *[(path, NO_ARCHIVE) for path in self.others])

    @property
    def formats(self) -> tuple[str, ...]:
        """Names of the formats of the files."""
        return tuple(dict.fromkeys([form.name for _, form in self.files]))

    @property
    def repeated_note(self) -> str:
        """What users are shown of `repeated`; "" if there are no such paths."""
        files = "files that are there under a second path or by a link, and are read once"
        return f"{files}: {self.repeated:,}" if self.repeated else ""

    @property
    def taken(self) -> str:
        """Which columns of the first file are which fields; "" if it is not read by columns. All would open each."""
        notes = [form.note_of(path) for path, form in self.files[:1]]
        return "".join([note for note in notes if note.startswith(TAKEN)])

    def list_contents(self, detected: Detected | None = None) -> ArchiveContents:
        """Return what a report says of the files, given those that were looked at when they were read.

        It opens each other file, so ask once.
        """
        detected = detected or Detected()
        is_late = any(isinstance(form, Undetected) for _, form in self.files)
        shown = {make_absolute(path): str(path) for path, _ in self.files} if is_late else {}
        looked_at = tuple(
            (str(path), FileKind(self.path, form.name, form.bias_of(path).name, form.note_of(path)))
            for path, form in self.files
            if not isinstance(form, Undetected)
        )
        files = [(path, kind, 1) for path, kind in looked_at]
        files += [
            (shown.get(path, path), kind, number)
            for kind, (number, path) in detected.kinds.items()
            if kind.archive == self.path
        ]
        kinds = [kind for _, kind, _ in sorted(files, key=lambda each: split_path(each[0]))]
        others = [shown.get(path, path) for archive, path in detected.others if archive == self.path]
        notes = filter(None, [*[kind.note for kind in kinds], *self.unused, self.repeated_note])
        return ArchiveContents(
            tuple(dict.fromkeys([kind.format for kind in kinds])),
            sum([number for _, _, number in files]),
            tuple(dict.fromkeys([Bias[kind.bias] for kind in kinds])),
            tuple(dict.fromkeys(notes)),
            tuple(sorted([*map(str, self.others), *others], key=split_path)),
            looked_at,
        )

    def plan(self, split_bytes: int = SPLIT_BYTES) -> list[tuple[Format, Split]]:
        """Return all splits, each with its format. Raises InputError for a file that cannot be opened."""
        return [(form, split) for path, form in self.all_files for split in form.plan(path, split_bytes)]


def detect(
    path: str, mapping: FieldMapping | None = None, recognise: Recognise = recognise_format, *, late: bool = False
) -> Archive:
    """Return the archive at a path or the address of a store: a file, a folder, or those of a glob pattern.

    ``mapping`` is for records of Kafka and RocketMQ, and for columns of other programs. ``recognise`` may know
    formats of files without reading them. With ``late``, of many files the first is looked at, and each other one when
    it is read, if the user maps no fields: their format is `Undetected`.

    Raises InputError, with what is there instead, if there is no archive, or if a file or folder cannot be read.
    """
    try:
        known = FORMATS if mapping is None else list_formats(mapping)
        archive = _detect(path, known, recognise, late=late and mapping in (None, USUAL))
        return archive if mapping is None else replace(archive, unused=(*_list_unused(archive, mapping),))
    except OSError as error:
        raise InputError(f"{error.filename or show_place(path)}: cannot be read: {error.strerror}") from None


def _list_unused(archive: Archive, mapping: FieldMapping) -> Iterator[str]:
    """Yield what a mapping says in vain; a file of each format is opened where it names columns."""
    files = {form: path for path, form in reversed(archive.files)}
    places = mapping.exchange, mapping.routing_key
    if places != (USUAL.exchange, USUAL.routing_key) and not any(isinstance(form, RECORDS) for form in files):
        yield NO_RECORDS
    if mapping.columns and not any(form.note_of(path).startswith(TAKEN) for form, path in files.items()):
        yield NO_COLUMNS


def refuse_within(path: Path, archives: Iterable[str], what: str) -> None:
    """Raise InputError if a file that is written, or those of a folder, would be files of one of these archives.

    ``archives`` are files, folders and patterns, and ``what`` is what is written, in the plural.
    """
    there = path.resolve()
    for archive in archives:
        root = Path(archive)
        if root.is_dir():
            top = root.resolve()
            inside = there.is_relative_to(top) and not any(name[0] in HIDDEN for name in there.relative_to(top).parts)
        else:
            written = map(str, (there, there / "file"))
            inside = is_pattern(archive) and any(fnmatch(each, str(root.absolute())) for each in written)
        if inside:
            raise InputError(f"{path}: {what} would be read as part of {archive}; give a place outside of it")


def _detect(path: str, known: Sequence[Format], recognise: Recognise, *, late: bool) -> Archive:
    folder = parse_address(path)
    if folder is not None:
        stored = list_stored_files(folder, is_folder=path.partition("?")[0].endswith("/"))
        is_whole = [each.path for each in stored] != [folder.path]
        return _detect_files(str(folder), stored, known, recognise, is_whole=is_whole, late=late)
    if path.startswith(CATALOG):
        path, listed = list_catalog_files(path)
        return _detect_files(path, listed, known, recognise, is_whole=True, late=late)
    if is_pattern(path):
        matched = expand_pattern(path)
        refuse_matched(each for each in matched if Path(each).is_file())
        return _detect_files(path, [file for each in matched for file in _list_at(Path(each))], known, recognise)
    root = Path(path)
    if not root.exists():
        raise InputError(f"{path}: there is no such file or folder{explain_address(path)}")
    if not (root.is_file() or root.is_dir()):
        raise InputError(f"{path}: cannot be read: {NO_FILE}")
    # Files are read by absolute paths, in which folders of others (``exchange=orders``) would name fields, too.
    late = late and (root.is_absolute() or "=" not in str(Path.cwd()))
    return _detect_files(path, [*_list_at(root)], known, recognise, is_whole=root.is_dir(), late=late)


def _list_at(path: Path) -> Iterator[str]:
    """Yield a file, or the files of a folder, or those of a table by its metadata."""
    if not path.is_file():
        return _list_files(str(path))
    table = list_table_files(str(path))
    return iter([str(path)] if table is None else table)


def _detect_files(
    path: str, listed: Sequence[Place], known: Sequence[Format], recognise: Recognise, *, is_whole: bool = False,
    late: bool = False,
) -> Archive:  # fmt: skip
    """Return the archive of these files; ``is_whole`` says that they are all files of a folder."""
    files: list[tuple[Place, Format]] = []
    others: list[Place] = []
    names = _drop_repeated_paths(listed)
    own = _drop_companions(names, known, is_whole=is_whole)
    if late and len(own) > MOST_DETECTED and _is_sorted(own):
        found = _find_first_format(own, known, recognise, Undetected(path))
    else:
        found = _find_formats(own, known, recognise)
    for name, form in found:
        if isinstance(form, NoArchive):
            others.append(name)
        else:
            files.append((name, form))
    if not files:
        if not others:
            raise EmptyArchive(f"{path}: {NOTHING_THERE}")
        raise InputError(_describe_nothing(path, others, known))
    _check_columns(path, files, _columns_of(known))
    return Archive(path, tuple(files), tuple(others), len(listed) - len(names))


def _find_formats(
    names: Sequence[Place], known: Sequence[Format], recognise: Recognise
) -> Iterator[tuple[Place, Format]]:
    """Yield each file that has content, with its format; of a store many at a time."""
    if not names or isinstance(names[0], str):
        found = [recognise(name, known) for name in names]
    else:
        with ThreadPoolExecutor(STORE_CALLS) as threads:
            found = [*threads.map(recognise, names, repeat(known))]
    return ((name, form) for name, form in zip(names, found, strict=True) if form is not None)


def _find_first_format(
    names: Sequence[Place], known: Sequence[Format], recognise: Recognise, undetected: Undetected
) -> Iterator[tuple[Place, Format]]:
    """Yield the same, but look at no file behind the first that is of an archive, unless it may hold nothing."""
    is_archive = False
    for name in names:
        if is_archive and (size := read_file_size(name)) != 0:
            is_sure = size > EMPTY_GZIP_BYTES or not str(name).endswith(".gz")
        else:
            is_sure = False
        form = undetected if is_sure else recognise(name, known)
        if form is not None:
            is_archive = is_archive or not isinstance(form, NoArchive)
            yield name, form


def _drop_companions(names: Sequence[Place], known: Sequence[Format], *, is_whole: bool) -> list[Place]:
    """Return the files that belong to no other one. Those of a whole folder are looked for among them."""
    asked = [each for each in known if type(each).is_companion is not Format.is_companion]
    there = {str(name) for name in names} if is_whole else frozenset()

    def is_companion(place: Place) -> bool:
        path = str(place)
        folder, name = os.path.split(path)

        def is_beside(other: str) -> bool:
            return path.removesuffix(name) + other in there if is_whole else to_path(place).with_name(other).is_file()

        return any(each.is_companion(name, os.path.split(folder)[1], is_beside) for each in asked)

    return [name for name in names if not is_companion(name)]


def _is_sorted(names: Sequence[Place]) -> bool:
    """Return whether files are in the order of the parts of their paths, by which reports find the first of a kind."""
    return all(split_path(one) < split_path(other) for one, other in pairwise(map(str, names)))


def _check_columns(path: str, files: Sequence[tuple[Place, Format]], given: Mapping[str, str]) -> None:
    """Raise InputError for a column that the user names and no file has; that some have it is enough."""
    absent = {place for field, place in given.items() if field not in NEEDED and not place.startswith("=")}
    there: set[str] = set()
    for name, form in files:
        if not absent:
            return
        if columns := form.list_columns(name):
            there |= {*columns} | {part.partition("=")[0] for part in Path(str(name)).parts if "=" in part}
            absent = {place for place in absent if find_first_name(there, place) is None}
    if absent and there:
        raise InputError(explain_absent(path, min(absent), there))


def make_absolute(path: Place) -> Place:
    """Return a path as processes take it that have working directories of their own."""
    if not isinstance(path, str):
        return path
    folder, name = os.path.split(path)
    absolute = _make_absolute("" if os.path.isabs(folder) else os.getcwd(), folder)  # noqa: PTH109, PTH117  of many
    return path if absolute == folder else os.path.join(absolute, name)  # noqa: PTH118  of many


@lru_cache(1 << 10)
def _make_absolute(working: str, folder: str) -> str:
    return str(Path(working, folder))


def drop_repeats(archives: Sequence[Archive]) -> list[Archive]:
    """Remove from each archive the files that an earlier archive has, so that each record is counted once."""
    if len(archives) == 1:
        return [*archives]
    owners: dict[Hashable, int] = {}
    kept = []
    for number, archive in enumerate(archives):
        new = {path for path, _ in archive.all_files if owners.setdefault(_identify(path), number) == number}
        files = tuple([each for each in archive.files if each[0] in new])
        others = tuple([path for path in archive.others if path in new])
        left_out = len(archive.all_files) - len(files) - len(others)
        kept.append(replace(archive, files=files, others=others, repeated=archive.repeated + left_out))
    return kept


def _drop_repeated_paths(paths: Sequence[Place]) -> list[Place]:
    """Return one path per file; of several paths to a file, keep one that is not a link."""
    owners: dict[Hashable, Place] = {}
    for path in sorted(paths, key=_is_link):
        owners.setdefault(_identify(path), path)
    kept = {*owners.values()}
    return [path for path in paths if path in kept]


def _is_link(path: Place) -> bool:
    return isinstance(path, str) and os.path.islink(path)  # noqa: PTH114  of many


def _identify(path: Place) -> Hashable:
    """Return a value that is equal for all paths of a file."""
    if isinstance(path, RemoteFile):
        return str(path)
    try:
        status = os.stat(path)  # noqa: PTH116  of many
    except OSError:  # reported when the file is read
        return path
    return status.st_dev, status.st_ino


def _list_files(folder: str, *, is_inner: bool = False) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        if is_inner:  # removed since the folder that has it was listed
            return
        raise
    names = {entry.name for entry in listed}
    # An inner folder is part of no table, or that was listed by its log.
    if not (is_inner and names.isdisjoint(TABLE_FOLDERS)) and (table := list_table_files(folder)) is not None:
        yield from table
        return
    if not names.isdisjoint(STORE_FOLDERS) and is_store(folder):
        yield from _list_files(find_log_folder(folder), is_inner=True)
        return
    for entry in listed:
        if entry.name[0] in HIDDEN:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _list_files(entry.path, is_inner=True)
        elif entry.is_file():
            yield entry.path


def _describe_nothing(path: str, others: Sequence[Place], known: Sequence[Format]) -> str:
    for other in others[:1]:
        if columns := next(filter(None, (form.list_columns(other) for form in known)), ()):
            missing = explain_missing(columns, _columns_of(known), str(other))
            return f"{other}: it has no exchange and routing key: {missing}"
    if path.removesuffix(".gz").endswith(".bindings"):
        return f"{path}: this is a topology, and no archive"
    names = "; ".join(form.name for form in known)
    number = f"none of its {len(others)} files is an archive" if len(others) > 1 else "its one file is no archive"
    what = "the file is no archive" if [str(other) for other in others] == [path] else number
    return (
        f"{path}: {what} that can be audited. Known are {names}. "
        "Of JSON, CSV, Parquet and Avro it needs an exchange and a routing key with each message"
    )


def _columns_of(known: Sequence[Format]) -> dict[str, str]:
    """Return the columns that the user has named."""
    return {field: place for form in known if isinstance(form, MappedLines) for field, place in form.mapping.columns}
