"""Parse numbers as Java does: ``Integer.valueOf``, ``Long.valueOf``, ``Double.valueOf``; and ``Double.compareTo``.

A property is a text. The broker converts it to the type of the other side of a comparison; if it cannot, the whole
evaluation fails and the message is not delivered.
"""

from __future__ import annotations

import re
from math import copysign, inf, isnan, nan
from typing import Final

from exchange.errors import HashstarError


class NotANumber(HashstarError):
    """``NumberFormatException``: a text that is not a number of the wanted type."""


BLANK: Final = "".join(map(chr, range(0x21)))
"""Characters that ``String.trim`` removes."""

WHOLE: Final = re.compile(r"[+-]?\d+")
"""Digits of any script, as ``Character.digit`` accepts them; `_parse_whole` refuses those beyond the BMP."""

DECIMAL: Final = re.compile(r"([+-]?)(?:(NaN)|(Infinity)|((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)")
HEXADECIMAL: Final = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")


def parse_integer(text: str) -> int:
    """Parse as ``Integer.valueOf(text)``: 32 bits, no blanks, no fraction. Raises NotANumber."""
    if len(text) < 10 and text.isascii() and text.isdigit():
        return int(text)
    return _parse_whole(text, 31, "Integer")


def parse_long(text: str) -> int:
    """Parse as ``Long.valueOf(text)``: 64 bits, no blanks, no fraction. Raises NotANumber."""
    if len(text) < 19 and text.isascii() and text.isdigit():
        return int(text)
    return _parse_whole(text, 63, "Long")


def _parse_whole(text: str, bits: int, kind: str) -> int:
    if WHOLE.fullmatch(text) and (text.isascii() or max(text) <= "\uffff"):  # int() would take blanks and underscores
        digits = "".join([str(int(c)) for c in text.lstrip("+-")]).lstrip("0")
        value = int(digits[:20] or 0) * (-1 if text[0] == "-" else 1)
        if -(1 << bits) <= value < 1 << bits:
            return value
    raise NotANumber(f"{_clip(text)} is not {'an' if kind == 'Integer' else 'a'} {kind}")


def parse_double(text: str) -> float:
    """Parse as ``Double.valueOf(text)``: blanks around it, ``1e3``, ``1d``, ``0x1p3``, ``NaN``. Raises NotANumber."""
    trimmed = text.strip(BLANK)
    decimal = DECIMAL.fullmatch(trimmed)
    if decimal is not None:
        sign, not_a_number, infinite, digits = decimal.groups()
        value = nan if not_a_number else inf if infinite else float(digits)
        return -value if sign == "-" else value
    hexadecimal = HEXADECIMAL.fullmatch(trimmed)
    if hexadecimal is None:
        raise NotANumber(f"{_clip(text)} is not a Double")
    try:
        return float.fromhex(hexadecimal[1])
    except OverflowError:
        return -inf if hexadecimal[1].startswith("-") else inf


def parse_boolean(text: str) -> bool:
    """Parse as ``Boolean.valueOf(text)``: ``true`` in upper or lower case is true, all else false."""
    return text.lower() == "true"


def compare_doubles(left: float, right: float) -> int:
    """Return a number below, at or above 0, as ``Double.compareTo``: NaN is above all and equals itself, -0.0 < 0.0."""
    if isnan(left) or isnan(right):
        return isnan(left) - isnan(right)
    if left == right == 0:
        return int(copysign(1, left) - copysign(1, right))
    return (left > right) - (left < right)


def _clip(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")
