"""Read numbers that stand in texts from outside: in ASCII digits alone, which is all that other programs write.

`int`, `float` and `str.isdigit` take the digits of all scripts, underscores and blanks, too: ``"١٢"``, ``"1_2"``,
``" 12 "``, and for some ``"²"`` is a digit that is no number.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_digits", "read_float", "read_integer"]

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
