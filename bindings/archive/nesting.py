"""Check bounds of JSON text before it is parsed, since parsers recurse and need many times the memory of the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import JSONDecodeError
from typing import Any, Final

import numpy as np

from exchange.errors import InputError
from exchange.limits import NESTING, RECORD_BYTES, TABLE_ITEMS
from exchange.values.json_text import JsonFault, parse

STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
"""A string of JSON, or one that does not end. It never backtracks, so the time is linear in the text."""
LOWER_CASE: Final = 0x20
"""The bit that differs between ``[`` and ``{``, and between ``]`` and ``}``."""
OPENING: Final = ord("{")
CLOSING: Final = ord("}")
LINE_FEED: Final = ord("\n")
CACHED: Final = 1 << 16
"""Number of bytes that are searched at once, so that intermediate arrays stay in the processor's cache."""
LONG_LINE: Final = 2 * TABLE_ITEMS
"""Number of bytes that a value with more than `TABLE_ITEMS` items has at least."""


def check_bounds(text: bytes) -> None:
    """Raise InputError if a value is nested more than `NESTING` deep, or has more than `TABLE_ITEMS` items.

    Brackets within strings do not count.
    """
    if text.count(b"[") + text.count(b"{") <= NESTING and len(text) < LONG_LINE:
        return
    outside = STRING.sub(b"", text)
    letters = np.frombuffer(outside, np.uint8) | LOWER_CASE
    steps = (letters == OPENING).astype(np.int8) - (letters == CLOSING).astype(np.int8)
    if len(steps) and int(np.cumsum(steps, dtype=np.int64).max()) > NESTING:
        raise InputError(f"JSON nested too deeply, beyond {NESTING} arrays and objects")
    if outside.count(b",") > TABLE_ITEMS:
        raise InputError(f"JSON of more than {TABLE_ITEMS:,} items")


def is_flat(data: bytes, ends: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bool:
    """Return whether every line certainly is within the bounds of `check_bounds`.

    ``ends`` are the positions of the line feeds, and each line must begin with a brace. Brackets within strings count
    here, so False does not mean that a line exceeds them.
    """
    if np.diff(ends, prepend=-1).max(initial=0) >= LONG_LINE:
        return False
    letters = np.frombuffer(data, np.uint8)
    places = np.concatenate([
        np.flatnonzero((letters[n : n + CACHED] | LOWER_CASE) == OPENING) + n for n in range(0, len(letters), CACHED)
    ])  # fmt: skip
    if len(places) <= NESTING:
        return True
    # The first bracket of each line follows a line feed: as many places lie between two of these as a line has.
    firsts = np.flatnonzero(letters[places - 1] == LINE_FEED)
    return bool(np.diff(firsts, prepend=0, append=len(places)).max() <= NESTING)


def parse_json(line: bytes) -> Any:
    """Return the value of a JSON text, within bounds. Raises InputError; equal mistakes have equal messages."""
    if len(line) > RECORD_BYTES:
        raise InputError(f"JSON of more than {RECORD_BYTES >> 20} MiB")
    check_bounds(line)
    try:
        return parse(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error.reason}") from None
    except JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg}") from None
    except JsonFault as error:
        raise InputError(error.fault.reason) from None


JOINT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|\}(\s*+)(?=\{)', re.DOTALL)
"""A string, or the end of an object that another object follows (group 1 is the white space between them)."""


def split_joined(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the objects that follow each other in a text, with their places; none for fewer than two.

    Amazon's Firehose writes such files, with no line feed between records.
    """
    start = 0
    for match in JOINT.finditer(text) if b"}{" in text or b"} {" in text else ():
        if match[1] is not None:
            yield start, text[start : match.end()]
            start = match.end()
    if start:
        yield start, text[start:]
