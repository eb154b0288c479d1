"""Numbers, durations and times in texts; numbers in ASCII digits alone, which is all that other programs write.

`int`, `float` and `str.isdigit` take the digits of all scripts, underscores and blanks, too: ``"١٢"``, ``"1_2"``,
``" 12 "``, and for some ``"²"`` is a digit that is no number.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

INTEGER: Final = re.compile(r"[-+]?[0-9]+")
FLOAT: Final = re.compile(
    r"[-+]?(?:(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:e[-+]?[0-9]++)?|inf(?:inity)?|nan)", re.IGNORECASE | re.ASCII
)


def is_digits(text: str) -> bool:
    """Return whether a text is one or more ASCII digits."""
    return text.isascii() and text.isdigit()


def read_integer(text: str) -> int:
    """Return the integer that a text of ASCII digits is, with or without a sign. Raises ValueError for any other text.

    It does so for more than `exchange.limits.INTEGER_DIGITS` digits, too.
    """
    if not is_digits(text) and INTEGER.fullmatch(text) is None:
        raise ValueError(f"{text[:40]!r} is no whole number")
    return int(text)


def read_float(text: str) -> float:
    """Return the number that a text in ASCII is: ``1.5e3``, ``inf``, ``nan``. Raises ValueError for another text."""
    if FLOAT.fullmatch(text) is None:
        raise ValueError(f"{text[:40]!r} is no number")
    return float(text)


def explain_empty_range(start: float | None, end: float | None, start_name: str) -> str | None:
    """Return what is wrong with the end of a range in which nothing can be, as it is no part of it; None if it is fine.

    A bound that is None is none.
    """
    if start is None or end is None or start < end:
        return None
    return f"must be after {start_name}: nothing is between them"


UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
"""Unit -> its seconds."""
PART: Final = re.compile(rf"([0-9]+(?:\.[0-9]+)?)\s*({'|'.join(UNITS)})\s*", re.ASCII)
DURATION: Final = rf"^\s*([0-9]+(\.[0-9]+)?|([0-9]+(\.[0-9]+)?\s*({'|'.join(UNITS)})\s*)+)\s*$"
"""What JSON Schemas say of such a text."""
NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)


def parse_duration(text: str) -> float | None:
    """Return the seconds of a text such as ``30``, ``250ms``, ``30s``, ``5 m`` or ``1h30m``; None if it is none."""
    text = text.strip()
    if NUMBER.fullmatch(text):
        return float(text)
    seconds, at = 0.0, 0
    while part := PART.match(text, at):
        seconds, at = seconds + float(part[1]) * UNITS[part[2]], part.end()
    return seconds if text and at == len(text) else None


def write_time(seconds: float, timespec: str = "seconds") -> str:
    """Return a time in seconds since 1970 as ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")
