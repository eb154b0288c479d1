"""Limit how often bytes are hashed again after damage, so that recovery takes linear time."""

from __future__ import annotations

from typing import Final

TIMES: Final = 16
"""Maximum number of times that a byte of a file is hashed, on average. Sound files need one, damaged ones few more."""


class Effort:
    """The number of bytes of a file that were hashed so far.

    Damage leaves a few false beginnings of records; a forged file can have any number, which overlap. Each is a
    candidate whose checksum takes its whole length. So a candidate is checked only while at most `TIMES` the bytes up
    to its end have been hashed. A sound record is always checked: those before it took no more than their own lengths.
    """

    def __init__(self, start: int) -> None:
        self._start = start
        self.spent = 0

    def allows(self, end: int, size: int) -> bool:
        """Return whether a candidate of ``size`` bytes that ends at byte ``end`` may be hashed, and count it if so."""
        if self.spent + size > TIMES * (end - self._start):
            return False
        self.spent += size
        return True
