"""A queue that is assigned to a consumer: its messages are pulled, handed out, and acknowledged.

Messages are handed out in the order of their offsets, and may be acknowledged in any order. The offset to commit is
that of the first message that is not acknowledged, so the next reader of the queue misses none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple

from bridge.rocketmq.remoting.message import StoredMessage
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.hashing.java import encode_code_units
from exchange.partition.partitions import Partition

MIB: Final = 1 << 20


class TopicQueue(NamedTuple):
    """A queue of a topic (`org.apache.rocketmq.common.message.MessageQueue`)."""

    topic: str
    broker: str
    queue_id: int

    @classmethod
    def from_partition(cls, topic: str, partition: Partition) -> TopicQueue:
        """Return the queue of a partition of the topic's route."""
        queue = MessageQueue.from_partition(partition)
        return cls(topic, queue.broker, queue.queue_id)

    @property
    def order(self) -> tuple[bytes, bytes, int]:
        """Key to sort queues by (`compareTo`)."""
        return encode_code_units(self.topic), encode_code_units(self.broker), self.queue_id

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of requests."""
        return {"brokerName": self.broker, "queueId": self.queue_id, "topic": self.topic}

    def __str__(self) -> str:
        return f"{self.topic} at {self.broker}:{self.queue_id}"


@dataclass(frozen=True, slots=True)
class PullLimits:
    """Limits of the messages kept of a queue, which is not pulled beyond one; named as in `DefaultMQPushConsumer`."""

    pull_threshold_for_queue: int = 1000
    """Maximum number of messages of one queue."""
    pull_threshold_size_for_queue: int = 100 * MIB
    """Maximum size of their bodies, in bytes."""
    pull_threshold_size_for_all: int = -1
    """Maximum size of the bodies of all queues of all topics together, in bytes; -1: no such limit. Java has no such
    setting. An answer that comes when the limit is reached is dropped, and pulled again later."""
    pull_threshold_for_topic: int = -1
    """Maximum number of messages for all queues together, of which each has an equal share; -1: no such limit."""
    pull_threshold_size_for_topic: int = -1
    """Maximum size of their bodies, in bytes; -1: no such limit."""
    consume_concurrently_max_span: int = 2000
    """Maximum distance from the first offset that is not acknowledged to the last that was pulled; ignored when the
    queue is read in order."""
    pull_batch_size: int = 32
    """Maximum number of messages to pull at once; a broker sends at most 32 by default, and 256 KiB."""

    def of_queue(self, queues: int) -> tuple[int, int]:
        """Return how many messages and bytes one of ``queues`` may keep (`RebalancePushImpl.messageQueueChanged`)."""
        messages, size, count = self.pull_threshold_for_queue, self.pull_threshold_size_for_queue, max(queues, 1)
        if self.pull_threshold_for_topic != -1:
            messages = max(1, self.pull_threshold_for_topic // count)
        if self.pull_threshold_size_for_topic != -1:
            size = max(1, self.pull_threshold_size_for_topic // count)
        return messages, size


class AssignedQueue:
    """A queue from its assignment until it is taken away (`ProcessQueue`); each assignment is a new object.

    Times are seconds of the caller's clock.
    """

    __slots__ = (
        "_held", "_order", "_ready", "begun", "dropped", "is_gone", "leaving", "locked_until", "marked", "max_offset",
        "next_offset", "ordered", "paused", "position", "pulled", "queue", "size", "stored_at", "suspended_until",
    )  # fmt: skip

    def __init__(self, queue: TopicQueue, offset: int, *, ordered: bool = False) -> None:
        self.queue = queue
        self.ordered = ordered
        self.next_offset = offset
        """Offset to pull next."""
        self.begun = -1
        """The group's offset when it was assigned; -1 if there was none."""
        self.max_offset = offset
        """Offset at which the queue ended at the last pull."""
        self.pulled = False
        """Whether a pull of it was answered, so that its offset may be committed."""
        self.size = 0
        """Size of the messages that are kept, in bytes."""
        self.locked_until = -inf if ordered else inf
        """Time until which the broker's lock is ours for certain."""
        self.stored_at: int | None = None
        """Time at which the last message that was pulled was stored, in milliseconds since 1970."""
        self.suspended_until = -inf
        """Time until which no message is handed out."""
        self.leaving = False
        """Whether it will be given up once all that was handed out is acknowledged: it hands out no more messages."""
        self.position = offset
        """Offset behind the last message that was handed out."""
        self.marked: int | None = None
        """Offset to commit where the caller decides that, whatever is acknowledged; negative: none yet. None:
        acknowledgements decide."""
        self.paused = False
        """Whether it is neither pulled nor handed out for now."""
        self.is_gone = False
        """Whether its topic was deleted since it was assigned: no offset of it is one of a topic that is made anew."""
        self.dropped = False
        """Whether it was taken away: it hands out no more messages, and acknowledgements have no effect."""
        # Invariants: `_held` is sorted by offset; `_order` has all offsets of `_held`, in order, and begins with the
        # first of them; `_ready` has the last messages of `_held`, in order.
        self._held: dict[int, StoredMessage] = {}
        """Offset -> message, of all that are not acknowledged."""
        self._order: deque[int] = deque()
        """Offsets in order; those that are not in ``_held`` are acknowledged."""
        self._ready: deque[StoredMessage] = deque()
        """Messages that were not handed out."""

    def __len__(self) -> int:
        """Return the number of messages that are not acknowledged."""
        return len(self._held)

    @property
    def out(self) -> int:
        """Number of messages that were handed out and are not acknowledged."""
        return len(self._held) - len(self._ready)

    @property
    def ready(self) -> int:
        """Number of messages that were not handed out."""
        return len(self._ready)

    def offsets(self) -> tuple[list[int], list[int]]:
        """Return the offsets of messages handed out and not acknowledged, and of those not handed out, in order."""
        held = list(self._held)
        return held[: self.out], held[self.out :]

    @property
    def span(self) -> int:
        """Distance from the first offset that is not acknowledged to the last that was pulled (`getMaxSpan`)."""
        return self._order[-1] - self._order[0] if self._order else 0

    @property
    def committable(self) -> int | None:
        """Offset to commit: all messages before it are acknowledged. None before the broker's first answer."""
        if self.marked is not None:
            return self.marked if self.marked >= 0 else None
        if not self.pulled or self.is_gone:
            return None
        return self._order[0] if self._order else self.next_offset

    @property
    def at_end(self) -> bool:
        """Whether all messages that the queue had at the last pull have been pulled."""
        return self.pulled and self.next_offset >= self.max_offset

    def room(self, limits: PullLimits, queues: int) -> int:
        """Return how many messages may be pulled now (`DefaultMQPushConsumerImpl.pullMessage`)."""
        messages, size = limits.of_queue(queues)
        if self.size >= size or (not self.ordered and self.span > limits.consume_concurrently_max_span):
            return 0
        return max(0, min(limits.pull_batch_size, messages - len(self._held)))

    def put(self, messages: Iterable[StoredMessage], next_offset: int, max_offset: int) -> int:
        """Keep the pulled messages that are not before the old ``next_offset``, and return their number.

        Earlier messages may be among them: a batch that is stored as one record comes complete, whichever of its
        messages was pulled.
        """
        held, wanted, before = self._held, self.next_offset, len(self._held)
        for message in messages:
            offset = message.queue_offset
            if offset >= wanted:
                held[offset] = message
                self._order.append(offset)
                self._ready.append(message)
                self.size += message.weight
                self.stored_at = message.store_time
                wanted = offset + 1
        self.next_offset = max(next_offset, wanted)
        self.max_offset = max_offset
        self.pulled = True
        return len(held) - before

    def may_give(self, now: float, window: int = 0) -> bool:
        """Return whether there are messages that may be handed out.

        ``window`` is the maximum number of messages handed out and not acknowledged; 0 is no bound.
        """
        return (
            bool(self._ready)
            and not (self.leaving or self.dropped or self.paused)
            and self.suspended_until <= now < self.locked_until
            and (not window or self.out < window)
        )

    def take(self, limit: int, now: float, window: int = 0) -> list[StoredMessage]:
        """Hand out the next messages, at most ``limit``; see `may_give`."""
        if not self.may_give(now, window):
            return []
        ready = self._ready
        count = min(limit, len(ready), window - self.out if window else limit)
        taken = [ready.popleft() for _ in range(count)]
        self.position = taken[-1].queue_offset + 1
        return taken

    def done(self, message: StoredMessage) -> bool:
        """Acknowledge a message, and return whether it was one of those handed out: this object, not an equal one."""
        if self.dropped or not self.is_out(message):
            return False
        self._forget(message.queue_offset)
        self._advance()
        return True

    def done_before(self, offset: int) -> int:
        """Acknowledge all messages before an offset that were handed out, and return their number."""
        order, held, before = self._order, self._held, len(self._held)
        # From the first message that was not handed out on, nothing may be acknowledged.
        end = self._ready[0].queue_offset if self._ready else offset
        while order and order[0] < offset and order[0] < end:
            first = order.popleft()
            if first in held:
                self._forget(first)
        self._advance()
        return before - len(held)

    def hand_out_again(self, message: StoredMessage, changed: StoredMessage, until: float) -> bool:
        """Have a message handed out again, as ``changed``, and all after it, from the time ``until`` on.

        So a queue that is read in order waits for a message that failed (`SUSPEND_CURRENT_QUEUE_A_MOMENT`). Return
        False, and change nothing, if the message is not out: see `is_out`.
        """
        if self.dropped or not self.is_out(message):
            return False
        first, held = message.queue_offset, self._held
        held[first] = changed
        self._ready = deque([held[offset] for offset in self._order if offset >= first and offset in held])
        self.suspended_until = until
        return True

    def drop(self) -> None:
        """Take it away: hand out no more messages, and forget those that are kept."""
        self.dropped = True
        self.pulled = False
        self._held.clear()
        self._order.clear()
        self._ready.clear()
        self.size = 0

    def move(self, offset: int) -> None:
        """Take it away, and make ``offset`` the one to commit, whichever messages are acknowledged."""
        self.leaving = True
        self.drop()
        self.next_offset = offset
        self.pulled, self.is_gone = True, False

    def seek(self, offset: int) -> None:
        """Forget the messages that are kept, and continue at an offset."""
        self._held.clear()
        self._order.clear()
        self._ready.clear()
        self.size = 0
        self.next_offset = self.position = offset
        self.max_offset = max(self.max_offset, offset)
        self.pulled = False

    def is_out(self, message: StoredMessage) -> bool:
        """Return whether this message, the object itself, was handed out and is not acknowledged."""
        offset = message.queue_offset
        if self._held.get(offset) is not message:
            return False
        return not self._ready or offset < self._ready[0].queue_offset

    def _forget(self, offset: int) -> None:
        self.size -= self._held.pop(offset).weight

    def _advance(self) -> None:
        """Drop acknowledged offsets from the front, so that ``_order`` begins with one that is not acknowledged."""
        order, held = self._order, self._held
        while order and order[0] not in held:
            order.popleft()
