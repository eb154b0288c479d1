"""Java's numbers of texts: ``Integer.valueOf``, ``Long.valueOf``, ``Double.valueOf``, and ``Double.compareTo``.

A property is a text, and the broker converts it to the type of what it is compared with; what cannot be converted fails
the whole evaluation, and the message is not delivered.
"""

from __future__ import annotations

import re
from math import copysign, inf, isnan, nan
from typing import Final

from exchange.errors import HashstarError

__all__ = ["NotANumber", "compare_doubles", "double_of", "integer_of", "long_of", "truth_of"]


class NotANumber(HashstarError):
    """``NumberFormatException``: a text that is not a number of the wanted type."""


BLANK: Final = "".join(map(chr, range(0x21)))
"""What ``String.trim`` takes off."""

WHOLE: Final = re.compile(r"[+-]?\d+")
"""Digits of any script, as ``Character.digit`` has them, but of the BMP only."""

DECIMAL: Final = re.compile(r"([+-]?)(?:(NaN)|(Infinity)|((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)")
HEXADECIMAL: Final = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")


def integer_of(text: str) -> int:
    """``Integer.valueOf(text)``: 32 bits, no blanks, no fraction. Raises NotANumber."""
    if len(text) < 10 and text.isascii() and text.isdigit():
        return int(text)
    return _whole(text, 31, "Integer")


def long_of(text: str) -> int:
    """``Long.valueOf(text)``: the same of 64 bits."""
    if len(text) < 19 and text.isascii() and text.isdigit():
        return int(text)
    return _whole(text, 63, "Long")


def _whole(text: str, bits: int, kind: str) -> int:
    if WHOLE.fullmatch(text) and (text.isascii() or max(text) <= "\uffff"):  # int() would take blanks and underscores
        digits = "".join([str(int(c)) for c in text.lstrip("+-")]).lstrip("0")
        value = int(digits[:20] or 0) * (-1 if text[0] == "-" else 1)
        if -(1 << bits) <= value < 1 << bits:
            return value
    raise NotANumber(f"{_shown(text)} is not {'an' if kind == 'Integer' else 'a'} {kind}")


def double_of(text: str) -> float:
    """``Double.valueOf(text)``: with blanks around it, ``1e3``, ``1d``, ``0x1p3``, ``NaN``. Raises NotANumber."""
    trimmed = text.strip(BLANK)
    found = DECIMAL.fullmatch(trimmed)
    if found is not None:
        sign, not_a_number, infinite, digits = found.groups()
        value = nan if not_a_number else inf if infinite else float(digits)
        return -value if sign == "-" else value
    found = HEXADECIMAL.fullmatch(trimmed)
    if found is None:
        raise NotANumber(f"{_shown(text)} is not a Double")
    try:
        return float.fromhex(found[1])
    except OverflowError:
        return -inf if found[1].startswith("-") else inf


def truth_of(text: str) -> bool:
    """``Boolean.valueOf(text)``: true is ``true`` in any case, and all else false."""
    return text.lower() == "true"


def compare_doubles(left: float, right: float) -> int:
    """``Double.compareTo``: below, at or above 0. NaN equals itself and is above all; -0.0 is below 0.0."""
    if isnan(left) or isnan(right):
        return isnan(left) - isnan(right)
    if left == right == 0:
        return int(copysign(1, left) - copysign(1, right))
    return (left > right) - (left < right)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")
