r"""Names, keys and texts of AMQP, which are bytes, as texts that any column of strings can hold.

The engine holds such bytes as a `str`, those that are not UTF-8 as lone surrogates; Arrow, Parquet and Spark take valid
Unicode alone. So what they cannot hold is written after a NUL: ``\0ff`` is the byte 0xFF, ``\0ud800`` a lone surrogate
that only JSON can have brought, ``\000`` the NUL itself. Anything else, which is nearly all, stands as it is.

What is written has no dot that was not there, and the writing of two words with a dot between is the two writings with
a dot between. So a pattern or name written in this way matches the written keys that it matches unwritten.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

__all__ = ["escape", "escape_bytes", "has_nul", "to_text_array", "bytes_to_text_array", "unescape"]

UNHELD: Final = re.compile("[\0\ud800-\udfff]")
WRITTEN: Final = re.compile("\0(?:u([0-9a-f]{4})|([0-9a-f]{2}))")


def escape(text: str) -> str:
    """The text as columns hold it."""
    return UNHELD.sub(_escape, text) if UNHELD.search(text) else text


def unescape(text: str) -> str:
    """What `escape` was given. A NUL that it did not write stands for itself."""
    return WRITTEN.sub(_unescape, text) if "\0" in text else text


def escape_bytes(data: bytes) -> str:
    """The bytes of a name as columns hold them."""
    return escape(data.decode("utf-8", "surrogateescape"))


def to_text_array(texts: Sequence[str | None]) -> pa.StringArray:
    """A column of texts, None being null."""
    try:
        array = pa.array(texts, pa.string())
    except UnicodeEncodeError:
        array = None
    if array is None or has_nul(array):
        array = pa.array([None if text is None else escape(text) for text in texts], pa.string())
    return array


def bytes_to_text_array(array: pa.BinaryArray) -> pa.StringArray:
    """A column of texts from a column of bytes, nulls staying null."""
    try:
        texts = array.cast(pa.string())
        if not has_nul(texts):
            return texts
    except pa.ArrowInvalid:
        pass
    return pa.array([None if data is None else escape_bytes(data) for data in array.to_pylist()], pa.string())


def has_nul(array: pa.StringArray) -> bool:
    """Whether one of the texts has a NUL in it, so that it must be escaped, or is."""
    if len(array) == 0:
        return False
    _, places, data = array.buffers()
    if data is None:
        return False
    ends = np.frombuffer(places, np.int32, array.offset + len(array) + 1)[[array.offset, -1]]
    return bool((np.frombuffer(data, np.uint8)[ends[0] : ends[1]] == 0).any())


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code == 0:
        return "\x0000"
    return f"\0{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\0u{code:04x}"


def _unescape(found: re.Match[str]) -> str:
    if found[1]:
        return chr(int(found[1], 16))
    code = int(found[2], 16)
    return chr(code) if code < 0x80 else chr(0xDC00 + code)
