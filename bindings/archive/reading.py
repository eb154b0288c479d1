"""What a format of archives is: files are split, splits are read as rows of Arrow and as what is wrong on the way.

``plan`` runs where the archive is opened, ``read`` where the work is done: formats and splits are small values that can
be pickled. Reading never stops and never raises for what a file holds: a record that cannot be read comes as `Bad` with
its place, and reading goes on behind it. What is whole but no publishing (a delivery in a trace, a control batch)
comes as `Skipped`. The splits of a file are read independently and together give each record once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, TypeAlias

import pyarrow as pa

from bindings.archive.nesting import parse_json
from bindings.archive.unpacking import GZIP_BYTES, Broken, is_gzipped, read_head, read_unpacked
from exchange.errors import InputError
from exchange.limits import RECORD_BYTES

__all__ = [
    "BATCH_BYTES", "BATCH_ROWS", "COPIES", "NOT_READ", "SPLIT_BYTES", "Bad", "Bias", "Block", "Format", "Item",
    "NoArchive", "CompletePart", "Skipped", "Split", "cut_range", "plan_complete_gzip", "plan_complete_lines",
    "plan_ranges", "read_blocks", "take_sample",
]  # fmt: skip

BATCH_ROWS: Final = 1 << 14
"""The most rows that a batch of a row-by-row reader has."""
BATCH_BYTES: Final = 64 << 20
"""What the bodies of a batch have together, about, unless it is one row."""
SPLIT_BYTES: Final = 32 << 20
"""What a split has about, unless something else is asked for."""
SAMPLE_BYTES: Final = 80
TOO_LONG: Final = f"a line of more than {RECORD_BYTES >> 20} MiB"
COPIES: Final = "a message that several queues got is in it once for each of them, and counts as often"
"""The note of a file that a bridge wrote for more than one queue."""
ONCE: Final = "what was added is not counted"


class Bias(Enum):
    """Which of the published messages an archive holds, which is what its numbers can say."""

    EVERYTHING = "everything that was published while it was taken"
    SURVIVORS = "survivors only: what reached the queues or topics it was taken from; nothing unroutable is in it"
    SAMPLE = "a sample: counts are lower bounds"
    UNKNOWN = "unknown: nothing in it tells how it was taken"


class Split(NamedTuple):
    """A part of an archive that is read by itself."""

    path: str
    start: int = 0
    end: int | None = None
    """Half-open, in the units of the format: bytes, or row groups of Parquet; None is the end of the file."""
    exact: bool = False
    """Whether a record begins at ``start`` and one ends at ``end``, so that what is there is told with this split."""
    floor: int = -1
    """An offset that all of its records are above, of formats whose offsets rise; -1 if none is known."""


class CompletePart(NamedTuple):
    """What is complete of a file that may still be written."""

    splits: list[Split]
    end: int
    """Where what is complete ends, in the units of the format: where to go on the next time."""
    is_open: bool
    """Whether something stands behind that, which may be the beginning of a record."""


class Bad(NamedTuple):
    """Something that could not be read as a record."""

    source: str
    offset: int
    reason: str
    """In words that many places share, so that it can be counted."""
    sample: bytes = b""
    """How it begins."""


class Skipped(NamedTuple):
    """Records that are whole and are no publishings."""

    reason: str
    records: int = 1


Item: TypeAlias = pa.RecordBatch | Bad | Skipped


class Format(ABC):
    """A format of archives; a value that can be pickled, with its options in it."""

    name: ClassVar[str]
    """As `hashstar archive inspect` tells it."""
    bias: ClassVar[Bias] = Bias.UNKNOWN
    note: ClassVar[str] = ""
    """What a reader of numbers should know of it."""

    grows: ClassVar[bool] = False
    """Whether records are added to files: they are then taken as far as they are complete, in bytes."""
    in_place: ClassVar[bool] = False
    """Whether files have their size before they are written, so that it does not tell when something was added."""

    @abstractmethod
    def recognises(self, head: bytes, path: Path) -> bool:
        """Whether a file that begins so, unpacked if it is gzipped, is of this format."""

    def expects(self, path: Path) -> bool:
        """Return whether a file's name and folder say that it is of this format, whatever it holds.

        Asked of files that no format recognises: what is damaged at its beginning is still read.
        """
        return False

    def resembles(self, head: bytes, path: Path) -> bool:
        """Return whether a file holds records of this format behind a beginning that is none. Asked after `expects`."""
        return False

    @abstractmethod
    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        """The records of a split, in the order of the file, with the columns asked for, all by default.

        Raises InputError only if the file cannot be opened.
        """

    def read_coded(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        """As ``read``, but texts may stand in dictionaries, and more rows in a batch: for those who count columns."""
        return self.read(split, columns)

    def plan(self, path: str, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        """The splits of a file, each of about so many bytes. Raises InputError if it cannot be opened."""
        return [Split(path)]

    def settled(self, path: str, start: int = 0, split_bytes: int = SPLIT_BYTES) -> CompletePart:
        """What is complete of a file that may still be written, behind the place up to which it was so before.

        The splits together with those of earlier times give each record once. Raises InputError if the file cannot be
        opened, or if it is one that can only be read as a whole, and was read before.
        """
        if start:
            raise InputError(f"{path}: it has changed since it was read, and {self.name} is read as a whole: {ONCE}")
        if not self.is_complete(path):
            return CompletePart([], 0, is_open=True)
        size = _size_of(path)
        return CompletePart([Split(path)] if size else [], size, is_open=False)

    def is_complete(self, path: str) -> bool:
        """Whether nothing is missing at the end of a file that is read as a whole. Raises InputError."""
        return True

    def bias_of(self, path: str) -> Bias:
        """The bias of a file, for formats that can say it of each."""
        return self.bias

    def note_of(self, path: str) -> str:
        """What a reader of a file's numbers should know, for formats that can say it of each."""
        return self.note

    def is_companion(self, path: Path) -> bool:
        """Whether a file that is no archive belongs to one of this format: an index, a body in a file of its own."""
        return False


NOT_READ: Final = "a file that is no archive, or is damaged beyond recognition: nothing of it was read"


class NoArchive(Format):
    """Files of no format: one bad record each, so that what was not read is counted like what could not be read."""

    name: ClassVar[str] = "no archive"

    def recognises(self, head: bytes, path: Path) -> bool:
        """Return false: files are of no format when no other one wants them."""
        return False

    def plan(self, path: str, split_bytes: int = SPLIT_BYTES) -> list[Split]:
        return [Split(path, 0, None, exact=True)]

    def read(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Item]:
        yield Bad(split.path, 0, NOT_READ, take_sample(read_head(split.path)))


class Block(NamedTuple):
    """Lines of a file, all of them whole but for the last of the file."""

    data: bytes
    offset: int
    """Where they begin, in bytes, in the unpacked file."""
    problem: str | None = None
    """Why nothing comes after it, or why it is no line."""


def plan_ranges(path: str, split_bytes: int) -> list[Split]:
    """A file in ranges of bytes; one that is gzipped can only be read from its beginning, and is one."""
    try:
        gzipped = is_gzipped(path)
        size = Path(path).stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if gzipped or size <= split_bytes:
        return [Split(path)]
    count = -(-size // split_bytes)
    return [Split(path, size * n // count, size * (n + 1) // count) for n in range(count)]


def plan_complete_lines(path: str, start: int, split_bytes: int) -> CompletePart:
    """What is complete of a file of lines; a last one without its end is so if it is a whole object of JSON.

    A gzipped file is taken as a whole. Raises InputError as `Format.settled`.
    """
    if is_gzipped(path):
        return plan_complete_gzip(path, start)
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            end, rest = size, b""
            while end > start:
                place = max(end - max(GZIP_BYTES, len(rest)), start)  # twice as far each time, to stay linear
                file.seek(place)
                rest = file.read(end - place) + rest
                found = rest[: end - place].rfind(b"\n") + 1
                if found or len(rest) > RECORD_BYTES:
                    end, rest = place + found, rest[found:]
                    break
                end = place
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if rest and _is_object(rest):
        end, rest = size, b""
    return CompletePart(cut_range(path, start, end, split_bytes), end, is_open=bool(rest.strip()))


def plan_complete_gzip(path: str, start: int) -> CompletePart:
    """A gzipped file, which is taken when it is whole. Raises InputError as `Format.settled`."""
    if start:
        raise InputError(f"{path}: it has changed since it was read, and a gzipped file is read as a whole: {ONCE}")
    size = _size_of(path)
    try:
        for _ in read_unpacked(path):
            pass
    except Broken:
        return CompletePart([], 0, is_open=True)
    return CompletePart([Split(path)], size, is_open=False)


def cut_range(path: str, start: int, end: int, split_bytes: int) -> list[Split]:
    """A stretch of a file in ranges of bytes, none if it is empty."""
    count = -(-(end - start) // split_bytes)
    ends = [start + (end - start) * n // count for n in range(count + 1)] if count > 0 else []
    return [Split(path, *pair) for pair in pairwise(ends)]


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(parse_json(line), dict)
    except InputError:
        return False


def _size_of(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def read_blocks(split: Split) -> Iterator[Block]:
    """Yield the lines that begin in a split, many at a time. Raises InputError when the file cannot be opened.

    Each byte is looked at once, whatever the length of lines: a line is joined from its pieces when it has its end.
    """
    place = max(split.start - 1, 0)  # a line that begins at the start has its end before it
    parts: list[bytes] = []
    size = 0
    # Whether bytes are passed over up to the next line: they belong to the split before, or to a line that is too long.
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
            begins = place + size
            if split.end is not None and begins + last > split.end:
                last = rest.find(b"\n", max(split.end - begins - 1, 0)) + 1 or last
            if last:
                whole = b"".join([*parts, rest[:last]])
                yield Block(whole, place)
                place, parts, rest = place + len(whole), [], rest[last:]
                size = 0
                if split.end is not None and place >= split.end:
                    return
            parts.append(rest)
            size += len(rest)
            if size > RECORD_BYTES:
                yield Block(b"", place, TOO_LONG)
                place, parts, size, is_passing = place + size, [], 0, True
    except Broken as problem:
        if size and not is_passing:
            yield Block(b"".join(parts), place)
        yield Block(b"", place + size, str(problem))
        return
    if size and not is_passing:
        yield Block(b"".join(parts), place)


def take_sample(data: bytes) -> bytes:
    """How something bad begins."""
    return bytes(data[:SAMPLE_BYTES])
