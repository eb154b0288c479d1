"""Read and write whole files, gzipped or not, of limited size; a file is replaced only when the new one is complete."""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from bindings.operating_system import NOT_INHERITED, NOT_WAITING, set_mode
from exchange.errors import InputError, name_os_errors
from exchange.limits import DOCUMENT_BYTES
from exchange.values.forms import Form

__all__ = [
    "NO_FILE", "PRIVATE", "PRIVATE_FOLDER", "create_exclusively", "decode_text", "gunzip", "list_files", "make_folders",
    "open_file", "read_content", "read_whole", "replace_file", "save_form", "save_lines",
]  # fmt: skip

GZIP: Final = b"\x1f\x8b"
PRIVATE: Final = 0o640
"""Mode of new files that hold messages, or definitions with hashes of passwords; the umask can only narrow it."""
PRIVATE_FOLDER: Final = 0o750
"""Mode of new folders of such files."""
NO_FILE: Final = "it is a pipe or a device; save what it gives to a file"
CHUNK: Final = 1 << 20
"""Number of bytes read at once."""
GIVEN: Final = re.compile(r"/dev/(?:null|stdin|fd/[0-9]+)|/proc/self/fd/[0-9]+")
"""Paths that are already open, such as those of a shell's ``<(...)``, or that never block."""


def read_content(name: str) -> bytes:
    """Return the content of a file, unpacked if it is gzipped, whatever its name. Raises InputError."""
    with name_os_errors(name), open_file(name) as file:
        return gunzip(read_whole(file, name), name)


def list_files(folder: str) -> list[str]:
    """Return the paths of the regular files in a folder that are not hidden, sorted. Raises InputError."""
    with name_os_errors(folder):
        found = [path for path in Path(folder).iterdir() if not path.name.startswith(".") and path.is_file()]
    return sorted(os.path.join(folder, path.name) for path in found)  # noqa: PTH118  as the user wrote it


def open_file(name: str | Path) -> BinaryIO:
    """Open a file to read. Raises OSError, also for named pipes, sockets and devices.

    Opening a named pipe waits for a writer, possibly forever, and a device may never end. Pipes that were opened for
    the command (``/dev/stdin``, a shell's ``<(...)``) have a writer, and are allowed.
    """
    path = str(name)
    if GIVEN.fullmatch(path):
        return open(path, "rb")  # noqa: PTH123
    try:
        file = open(path, "rb", opener=lambda path, flags: os.open(path, flags | NOT_WAITING))  # noqa: SIM115
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.EINVAL, NO_FILE) from None
        raise
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, str(error)) from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, NO_FILE)
    return file


def read_whole(file: BinaryIO, name: str) -> bytes:
    """Read the rest of a file or a pipe. Raises InputError if it exceeds the limit of a topology file, and OSError."""
    read = io.BytesIO()
    while chunk := file.read(CHUNK):
        read.write(chunk)
        if read.tell() > DOCUMENT_BYTES:
            raise InputError(f"{name}: too large: a topology has {DOCUMENT_BYTES >> 20} MiB at most")
    return read.getvalue()


def gunzip(data: bytes, name: str) -> bytes:
    """Return the data, unpacked if they are gzipped. Raises InputError, also if the unpacked data exceed the limit."""
    if not data.startswith(GZIP):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return read_whole(file, f"{name}: unpacked")  # type: ignore[arg-type]
    except (OSError, EOFError, zlib.error) as error:
        if str(error).startswith("Not a gzipped file"):  # of what follows the first gzipped member
            raise InputError(f"{name}: something follows the gzipped data that is not gzipped; pack it anew") from None
        raise InputError(f"{name}: cannot be read: {error}") from None


def decode_text(data: bytes, name: str) -> str:
    """Return the text of data in UTF-8, with or without a byte order mark. Raises InputError."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 at byte {error.start}; it has to be text in UTF-8") from None


def save_lines(name: str, lines: Iterable[str]) -> None:
    """Write a file, gzipped if its name ends with ".gz"; an old file stays until the new one is complete.

    Raises InputError when it cannot be written.
    """
    pack = _compress if name.endswith(".gz") else nullcontext
    with name_os_errors(name, "written"), replace_file(Path(name)) as raw, pack(raw) as file:
        file.writelines(line.encode() for line in lines)


def save_form(form: Form, *result: Any, path: Path, with_folders: bool = False) -> None:
    """Write a result to a file in a form, or to a folder if it is many files; ``with_folders`` creates missing ones.

    Raises InputError when it cannot be written.
    """
    with name_os_errors(path, "written"):
        if with_folders:
            make_folders(path.parent)
    if form.is_folder:
        form.load()(*result, path)
    else:
        save_lines(str(path), [form.encode(*result).decode()])


@contextmanager
def replace_file(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Yield a new file that replaces ``path`` when the block ends; after an exception, ``path`` is unchanged.

    The file has its final mode before its first byte: that of the file it replaces, `PRIVATE` if there is none. With
    ``durable``, its bytes are on the disk before it replaces the old one. A link stays one. A device, a pipe, and what
    is open already are written to directly. Raises OSError.
    """
    known = None
    with suppress(FileNotFoundError):
        known = path.stat().st_mode
    is_open = GIVEN.fullmatch(str(path)) or str(path) in ("/dev/stdout", "/dev/stderr")
    if is_open or (known is not None and not (stat.S_ISREG(known) or stat.S_ISDIR(known))):
        with path.open("ab") as file:
            yield file
        return
    path = path.resolve()
    partial = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    mode = PRIVATE if known is None else stat.S_IMODE(known) & 0o777
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


def make_folders(path: Path) -> None:
    """Create a folder and its missing parents, accessible to their owner and group only. Raises OSError."""
    missing = [path]
    while not missing[-1].parent.is_dir():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        folder.mkdir(PRIVATE_FOLDER, exist_ok=True)


def create_exclusively(path: Path, mode: int = PRIVATE) -> int:
    """Return the descriptor of a new file, open for writing; a file that a killed run left is removed first.

    A link that someone planted there is removed, too, and not followed. Raises OSError.
    """
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOT_INHERITED, mode)


def _compress(file: BinaryIO) -> gzip.GzipFile:
    return gzip.GzipFile("", "wb", fileobj=file, mtime=0)  # no name and no time: equal content gives equal files
