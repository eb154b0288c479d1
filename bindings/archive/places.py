"""Name the places of archives: paths on this machine, and files in stores of objects by their addresses.

A place is a path as the user wrote it, or a `RemoteFile`: a file system of pyarrow (S3, Google Cloud Storage, Azure,
HDFS) and a path in it. Both are small values that can be pickled: a process connects to a store when it opens a file
there. Readers open files by `open_file`, so that there is one reader of each format. Names of stored files are taken as
they are, without percent-encoding. Credentials come from where pyarrow takes them, or from the address; no text shows
them. `docs/decisions/0048-a-place-is-a-path-or-a-stored-file.md` explains why a place is no path of `pathlib`.
"""

from __future__ import annotations

import errno
import io
import os
import pickle
import re
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias
from urllib.parse import unquote

from bindings.sources import files as local
from exchange.errors import InputError, name_os_errors
from exchange.text.display import count_noun, escape_line

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileInfo, FileSystem

MAX_REMOTE_FILES: Final = 1_000_000
"""Maximum number of files of an archive in a store."""
FIRST_READ: Final = 64 << 10
"""Number of bytes that the first request to a store reads; each further one in a row reads four times as many."""
MAX_READ: Final = 4 << 20
"""Maximum number of bytes that a request for consecutive bytes reads."""
CATALOG: Final = "iceberg://"
"""The beginning of the address of a table of Iceberg in a catalog."""
ADDRESS: Final = re.compile(
    r"(?P<scheme>s3a?|gs|gcs|abfss?|hdfs|viewfs)://(?P<authority>[^/?]*)(?P<path>.*?)(?P<options>\?[A-Za-z_]+=.*)?",
    re.DOTALL,
)
AWS_ERROR: Final = re.compile(
    r"AWS Error (?P<code>\w+)(?: \(HTTP status [0-9]+\))? during (?P<call>\w+) operation: (?P<text>.*)"
)
REQUEST_ID: Final = re.compile(r" ?\(Request ID: [^)]*\)")
REASONS: Final = {
    "ACCESS_DENIED": "access is denied; look at the credentials, and what they allow",
    "INVALID_ACCESS_KEY_ID": "the access key is not known there",
    "SIGNATURE_DOES_NOT_MATCH": "the secret key does not belong to the access key",
    "NO_SUCH_BUCKET": "there is no such bucket",
    "NETWORK_CONNECTION": "the store does not answer",
}
"""Code of an error of S3 -> the reason."""
CONNECT_SECONDS: Final = 10
"""Time after which a connection to S3 is given up, in seconds."""
SILENT_SECONDS: Final = 60
"""Time after which a request to S3 is given up that gets no byte, in seconds."""
MAX_TRIES: Final = 4
"""Maximum number of times that a request to S3 is sent."""
PLAIN_OPTIONS: Final = ("endpoint_override", "region", "scheme")
"""Options of addresses that may be shown."""
SECOND: Final = 1_000_000_000
"""Nanoseconds: some stores list the times of files more finely than when they are asked for one."""
GONE: Final = "it is no longer there"
SETTLED_SECONDS: Final = 2
"""Time since a file's last change from which what was read of it is kept, in seconds: a change within one tick of a
clock has no time of its own."""


@dataclass(frozen=True, slots=True)
class Store:
    """A file system of pyarrow, by its address: ``s3://bucket/?region=eu-central-1``."""

    address: str = field(repr=False)
    """With credentials, if the user wrote them there: never shown."""
    shown: str
    """The address without credentials, options and the last slash."""
    made: bytes = field(default=b"", repr=False)
    """The file system and the path in it, pickled, where a catalog and not the address says how to connect."""

    def connect(self) -> tuple[FileSystem, str]:
        """Return the file system, and the path in it that the address names. Raises OSError."""
        return _connect(self, os.getpid())

    def explain(self, error: Exception) -> OSError:
        """Return an error of pyarrow as an OSError with one sentence, without credentials."""
        text = str(error).partition("\n")[0]
        if found := AWS_ERROR.search(text):
            text = REASONS.get(found["code"]) or REQUEST_ID.sub("", found["text"])
        for secret in _list_secrets(self.address):
            text = text.replace(secret, "***")
        code = error.errno if isinstance(error, OSError) and error.errno else errno.EIO
        return OSError(code, os.strerror(code) if code == errno.ENOENT else escape_line(text))


@lru_cache(maxsize=64)
def _connect(store: Store, process: int) -> tuple[FileSystem, str]:
    """Connect once in a process: connections do not survive a fork."""
    import pyarrow as pa
    from pyarrow.fs import FileSystem

    try:
        system, root = pickle.loads(store.made) if store.made else FileSystem.from_uri(store.address)  # noqa: S301  ours
    except (OSError, pa.ArrowException, ValueError) as error:
        raise store.explain(error) from None
    return _set_times(system), root.rstrip("/")


def _set_times(system: FileSystem) -> FileSystem:
    """Return a client of S3 with our limits: by those of AWS a request fails after three seconds without data."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    if not isinstance(system, S3FileSystem):
        return system
    # An address cannot have these limits, and a file system shows its own settings only when it is pickled.
    _, (settings,) = system.__reduce__()
    tries = AwsStandardS3RetryStrategy(max_attempts=MAX_TRIES)
    times = {"connect_timeout": CONNECT_SECONDS, "request_timeout": SILENT_SECONDS, "retry_strategy": tries}
    return S3FileSystem(**(settings | times))


def _list_secrets(address: str) -> list[str]:
    """Return the parts of an address that are not shown, the longest first."""
    rest = address.partition("://")[2]
    login = rest.partition("/")[0].rpartition("@")[0]
    options = rest.partition("?")[2]
    named = [each.partition("=") for each in options.split("&")]
    parts = [address, options, *[value for name, _, value in named if name not in PLAIN_OPTIONS]]
    parts += [login, *login.split(":")] if ":" in login else []
    return sorted({text for part in parts for text in (part, unquote(part)) if len(text) > 2}, key=len, reverse=True)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file or a folder in a store. As a text it is its address without credentials and options.

    Of the members of a `Path` it has those that readers of formats use.
    """

    store: Store
    path: str
    """The path below the store's address, without slashes at its ends; "" for all that is there."""
    size: int | None = None
    """Size in bytes when it was listed; None if it was not listed."""
    changed: int | None = None
    """Time of its last change when it was listed, in nanoseconds since 1970."""

    def __str__(self) -> str:
        return f"{self.store.shown}/{self.path}" if self.path else self.store.shown

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> RemoteFile:
        """The folder that it is in."""
        return RemoteFile(self.store, self.path.rpartition("/")[0])

    def __truediv__(self, name: str) -> RemoteFile:
        return RemoteFile(self.store, f"{self.path}/{name}".lstrip("/"))

    def with_name(self, name: str) -> RemoteFile:
        """Return the file of this name beside it."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> RemoteFile:
        """Return the file beside it with another suffix."""
        return self.with_name(PurePosixPath(self.name).with_suffix(suffix).name)

    def iterdir(self) -> list[RemoteFile]:
        """Return the files in the folder. Raises OSError."""
        return self.list_files(recursive=False)

    def list_files(self, *, recursive: bool) -> list[RemoteFile]:
        """Return the files in the folder, or also in those below it. Raises OSError, and InputError for too many.

        pyarrow lists all in one call: they are counted before a value is made of each.
        """
        from pyarrow.fs import FileSelector

        system, path = self.locate()
        try:
            listed = system.get_file_info(FileSelector(path, recursive=recursive))
        except (OSError, ValueError) as error:
            raise self.store.explain(error) from None
        count = sum(info.is_file for info in listed)
        if count > MAX_REMOTE_FILES:
            most = f"an archive in a store has {MAX_REMOTE_FILES:,} at most"
            raise InputError(f"{self}: it has {count_noun(count, 'file')}; {most}")
        return [(self / info.path[len(path) :].strip("/")).described(info) for info in listed if info.is_file]

    def described(self, info: FileInfo) -> RemoteFile:
        """Return the file with what the store says of it."""
        return RemoteFile(self.store, self.path, info.size, info.mtime_ns)

    def locate(self) -> tuple[FileSystem, str]:
        """Return the file system, and the path there. Raises OSError."""
        system, root = self.store.connect()
        return system, f"{root}/{self.path}".rstrip("/") if root else self.path

    def look(self) -> FileInfo:
        """Return what there is now. Raises OSError if the store does not say."""
        system, path = self.locate()
        try:
            return system.get_file_info(path)
        except (OSError, ValueError) as error:
            raise self.store.explain(error) from None

    def is_file(self) -> bool:
        """Return whether it is a file; one that was listed is. Raises OSError."""
        return self.size is not None or self.look().is_file

    def is_dir(self) -> bool:
        """Return whether it is a folder. Raises OSError."""
        return self.size is None and self.look().type.name == "Directory"

    def open_input(self) -> pa.NativeFile:
        """Open it to read at any position. Raises OSError, also if it is not as large as it was when it was listed."""
        system, path = self.locate()
        try:
            file = system.open_input_file(path)
            size = file.size()
        except (OSError, ValueError) as error:
            raise self.store.explain(error) from None
        if self.size is not None and size != self.size:
            file.close()
            raise OSError(errno.EIO, self.explain_change(size))
        return file

    def explain_change(self, size: int) -> str:
        """Return the error for a file that is not the one that was listed, and has this size."""
        was, now = (f"{self.size:,} bytes", f"{size:,}") if size != self.size else ("an older file", "a newer one")
        return f"it was replaced while it was read: {was} when it was listed, {now} now; read it again"


Place: TypeAlias = str | RemoteFile
"""A path on this machine, or a file in a store."""
AnyPath: TypeAlias = Path | RemoteFile
"""A place as something that has a name, a folder and files beside it."""


def to_path(place: Place) -> AnyPath:
    """Return a place as something that has a name, a folder and files beside it."""
    return Path(place) if isinstance(place, str) else place


def to_place(path: AnyPath) -> Place:
    """Return the place of a path."""
    return str(path) if isinstance(path, Path) else path


def parse_address(text: str) -> RemoteFile | None:
    """Return the file or folder at the address of a store; None for a path on this machine.

    Raises InputError for an address without a store, such as ``s3:///folder``.
    """
    found = ADDRESS.fullmatch(text)
    if found is None:
        return None
    authority, options = found["authority"], found["options"] or ""
    login, at, host = authority.rpartition("@")
    shown = f"{found['scheme']}://{'***' if ':' in login else login}{at}{host}"
    is_hadoop = found["scheme"] in ("hdfs", "viewfs")
    if ":" in authority and not (at or is_hadoop) and "@" in found["path"]:  # a secret with a slash
        raise InputError(f"{found['scheme']}://***: credentials in an address are percent-encoded: %2F for a slash")
    if not (host or is_hadoop):
        raise InputError(f"{shown}{found['path']}: it names no bucket or container: {found['scheme']}://NAME/FOLDER")
    scheme = found["scheme"].replace("s3a", "s3")
    return RemoteFile(Store(f"{scheme}://{authority}/{options}", shown), found["path"].strip("/"))


def show_place(text: str) -> str:
    """Return a path or an address as the user wrote it, without credentials and options."""
    return str(parse_address(text) or text)


def list_remote(folder: RemoteFile, *, is_folder: bool) -> list[RemoteFile]:
    """Return all files below a folder of a store, or the file that is there instead, sorted by their parts.

    Where both are, ``is_folder`` decides. Raises InputError with the reason if there is nothing, or the store does not
    list it.
    """
    with name_os_errors(folder):
        there = folder.look()
        if there.is_file and not is_folder:
            return [folder.described(there)]
        try:
            files = folder.list_files(recursive=True)
        except FileNotFoundError:
            if there.is_file:
                return [folder.described(there)]
            encoded = "; names are written as they are, without percent-encoding" if "%" in folder.path else ""
            raise InputError(f"{folder}: there is no such file or folder{encoded}") from None
    return sorted(files, key=lambda file: file.path.split("/"))


def open_file(place: Place | Path) -> BinaryIO:
    """Open a file to read, as `bindings.sources.files.open_file` does. Raises OSError."""
    if not isinstance(place, RemoteFile):
        return local.open_file(place)
    return io.BufferedReader(_Remote(place, FIRST_READ), MAX_READ)


def open_table(place: Place | Path) -> Any:
    """Return what pyarrow takes for a file of a table, of which it reads the parts that it needs.

    Raises InputError if a stored file cannot be opened.
    """
    if not isinstance(place, RemoteFile):
        return place
    with name_os_errors(place):
        return _Remote(place, sys.maxsize)


def read_file_size(place: Place) -> int:
    """Return the size of a file in bytes. Raises InputError if it cannot be read."""
    with name_os_errors(place):
        if isinstance(place, str):
            return os.stat(place).st_size  # noqa: PTH116  of many
        return int(place.look().size or 0) if place.size is None else place.size


def require_unchanged(place: Place) -> None:
    """Raise InputError if a stored file is not the one that was listed: parts of two files would be counted as one."""
    if isinstance(place, str) or place.size is None:
        return
    with name_os_errors(place):
        now = place.look()
        if not now.is_file:
            raise InputError(f"{place}: {GONE}")
        if (now.size, (now.mtime_ns or 0) // SECOND) != (place.size, (place.changed or 0) // SECOND):
            raise InputError(f"{place}: {place.explain_change(now.size)}")


class _Remote(io.RawIOBase):
    """The bytes of a stored file. Reading raises InputError where the store fails: that is no damage of the file.

    Reads in a row become larger, from ``first`` bytes on, so that looking at a beginning costs little.
    """

    def __init__(self, place: RemoteFile, first: int) -> None:
        self._place = place
        self._file = place.open_input()
        self._size: int = self._file.size()
        self._first = self._next = first

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, place: int, whence: int = 0) -> int:
        target = place + (0, self.tell(), self._size)[whence]
        if target != self.tell():
            self._next = self._first
            self._file.seek(target)
        return target

    def readinto(self, buffer: Any) -> int:
        with name_os_errors(self._place):
            try:
                data = self._file.read(min(len(buffer), self._next))
            except (OSError, ValueError) as error:
                raise self._place.store.explain(error) from None
        self._next = max(self._first, min(self._next * 4, MAX_READ))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
