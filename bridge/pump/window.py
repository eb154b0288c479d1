"""The deliveries that were read and are not settled yet: their number is bounded, and each lane is settled in order.

A delivery is done when all its copies are done. A lane is settled up to the last delivery before the first one that is
not done. So a delivery that waits delays the settling of its lane, but not the sending of the messages behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bridge.endpoint import Delivery
from bridge.pump.dead_letters import DeadLetterLimit


@dataclass(slots=True, eq=False)
class Pending:
    """A delivery that is not settled yet."""

    delivery: Delivery
    window: Window
    copies: int
    """Number of copies that are not done."""
    since: float
    """Time when it was read, by the loop's clock, in seconds."""
    dropped: bool = False
    """Whether its source's connection is gone: the message will be read again, so nothing is done for this delivery."""
    held_reason: str | None = None
    """Reason why it is on hold: it can neither be delivered nor become a dead letter. None if it is not on hold."""


class Admission(Protocol):
    """What deliveries wait for before they are admitted to a window: the schemas of their bodies."""

    @property
    def trouble(self) -> str | None:
        """Reason why some wait; None if none does, or no reason is known."""

    def prepare(self, deliveries: Sequence[Delivery], wake: Callable[[], None]) -> int:
        """Return the number of deliveries, from the first on, that may be admitted; their bodies are prepared.

        ``wake`` is called when there may be more.
        """


class Window:
    """The unsettled deliveries of one source.

    ``most`` and ``most_bytes`` are their maximum number and size. ``settle`` is called with the last delivery of a
    lane up to which all are done.
    """

    def __init__(self, most: int, most_bytes: int, settle: Callable[[Delivery], None]) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._settle = settle
        self._lanes: dict[Hashable, deque[Pending]] = {}
        """Lane -> its unsettled deliveries in order; never empty."""
        self.touched: set[Hashable] = set()
        """Lanes in which a delivery became done since the last `settle`."""
        self._size = 0
        """Mean size of the deliveries that were admitted last, in bytes."""
        self.limit: DeadLetterLimit | None = None
        """Limit of its messages that become dead letters; None: there is none."""
        self.messages = 0
        """Number of unsettled deliveries."""
        self.bytes = 0
        """Size of these deliveries."""
        self.full_since: float | None = None
        """Time since which there is no room, by the loop's clock, in seconds; None: there is room."""

    @property
    def capacity(self) -> int:
        """Maximum number of unsettled deliveries."""
        return self._most

    @property
    def capacity_bytes(self) -> int:
        """Maximum size of the unsettled deliveries, in bytes."""
        return self._most_bytes

    @property
    def room(self) -> int:
        """Number of deliveries that may be read, on the assumption that they are as large as the last ones."""
        left = self._most_bytes - self.bytes
        if left <= 0:
            return 0
        by_size = self._most if not self._size else max(1, left // self._size)
        return min(self._most - self.messages, by_size)

    def fitting(self, deliveries: Sequence[Delivery]) -> int:
        """Return how many of these deliveries, from the first one on, may be admitted now.

        An empty window admits at least one: else a delivery larger than the whole window would wait for ever.
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
        """Return the delivery that has been unsettled for the longest time; None if all are settled."""
        firsts = [lane[0] for lane in self._lanes.values() if lane]
        return min(firsts, key=lambda pending: pending.since, default=None)

    def on_hold(self) -> list[Pending]:
        """Return the deliveries that are on hold."""
        return [pending for lane in self._lanes.values() for pending in lane if pending.held_reason is not None]

    @property
    def is_stuck(self) -> bool:
        """Whether each lane begins with a delivery on hold, so that nothing behind it can be settled."""
        return all(lane[0].held_reason is not None for lane in self._lanes.values())

    def admit(self, deliveries: Sequence[Delivery], since: float) -> list[Pending]:
        """Add deliveries that were read at the time ``since``, with one copy each."""
        pendings = [Pending(delivery, self, 1, since) for delivery in deliveries]
        name: Hashable = self  # a lane that no delivery has, so that the first delivery looks its own lane up
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

    def finish_copy(self, pending: Pending) -> None:
        """Take note that one copy of a delivery is done. Call `settle` afterwards, once for any number of copies."""
        finish_copies((pending,))

    def settle(self) -> None:
        """Settle, in each lane, the prefix of deliveries that are done."""
        for name in self.touched:
            lane = self._lanes[name]
            last = None
            while lane and not lane[0].copies:  # never past a delivery that is not done
                last = lane.popleft().delivery
                self.messages -= 1
                self.bytes -= last.size
            if last is not None:
                self._settle(last)
            if not lane:
                del self._lanes[name]
        self.touched.clear()
        if self.full_since is not None and self.messages < self._most and self.bytes < self._most_bytes:
            self.full_since = None

    def last_settleable(self, lane: Hashable, copies: Mapping[Pending, int]) -> Delivery | None:
        """Return the last delivery of a lane that could be settled if these copies were done, too; else None."""
        last = None
        for pending in self._lanes.get(lane, ()):
            if pending.copies > copies.get(pending, 0):
                break
            last = pending.delivery
        return last

    def drop(self) -> None:
        """Forget all deliveries, as the source's connection is gone and they will be read again."""
        for lane in self._lanes.values():
            for pending in lane:
                pending.dropped = True
        self._lanes.clear()
        self.touched.clear()
        if self.limit is not None:
            self.limit.forget_waiting()
        self.messages = self.bytes = 0
        self.full_since = None


def abandon_copy(pending: Pending, queue: str) -> None:
    """Take note that nothing is to be done for a copy: its source gives it again, to this reader or to another one."""
    if pending.window.limit is not None:
        pending.window.limit.release(pending, queue)
    pending.window.finish_copy(pending)
    pending.window.settle()


def finish_copies(pendings: Iterable[Pending]) -> Collection[Window]:
    """Take note that one copy of each is done, and return their windows, to be settled once for all."""
    windows: dict[Window, None] = {}
    latest = None
    for pending in pendings:
        window = pending.window
        if window is not latest:
            windows[window] = None
            latest = window
        pending.copies -= 1
        if not pending.copies and not pending.dropped:
            window.touched.add(pending.delivery.lane)
    return windows.keys()
