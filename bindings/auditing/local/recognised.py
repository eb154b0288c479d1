"""Keep which format each file of an archive has, so that a later audit reads no beginning of a file again.

They are in one file in the folder of a cache, with a line for each file: a hash of the file as it is (place, size,
times) and of the formats that were tried, the number of its format among them, and the beginning of a hash of both. A
line that is damaged is not read, and the format of its file is found anew.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from bindings.archive.formats.recognition import NO_ARCHIVE, recognise_format
from bindings.archive.places import SETTLED_SECONDS, Place, RemoteFile
from bindings.archive.reading import Format
from bindings.sources.files import make_folders, open_file
from exchange.errors import InputError, name_os_errors
from exchange.files.replacing import replace_file
from exchange.text.site import HASHSTAR_VERSION

SETTLED_IN_STORE: Final = 60
"""`SETTLED_SECONDS` of a file in a store: its times are whole seconds, of another clock."""
NAME: Final = "formats.list"
MAX_FILES: Final = 100_000
"""Maximum number of files whose formats are kept."""
LINE: Final = re.compile(r"([0-9a-f]{40}) ([0-9]{1,2}) ([0-9a-f]{8})")
MAX_LINE: Final = 53
"""Maximum length of a line, in bytes."""


class FormatMemory:
    """The formats of files, kept in a folder, which is made if it is missing. Several processes may use one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._now: Final = time.time()
        self._kept: Final = self._read()
        self._used: Final[dict[str, int]] = {}
        self._tried: tuple[Sequence[Format], bytes] = (), b""

    def recognise(self, place: Place, known: Sequence[Format]) -> Format | None:
        """Return what `recognise_format` returns. Raises InputError for a file that cannot be read."""
        key, formats = self._key_of(place, known), (*known, NO_ARCHIVE)
        if key is None:
            return recognise_format(place, known)
        number = self._kept.get(key, len(formats))
        if number < len(formats):
            self._used[key] = number
            return formats[number]
        form = recognise_format(place, known)
        if form is not None and not form.in_place and self._key_of(place, known) == key:  # not changed meanwhile
            self._used[key] = next(number for number, each in enumerate(formats) if each is form)
        return form

    def save(self) -> None:
        """Keep the formats that were found now, if the folder can be written, and others as far as there is room."""
        if self._used.keys() <= self._kept.keys():
            return
        lines = [f"{key} {number} {_check(key, number)}\n" for key, number in (self._used | self._kept).items()]
        with suppress(OSError, InputError):
            make_folders(self._folder)
            write_entry(self._folder / NAME, "".join(islice(lines, MAX_FILES)).encode("ascii"))

    def _read(self) -> dict[str, int]:
        text = ""
        with suppress(OSError), open_file(self._folder / NAME) as file:
            text = file.read(MAX_FILES * MAX_LINE).decode("ascii", "replace")
        found = [match.groups() for match in map(LINE.fullmatch, text.split("\n")) if match is not None]
        return {key: int(number) for key, number, check in found if check == _check(key, int(number))}

    def _key_of(self, place: Place, known: Sequence[Format]) -> str | None:
        if self._tried[0] is not known:
            self._tried = known, pickle.dumps(tuple(known))
        version = identify_version(place, self._now)
        return None if version is None else hash_parts(version, HASHSTAR_VERSION.encode(), self._tried[1])


def identify_version(place: Place, now: float) -> bytes | None:
    """Return the identity of a file as it is; None if it was changed just now. Raises InputError if it is not there."""
    with name_os_errors(place):
        if isinstance(place, RemoteFile):
            settled, changed = SETTLED_IN_STORE, place.changed
            known: tuple[object, ...] = (place.store.address, place.path, place.size, place.changed)
        else:
            stat = Path(place).stat()
            settled, changed = SETTLED_SECONDS, stat.st_mtime_ns
            known = (str(Path(place).absolute()), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)
    if changed is None or changed / 1e9 > now - settled:
        return None
    return repr(known).encode("utf-8", "surrogatepass")


def write_entry(path: Path, *parts: bytes) -> None:
    """Replace a file of a cache. What someone put in its place, which would be written through, is removed."""
    if path.is_symlink() or not path.is_file():
        path.unlink(missing_ok=True)
    with replace_file(path) as file:
        file.writelines(parts)


def hash_parts(*parts: bytes) -> str:
    """Return a hash of texts: 40 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:40]


def _check(key: str, number: int) -> str:
    return hash_parts(key.encode(), str(number).encode())[:8]
