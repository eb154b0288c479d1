"""Reading an archive as a stream that can be taken up again where it was left.

The records of a file are counted from 0 as its format gives them, so a file and a number are a place, whatever the
format. The files of an archive are read in the order of their names, which for our own is that of time within a folder.
How far a replay is settled is kept in a small file, by file of the archive: `Settled`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.formats.detect import Archive, detect
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.archive.reading import NOT_READ, Bad, Format, Skipped, Split
from bindings.archive.record import Record, to_records_or_bad
from bindings.sources.files import replacing
from exchange.errors import InputError

__all__ = ["Chunk", "Done", "Item", "Replay", "Settled", "Window"]

ROWS: Final = 1_000
"""Maximum number of records that are made at once."""
CHUNK_BYTES: Final = 8 << 20
"""Maximum size of their bodies, unless there is but one."""
VERSION: Final = 1


class Window(NamedTuple):
    """The records wanted: from ``since`` on and before ``until``, microseconds since 1970; None: no bound."""

    since: int | None = None
    until: int | None = None

    def has(self, time: int | None) -> bool:
        """Whether a record of this time is wanted; one without a time only if there are no bounds."""
        if self.since is None and self.until is None:
            return True
        return (
            time is not None
            and (self.since is None or time >= self.since)
            and (self.until is None or time < self.until)
        )


class Chunk(NamedTuple):
    """Some records of a file."""

    file: str
    records: list[tuple[int, Record]]
    """Those wanted, with their numbers in the file."""
    unreadable: list[Bad]
    skipped: list[Skipped]


class Done(NamedTuple):
    """A file was read to its end."""

    file: str
    records: int
    size: int
    """Of the file as it was then, in bytes."""


Item: TypeAlias = Chunk | Done


@dataclass(slots=True, eq=False)
class Settled:
    """What is settled of an archive's files, kept at ``path``; without one, for as long as this lives."""

    path: Path | None
    files: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """File, relative to the archive -> its records that are settled, and its size if those are all."""

    @classmethod
    def read(cls, path: Path | None) -> Settled:
        """What was kept there, nothing if there is no such file. Raises InputError if it is something else."""
        if path is None:
            return cls(None)
        try:
            told = json.loads(path.read_text("utf-8"))
            if told["version"] != VERSION:
                raise InputError(f"{path}: written by another version of this program")
            return cls(path, {name: (int(n), size) for name, (n, size) in told["files"].items()})
        except FileNotFoundError:
            return cls(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path}: does not say how far a replay is; remove it to begin anew") from None

    def write(self, files: MappingOf[str, tuple[int, int | None]]) -> None:
        """Keep these, all or nothing. Raises OSError."""
        if self.path is None:
            return
        with replacing(self.path, durable=True) as file:
            file.write(json.dumps({"version": VERSION, "files": files}, separators=(",", ":")).encode())


class Replay:
    """Gives the records of an archive behind what is settled, and again those of files that have grown or come since.

    Everything here waits for the disk.
    """

    def __init__(
        self,
        path: str,
        window: Window,
        settled: MappingOf[str, tuple[int, int | None]],
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
        """Whether what is written by halves is left for later, and nothing at all is no error."""
        self._read: dict[str, tuple[int, int | None]] = dict(settled)
        """File -> its records that were given, or need not be, and the file's size if it was read to its end."""
        self._ends: dict[str, int] = {}
        """File -> up to where it was complete, as its format counts, where this has read it from its beginning."""

        self._sizes: dict[str, int] = {}
        """Of all files, in bytes."""
        self._told: set[str] = set()
        """Files that are no archive, which each run counts once. One that grows may become an archive."""

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes of files that were read to their end, and of all files."""
        read = sum([size or 0 for _, size in list(self._read.values())])
        return read, max(read, sum(list(self._sizes.values())))

    def items(self) -> Iterator[Item]:
        """All that is there now and was not given yet. Raises InputError if that is no archive."""
        archive = self._archive()
        files = archive.files
        for other in archive.others:
            if other not in self._told:
                self._told.add(other)
                yield Chunk(self._relative(other), [], [Bad(other, 0, NOT_READ)], [])
        self._sizes = {file: Path(file).stat().st_size for file, _ in files}
        for file, form in files:
            name = self._relative(file)
            before, known = self._read.get(name, (0, None))
            size = self._sizes[file]
            if known == size and not form.in_place:
                continue
            number = before if file in self._ends else 0
            for split in self._splits(form, file):
                for item in form.read(split):
                    if isinstance(item, pa.RecordBatch):
                        yield from self._chunks(name, item, number, before)
                        number += item.num_rows
                        self._read[name] = max(number, before), None
                    elif number >= before:
                        yield Chunk(name, [], *_troubles(item))
            self._read[name] = max(number, before), size
            yield Done(name, max(number, before), size)

    def _archive(self) -> Archive:
        if not self._grows:
            return detect(self._path, self._mapping)
        try:
            return detect(self._path, self._mapping)
        except InputError:
            if Path(self._path).exists():
                return Archive(self._path, ())
            raise

    def _relative(self, file: str) -> str:
        return Path(file).name if file == self._path else os.path.relpath(file, self._path)

    def _splits(self, form: Format, file: str) -> Sequence[Split]:
        if not self._grows:
            return form.plan(file)
        settled = form.plan_complete(file, self._ends.get(file, 0))
        self._ends[file] = settled.end
        return settled.splits

    def _chunks(self, name: str, batch: pa.RecordBatch, number: int, before: int) -> Iterator[Chunk]:
        for start, end in _pieces(batch, max(before - number, 0), self._chunk_bytes):
            rows = batch.slice(start, end - start)
            found, unreadable = [], []
            for place, record in enumerate(to_records_or_bad(rows), number + start):
                if isinstance(record, Bad):
                    unreadable.append(record)
                elif self._window.has(record.time):
                    found.append((place, record))
            yield Chunk(name, found, unreadable, [])


def _pieces(batch: pa.RecordBatch, start: int, most_bytes: int) -> Iterator[tuple[int, int]]:
    """The rows from one on, as ranges of at most `ROWS` rows and about so many bytes of bodies."""
    ends = np.cumsum(pc.fill_null(pc.binary_length(batch.column("body")), 0).to_numpy(zero_copy_only=False))
    while start < batch.num_rows:
        before = ends[start - 1] if start else 0
        end = int(np.searchsorted(ends, before + most_bytes, "right"))
        end = min(max(end, start + 1), start + ROWS, batch.num_rows)
        yield start, end
        start = end


def _troubles(item: Bad | Skipped) -> tuple[list[Bad], list[Skipped]]:
    return ([item], []) if isinstance(item, Bad) else ([], [item])
