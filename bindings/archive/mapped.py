"""Map a file into memory as bytes; one that is gzipped or in a store is first written to a temporary file, unpacked.

How often these bytes may be hashed again after damage is limited, so that recovery takes linear time: `Effort`.
"""

from __future__ import annotations

import mmap
import tempfile
from typing import Final, TypeAlias

from bindings.archive.places import Place, RemoteFile, open_file
from bindings.archive.unpacking import GZIP, is_gzipped, read_pieces
from exchange.errors import name_os_errors
from exchange.limits import FILE_BYTES

Bytes: TypeAlias = bytes | mmap.mmap
CHUNK = 1 << 20
"""Number of bytes that are compared with zeros at once."""
TIMES: Final = 16
"""Maximum number of times that a byte of a file is hashed, on average. Sound files need one, damaged ones few more."""


class Mapped:
    """A context manager for the bytes of a file; of a damaged gzipped file, for those before the damage.

    Entering raises InputError if the file cannot be read.
    """

    def __init__(self, path: Place) -> None:
        self._path = path
        self.problem = ""
        """Why a gzipped file is not read to its end; empty if it is."""

    def __enter__(self) -> Bytes:
        with name_os_errors(self._path):
            if isinstance(self._path, str):
                with open_file(self._path) as file:
                    if file.read(len(GZIP)) != GZIP:
                        self._data = _map_file(file.fileno(), file.seek(0, 2))
                        return self._data
            with tempfile.TemporaryFile() as unpacked:
                for piece in read_pieces(self._path, 0):
                    if isinstance(piece, str):
                        self.problem = piece
                    elif unpacked.tell() + len(piece) > FILE_BYTES:
                        self.problem = f"a file that is gzipped or in a store, and has more than {FILE_BYTES >> 30} GiB"
                        break
                    else:
                        unpacked.write(piece)
                unpacked.flush()
                self._data = _map_file(unpacked.fileno(), unpacked.tell())
        return self._data

    def __exit__(self, *_: object) -> None:
        if isinstance(self._data, mmap.mmap):
            self._data.close()


def is_copied(path: Place) -> bool:
    """Return whether a file is copied before it is mapped, so that it is read as one split: once. Raises InputError."""
    return isinstance(path, RemoteFile) or is_gzipped(path)


def _map_file(descriptor: int, size: int) -> Bytes:
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) if size else b""


def is_zero(data: Bytes, place: int) -> bool:
    """Return whether all bytes from ``place`` on are zero, as in a file that is allocated before it is written."""
    if any(data[place : place + 64]):  # the usual case: decided without copying a chunk
        return False
    return all(not data[n : n + CHUNK].strip(b"\0") for n in range(place, len(data), CHUNK))


class Effort:
    """The number of bytes of a file that were hashed so far.

    Damage leaves a few false beginnings of records; a forged file can have any number, which overlap. Each is a
    candidate whose checksum takes its whole length. So a candidate is checked only while at most `TIMES` the bytes up
    to its end have been hashed. A sound record is always checked: those before it took no more than their own lengths.
    """

    def __init__(self, start: int) -> None:
        self._start = start
        self.spent = 0

    def allows(self, end: int, size: int) -> bool:
        """Return whether a candidate of ``size`` bytes that ends at byte ``end`` may be hashed, and count it if so."""
        if self.spent + size > TIMES * (end - self._start):
            return False
        self.spent += size
        return True
