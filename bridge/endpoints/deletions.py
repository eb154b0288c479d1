"""How many messages of a log were deleted before they were read: of a partition, a RocketMQ queue, a stream.

These systems delete messages whether they were read or not, and a reader that is behind just goes on at the first that
is left. Offsets that were passed over and lie before the start of the log are those that were lost. Other gaps are no
loss: compaction, the marks of transactions, and filters leave some, too.
"""

from __future__ import annotations

from typing import Final

LOOKS: Final = 5
"""Number of looks for which a gap is remembered: the start of the log is known a little later than the gap."""
MAX_GAPS: Final = 16
"""Maximum number of gaps that are remembered: the largest, as each transaction of Kafka leaves one."""


class Deletions:
    """Finds out how many messages of a partition, queue or stream were deleted before they were read."""

    __slots__ = ("_counted", "_gaps", "_stands_at", "begun")

    def __init__(self) -> None:
        self.begun = -1
        """Offset of the group when the partition was assigned; -1 if there was none, or it is not known."""
        self._gaps: list[tuple[int, int, int]] = []
        """Largest gaps of the last looks, by offset: first offset that was passed over, 0 if nothing was read before,
        first after it that was read, number of looks."""
        self._stands_at = -1
        """Position at the last look, if nothing more was on its way then; else -1."""
        self._counted = -1
        """Offset up to which deleted messages are counted."""

    def pass_over(self, start: int, end: int) -> None:
        """Take note that no message from ``start``, 0 if nothing was read before, up to ``end`` was read."""
        if start >= end:
            return
        gaps = self._gaps
        if len(gaps) == MAX_GAPS:
            smallest = min(gaps, key=lambda gap: gap[1] - gap[0])
            if smallest[1] - smallest[0] >= end - start:
                return
            gaps.remove(smallest)
        gaps.append((start, end, 0))

    def count(self, position: int, low: int, *, is_drained: bool) -> int:
        """Return how many messages were deleted unread and not counted yet.

        ``position`` is the offset after the last message that was read, 0 if none was; ``low`` is the start of the log.
        With ``is_drained`` nothing was on its way that was fetched before.
        """
        gaps = self._gaps
        if is_drained and self._stands_at == position < low:  # there may be nothing left to read
            gaps = [*gaps, (position, low, 0)]
        self._stands_at = position if is_drained else -1
        total = 0
        for start, end, _ in gaps:
            first, last = max(start or self.begun, self._counted), min(end, low)
            if 0 <= first < last:
                total += last - first
                self._counted = last
        self._gaps = [(start, end, looks + 1) for start, end, looks in self._gaps if end > low and looks < LOOKS]
        return total
