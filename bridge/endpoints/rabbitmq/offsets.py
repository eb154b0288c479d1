"""Where a stream was read to: a broker keeps no acknowledgements of one, so that its reader must.

The offset of the last message that is done with is kept in a file, if there is one; a file that is behind costs
duplicates, one that is ahead would cost messages, so it is written after the fact, and never half.

A stream that is deleted and declared anew counts from 0 again, and an offset of the old one would pass over messages of
the new one. So a fingerprint of the message at the offset is kept beside it: reading goes on there only if it is still
that message.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from bindings.sources.files import replacing
from exchange.errors import InputError

__all__ = ["Offsets"]


class Offsets:
    """The last settled offset of one stream. ``path`` is a file of this reader alone; None: forgotten at the end."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._last: int | None = None
        self._fingerprint: Callable[[], str] = lambda: ""
        self._written: int | None = None

    @property
    def has_file(self) -> bool:
        """Whether what is settled is remembered beyond the end of the process."""
        return self._path is not None

    @property
    def problem(self) -> str | None:
        """Why what is settled could not be written; None: it could, as far as can be seen beforehand."""
        if self._path is None:
            return None
        folder = self._path.parent
        if not folder.is_dir():
            return f"{self._path} cannot be written: there is no folder {folder}; make it"
        if self._path.is_dir():
            return f"{self._path} cannot be written: it is a folder"
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"{self._path} cannot be written: this user may not write to {folder}"
        return None

    @property
    def last(self) -> int | None:
        """The last that is settled; None when nothing was yet. Raises InputError for a file that is wrong."""
        if self._last is None and self._path is not None:
            try:
                offset, _, fingerprint = self._path.read_text("ascii").strip().partition(" ")
                self._last = self._written = int(offset)
                self._fingerprint = lambda: fingerprint
            except FileNotFoundError:
                return None
            except OSError as error:
                raise InputError(f"{self._path}: cannot be read: {error.strerror}") from None
            except ValueError:
                raise InputError(f"{self._path}: must hold the last offset that was settled, a number") from None
        return self._last

    @property
    def way_out(self) -> str:
        """What has the stream read from its beginning again, for people."""
        return "start the bridge again" if self._path is None else f"remove {self._path}"

    @property
    def fingerprint(self) -> str:
        """Of the message at the last offset; "" where it is not known, as in a file of an earlier release."""
        return self._fingerprint()

    def settle(self, offset: int, fingerprint: Callable[[], str]) -> None:
        """Remember that all up to this offset is done with; it is not written yet."""
        self._last = offset
        self._fingerprint = fingerprint

    def write(self) -> None:
        """Write what is not written. Raises OSError."""
        if self._path is None or self._last in (None, self._written):
            return
        with replacing(self._path, durable=True) as file:
            file.write(f"{self._last} {self.fingerprint}\n".encode())
        self._written = self._last
