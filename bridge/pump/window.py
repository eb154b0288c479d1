"""What a source has given and is not settled yet: bounded, and settled as a prefix of each lane.

A delivery is done when each of its copies is. Lanes are settled up to the last delivery before which, itself included,
all are done: a delivery that is held up holds up the settling of its lane, not its work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from bridge.endpoint import Delivery

__all__ = ["Pending", "Window"]


@dataclass(slots=True, eq=False)
class Pending:
    """A delivery on its way."""

    delivery: Delivery
    window: Window
    copies: int
    """Those that are not done."""
    since: float
    """When it was read, by the loop's clock, in seconds."""
    dropped: bool = False
    """Its source's connection is gone, and it will be read again: nothing needs to be done for this one."""
    held_reason: str | None = None
    """Why it is on hold: it can neither be delivered nor be a dead letter."""


class Window:
    """The deliveries of one source. ``settle`` is told the last one of each prefix that is done."""

    def __init__(self, most: int, most_bytes: int, settle: Callable[[Delivery], None]) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._settle = settle
        self._lanes: dict[Hashable, deque[Pending]] = {}
        self._touched: set[Hashable] = set()
        self._size = 0
        """Mean size of the deliveries that were read last, in bytes."""
        self.messages = 0
        """Number of deliveries that are not settled."""
        self.bytes = 0
        """And their size."""
        self.full_since: float | None = None
        """Since when there is no room, by the loop's clock, in seconds; None: there is."""

    @property
    def capacity(self) -> int:
        """Maximum number of messages."""
        return self._most

    @property
    def capacity_bytes(self) -> int:
        """Maximum size, in bytes."""
        return self._most_bytes

    @property
    def room(self) -> int:
        """Number of deliveries that may be read, as many as fit if they are as large as the last ones."""
        left = self._most_bytes - self.bytes
        if left <= 0:
            return 0
        by_size = self._most if not self._size else max(1, left // self._size)
        return min(self._most - self.messages, by_size)

    def fitting(self, deliveries: Sequence[Delivery]) -> int:
        """Return how many of these, from the first one on, may be admitted now.

        Into an empty window goes at least one, as one that is larger than all of it would never go.
        """
        left = self._most_bytes - self.bytes
        if sum([delivery.size for delivery in deliveries]) <= left:
            return len(deliveries)
        count = 0
        for delivery in deliveries:
            left -= delivery.size
            if left < 0 and (count or self.messages):
                break
            count += 1
        return count

    def oldest(self) -> Pending | None:
        """Return the delivery that is not settled for the longest time; None: all are."""
        firsts = [lane[0] for lane in self._lanes.values() if lane]
        return min(firsts, key=lambda pending: pending.since, default=None)

    def on_hold(self) -> list[Pending]:
        """Return the deliveries that are on hold."""
        return [pending for lane in self._lanes.values() for pending in lane if pending.held_reason is not None]

    def admit(self, deliveries: Sequence[Delivery], since: float) -> list[Pending]:
        """Take deliveries in, in the order of their lanes, with one copy each."""
        pendings = [Pending(delivery, self, 1, since) for delivery in deliveries]
        name: Hashable = self  # which is no lane
        for pending in pendings:
            if pending.delivery.lane is not name:
                name = pending.delivery.lane
                lane = self._lanes.setdefault(name, deque())
            lane.append(pending)
        size = sum([delivery.size for delivery in deliveries])
        self.messages += len(pendings)
        self.bytes += size
        if pendings:
            self._size = size // len(pendings)
        if self.full_since is None and (self.messages >= self._most or self.bytes >= self._most_bytes):
            self.full_since = since
        return pendings

    def done(self, pending: Pending) -> None:
        """A copy of it is done."""
        pending.copies -= 1
        if not pending.copies and not pending.dropped:
            self._touched.add(pending.delivery.lane)

    def settle(self) -> None:
        """Tell the source of all prefixes that became done."""
        for name in self._touched:
            lane = self._lanes[name]
            last = None
            while lane and not lane[0].copies:
                last = lane.popleft().delivery
                self.messages -= 1
                self.bytes -= last.size
            if last is not None:
                self._settle(last)
            if not lane:
                del self._lanes[name]
        self._touched.clear()
        if self.full_since is not None and self.messages < self._most and self.bytes < self._most_bytes:
            self.full_since = None

    def last_done(self, lane: Hashable, copies: Mapping[Pending, int]) -> Delivery | None:
        """The last one of a lane's prefix that would be done if so many more copies were; None: not even the first."""
        last = None
        for pending in self._lanes.get(lane, ()):
            if pending.copies > copies.get(pending, 0):
                break
            last = pending.delivery
        return last

    def drop(self) -> None:
        """The source's connection is gone: what is not settled will be read again."""
        for lane in self._lanes.values():
            for pending in lane:
                pending.dropped = True
        self._lanes.clear()
        self._touched.clear()
        self.messages = self.bytes = 0
        self.full_since = None
