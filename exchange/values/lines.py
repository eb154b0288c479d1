"""Read the lines of a file of messages: gzipped or not, with or without a byte order mark."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from functools import partial
from typing import IO, Any, Final

from exchange.errors import InputError
from exchange.limits import RECORD_BYTES

GZIP: Final = b"\x1f\x8b"
MARK: Final = b"\xef\xbb\xbf"


def read_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each line that is not blank; lines are counted from 1.

    The first bytes of the file decide whether it is gzipped, not its name. Raises InputError naming the file when it
    cannot be decompressed, and the line when it is longer than `exchange.limits.RECORD_BYTES`.
    """
    name = getattr(file, "name", "-")
    peek: Any = getattr(file, "peek", None)
    packed = peek is not None and peek(2)[:2] == GZIP
    source: Any = gzip.GzipFile(fileobj=file) if packed else file
    number = 0
    try:
        for number, line in enumerate(iter(partial(source.readline, RECORD_BYTES + 1), b""), 1):
            if len(line) > RECORD_BYTES:
                raise InputError(f"{name}:{number}: a line of more than {RECORD_BYTES >> 20} MiB")
            content = line.removeprefix(MARK) if number == 1 else line
            if not content.isspace():
                yield number, content
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{name}: cannot be unpacked after line {number}: {error}") from None
