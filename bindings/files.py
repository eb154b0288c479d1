"""Reading and writing files whole: gzipped or not, replaced only when all is written, errors that name them."""

from __future__ import annotations

import gzip
import shutil
import zlib
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO, Final

from exchange.errors import InputError

__all__ = ["content", "decoded", "gunzipped", "save_lines"]

GZIP: Final = b"\x1f\x8b"


def content(name: str) -> bytes:
    """What is in a file, unpacked if it is gzipped, whatever it is called. Raises InputError."""
    try:
        return gunzipped(Path(name).read_bytes(), name)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error}") from None


def gunzipped(data: bytes, name: str) -> bytes:
    """The data, unpacked if they are gzipped. Raises InputError."""
    try:
        return gzip.decompress(data) if data.startswith(GZIP) else data
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{name}: cannot be read: {error}") from None


def decoded(data: bytes, name: str) -> str:
    """The text of data in UTF-8, with a byte order mark or not. Raises InputError."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 at byte {error.start}; topologies are text in UTF-8") from None


def save_lines(name: str, lines: Iterable[str]) -> None:
    """Write a file, gzipped if its name ends with ".gz"; what was there stays until all is written.

    Raises InputError when it cannot be written.
    """
    target = Path(name).resolve()  # a link stays one
    partial = Path(f"{target}.part")
    try:
        with partial.open("wb") as raw, _compressed(raw) if name.endswith(".gz") else nullcontext(raw) as file:
            file.writelines(line.encode() for line in lines)
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    except OSError as error:
        raise InputError(f"{name}: cannot be written: {error}") from None
    finally:
        partial.unlink(missing_ok=True)


def _compressed(file: BinaryIO) -> gzip.GzipFile:
    return gzip.GzipFile("", "wb", fileobj=file, mtime=0)  # no name and no time: equal content, equal files
