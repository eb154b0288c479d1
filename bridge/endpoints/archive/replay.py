"""Reads an archive as a stream that can be continued where it was left.

The records of a file are counted from 0 as its format yields them, so a file and a number are a position, whatever the
format. The files of an archive are read in the order of their names; for parts of our own, that is the order of time
within a folder. How far a replay is settled is kept in a small file, for each file of the archive: `Settled`. Which
file that is, `bridge.endpoints.archive.files` knows: its name may be another's by now.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.figures import format_time
from bindings.archive.formats.detect import Archive, detect
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.reading import NOT_READ, Bad, Format, Skipped, Split
from bindings.archive.record import Record, to_records_or_bad
from bindings.sources.files import open_file
from bridge.endpoints.archive.files import NEVER_SEEN, ArchiveFile, ArchiveFiles, Fingerprint
from exchange.errors import InputError
from exchange.files.replacing import replace_file
from exchange.values.json_text import parse_leniently

ROWS: Final = 1_000
"""Maximum number of records of a chunk."""
CHUNK_BYTES: Final = 8 << 20
"""Maximum size of the bodies of a chunk, in bytes, unless it is a single record."""
VERSION: Final = 1
"""Version of the format of the file that `Settled` writes."""


class ReplayWindow(NamedTuple):
    """The records wanted: from ``since`` on and before ``until``, microseconds since 1970; None: no bound."""

    since: int | None = None
    until: int | None = None

    def has(self, time: int | None) -> bool:
        """Return whether a record of this time is wanted; one without a time is if there are no bounds."""
        if self.since is None and self.until is None:
            return True
        return (
            time is not None
            and (self.since is None or time >= self.since)
            and (self.until is None or time < self.until)
        )


class ReplaySelection(NamedTuple):
    """What decides which rows of an archive are given as records: a replay continues with the same one only."""

    window: ReplayWindow = ReplayWindow()
    without_bodies: bool = False
    """Whether records are given whose body the archive does not have, with an empty one."""
    mapping: FieldMapping = USUAL
    """How records of Kafka and RocketMQ become messages of AMQP, and the columns of other programs."""

    @property
    def saved(self) -> Mapping[str, Any]:
        """The keys of the source, as the state of a replay keeps them; without constants, which select no rows."""
        columns = {name: place for name, place in self.mapping.columns if place == "=" or not place.startswith("=")}
        since, until = [None if bound is None else format_time(bound) for bound in self.window]
        return {"columns": columns, "since": since, "until": until, "without_bodies": self.without_bodies}

    def explain_change(self, before: Mapping[str, Any]) -> str | None:
        """Return how a selection that was kept differs; None if it is the same, as far as is known.

        Releases that kept no columns had none; of other keys that are not kept, nothing is known.
        """
        now = self.saved
        if (columns := before.get("columns", {})) != now["columns"]:
            taken = ", ".join([f"{name} = {place!r}" for name, place in columns.items()]) or "those found by name"
            return f"is of a replay with other columns: {taken}"
        changed = [key for key in now if before.get(key, now[key]) != now[key]]
        taken = ", ".join([f"{key} = {SHOWN.get(before[key], before[key])}" for key in changed])
        return f"is of a replay of other records: {taken}" if changed else None


SHOWN: Final[Mapping[Any, str]] = {None: "none", False: "false", True: "true"}
"""Kept value of a key -> how errors show it, if not as itself."""
EVERYTHING: Final = ReplaySelection()


class Chunk(NamedTuple):
    """Consecutive records of a file."""

    file: ArchiveFile
    records: list[tuple[int, Record]]
    """Records that are wanted, with their numbers in the file."""
    unreadable: list[Bad]
    skipped: list[Skipped]


class Done(NamedTuple):
    """The end of a file, which was read up to here."""

    file: ArchiveFile
    records: int
    size: int
    """Size of the file at that moment, in bytes."""


Item: TypeAlias = Chunk | Done


@dataclass(slots=True, eq=False)
class Settled:
    """How far each file of an archive is settled, kept at ``path``; without one, in memory only."""

    path: Path | None
    files: dict[ArchiveFile, tuple[int, int | None]] = field(default_factory=dict)
    """File -> number of its records that are settled, and its size if those are all."""
    selection: ReplaySelection = EVERYTHING
    """With which they were read: with another one other rows are records, and what was left out would never come."""

    @classmethod
    def read(cls, path: Path | None, selection: ReplaySelection = EVERYTHING) -> Settled:
        """Read the file, if there is one. Raises InputError if it is something else, or is of another selection."""
        if path is None:
            return cls(None)
        try:
            with open_file(path) as file:
                saved = parse_leniently(file.read())
            if saved["version"] != VERSION:
                raise InputError(f"{path}: written by another version of this program")
            if saved["files"] and (change := selection.explain_change(saved)) is not None:
                raise InputError(f"{path}: {change}; remove it to begin anew")
            prints = {
                name: Fingerprint(int(size), int(inode), int(length), str(digest))
                for name, (size, inode, length, digest) in saved.get("fingerprints", {}).items()
            }
            files = {
                ArchiveFile(name, prints.get(name, NEVER_SEEN)): (int(n), size)
                for name, (n, size) in saved["files"].items()
            }
            return cls(path, files, selection)
        except FileNotFoundError:
            return cls(path, selection=selection)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path}: does not say how far a replay is; remove it to begin anew") from None

    def write(self, files: Mapping[ArchiveFile, tuple[int, int | None]]) -> None:
        """Replace the file atomically. Raises OSError."""
        if self.path is None:
            return
        there = {each: done for each, done in files.items() if not each.is_gone}
        saved = {
            "version": VERSION,
            "files": {each.name: done for each, done in there.items()},
            "fingerprints": {each.name: each.fingerprint for each in there},
            **self.selection.saved,
        }
        with replace_file(self.path, durable=True) as file:
            file.write(json.dumps(saved, separators=(",", ":")).encode())


def name_within(archive: str, file: str) -> str:
    """Return the name by which a file of an archive is known."""
    return Path(file).name if file == archive else os.path.relpath(file, archive)


class Replay:
    """Reads the records of an archive that are not settled, and later those of files that have grown or are new.

    All methods wait for the disk.
    """

    def __init__(
        self,
        path: str,
        window: ReplayWindow,
        settled: Mapping[ArchiveFile, tuple[int, int | None]],
        *,
        grows: bool,
        mapping: FieldMapping = USUAL,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self._path = path
        self._window = window
        self._mapping = mapping
        self._chunk_bytes = chunk_bytes
        self._grows = grows
        """Whether the archive grows: incomplete records are left for later, and an empty folder is no error."""
        self._files = ArchiveFiles([each for each in settled if not each.is_gone])
        self._read: dict[ArchiveFile, tuple[int, int | None]] = dict(settled)
        """File -> number of its records that were yielded or were settled before, and its size if it was read to its
        end."""
        self._ends: dict[ArchiveFile, int] = {}
        """File -> where its complete records end, as its format counts; only files that this has read before."""
        self._reported: set[str] = set()
        """Files that are no archive and were counted as such. One that grows may become an archive."""

    @property
    def progress(self) -> tuple[int, int]:
        """Size of the files that were read to their end, and of all files, in bytes."""
        read = sum([size or 0 for file, (_, size) in list(self._read.items()) if not file.is_gone])
        return read, max(read, self._files.size)

    def read_items(self) -> Iterator[Item]:
        """Yield all records that are there now and were not yielded before. Raises InputError if it is no archive."""
        archive = self._detect()
        for other in map(str, archive.others):
            if other not in self._reported:
                self._reported.add(other)
                yield Chunk(ArchiveFile(self._relative(other)), [], [Bad(other, 0, NOT_READ, records=None)], [])
        there = {self._relative(str(path)): (str(path), form) for path, form in archive.files}
        for file in self._look({name: path for name, (path, _) in there.items()}):
            path, form = there[file.name]
            before, known = self._read.get(file, (0, None))
            size = file.fingerprint.size
            if known == size and not form.in_place:
                continue
            # A file that this replay has read goes on where it ended; any other is counted from its first record.
            number = before if file in self._ends else 0
            for split in self._plan(form, path, file):
                for item in form.read(split):
                    if isinstance(item, pa.RecordBatch):
                        yield from self._chunks(file, item, number, before)
                        number += item.num_rows
                        self._read[file] = max(number, before), None
                    elif number >= before:
                        yield Chunk(file, [], [item], []) if isinstance(item, Bad) else Chunk(file, [], [], [item])
            self._read[file] = max(number, before), size
            yield Done(file, max(number, before), size)

    def _look(self, paths: Mapping[str, str]) -> list[ArchiveFile]:
        try:
            return self._files.look(paths)
        except OSError as error:
            raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from None

    def _detect(self) -> Archive:
        if not self._grows:
            return detect(self._path, self._mapping)
        try:
            return detect(self._path, self._mapping)
        except InputError:
            if Path(self._path).exists():
                return Archive(self._path, ())
            raise

    def _relative(self, file: str) -> str:
        return name_within(self._path, file)

    def _plan(self, form: Format, path: str, file: ArchiveFile) -> Sequence[Split]:
        if not self._grows:
            return form.plan(path)
        settled = form.plan_complete(path, self._ends.get(file, 0))
        self._ends[file] = settled.end
        return settled.splits

    def _chunks(self, file: ArchiveFile, batch: pa.RecordBatch, number: int, before: int) -> Iterator[Chunk]:
        """Yield the records of a batch from number ``before`` on, in chunks; its first record has ``number``."""
        for start, end in _cut(batch, max(before - number, 0), self._chunk_bytes):
            rows = batch.slice(start, end - start)
            wanted, unreadable = [], []
            for position, record in enumerate(to_records_or_bad(rows), number + start):
                if isinstance(record, Bad):
                    unreadable.append(record)
                elif self._window.has(record.time):
                    wanted.append((position, record))
            yield Chunk(file, wanted, unreadable, [])


def _cut(batch: pa.RecordBatch, start: int, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the rows from ``start`` on as ranges: at most `ROWS` rows, and about ``most_bytes`` of bodies."""
    ends = np.cumsum(pc.fill_null(pc.binary_length(batch.column("body")), 0).to_numpy(zero_copy_only=False))
    while start < batch.num_rows:
        before = ends[start - 1] if start else 0
        end = int(np.searchsorted(ends, before + most_bytes, "right"))
        end = min(max(end, start + 1), start + ROWS, batch.num_rows)
        yield start, end
        start = end
