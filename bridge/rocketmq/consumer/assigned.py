"""A queue that a consumer was assigned: what was pulled of it, handed out, and done with.

Messages are handed out in the order of their offsets and may be done with in any. What is committed is the offset of
the first that is not: all before it are done with, so whoever reads the queue next misses nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple

from bridge.rocketmq.remoting.message import StoredMessage
from exchange.partition.clients.rocketmq.message_queue import MessageQueue
from exchange.partition.hashing.java import code_units
from exchange.partition.partitions import Partition

__all__ = ["AssignedQueue", "Limits", "TopicQueue"]

MIB: Final = 1 << 20


class TopicQueue(NamedTuple):
    """A queue of a topic (`org.apache.rocketmq.common.message.MessageQueue`)."""

    topic: str
    broker: str
    queue_id: int

    @classmethod
    def of(cls, topic: str, partition: Partition) -> TopicQueue:
        """The queue that a partition of the topic's route stands for."""
        queue = MessageQueue.of(partition)
        return cls(topic, queue.broker, queue.queue_id)

    @property
    def order(self) -> tuple[bytes, bytes, int]:
        """What queues are sorted by (`compareTo`)."""
        return code_units(self.topic), code_units(self.broker), self.queue_id

    def to_json(self) -> dict[str, Any]:
        """As in the bodies of requests."""
        return {"brokerName": self.broker, "queueId": self.queue_id, "topic": self.topic}

    def __str__(self) -> str:
        return f"{self.topic} at {self.broker}:{self.queue_id}"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a queue is kept here before pulling stops (`DefaultMQPushConsumer`, whose names these are)."""

    pull_threshold_for_queue: int = 1000
    """Messages of one queue."""
    pull_threshold_size_for_queue: int = 100 * MIB
    """Bytes of their bodies."""
    pull_threshold_size_for_all: int = -1
    """Bytes of all queues of all topics together, no setting of Java's; -1 is no such bound. Answers that come when so
    much is kept are not kept, and pulled again later."""
    pull_threshold_for_topic: int = -1
    """Messages of all queues together, each of which gets an equal share; -1 is no such bound."""
    pull_threshold_size_for_topic: int = -1
    """Bytes of their bodies."""
    consume_concurrently_max_span: int = 2000
    """Between the first offset that is not done with and the last that was pulled; unless in order."""
    pull_batch_size: int = 32
    """Messages asked for at once; a broker sends no more than 32 by default, and 256 KiB."""

    def of_queue(self, queues: int) -> tuple[int, int]:
        """Messages and bytes that one of so many queues may keep (`RebalancePushImpl.messageQueueChanged`)."""
        messages, size, among = self.pull_threshold_for_queue, self.pull_threshold_size_for_queue, max(queues, 1)
        if self.pull_threshold_for_topic != -1:
            messages = max(1, self.pull_threshold_for_topic // among)
        if self.pull_threshold_size_for_topic != -1:
            size = max(1, self.pull_threshold_size_for_topic // among)
        return messages, size


class AssignedQueue:
    """A queue from its assignment until it is taken away (`ProcessQueue`); assigned anew it is another.

    Times are seconds of the caller's clock.
    """

    __slots__ = (
        "_held", "_order", "_ready", "dropped", "leaving", "locked_until", "max_offset", "next_offset", "ordered",
        "pulled", "queue", "size", "suspended_until",
    )  # fmt: skip

    def __init__(self, queue: TopicQueue, offset: int, *, ordered: bool = False) -> None:
        self.queue = queue
        self.ordered = ordered
        self.next_offset = offset
        """From where on it is pulled next."""
        self.max_offset = offset
        """Where it ended when it was pulled last."""
        self.pulled = False
        """Whether it was."""
        self.size = 0
        """Bytes of the messages that are kept."""
        self.locked_until = -inf if ordered else inf
        """Until when the broker's lock is ours for certain."""
        self.suspended_until = -inf
        """Until when nothing is handed out."""
        self.leaving = False
        """It is to be given up once what was handed out is done with: nothing more is handed out."""
        self.dropped = False
        """It was taken away: nothing more is handed out, and what is done with no longer counts."""
        self._held: dict[int, StoredMessage] = {}
        self._order: deque[int] = deque()
        """Offsets, of which those that are not in ``_held`` are done with; the first is."""
        self._ready: deque[StoredMessage] = deque()
        """What was not handed out: the last of what is held."""

    def __len__(self) -> int:
        """Messages that are not done with."""
        return len(self._held)

    @property
    def out(self) -> int:
        """Messages that were handed out and are not done with."""
        return len(self._held) - len(self._ready)

    @property
    def ready(self) -> int:
        """Messages that were not handed out."""
        return len(self._ready)

    def offsets(self) -> tuple[list[int], list[int]]:
        """Of the messages that were handed out and are not done with, and of those that were not; both in order."""
        held = list(self._held)
        return held[: self.out], held[self.out :]

    @property
    def span(self) -> int:
        """Between the first offset that is not done with and the last that was pulled (`getMaxSpan`)."""
        return self._order[-1] - self._order[0] if self._order else 0

    @property
    def committable(self) -> int | None:
        """All before this offset is done with; None before the first answer of the broker."""
        if not self.pulled:
            return None
        return self._order[0] if self._order else self.next_offset

    @property
    def at_end(self) -> bool:
        """Whether all that there was at the last pull has been pulled."""
        return self.pulled and self.next_offset >= self.max_offset

    def room(self, limits: Limits, queues: int) -> int:
        """How many messages may be asked for now (`DefaultMQPushConsumerImpl.pullMessage`)."""
        messages, size = limits.of_queue(queues)
        if self.size >= size or (not self.ordered and self.span > limits.consume_concurrently_max_span):
            return 0
        return max(0, min(limits.pull_batch_size, messages - len(self._held)))

    def put(self, messages: Iterable[StoredMessage], next_offset: int, max_offset: int) -> int:
        """Keep what was pulled, from ``next_offset`` on of before; how many these are.

        A batch that is stored in one piece comes whole, whichever of its messages was asked for.
        """
        held, wanted, before = self._held, self.next_offset, len(self._held)
        for message in messages:
            offset = message.queue_offset
            if offset >= wanted:
                held[offset] = message
                self._order.append(offset)
                self._ready.append(message)
                self.size += message.weight
                wanted = offset + 1
        self.next_offset = max(next_offset, wanted)
        self.max_offset = max_offset
        self.pulled = True
        return len(held) - before

    def may_give(self, now: float, window: int = 0) -> bool:
        """Whether there is something to hand out, and it may be.

        ``window`` bounds what is handed out and not done with; 0 is no bound.
        """
        return (
            bool(self._ready)
            and not (self.leaving or self.dropped)
            and self.suspended_until <= now < self.locked_until
            and (not window or self.out < window)
        )

    def take(self, limit: int, now: float, window: int = 0) -> list[StoredMessage]:
        """Hand out the next messages, at most ``limit``; see `may_give`."""
        if not self.may_give(now, window):
            return []
        ready = self._ready
        count = min(limit, len(ready), window - self.out if window else limit)
        return [ready.popleft() for _ in range(count)]

    def done(self, message: StoredMessage) -> bool:
        """This message is done with; whether it was one of those handed out, which are known by identity."""
        if self.dropped or not self.is_out(message):
            return False
        self._forget(message.queue_offset)
        self._advance()
        return True

    def done_before(self, offset: int) -> int:
        """All that was handed out before this offset is done with; how many these are."""
        order, held, before = self._order, self._held, len(self._held)
        end = self._ready[0].queue_offset if self._ready else offset
        while order and order[0] < offset and order[0] < end:
            first = order.popleft()
            if first in held:
                self._forget(first)
        self._advance()
        return before - len(held)

    def again(self, message: StoredMessage, changed: StoredMessage, until: float) -> bool:
        """Hand this message, changed, and all after it out once more, but not before ``until``; whether it was out.

        That is how a queue in order waits for a message that failed (`SUSPEND_CURRENT_QUEUE_A_MOMENT`).
        """
        if self.dropped or not self.is_out(message):
            return False
        first, held = message.queue_offset, self._held
        held[first] = changed
        self._ready = deque([held[offset] for offset in self._order if offset >= first and offset in held])
        self.suspended_until = until
        return True

    def drop(self) -> None:
        """It was taken away."""
        self.dropped = True
        self.pulled = False
        self._held.clear()
        self._order.clear()
        self._ready.clear()
        self.size = 0

    def move(self, offset: int) -> None:
        """It is taken away, and committed as if all before this offset were done with."""
        self.leaving = True
        self.drop()
        self.next_offset = offset
        self.pulled = True

    def is_out(self, message: StoredMessage) -> bool:
        """Whether this very message was handed out, and is not done with."""
        offset = message.queue_offset
        if self._held.get(offset) is not message:
            return False
        return not self._ready or offset < self._ready[0].queue_offset

    def _forget(self, offset: int) -> None:
        self.size -= self._held.pop(offset).weight

    def _advance(self) -> None:
        order, held = self._order, self._held
        while order and order[0] not in held:
            order.popleft()
