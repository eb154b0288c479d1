"""Counts of messages by slots of time, whose width follows from the window: from a second to as long as needed.

The width is the smallest of `WIDTHS` with which a window has at most `SLOTS` slots. Each width divides the next, so
slots can be put together without what they were counted from; and a larger window never has a smaller width. Thus the
parts of an archive, added in any order, end with the width and the counts of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

__all__ = ["DAY", "HOUR", "LAST_TIME", "SLOTS", "WIDTHS", "Cell", "SlotCounts", "width_for"]

Cell: TypeAlias = tuple[int, str, bool | None]
"""The number of a slot, counted from 1970; an exchange that is published to; whether a queue gets the messages."""

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

WIDTHS: Final = (
    SECOND, 5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
    DAY, 7 * DAY, 28 * DAY, 364 * DAY, 3_640 * DAY, 36_400 * DAY, 364_000 * DAY, 3_640_000 * DAY,
)  # fmt: skip
"""Widths of slots in microseconds. Each divides the next; the last suits any window of times of 64 bits."""

SLOTS: Final = 1_024
"""Maximum number of slots from the first to the last of a window: what a tally of one exchange holds at most."""


LAST_TIME: Final = (1 << 63) + WIDTHS[-1]
"""Microseconds from 1970 within which slots of any time of 64 bits begin."""


def width_for(first: int, last: int, least: int = WIDTHS[0], slots: int = SLOTS) -> int:
    """Return the smallest width, from ``least`` on, with which two times are less than ``slots`` slots apart."""
    return next(width for width in WIDTHS if width >= least and last // width - first // width < slots)


@dataclass(frozen=True, slots=True)
class SlotCounts:
    """Messages by slot, exchange and whether a queue gets them. ``SlotCounts()`` is zero.

    Use `of` where the counts may have more slots than `SLOTS`.
    """

    width: int = WIDTHS[0]
    """The width of a slot in microseconds: one of `WIDTHS`."""
    counts: Mapping[Cell, int] = field(default_factory=dict)

    @classmethod
    def of(cls, width: int, counts: Mapping[Cell, int]) -> SlotCounts:
        """Return counts by slots of this width, by wider ones where that would be too many slots."""
        return cls(width, counts)._fit(width, {})

    @property
    def messages(self) -> int:
        """Number of messages: those that have a time."""
        return sum(self.counts.values())

    @property
    def window(self) -> tuple[int, int] | None:
        """When the first and the last slot begin, in microseconds since 1970; None without messages."""
        slots = [slot for slot, _, _ in self.counts]
        return (min(slots) * self.width, max(slots) * self.width) if slots else None

    def __add__(self, other: object) -> SlotCounts:
        """Return the counts of both, with the width that the window of both asks for."""
        if not isinstance(other, SlotCounts):
            return NotImplemented
        if not other.counts:
            return self
        if not self.counts:
            return other
        # Neither width is larger than that of the sum, so the wider of both is where the search begins.
        narrow, wide = sorted((self, other), key=lambda each: each.width)
        return wide._fit(wide.width, narrow.at_width(wide.width).counts)

    def at_width(self, width: int) -> SlotCounts:
        """Return the same messages by slots of a width that this one divides."""
        if width == self.width:
            return self
        times, counts = width // self.width, dict[Cell, int]()
        for (slot, exchange, routed), count in self.counts.items():
            cell = (slot // times, exchange, routed)
            counts[cell] = counts.get(cell, 0) + count
        return SlotCounts(width, counts)

    def _fit(self, width: int, more: Mapping[Cell, int]) -> SlotCounts:
        """Return the sum with more counts of this width, by slots wide enough for the window of both."""
        counts = {**self.counts, **{cell: self.counts.get(cell, 0) + count for cell, count in more.items()}}
        whole = SlotCounts(width, counts)
        window = whole.window
        return SlotCounts() if window is None else whole.at_width(width_for(*window, width))
