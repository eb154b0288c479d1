"""A bound of what is read more than once where damage is passed over, which keeps recovery linear."""

from __future__ import annotations

from typing import Final

__all__ = ["Effort"]

TIMES: Final = 16
"""How often the bytes of a file may be hashed, on average. Sound files need it once, damaged ones a little more."""


class Effort:
    """Counts the bytes that are hashed of a file.

    Damage leaves a few false beginnings of records, made ones overlap in any number, and each is a candidate whose
    checksum takes its whole length. So a candidate is looked at only while no more than `TIMES` the bytes up to its
    end have been hashed: a sound record always is, as those before it took their own lengths.
    """

    def __init__(self, start: int) -> None:
        self._start = start
        self.spent = 0

    def allows(self, end: int, size: int) -> bool:
        """Return whether a candidate of this size, which ends at a byte, may be hashed, and count it if so."""
        if self.spent + size > TIMES * (end - self._start):
            return False
        self.spent += size
        return True
