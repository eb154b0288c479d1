"""Count messages per slot of time. The width of slots follows from the window: one second, or longer as needed.

The width is the smallest of `WIDTHS` with which the window has at most `SLOTS` slots. Each width divides the next one,
so slots can be merged without counting again; and a larger window never has a smaller width. So the parts of an
archive, added in any order, have the width and the counts of the whole archive in the end.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Cell: TypeAlias = tuple[int, str, bool | None]
"""Number of a slot from 1970 on; exchange of publication; whether a queue gets the messages, None if undecided."""

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
"""Maximum number of slots from the first to the last one of a window."""


LAST_TIME: Final = (1 << 63) + WIDTHS[-1]
"""Greatest distance from 1970, in microseconds, of the beginning of a slot, for times of 64 bits."""


def choose_width(first: int, last: int, least: int = WIDTHS[0], slots: int = SLOTS) -> int:
    """Return the smallest width, at least ``least``, at which the two times are less than ``slots`` slots apart."""
    return next(width for width in WIDTHS if width >= least and last // width - first // width < slots)


@dataclass(frozen=True, slots=True)
class SlotCounts:
    """Numbers of messages per slot, exchange and whether a queue gets them. ``SlotCounts()`` is zero.

    Use `from_counts` where the counts may have more slots than `SLOTS`.
    """

    width: int = WIDTHS[0]
    """The width of a slot in microseconds: one of `WIDTHS`."""
    counts: Mapping[Cell, int] = field(default_factory=dict)

    @classmethod
    def from_counts(cls, width: int, counts: Mapping[Cell, int]) -> SlotCounts:
        """Return counts given in slots of this width, merged into wider slots if they would be more than `SLOTS`."""
        return cls(width, counts)._fit(width, {})

    @property
    def messages(self) -> int:
        """Number of messages with a time; only these are counted here."""
        return sum(self.counts.values())

    @property
    def window(self) -> tuple[int, int] | None:
        """Beginnings of the first and the last slot, in microseconds since 1970; None if there are no messages."""
        slots = [slot for slot, _, _ in self.counts]
        return (min(slots) * self.width, max(slots) * self.width) if slots else None

    def __add__(self, other: object) -> SlotCounts:
        """Return the sum, in slots of the width for the window of both."""
        if not isinstance(other, SlotCounts):
            return NotImplemented
        if not other.counts:
            return self
        if not self.counts:
            return other
        # The width of the sum is at least the wider of the two, so the search begins there.
        narrow, wide = sorted((self, other), key=lambda each: each.width)
        return wide._fit(wide.width, narrow.at_width(wide.width).counts)

    def at_width(self, width: int) -> SlotCounts:
        """Return the same counts in wider slots; ``width`` must be a multiple of this width."""
        if width == self.width:
            return self
        times, counts = width // self.width, dict[Cell, int]()
        for (slot, exchange, routed), count in self.counts.items():
            cell = (slot // times, exchange, routed)
            counts[cell] = counts.get(cell, 0) + count
        return SlotCounts(width, counts)

    def gather(self, names: Container[str], others: str) -> SlotCounts:
        """Return the same counts, with ``others`` in place of each exchange that is not among ``names``."""
        if all(exchange in names for _, exchange, _ in self.counts):
            return self
        counts: dict[Cell, int] = {}
        for (slot, exchange, routed), count in self.counts.items():
            cell = (slot, exchange if exchange in names else others, routed)
            counts[cell] = counts.get(cell, 0) + count
        return SlotCounts(self.width, counts)

    def _fit(self, width: int, more: Mapping[Cell, int]) -> SlotCounts:
        """Return the sum with ``more`` counts of the same width, in slots wide enough for the window of both."""
        counts = {**self.counts, **{cell: self.counts.get(cell, 0) + count for cell, count in more.items()}}
        whole = SlotCounts(width, counts)
        window = whole.window
        return SlotCounts() if window is None else whole.at_width(choose_width(*window, width))
