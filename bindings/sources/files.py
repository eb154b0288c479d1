"""Read and write whole files, gzipped or not, of limited size."""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Final

from exchange.errors import InputError, name_os_errors
from exchange.files.operating_system import NOT_WAITING
from exchange.files.replacing import GIVEN, replace_file
from exchange.limits import DOCUMENT_BYTES
from exchange.values.forms import Form

GZIP: Final = b"\x1f\x8b"
PRIVATE_FOLDER: Final = 0o750
"""Mode of new folders of such files."""
NO_FILE: Final = "it is a pipe or a device; save what it gives to a file"
CHUNK: Final = 1 << 20
"""Number of bytes read at once."""


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


def make_folders(path: Path) -> None:
    """Create a folder and its missing parents, accessible to their owner and group only.

    Raises OSError, NotADirectoryError if something else is there.
    """
    missing = [path]
    while not missing[-1].parent.is_dir():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        try:
            folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None


def _compress(file: BinaryIO) -> gzip.GzipFile:
    return gzip.GzipFile("", "wb", fileobj=file, mtime=0)  # no name and no time: equal content gives equal files
