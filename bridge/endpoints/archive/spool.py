"""Messages written to an archive that are not Parquet yet: a file of batches, each safe once it is synced.

A spool is hidden, ``.spool-TOKEN.arrow``. Its batches have the schema `SPOOLED`, serialised by Arrow, each after a
length and a checksum. Messages are written nearly as they came, with the content header undecoded: to convert them to
rows of the archive's schema takes ten times as long, and is done later, by another process (`rotation`).

The writer of a spool holds a lock on it as long as it lives, so a spool that can be locked has no owner: its writer has
closed it, or is dead. A spool may be removed, or its folder moved: the file stays open until its rows are parts, so
that they can still be saved (`Spool.find`, `Spool.copy_to`). A spool that has become parts is emptied before it is
removed, which distinguishes the two cases.

A batch is appended only after all before it were synced. So an incomplete batch at the end was never confirmed; bytes
that are no batch, but are followed by a whole one, were damaged later.
"""

from __future__ import annotations

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

from exchange.files.operating_system import NOT_INHERITED, lock_file, read_at, sync_data, sync_folder, unlock_file

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
"""A message and its folder; texts as `bindings.archive.names` escapes them, ``content`` as in AMQP."""

BEGIN: Final = b"hashstar spool 1\n"
MARK: Final = b"\xf0bat"
HEADER: Final = struct.Struct(">4sII")
"""Header of a frame: the mark, the length of the batch and its CRC-32."""
PREFIX: Final = ".spool-"
SUFFIX: Final = ".arrow"
DAMAGED: Final = ".damaged-"
"""Prefix of a damaged spool whose whole batches are in the archive."""
COPY_BYTES: Final = 1 << 20
"""Number of bytes copied at once."""


class SpoolGone(Exception):
    """A spool's file is not where it was made: it, or a folder above it, was moved or removed."""


class SpoolFrame(NamedTuple):
    """A batch of a spool, or bytes before, between or after batches that are none."""

    batch: pa.RecordBatch | None
    """None: the bytes are no batch."""
    size: int
    """Number of its bytes in the spool."""


class Spool:
    """A spool that is being written. All methods wait for the disk, and raise OSError."""

    def __init__(self, folder: Path) -> None:
        self.path, self._file = _create_file(folder)
        self.size = len(BEGIN)
        """Number of bytes that are synced."""
        self.rows = 0
        try:
            _write(self._file, [BEGIN])
            os.fsync(self._file)
            sync_folder(folder)
        except OSError:
            self.discard()
            raise

    def append(self, batch: pa.RecordBatch) -> None:
        """Append a batch and sync it. After an error nothing of it is left, and the spool must not be used again.

        Raises SpoolGone, too: a batch in a file that is not in the folder any more is not in the archive.
        """
        data = batch.serialize()
        try:
            _write(self._file, [HEADER.pack(MARK, data.size, zlib.crc32(data)), data])
            sync_data(self._file)
            self.require_place()
        except (OSError, SpoolGone):
            # The messages are not confirmed and come again, into another spool. After a failed sync it is unknown
            # which of the bytes are on the disk, and another sync may succeed although they are not.
            with suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise
        self.size += HEADER.size + data.size
        self.rows += batch.num_rows

    def is_in_place(self) -> bool:
        """Return whether its file is still the one at its path."""
        return _is_at(self._file, self.path)

    def require_place(self) -> None:
        """Raise SpoolGone unless its file is still the one at its path."""
        if not self.is_in_place():
            raise SpoolGone(f"{self.path}: it, or its folder, was moved or removed")

    def is_lost(self) -> bool:
        """Return whether its rows are neither at its path nor in parts."""
        if self.is_in_place() or not os.fstat(self._file).st_size:
            return False
        path = self.find()
        return path is None or not path.name.startswith(DAMAGED)

    def find(self) -> Path | None:
        """Return where its file is now; None if it has no name any more, or the system has no ``/proc``."""
        with suppress(OSError):
            path = Path(f"/proc/self/fd/{self._file}").readlink()
            if _is_at(self._file, path):
                return path
        return None

    def copy_to(self, folder: Path) -> Path:
        """Copy it to a new spool in this folder, without an owner, and return its path."""
        path, file = _create_file(folder)
        try:
            for start in range(0, self.size, COPY_BYTES):
                _write(file, [read_at(self._file, min(COPY_BYTES, self.size - start), start)])
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
        """Give up the lock, so that it can be turned into parts; the file stays open."""
        unlock_file(self._file)

    def close(self) -> None:
        """Release it, and close its file."""
        os.close(self._file)

    def discard(self) -> None:
        """Close and remove it; it must be empty."""
        with suppress(OSError):
            self.path.unlink()
        os.close(self._file)


def _create_file(folder: Path) -> tuple[Path, int]:
    while True:
        path = folder / f"{PREFIX}{_new_token()}{SUFFIX}"
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | NOT_INHERITED, 0o640)
        except FileExistsError:
            continue
        lock_file(file, wait=True)
        if _is_at(file, path):
            return path, file
        os.close(file)  # another process locked it before us as one without an owner, and has removed it


_last_moment = 0


def _new_token() -> str:
    """Return a token that is unique, and greater than all that this process made before, in the order of names."""
    global _last_moment  # noqa: PLW0603  a clock that is set back must not reverse the order of parts
    _last_moment = max(time_ns() // 1_000, _last_moment + 1)
    moment = datetime.fromtimestamp(_last_moment / 1_000_000, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{_last_moment % 1_000_000:06}Z-{token_hex(3)}"


def read_token(path: Path) -> str:
    """Return the unique part of a spool's name; the names of its parts have it, too."""
    return path.name.removeprefix(PREFIX).removesuffix(SUFFIX)


def find_spools(folder: Path) -> list[Path]:
    """Return the spools of a folder, the oldest first."""
    return sorted(each for each in folder.iterdir() if each.name.startswith(PREFIX) and each.name.endswith(SUFFIX))


def lock_spool(path: Path) -> int | None:
    """Lock a spool and return its descriptor; None if another process has the lock, or it is gone. Raises OSError."""
    try:
        file = os.open(path, os.O_RDWR | NOT_INHERITED)
    except FileNotFoundError:
        return None
    if lock_file(file, wait=False) and _is_at(file, path):
        return file
    os.close(file)
    return None


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def read_frames(path: Path) -> Iterator[SpoolFrame]:
    """Yield all of a spool in its order: batches, and bytes that are none."""
    data = pa.memory_map(str(path)).read_buffer() if path.stat().st_size else pa.py_buffer(b"")
    view = memoryview(data)
    at = len(BEGIN) if bytes(view[: len(BEGIN)]) == BEGIN else 0
    while at < len(view):
        size = _batch_size_at(view, at)
        if size is None:
            following = _find_frame(view, at + 1)
            yield SpoolFrame(None, following - at)
            at = following
        else:
            batch = pa.ipc.read_record_batch(data.slice(at + HEADER.size, size), SPOOLED)
            yield SpoolFrame(batch, HEADER.size + size)
            at += HEADER.size + size


def _batch_size_at(view: memoryview, at: int) -> int | None:
    """Return the size of the batch whose frame begins here; None: there is no whole frame."""
    if at + HEADER.size > len(view):
        return None
    mark, size, check = HEADER.unpack_from(view, at)
    start = at + HEADER.size
    if mark != MARK or start + size > len(view) or zlib.crc32(view[start : start + size]) != check:
        return None
    return int(size)


def _find_frame(view: memoryview, start: int) -> int:
    """Return where the next whole frame begins, or the end."""
    rest = view[start:].tobytes()
    at = rest.find(MARK)
    while at >= 0:
        if _batch_size_at(view, start + at) is not None:
            return start + at
        at = rest.find(MARK, at + 1)
    return len(view)


def _write(file: int, buffers: list[bytes | pa.Buffer]) -> None:
    for buffer in buffers:
        view = memoryview(buffer)
        while view:
            view = view[os.write(file, view) :]
