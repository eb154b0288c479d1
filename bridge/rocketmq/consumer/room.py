"""The queues that a member reads, and the bound on the bytes that it keeps of all of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf
from typing import Final

from bridge.rocketmq.consumer.assigned import AssignedQueue, TopicQueue
from bridge.rocketmq.remoting.channel import Channel
from bridge.rocketmq.remoting.command import now_ms

ANSWER_BYTES: Final = 8 << 20
"""Maximum size of the messages unpacked from one answer of a broker, in bytes; only the last record may exceed it.
Without this bound, a compressed answer of 256 KiB could block the event loop for seconds. The rest of the answer is
pulled again."""
UNBOUNDED: Final = 1 << 30
"""Number of messages without a bound: more than any pull returns."""


class PulledQueue:
    """An assigned queue, and the task that pulls it."""

    __slots__ = ("assigned", "channel", "consumed_ms", "locked_ms", "moved", "pulled_ms", "task", "waits")

    def __init__(self, assigned: AssignedQueue) -> None:
        self.assigned = assigned
        self.moved = asyncio.Event()
        """Set when a message was acknowledged or a lock acquired."""
        self.waits = False
        """Whether a task waits for ``moved``."""
        self.task: asyncio.Task[None] | None = None
        self.channel: Channel | None = None
        """The connection over which its lock was acquired, if it needs one."""
        self.pulled_ms = self.consumed_ms = self.locked_ms = now_ms()
        """Times of the last pull, acknowledgement and lock, in milliseconds since 1970."""


class Room:
    """The bound on the bytes that are kept of all queues together; ``most`` is in bytes, -1 is no bound.

    No queue has a share of its own, so one busy queue may use all of the bytes. None starves: kept messages are
    acknowledged sooner or later, and then all queues that wait try again.
    """

    def __init__(self, readings: Mapping[TopicQueue, PulledQueue], most: int) -> None:
        self._readings: Final = readings
        self._most: Final = most
        self._waiting: Final[set[PulledQueue]] = set()

    def left(self) -> float:
        """Return how many bytes may still be kept; negative where the bound is exceeded."""
        if self._most == -1:
            return inf
        return self._most - sum([reading.assigned.size for reading in self._readings.values()])

    def messages_for(self, reading: PulledQueue) -> int:
        """Return how many messages a queue may pull, assuming the average size of those that it keeps.

        A queue that keeps none has no bound here. After a 0, its `PulledQueue.moved` is set when there is room again.
        """
        left = self.left()
        if left <= 0:
            self._waiting.add(reading)
            return 0
        kept = len(reading.assigned)
        return max(1, int(min(left, ANSWER_BYTES) * kept / max(reading.assigned.size, 1))) if kept else UNBOUNDED

    def wake(self) -> None:
        """Let the queues that wait try again, if there is room by now."""
        if self._waiting and self.left() > 0:
            for reading in self._waiting:
                reading.moved.set()
            self._waiting.clear()

    def remove(self, reading: PulledQueue) -> None:
        """Forget a queue that was given up."""
        self._waiting.discard(reading)
        self.wake()
