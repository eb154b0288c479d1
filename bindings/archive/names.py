r"""Escape names, keys and texts of AMQP, which are bytes, so that any column of strings can hold them.

``exchange`` holds such bytes as a `str`, with bytes that are not UTF-8 as lone surrogates; Arrow, Parquet and Spark
accept only valid Unicode. So characters that they cannot hold are escaped with a NUL: ``\0ff`` is the byte 0xFF,
``\0ud800`` a lone surrogate (which only JSON can bring), ``\000`` the NUL itself. All other
characters, nearly all, are unchanged.

Escaping adds no dot, and words are escaped independently of each other. So an escaped pattern matches an escaped key if
and only if the pattern matches the key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

UNHELD: Final = re.compile("[\0\ud800-\udfff]")
"""A character that a column cannot hold, or the NUL that begins an escape."""
ESCAPE: Final = re.compile("\0(?:u([0-9a-f]{4})|([0-9a-f]{2}))")


def escape(text: str) -> str:
    """Return the text in the escaped form of columns."""
    return UNHELD.sub(_escape, text) if UNHELD.search(text) else text


def unescape(text: str) -> str:
    """Return the text that `escape` escaped. A NUL that begins no escape stands for itself."""
    return ESCAPE.sub(_unescape, text) if "\0" in text else text


def escape_bytes(data: bytes) -> str:
    """Return the bytes of a name as a text in the escaped form of columns."""
    return escape(data.decode("utf-8", "surrogateescape"))


def to_text_array(texts: Sequence[str | None]) -> pa.StringArray:
    """Return a column of texts, escaped where needed; None is a null."""
    try:
        array = pa.array(texts, pa.string())
    except UnicodeEncodeError:
        array = None
    if array is None or has_nul(array):
        array = pa.array([None if text is None else escape(text) for text in texts], pa.string())
    return array


def decode_bytes_array(array: pa.BinaryArray) -> pa.StringArray:
    """Convert a column of bytes to a column of texts, escaped where needed; nulls stay nulls."""
    try:
        texts = array.cast(pa.string())
        if not has_nul(texts):
            return texts
    except pa.ArrowInvalid:
        pass
    return pa.array([None if data is None else escape_bytes(data) for data in array.to_pylist()], pa.string())


def has_nul(array: pa.StringArray) -> bool:
    """Return whether any text contains a NUL: then it must be escaped, or is escaped already."""
    if len(array) == 0:
        return False
    _, offsets, data = array.buffers()
    if data is None:
        return False
    ends = np.frombuffer(offsets, np.int32, array.offset + len(array) + 1)[[array.offset, -1]]
    return bool((np.frombuffer(data, np.uint8)[ends[0] : ends[1]] == 0).any())


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 0:
        return "\x0000"
    return f"\0{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\0u{code:04x}"


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    code = int(match[2], 16)
    return chr(code) if code < 0x80 else chr(0xDC00 + code)
