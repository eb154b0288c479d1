"""What a format of archives is: files are split, splits are read as rows of Arrow and as what is wrong on the way.

``plan`` runs where the archive is opened, ``read`` where the work is done: formats and splits are small values that can
be pickled. Reading never stops and never raises for what a file holds: a record that cannot be read comes as `Bad` with
its place, and reading goes on behind it. What is whole but no publishing (a delivery in a trace, a control batch)
comes as `Skipped`. The splits of a file are read independently and together give each record once.
"""

from __future__ import annotations

import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple, TypeAlias

import pyarrow as pa

from exchange.errors import InputError

__all__ = [
    "BATCH_BYTES", "BATCH_ROWS", "COPIES", "SPLIT_BYTES", "Bad", "Bias", "Block", "Format", "Item", "Settled",
    "Skipped", "Split", "blocks", "head_of", "is_gzipped", "pieces", "ranges", "sample_of", "settled_gzip",
    "settled_lines", "unpacked_pieces", "whole",
]  # fmt: skip

BATCH_ROWS: Final = 1 << 14
"""The most rows that a batch of a row-by-row reader has."""
BATCH_BYTES: Final = 64 << 20
"""What the bodies of a batch have together, about, unless it is one row."""
SPLIT_BYTES: Final = 32 << 20
"""What a split has about, unless something else is asked for."""
BLOCK_BYTES: Final = 4 << 20
GZIP_BYTES: Final = 1 << 16
HEAD_BYTES: Final = 1 << 16
LONGEST: Final = 256 << 20
"""What is taken for one line at most, in bytes."""
SAMPLE_BYTES: Final = 80
GZIP: Final = b"\x1f\x8b"
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


class Settled(NamedTuple):
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

    def settled(self, path: str, start: int = 0, split_bytes: int = SPLIT_BYTES) -> Settled:
        """What is complete of a file that may still be written, behind the place up to which it was so before.

        The splits together with those of earlier times give each record once. Raises InputError if the file cannot be
        opened, or if it is one that can only be read as a whole, and was read before.
        """
        if start:
            raise InputError(f"{path}: it has changed since it was read, and {self.name} is read as a whole: {ONCE}")
        if not self.is_complete(path):
            return Settled([], 0, is_open=True)
        size = _size(path)
        return Settled([Split(path)] if size else [], size, is_open=False)

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


class Block(NamedTuple):
    """Lines of a file, all of them whole but for the last of the file."""

    data: bytes
    offset: int
    """Where they begin, in bytes, in the unpacked file."""
    problem: str | None = None
    """Why nothing comes after it, or why it is no line."""


class _Broken(Exception):
    """A file cannot be unpacked further."""


def unpacked(path: str, start: int = 0) -> Iterator[bytes]:
    """What is in a file from a byte on, piece by piece; one that is gzipped is unpacked, and read from its beginning.

    Raises InputError when it cannot be opened, `_Broken` where it cannot be read on.
    """
    try:
        file = Path(path).open("rb")  # noqa: SIM115  closed below
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    with file:
        try:
            gzipped = file.read(2) == GZIP
            file.seek(0 if gzipped else start)
            while data := file.read(GZIP_BYTES if gzipped else BLOCK_BYTES):
                if gzipped:
                    yield from _unzipped(data, file)
                    return
                yield data
        except OSError as error:
            raise _Broken(f"cannot be read: {error.strerror}") from None


def _unzipped(data: bytes, file: BinaryIO) -> Iterator[bytes]:
    member = zlib.decompressobj(31)
    while data:
        before = member.copy()
        try:
            yield member.decompress(data)
        except zlib.error as error:
            yield _all_that_comes(before, data)
            raise _Broken(f"cannot be unpacked: {error}") from None
        rest = member.unused_data.lstrip(b"\0") if member.eof else b""
        data = rest or file.read(GZIP_BYTES)
        if member.eof and data.strip(b"\0"):
            if data[:1] != GZIP[:1]:
                raise _Broken("something follows that is not gzipped")
            member = zlib.decompressobj(31)
    if not member.eof:
        raise _Broken("the gzipped file ends in the middle")


def _all_that_comes(member: Any, data: bytes) -> bytes:
    """What can be unpacked of data that are broken somewhere."""
    parts: list[bytes] = []
    try:
        for n in range(0, len(data), 64):
            parts.append(member.decompress(data[n : n + 64]))  # noqa: PERF401  what came before an error is kept
    except zlib.error:
        pass
    return b"".join(parts)


def ranges(path: str, split_bytes: int) -> list[Split]:
    """A file in ranges of bytes; one that is gzipped can only be read from its beginning, and is one."""
    try:
        with Path(path).open("rb") as file:
            gzipped = file.read(2) == GZIP
        size = Path(path).stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if gzipped or size <= split_bytes:
        return [Split(path)]
    count = -(-size // split_bytes)
    return [Split(path, size * n // count, size * (n + 1) // count) for n in range(count)]


def settled_lines(path: str, start: int, split_bytes: int) -> Settled:
    """What is complete of a file of lines; a last one without its end is so if it is a whole object of JSON.

    A gzipped file is taken as a whole. Raises InputError as `Format.settled`.
    """
    if is_gzipped(path):
        return settled_gzip(path, start)
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            end, rest = size, b""
            while end > start:
                place = max(end - GZIP_BYTES, start)
                file.seek(place)
                rest = file.read(end - place) + rest
                found = rest[: end - place].rfind(b"\n") + 1
                if found or len(rest) > LONGEST:
                    end, rest = place + found, rest[found:]
                    break
                end = place
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if rest and _is_object(rest):
        end, rest = size, b""
    return Settled(pieces(path, start, end, split_bytes), end, is_open=bool(rest.strip()))


def is_gzipped(path: str) -> bool:
    """Whether a file is. Raises InputError if it cannot be opened."""
    try:
        with Path(path).open("rb") as file:
            return file.read(2) == GZIP
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def settled_gzip(path: str, start: int) -> Settled:
    """A gzipped file, which is taken when it is whole. Raises InputError as `Format.settled`."""
    if start:
        raise InputError(f"{path}: it has changed since it was read, and a gzipped file is read as a whole: {ONCE}")
    size = _size(path)
    try:
        for _ in unpacked(path):
            pass
    except _Broken:
        return Settled([], 0, is_open=True)
    return Settled([Split(path)], size, is_open=False)


def pieces(path: str, start: int, end: int, split_bytes: int) -> list[Split]:
    """A stretch of a file in ranges of bytes, none if it is empty."""
    count = -(-(end - start) // split_bytes)
    ends = [start + (end - start) * n // count for n in range(count + 1)] if count > 0 else []
    return [Split(path, *pair) for pair in pairwise(ends)]


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def blocks(split: Split) -> Iterator[Block]:
    """The lines that begin in a split, many at a time. Raises InputError when the file cannot be opened."""
    place = max(split.start - 1, 0)  # a line that begins at the start has its end before it
    rest, inside = b"", split.start == 0
    try:
        for data in unpacked(split.path, place):
            rest += data
            if not inside:
                end = rest.find(b"\n") + 1
                if not end:
                    place, rest = place + len(rest), b""
                    continue
                place, rest, inside = place + end, rest[end:], True
            if split.end is not None and place >= split.end:
                return
            last = rest.rfind(b"\n") + 1
            if split.end is not None and place + last > split.end:
                last = rest.find(b"\n", split.end - place - 1) + 1 or last
            if last:
                yield Block(rest[:last], place)
                place, rest = place + last, rest[last:]
                if split.end is not None and place >= split.end:
                    return
            elif len(rest) > LONGEST:
                yield Block(b"", place, f"a line of more than {LONGEST >> 20} MiB")
                return
    except _Broken as problem:
        if rest and inside:
            yield Block(rest, place)
        yield Block(b"", place + len(rest), str(problem))
        return
    if rest and inside:
        yield Block(rest, place)


def unpacked_pieces(path: str, start: int) -> Iterator[bytes | str]:
    """What is in a file from a byte on, and at the end a text if that is not its end, but where it is broken."""
    try:
        yield from unpacked(path, start)
    except _Broken as problem:
        yield str(problem)


def whole(path: str, limit: int = LONGEST) -> bytes:
    """All that is in a file, unpacked if it is gzipped, up to so many bytes. Raises InputError."""
    parts: list[bytes] = []
    count = 0
    try:
        for data in unpacked(path):
            parts.append(data)
            count += len(data)
            if count >= limit:
                break
    except _Broken as problem:
        raise InputError(f"{path}: {problem}") from None
    return b"".join(parts)[:limit]


def head_of(path: str) -> bytes:
    """How a file begins, unpacked if it is gzipped; as much of it as tells its format. Raises InputError."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if not head.startswith(GZIP):
        return head
    head = b""
    try:
        for data in unpacked(path):
            head += data[: HEAD_BYTES - len(head)]
            if len(head) >= HEAD_BYTES:
                break
    except _Broken:
        pass
    return head


def sample_of(data: bytes) -> bytes:
    """How something bad begins."""
    return bytes(data[:SAMPLE_BYTES])
