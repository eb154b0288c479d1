"""What was written to an archive and is no Parquet yet: a file of batches, each safe when it was synced.

A spool is hidden, ``.spool-TOKEN.arrow``; its batches are of `SPOOLED`, serialised by Arrow, each behind a length and a
checksum. Messages stand in it nearly as they came, the content header undecoded: making rows of the archive's schema
takes ten times as long, and is done later, elsewhere (`bridge.endpoints.archive.rotation`).

Who writes a spool holds a lock on it for as long as it lives, so a spool that can be locked is nobody's: its writer has
closed it, or is dead. Its name may be taken away, or the folder be moved: the file stays open until its rows are parts,
so that they can still be had (`Spool.find`, `Spool.copy_to`). A spool that has become parts is emptied before it is
removed, by which the two cases are distinguished.

A batch goes to the end of a spool only after all before it were synced. So what is torn at the end was promised to
nobody, and what is damaged with whole batches behind it is no tear but damage.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from time import time_ns
from typing import Final, NamedTuple

import pyarrow as pa

__all__ = ["SPOOLED", "Frame", "Gone", "Spool", "frames_of", "locked", "spools_in", "sync_folder", "token_of"]

SPOOLED: Final = pa.schema([
    pa.field("folder", pa.string()),
    pa.field("time", pa.int64()),
    pa.field("exchange", pa.string()),
    pa.field("routing_key", pa.string()),
    pa.field("content", pa.binary()),
    pa.field("body", pa.binary()),
    pa.field("identity", pa.string()),
    pa.field("source", pa.string()),
    pa.field("offset", pa.int64()),
])  # fmt: skip
"""A message and the folder that it is for; texts as `bindings.archive.names` writes them, ``content`` as AMQP does."""

BEGIN: Final = b"hashstar spool 1\n"
MARK: Final = b"\xf0bat"
HEADER: Final = struct.Struct(">4sII")
"""The mark, the length of the batch and its CRC-32."""
PREFIX: Final = ".spool-"
SUFFIX: Final = ".arrow"
DAMAGED: Final = ".damaged-"
"""In the place of the prefix, once what is whole of a spool is in the archive."""
COPY_BYTES: Final = 1 << 20


class Gone(Exception):
    """A spool's file is not where it was made: it, or a folder above it, was moved or removed."""


class Frame(NamedTuple):
    """What is at a place of a spool."""

    batch: pa.RecordBatch | None
    """None: bytes that are no batch."""
    size: int


class Spool:
    """A spool that is being written. Everything here waits for the disk, and raises OSError."""

    def __init__(self, folder: Path) -> None:
        self.path, self._file = _created(folder)
        self.size = len(BEGIN)
        """What is synced, in bytes."""
        self.rows = 0
        try:
            _write(self._file, [BEGIN])
            os.fsync(self._file)
            sync_folder(folder)
        except OSError:
            self.discard()
            raise

    def append(self, batch: pa.RecordBatch) -> None:
        """Add a batch, and come back when it is safe; what fails leaves nothing behind, and ends the spool's use.

        Raises Gone, too: what is safe in a file that nobody finds is not in the archive.
        """
        data = batch.serialize()
        try:
            _write(self._file, [HEADER.pack(MARK, data.size, zlib.crc32(data)), data])
            os.fdatasync(self._file)
            self.require_place()
        except (OSError, Gone):
            # Whoever was not answered writes it again, elsewhere. After a failed sync nobody knows what is on the disk
            # of the bytes that were not synced, and syncing again would lie about it.
            with suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise
        self.size += HEADER.size + data.size
        self.rows += batch.num_rows

    def is_in_place(self) -> bool:
        """Whether its file is still the one at its path."""
        return _is_at(self._file, self.path)

    def require_place(self) -> None:
        """Raise Gone unless its file is still the one at its path."""
        if not self.is_in_place():
            raise Gone(f"{self.path}: it, or its folder, was moved or removed")

    def is_lost(self) -> bool:
        """Whether it has rows that are not at its path, and no parts were made of."""
        if self.is_in_place() or not os.fstat(self._file).st_size:
            return False
        found = self.find()
        return found is None or not found.name.startswith(DAMAGED)

    def find(self) -> Path | None:
        """Where its file is now; None if it has no name any more, or the system does not tell."""
        with suppress(OSError):
            path = Path(f"/proc/self/fd/{self._file}").readlink()
            if _is_at(self._file, path):
                return path
        return None

    def copy_to(self, folder: Path) -> Path:
        """Write its rows into a new spool of this folder, for whoever finds it, and return its path."""
        path, file = _created(folder)
        try:
            for place in range(0, self.size, COPY_BYTES):
                _write(file, [os.pread(self._file, min(COPY_BYTES, self.size - place), place)])
            os.fsync(file)
            sync_folder(folder)
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise
        finally:
            os.close(file)
        return path

    def release(self) -> None:
        """Let it be turned into parts, by whoever; the file stays open."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release it, and close its file."""
        os.close(self._file)

    def discard(self) -> None:
        """Close it and take it away, as nothing is in it."""
        with suppress(OSError):
            self.path.unlink()
        os.close(self._file)


def _created(folder: Path) -> tuple[Path, int]:
    while True:
        path = folder / f"{PREFIX}{_new_token()}{SUFFIX}"
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o640)
        except FileExistsError:
            continue
        fcntl.flock(file, fcntl.LOCK_EX)
        if _is_at(file, path):
            return path, file
        os.close(file)  # somebody who looks for what the dead left was faster, and took it away


_last_moment = 0


def _new_token() -> str:
    """Unlike all others, and behind all that this process has made before in the order of names."""
    global _last_moment  # noqa: PLW0603  a clock that is set back must not turn the order of parts round
    _last_moment = max(time_ns() // 1_000, _last_moment + 1)
    moment = datetime.fromtimestamp(_last_moment / 1_000_000, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{_last_moment % 1_000_000:06}Z-{token_hex(3)}"


def token_of(path: Path) -> str:
    """What a spool's name tells it apart by; the names of its parts have it."""
    return path.name.removeprefix(PREFIX).removesuffix(SUFFIX)


def spools_in(folder: Path) -> list[Path]:
    """The spools of a folder, the oldest first."""
    return sorted(each for each in folder.iterdir() if each.name.startswith(PREFIX) and each.name.endswith(SUFFIX))


def locked(path: Path) -> int | None:
    """A descriptor of a spool that is nobody's, with its lock; None if it is somebody's, or gone. Raises OSError."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    if _is_at(file, path):
        return file
    os.close(file)
    return None


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def frames_of(path: Path) -> Iterator[Frame]:
    """What is in a spool, in its order; all of it, so that what is no batch has a size too."""
    data = pa.memory_map(str(path)).read_buffer() if path.stat().st_size else pa.py_buffer(b"")
    view = memoryview(data)
    place = len(BEGIN) if bytes(view[: len(BEGIN)]) == BEGIN else 0
    while place < len(view):
        size = _frame_at(view, place)
        if size is None:
            behind = _next_frame(view, place + 1)
            yield Frame(None, behind - place)
            place = behind
        else:
            batch = pa.ipc.read_record_batch(data.slice(place + HEADER.size, size), SPOOLED)
            yield Frame(batch, HEADER.size + size)
            place += HEADER.size + size


def _frame_at(view: memoryview, place: int) -> int | None:
    if place + HEADER.size > len(view):
        return None
    mark, size, check = HEADER.unpack_from(view, place)
    start = place + HEADER.size
    if mark != MARK or start + size > len(view) or zlib.crc32(view[start : start + size]) != check:
        return None
    return int(size)


def _next_frame(view: memoryview, place: int) -> int:
    """Where the next whole batch begins, or the end."""
    rest = view[place:].tobytes()
    found = rest.find(MARK)
    while found >= 0:
        if _frame_at(view, place + found) is not None:
            return place + found
        found = rest.find(MARK, found + 1)
    return len(view)


def _write(file: int, parts: list[bytes | pa.Buffer]) -> None:
    for part in parts:
        view = memoryview(part)
        while view:
            view = view[os.write(file, view) :]


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe. Raises OSError."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
