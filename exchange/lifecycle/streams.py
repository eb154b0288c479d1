"""Streams: a log that consumers read from an offset, and from which no acknowledgement removes anything.

Retention is not modelled: RabbitMQ deletes whole segments of the log, by its own schedule.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, TypeAlias

from exchange.entities.queue_arguments import find_max_age
from exchange.lifecycle.consumers import Consumer, ConsumerTurns, Delivery
from exchange.lifecycle.content import Content
from exchange.lifecycle.limits import Limits
from exchange.lifecycle.orders import ClassicOrder, Stored
from exchange.lifecycle.queues import LiveQueue, QueueHost
from exchange.topology.requests import refuse_consume, refuse_get, refuse_purge
from exchange.values.field_values import resolve_type

if TYPE_CHECKING:
    from datetime import datetime

Offset: TypeAlias = "str | int | datetime"
"""``first``, ``last``, ``next``, the number of a message, an age as ``1h``, or a time."""


class StreamQueue(LiveQueue):
    """A stream. Its messages stay ready for ever."""

    def __init__(self, name: str, limits: Limits, host: QueueHost) -> None:
        self._log: Final = ClassicOrder()
        super().__init__(name, limits, host, self._log, ConsumerTurns(parks_eagerly=False))
        self._messages: Final[list[Stored]] = []
        self._times: Final[list[float]] = []
        """The time in milliseconds at which each of them was appended."""
        self._next: Final[dict[Consumer, int]] = {}

    @property
    def consumer_count(self) -> int:
        """Zero: queue.declare-ok has no consumers of a stream."""
        return 0

    def publish(self, content: Content, publisher: object | None) -> bool:
        """Append a message."""
        self._places += 1
        message = Stored(content, self._places, len(content.message.body), 0, None)
        self._log.put(message)
        self._messages.append(message)
        self._times.append(self._host.now)
        self.run()
        return True

    def get(self, *, auto_ack: bool) -> Delivery | None:
        """Raise the broker's error: a stream is read by consumers only."""
        refuse_get("stream", self._host.describe_queue(self.name), self._rules, has_active=False)
        return None

    def purge(self) -> int:
        """Raise the broker's error: a stream keeps its messages."""
        refuse_purge("stream", self._host.describe_queue(self.name))
        return 0

    def remove(self, message: Stored) -> None:
        """Raise the error of `purge`."""
        self.purge()

    def start(self, consumer: Consumer, offset: Offset) -> None:
        """Add a consumer that begins at an offset which `refuse_consumer` accepts.

        A negative number is the first message, as in RabbitMQ. An offset beyond the end is waited for: messages before
        it are not delivered. An age or a time is the first message from then on, and ``next`` if there is none.
        RabbitMQ begins with the messages that it wrote together with it, and these may be older.

        Raises BrokerError for a consumer that streams do not support.
        """
        refuse_consume(
            "stream", self._host.describe_queue(self.name), self._host.release,
            prefetch=consumer.prefetch, auto_ack=consumer.auto_ack,
        )  # fmt: skip
        self._next[consumer] = self._find_start(offset)
        self.add_consumer(consumer)

    def _find_start(self, offset: Offset) -> int:
        kind, value = resolve_type(offset)
        end = len(self._messages)
        named = {b"first": 0, b"last": max(end - 1, 0), b"next": end}
        if kind == "timestamp":
            return bisect_left(self._times, value * 1000)
        if isinstance(value, bytes):
            age = find_max_age(value)
            return named[value] if age is None else bisect_left(self._times, self._host.now - age)
        return max(int(value), 0)

    def run(self) -> None:
        """Give each consumer what it has not read, as far as its prefetch count allows."""
        for consumer in self.turns.consumers:
            while (at := self._next[consumer]) < len(self._messages) and consumer.held < consumer.most:
                self._next[consumer] = at + 1
                consumer.held += 1
                delivery = Delivery(self.name, self, self._messages[at], consumer, False, {"x-stream-offset": at})
                consumer.deliveries.append(delivery)

    def settle(self, delivery: Delivery, outcome: str, failed: bool) -> None:
        """Let the consumer read on, whatever the outcome: a stream takes nothing back."""
        delivery.is_settled = True
        if delivery.consumer is not None:
            delivery.consumer.held -= 1
        self.run()

    def unacknowledged(self) -> list[Stored]:
        """Return nothing: a stream does not know which of its messages were read."""
        return []

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self._forget(consumer)
        del self._next[consumer]

    def close_channel(self, consumer: Consumer) -> None:
        """Remove a consumer; the messages that it holds are still there."""
        if consumer.is_active:
            self.remove_consumer(consumer)
