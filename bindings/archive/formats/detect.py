"""Detect the archive at a path: its files with their formats, by content, or by name if the content is damaged.

A file is of the first format in `FORMATS` that recognises its beginning; else of the one that its name and folder
indicate; else of a format whose records occur later in the file. A folder is an archive of all files below it. Files
that are no archive count as bad, unless they are empty, or known companions of archives (indexes, side files), or their
names begin with ``.`` or ``_``. In the store of a RocketMQ broker the commit log is the archive.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import repeat
from pathlib import Path
from typing import Final

from bindings.archive.avro.records import Avro
from bindings.archive.columns import NEEDED, TAKEN, explain_absent, explain_missing, find_first_name
from bindings.archive.formats.connect import Connect
from bindings.archive.formats.delimited import Delimited
from bindings.archive.formats.json_lines import JsonLines
from bindings.archive.formats.lakes import HIDDEN, explain_address, list_stored_files, list_table_files, refuse_matched
from bindings.archive.formats.mapped_lines import SEARCHED, KafkaLines, MappedLines
from bindings.archive.formats.parquet import Parquet
from bindings.archive.kafka.segment import KafkaSegment
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.places import AnyPath, Place, RemoteFile, parse_address, show_place, to_path, to_place
from bindings.archive.rabbitmq.fetched import Fetched
from bindings.archive.rabbitmq.queue_dump import QueueDump
from bindings.archive.rabbitmq.rabtap import Rabtap
from bindings.archive.rabbitmq.tracing import TracingJson, TracingText
from bindings.archive.reading import SPLIT_BYTES, Bias, Format, NoArchive, Split
from bindings.archive.rocketmq.log import RocketmqLog
from bindings.archive.rocketmq.store import find_log_folder, is_store
from bindings.archive.unpacking import read_head
from bindings.sources.files import NO_FILE
from bindings.sources.glob_pattern import expand_pattern, is_pattern
from exchange.errors import InputError


def list_formats(mapping: FieldMapping) -> tuple[Format, ...]:
    """Return all formats in the order in which files are tested: the most specific first."""
    return (
        Connect(mapping),
        Parquet(mapping),
        Avro(mapping),
        RocketmqLog(mapping),  # first: its checksum may look like a length of Kafka; no offset is so high
        KafkaSegment(mapping),
        TracingText(),
        TracingJson(),
        Rabtap(),
        Fetched(),
        QueueDump(),
        KafkaLines(mapping),
        MappedLines(mapping),
        JsonLines(),
        Delimited(mapping),
    )


Recognise = Callable[[Place, Sequence[Format]], Format | None]
NO_ARCHIVE: Final = NoArchive()
STORE_CALLS: Final = 16
"""Number of files of a store that are looked at at a time: each costs a few requests."""
FORMATS: Final = list_formats(USUAL)
NO_RECORDS: Final = "the places of exchange and routing key are for records of Kafka and RocketMQ, and it has none"
NO_COLUMNS: Final = "columns are named, and it is read by its own names"
RECORDS: Final = (Connect, RocketmqLog, KafkaSegment, KafkaLines)
"""Formats of records whose exchange and routing key a mapping places."""


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
    def other_names(self) -> tuple[str, ...]:
        """Files of no known format."""
        return tuple([str(path) for path in self.others])

    @property
    def biases(self) -> tuple[Bias, ...]:
        """The different biases of the files."""
        return tuple(dict.fromkeys([form.bias_of(path) for path, form in self.files]))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the formats."""
        return tuple(dict.fromkeys([form.name for _, form in self.files]))

    @property
    def taken(self) -> str:
        """Which columns of the first file are which fields; "" if it is not read by columns. All would open each."""
        notes = [form.note_of(path) for path, form in self.files[:1]]
        return "".join([note for note in notes if note.startswith(TAKEN)])

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats for users of the counts."""
        notes = [note for path, form in self.files if (note := form.note_of(path))]
        notes += self.unused
        if self.repeated:
            notes.append(f"files that are there under a second path or by a link, and are read once: {self.repeated:,}")
        return tuple(dict.fromkeys(notes))

    def plan(self, split_bytes: int = SPLIT_BYTES) -> list[tuple[Format, Split]]:
        """Return all splits, each with its format. Raises InputError for a file that cannot be opened."""
        return [(form, split) for path, form in self.all_files for split in form.plan(path, split_bytes)]


def recognise_format(name: Place, known: Sequence[Format]) -> Format | None:
    """Return the format of a file; None if it is empty. Raises InputError if it cannot be read."""
    head = read_head(name)
    return (_detect_format(head, to_path(name), known) or NO_ARCHIVE) if head else None


def detect(path: str, mapping: FieldMapping | None = None, recognise: Recognise = recognise_format) -> Archive:
    """Return the archive at a path or the address of a store: a file, a folder, or those of a glob pattern.

    ``mapping`` is for records of Kafka and RocketMQ, and for columns of other programs. ``recognise`` may know
    formats of files without reading them.

    Raises InputError, with what is there instead, if there is no archive, or if a file or folder cannot be read.
    """
    try:
        archive = _detect(path, FORMATS if mapping is None else list_formats(mapping), recognise)
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


def _detect(path: str, known: Sequence[Format], recognise: Recognise) -> Archive:
    folder = parse_address(path)
    if folder is not None:
        is_folder = path.partition("?")[0].endswith("/")
        return _detect_files(str(folder), list_stored_files(folder, is_folder=is_folder), known, recognise)
    if is_pattern(path):
        matched = expand_pattern(path)
        refuse_matched(each for each in matched if Path(each).is_file())
        return _detect_files(path, [file for each in matched for file in _list_at(Path(each))], known, recognise)
    root = Path(path)
    if not root.exists():
        raise InputError(f"{path}: there is no such file or folder{explain_address(path)}")
    if not (root.is_file() or root.is_dir()):
        raise InputError(f"{path}: cannot be read: {NO_FILE}")
    return _detect_files(path, [*_list_at(root)], known, recognise)


def _list_at(path: Path) -> Iterator[str]:
    """Yield a file, or the files of a folder, or those of a table by its metadata."""
    if not path.is_file():
        return _list_files(str(path))
    table = list_table_files(str(path))
    return iter([str(path)] if table is None else table)


def _detect_files(path: str, listed: Sequence[Place], known: Sequence[Format], recognise: Recognise) -> Archive:
    files: list[tuple[Place, Format]] = []
    others: list[Place] = []
    names = _drop_repeated_paths(listed)
    for name, form in _find_formats(names, known, recognise):
        if isinstance(form, NoArchive):
            others.append(name)
        else:
            files.append((name, form))
    if not files:
        raise InputError(_describe_nothing(path, others, known))
    _check_columns(path, files, _columns_of(known))
    return Archive(path, tuple(files), tuple(others), len(listed) - len(names))


def _find_formats(
    names: Sequence[Place], known: Sequence[Format], recognise: Recognise
) -> Iterator[tuple[Place, Format]]:
    """Yield each file that has content and is no companion of another, with its format; of a store many at a time."""
    if not names or isinstance(names[0], str):
        found = [_find_format(name, known, recognise) for name in names]
    else:
        with ThreadPoolExecutor(STORE_CALLS) as threads:
            found = [*threads.map(_find_format, names, repeat(known), repeat(recognise))]
    return ((name, form) for name, form in zip(names, found, strict=True) if form is not None)


def _find_format(name: Place, known: Sequence[Format], recognise: Recognise) -> Format | None:
    """Return the format of a file; None if it is empty, or belongs to another one."""
    file = to_path(name)
    return None if any(each.is_companion(file) for each in known) else recognise(name, known)


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


def drop_repeats(archives: Sequence[Archive]) -> list[Archive]:
    """Remove from each archive the files that an earlier archive has, so that each record is counted once."""
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
        status = Path(path).stat()
    except OSError:  # reported when the file is read
        return path
    return status.st_dev, status.st_ino


def _detect_format(head: bytes, path: AnyPath, known: Sequence[Format]) -> Format | None:
    form = next((each for each in known if each.recognises(head, path)), None)
    form = form or next((each for each in known if each.expects(path)), None)
    if form is None:
        head = read_head(to_place(path), SEARCHED)
        form = next((each for each in known if each.resembles(head, path)), None)
    return form


def _list_files(folder: str) -> Iterator[str]:
    if (table := list_table_files(folder)) is not None:
        yield from table
        return
    if is_store(folder):
        folder = find_log_folder(folder)
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        if entry.name[0] in HIDDEN:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _list_files(entry.path)
        elif entry.is_file():
            yield entry.path


def _describe_nothing(path: str, others: Sequence[Place], known: Sequence[Format]) -> str:
    if not others:
        return f"{path}: there is nothing in it, or nothing but empty files"
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
