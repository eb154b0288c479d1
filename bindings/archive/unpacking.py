"""Read the bytes of a file, unpacked if it is gzipped, in pieces of bounded size, whatever its compression ratio."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from bindings.archive.places import Place, open_file
from exchange.errors import name_os_errors

BLOCK_BYTES: Final = 4 << 20
"""Maximum size of a piece, in bytes."""
GZIP_BYTES: Final = 1 << 16
"""Maximum number of compressed bytes that are read at once."""
HEAD_BYTES: Final = 1 << 16
"""Number of first bytes by which formats are recognised."""
GZIP: Final = b"\x1f\x8b"
"""The first bytes of a gzipped file."""


class Broken(Exception):
    """A file cannot be read or unpacked any further."""


def read_unpacked(path: Place, start: int = 0) -> Iterator[bytes]:
    """Yield a file from byte ``start`` on, in pieces of at most `BLOCK_BYTES`; a gzipped file whole, unpacked.

    Raises InputError if the file cannot be opened, `Broken` where it cannot be read further.
    """
    with name_os_errors(path):
        file = open_file(path)
    with file:
        try:
            gzipped = file.read(2) == GZIP
            file.seek(0 if gzipped else start)
            while data := file.read(GZIP_BYTES if gzipped else BLOCK_BYTES):
                if gzipped:
                    yield from _gunzip(data, file)
                    return
                yield data
        except OSError as error:
            raise Broken(f"cannot be read: {error.strerror}") from None


def _gunzip(data: bytes, file: BinaryIO) -> Iterator[bytes]:
    member = zlib.decompressobj(31)
    while data:
        before = member.copy()
        try:
            yield member.decompress(data, BLOCK_BYTES)
        except zlib.error as error:
            yield _unpack_to_damage(before, data)
            raise Broken(f"cannot be unpacked: {error}") from None
        if member.unconsumed_tail:
            data = member.unconsumed_tail
            continue
        rest = member.unused_data.lstrip(b"\0") if member.eof else b""
        data = rest or file.read(GZIP_BYTES)
        if member.eof and data.strip(b"\0"):
            if data[:1] != GZIP[:1]:
                raise Broken("something follows that is not gzipped")
            member = zlib.decompressobj(31)
    if not member.eof:
        raise Broken("the gzipped file ends in the middle")


def _unpack_to_damage(member: Any, data: bytes) -> bytes:
    """Unpack damaged data in small steps up to the damage, since zlib returns nothing from a call that fails."""
    pieces: list[bytes] = []
    size = 0
    try:
        for n in range(0, len(data), 64):
            piece = member.decompress(data[n : n + 64], BLOCK_BYTES - size)
            pieces.append(piece)
            size += len(piece)
            if size >= BLOCK_BYTES:
                break
    except zlib.error:
        pass
    return b"".join(pieces)


def read_pieces(path: Place, start: int) -> Iterator[bytes | str]:
    """Yield the pieces of `read_unpacked`, and then the reason if the file cannot be read to its end."""
    try:
        yield from read_unpacked(path, start)
    except Broken as problem:
        yield str(problem)


def is_gzipped(path: Place) -> bool:
    """Return whether a file is gzipped. Raises InputError if it cannot be opened."""
    with name_os_errors(path), open_file(path) as file:
        return file.read(2) == GZIP


def read_head(path: Place, size: int = HEAD_BYTES) -> bytes:
    """Return the first bytes of a file, unpacked if it is gzipped. Raises InputError if it cannot be opened."""
    with name_os_errors(path), open_file(path) as file:
        head = file.read(size)
    if not head.startswith(GZIP):
        return head
    head = b""
    try:
        for data in read_unpacked(path):
            head += data[: size - len(head)]
            if len(head) >= size:
                break
    except Broken:
        pass
    return head
