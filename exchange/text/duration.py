"""Durations as users write them: in options of commands and in configurations."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["PATTERN", "parse_duration"]

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
"""Unit -> its seconds."""
PART: Final = re.compile(rf"([0-9]+(?:\.[0-9]+)?)\s*({'|'.join(UNITS)})\s*", re.ASCII)
PATTERN: Final = rf"^\s*([0-9]+(\.[0-9]+)?|([0-9]+(\.[0-9]+)?\s*({'|'.join(UNITS)})\s*)+)\s*$"
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
