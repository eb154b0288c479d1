"""Define formats of archives: a format splits files, and reads splits as rows of Arrow and as bad or skipped records.

``plan`` runs in the process that opens the archive, ``read`` in a worker: formats and splits are small values that can
be pickled. Reading does not stop or raise for the content of a file: a record that cannot be read is yielded as `Bad`
with its position, and reading continues after it. A whole record that is no publishing (a delivery in a trace, a
control batch) is yielded as `Skipped`. The splits of a file are read independently, and together give each record
once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import pairwise
from typing import ClassVar, Final, NamedTuple, TypeAlias

import pyarrow as pa

from bindings.archive.nesting import parse_json, split_joined
from bindings.archive.places import AnyPath, Place, open_file, read_file_size, require_unchanged
from bindings.archive.unpacking import GZIP_BYTES, Broken, is_gzipped, read_head, read_unpacked
from exchange.errors import InputError, name_os_errors
from exchange.limits import RECORD_BYTES
from exchange.values.documents import document

BATCH_ROWS: Final = 1 << 14
"""Maximum number of rows in a batch of a format that reads row by row."""
BATCH_BYTES: Final = 64 << 20
"""Approximate maximum size of all bodies in a batch, in bytes; one row may be larger."""
SPLIT_BYTES: Final = 32 << 20
"""Approximate size of a split by default, in bytes."""
SAMPLE_BYTES: Final = 80
"""Maximum size of the sample of a bad record, in bytes."""
LINE_TOO_LONG: Final = f"a line of more than {RECORD_BYTES >> 20} MiB"
COPIES: Final = "a message that several queues got is in it once for each of them, and counts as often"
"""Note for a file that a bridge wrote from more than one queue."""
TEXTS_ONLY: Final = "its headers are texts only, so numbers and booleans have lost their types"
"""Note for a file of a program that keeps headers as texts."""
ONCE: Final = "what was added is not counted"


class Bias(Enum):
    """Which of the published messages an archive holds; this limits what its counts can prove."""

    EVERYTHING = "everything that was published while it was taken"
    SURVIVORS = "survivors only: what reached the queues or topics it was taken from; nothing unroutable is in it"
    SAMPLE = "a sample: counts are lower bounds"
    UNKNOWN = "unknown: nothing in it shows how it was taken"


class Split(NamedTuple):
    """A part of a file of an archive that is read independently."""

    path: Place
    start: int = 0
    end: int | None = None
    """Exclusive, in the units of the format: bytes, or row groups of Parquet; None is the end of the file."""
    exact: bool = False
    """Whether a record begins at ``start`` and a record ends at ``end``: damage between them belongs to this split."""
    floor: int = -1
    """An offset below all offsets of the split, for formats whose offsets rise; -1 if none is known."""

    @property
    def source(self) -> str:
        """The file as records and reports name it."""
        return str(self.path)


class CompletePart(NamedTuple):
    """The complete records of a file that may still be written."""

    splits: list[Split]
    end: int
    """Where the complete records end, in the units of the format: ``start`` of the next call."""
    is_open: bool
    """Whether bytes follow after ``end`` that may be the beginning of a record."""


@document("BadUnitJson", "reason, source, offset")
class Bad(NamedTuple):
    """Bytes or a row that could not be read as a record."""

    source: str
    offset: int | None
    """Where it is there, as the format counts; None if that is unknown, as in rows that name no place."""
    reason: str
    """A text without the position, so that equal reasons can be counted."""
    sample: bytes = b""
    """The first bytes."""
    records: int | None = 1
    """Number of records that were not read; None if nothing that could be read has it."""


class Skipped(NamedTuple):
    """Whole records that are no publishings."""

    reason: str
    records: int = 1


Item: TypeAlias = pa.RecordBatch | Bad | Skipped


class Format(ABC):
    """A format of archives with its options; a value that can be pickled."""

    name: ClassVar[str]
    """The name that `hashstar archive inspect` prints."""
    bias: ClassVar[Bias] = Bias.UNKNOWN
    note: ClassVar[str] = ""
    """A caveat for users of the counts."""

    grows: ClassVar[bool] = False
    """Whether records are appended to files: such files are read up to their last complete record."""
    in_place: ClassVar[bool] = False
    """Whether files are allocated before they are written, so that their content changes at the same size."""

    @abstractmethod
    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return whether a file is of this format; ``head`` are its first bytes, unpacked if it is gzipped."""

    def expects(self, path: AnyPath) -> bool:
        """Return whether a file is of this format by its name and folder, regardless of its content.

        Called for files that no format recognises, so that a file with a damaged beginning is still read.
        """
        return False

    def resembles(self, head: bytes, path: AnyPath) -> bool:
        """Return whether ``head`` contains records of this format after a damaged beginning. Called after `expects`."""
        return False

    @abstractmethod
    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        """Yield the records of a split in the order of the file, with the given columns (all by default).

        Raises InputError only if the file cannot be opened.
        """

    def read_coded(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        """Yield items as ``read``, but texts may be dictionary-encoded and batches larger, for counting by column."""
        return self.read(split, columns)

    def plan(self, path: Place, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        """Return the splits of a file, of about ``split_bytes`` each. Raises InputError if it cannot be opened."""
        return [Split(path)]

    def plan_complete(self, path: Place, start: int = 0, split_bytes: int = SPLIT_BYTES) -> CompletePart:
        """Return the complete records of a file that may still be written; ``start`` is ``end`` of the last call.

        The splits of all calls together give each record once. Raises InputError if the file cannot be
        opened, or if it can only be read as a whole and was read before.
        """
        if start:
            raise InputError(f"{path}: it has changed since it was read, and {self.name} is read as a whole: {ONCE}")
        if not self.is_complete(path):
            return CompletePart([], 0, is_open=True)
        size = read_file_size(path)
        return CompletePart([Split(path)] if size else [], size, is_open=False)

    def is_complete(self, path: Place) -> bool:
        """Return whether a file that is read as a whole is complete. Raises InputError if it cannot be read."""
        return True

    def bias_of(self, path: Place) -> Bias:
        """Return the bias of a file, for formats whose files state it."""
        return self.bias

    def note_of(self, path: Place) -> str:
        """Return the caveat of a file, for formats whose files state it."""
        return self.note

    def list_columns(self, path: Place) -> Sequence[str]:
        """Return the names of a file's columns that a user may name; empty if it has none, or is not of this format."""
        return ()

    def is_companion(self, name: str, folder: str, is_beside: Callable[[str], bool]) -> bool:
        """Return whether a file belongs to an archive of this format but is none itself: an index, or a body's file.

        ``folder`` is the name of its folder; ``is_beside`` returns whether a file of another name is there, too.
        """
        return False


NOT_READ: Final = "a file that is no archive, or is damaged beyond recognition: nothing of it was read"


class NoArchive(Format):
    """The format of files that are no archive: each is one bad record, so that it is counted as not read."""

    name: ClassVar[str] = "no archive"

    def recognises(self, head: bytes, path: AnyPath) -> bool:
        """Return False: a file is no archive if all other formats refuse it."""
        return False

    def plan(self, path: Place, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        return [Split(path, 0, None, exact=True)]

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        yield Bad(split.source, 0, NOT_READ, take_sample(read_head(split.path)), None)


def read_split(
    form: Format, split: Split, columns: Sequence[str] | None = None, *, coded: bool = False
) -> Iterator[Item]:
    """Yield the items of a split as `Format.read`, or with ``coded`` as `Format.read_coded`.

    Raises InputError if the file cannot be opened, and at the end if one in a store was replaced while it was read.
    """
    yield from (form.read_coded if coded else form.read)(split, columns)
    require_unchanged(split.path)


class LineBlock(NamedTuple):
    """Consecutive whole lines of a file; only the last line of the file may lack its end."""

    data: bytes
    offset: int
    """The byte of the unpacked file at which the lines begin."""
    problem: str | None = None
    """Why reading ends here, or why a line was skipped."""
    records: int | None = 1
    """Number of records that the problem costs; None if unknown, as where reading ends."""


def plan_ranges(path: Place, split_bytes: int) -> list[Split]:
    """Return the splits of a file as ranges of bytes; a gzipped file is one split, read from its beginning."""
    gzipped, size = is_gzipped(path), read_file_size(path)
    if gzipped or size <= split_bytes:
        return [Split(path)]
    count = -(-size // split_bytes)
    return [Split(path, size * n // count, size * (n + 1) // count) for n in range(count)]


def plan_complete_lines(path: Place, start: int, split_bytes: int) -> CompletePart:
    """Return the complete part of a file of lines. A last line without its end counts if it is a whole JSON object.

    A gzipped file is taken as a whole. Raises InputError as `Format.plan_complete`.
    """
    if is_gzipped(path):
        return plan_complete_gzip(path, start)
    with name_os_errors(path), open_file(path) as file:
        size = file.seek(0, 2)
        end, rest = size, b""
        while end > start:
            place = max(end - max(GZIP_BYTES, len(rest)), start)  # doubles the part read, to stay linear
            file.seek(place)
            rest = file.read(end - place) + rest
            last = rest[: end - place].rfind(b"\n") + 1
            if last or len(rest) > RECORD_BYTES:
                end, rest = place + last, rest[last:]
                break
            end = place
    if rest and _is_object(rest):
        end, rest = size, b""
    return CompletePart(cut_range(path, start, end, split_bytes), end, is_open=bool(rest.strip()))


def plan_complete_gzip(path: Place, start: int) -> CompletePart:
    """Return a gzipped file as complete if it is whole. Raises InputError as `Format.plan_complete`."""
    if start:
        raise InputError(f"{path}: it has changed since it was read, and a gzipped file is read as a whole: {ONCE}")
    size = read_file_size(path)
    try:
        for _ in read_unpacked(path):
            pass
    except Broken:
        return CompletePart([], 0, is_open=True)
    return CompletePart([Split(path)], size, is_open=False)


def cut_range(path: Place, start: int, end: int, split_bytes: int) -> list[Split]:
    """Split a range of a file's bytes; return no splits if it is empty."""
    count = -(-(end - start) // split_bytes)
    ends = [start + (end - start) * n // count for n in range(count + 1)] if count > 0 else []
    return [Split(path, *pair) for pair in pairwise(ends)]


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(parse_json(line), dict)
    except InputError:
        joined = split_joined(line)
        return next(joined, None) is not None and all(_is_object(each) for _, each in split_joined(line))


def read_blocks(split: Split) -> Iterator[LineBlock]:
    """Yield the lines that begin in a split, many per block. Raises InputError if the file cannot be opened.

    Each byte is searched once, even in long lines: a line is joined from its pieces when its end is found.
    """
    place = max(split.start - 1, 0)  # one byte earlier: a line begins at ``start`` only if that byte is a line feed
    parts: list[bytes] = []
    """The pieces so far of an unfinished line, which begins at ``place``."""
    size = 0
    # Whether to skip bytes up to the next line: they belong to the split before, or to a line that is too long.
    is_passing = split.start > 0
    try:
        for data in read_unpacked(split.path, place):
            rest = data
            if is_passing:
                end = rest.find(b"\n") + 1
                place += end or len(rest)
                if not end:
                    continue
                rest, is_passing = rest[end:], False
            if split.end is not None and place >= split.end:
                return
            last = rest.rfind(b"\n") + 1
            start = place + size
            if split.end is not None and start + last > split.end:  # up to the line that crosses the split's end
                last = rest.find(b"\n", max(split.end - start - 1, 0)) + 1 or last
            if last:
                whole = b"".join([*parts, rest[:last]])
                yield LineBlock(whole, place)
                place, parts, rest = place + len(whole), [], rest[last:]
                size = 0
                if split.end is not None and place >= split.end:
                    return
            parts.append(rest)
            size += len(rest)
            if size > RECORD_BYTES:
                yield LineBlock(b"", place, LINE_TOO_LONG)
                place, parts, size, is_passing = place + size, [], 0, True
    except Broken as problem:
        if size and not is_passing:
            yield LineBlock(b"".join(parts), place)
        yield LineBlock(b"", place + size, str(problem), None)
        return
    if size and not is_passing:
        yield LineBlock(b"".join(parts), place)


def take_sample(data: bytes) -> bytes:
    """Return the first bytes of a bad record."""
    return bytes(data[:SAMPLE_BYTES])
