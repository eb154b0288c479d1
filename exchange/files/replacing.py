"""Replace a file when the new one is complete: until then, and if anything fails, the old one stays as it is."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from exchange.files.operating_system import NOT_INHERITED, set_mode

PRIVATE: Final = 0o640
"""Mode of new files that hold messages, or definitions with hashes of passwords; the umask can only narrow it."""
GIVEN: Final = re.compile(r"/dev/(?:null|stdin|fd/[0-9]+)|/proc/self/fd/[0-9]+")
"""Paths that are already open, such as those of a shell's ``<(...)``, or that never block."""


@contextmanager
def replace_file(path: Path, *, mode: int = PRIVATE, durable: bool = False) -> Iterator[BinaryIO]:
    """Yield a new file that replaces ``path`` when the block ends; after an exception, ``path`` is unchanged.

    The file has its final mode before its first byte: that of the file it replaces, ``mode`` if there is none. With
    ``durable``, its bytes are on the disk before it replaces the old one. A link stays one. A device, a pipe, and what
    is open already are written to directly. Raises OSError.
    """
    known = None
    with suppress(FileNotFoundError):
        known = path.stat().st_mode
    is_open = GIVEN.fullmatch(str(path)) or str(path) in ("/dev/stdout", "/dev/stderr")
    if is_open or (known is not None and not stat.S_ISREG(known)):
        with path.open("ab") as file:
            yield file
        return
    path = path.resolve()
    partial = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    mode = mode if known is None else stat.S_IMODE(known) & 0o777
    try:
        with open(create_exclusively(partial, mode), "wb") as file:
            if known is not None:
                set_mode(file.fileno(), mode)  # the umask has narrowed it
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def create_exclusively(path: Path, mode: int = PRIVATE) -> int:
    """Return the descriptor of a new file, open for writing; a file that a killed run left is removed first.

    A link that someone planted there is removed, too, and not followed. Raises OSError.
    """
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOT_INHERITED, mode)
