"""Lines of JSON as messages, one by one, whatever the size of the file; lines that are none are counted."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from exchange import InputError, Message
from exchange.typed_json import message_from_line

__all__ = ["Archive"]

BUFFER: Final = 1 << 18


class Archive:
    """A file of messages, gzipped or not: iterate over it once, as a context. Raises InputError if it is unreadable."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self.bad = 0
        """How many lines were no message."""
        self.first_bad = ""
        """The first of them as ``file:line: reason``."""
        self.line = 0
        """The number of the line that was read last."""
        try:
            self.size: Final = path.stat().st_size
            self._raw: Final = path.open("rb")
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._raw.close()

    def position(self) -> int:
        """How many of the file's ``size`` bytes have been read."""
        return self._raw.tell()

    def __iter__(self) -> Iterator[Message]:
        try:
            for raw in self._lines():
                self.line += 1
                try:
                    message = message_from_line(raw)
                except InputError as error:
                    if raw.strip():
                        self._count_bad(error)
                    continue
                yield message
        except (OSError, EOFError, zlib.error) as error:  # of the file, or of gzip in the middle of it
            raise InputError(f"{self._path}: cannot be read after line {self.line}: {error}") from None

    def _lines(self) -> IO[bytes]:
        if self._raw.peek(2)[:2] != b"\x1f\x8b":
            return self._raw
        return BufferedReader(gzip.GzipFile(fileobj=self._raw), BUFFER)

    def _count_bad(self, error: Exception) -> None:
        self.bad += 1
        if self.bad == 1:
            self.first_bad = f"{self._path}:{self.line}: {error}"
