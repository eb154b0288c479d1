"""Streams: a log that consumers read from an offset, and from which no acknowledgement removes anything.

Retention is not modelled: RabbitMQ deletes whole segments of the log, by its own schedule.
"""

from __future__ import annotations

from typing import Final

from exchange.errors import NotImplementedByBroker, PreconditionFailed
from exchange.lifecycle.consumers import Consumer, ConsumerTurns, Delivery
from exchange.lifecycle.content import Content
from exchange.lifecycle.limits import Limits
from exchange.lifecycle.orders import ClassicOrder, Stored
from exchange.lifecycle.queues import LiveQueue, QueueHost

__all__ = ["Offset", "StreamQueue"]

Offset = str | int
"""``first``, ``last``, ``next``, or the number of a message."""


class StreamQueue(LiveQueue):
    """A stream. Its messages stay ready for ever."""

    def __init__(self, name: str, limits: Limits, host: QueueHost) -> None:
        self._log: Final = ClassicOrder()
        super().__init__(name, limits, host, self._log, ConsumerTurns(parks_eagerly=False))
        self._messages: Final[list[Stored]] = []
        self._next: Final[dict[Consumer, int]] = {}

    def publish(self, content: Content, publisher: object | None) -> bool:
        """Append a message."""
        self._places += 1
        message = Stored(content, self._places, len(content.message.body), 0, None)
        self._log.put(message)
        self._messages.append(message)
        self.run()
        return True

    def get(self, *, auto_ack: bool) -> Delivery | None:
        """Raise the broker's error: a stream is read by consumers only."""
        raise NotImplementedByBroker(f"basic.get not supported by stream queues queue '{self.name}'")

    def purge(self) -> int:
        """Raise the broker's error: a stream keeps its messages."""
        raise NotImplementedByBroker(f"queue.purge not supported by stream queues queue '{self.name}'")

    def remove(self, message: Stored) -> None:
        """Raise the error of `purge`."""
        self.purge()

    def start(self, consumer: Consumer, offset: Offset) -> None:
        """Add a consumer that begins at an offset; a negative one is the first message, as in RabbitMQ.

        An offset beyond the end is waited for: messages before it are not delivered.

        Raises PreconditionFailed as the broker does.
        """
        if not consumer.prefetch:
            raise PreconditionFailed("consumer prefetch count is not set for stream queue")
        if consumer.auto_ack:
            raise NotImplementedByBroker(f"automatic acknowledgement not supported by stream queue '{self.name}'")
        end = len(self._messages)
        named = {"first": 0, "last": max(end - 1, 0), "next": end}
        if isinstance(offset, str) and offset not in named:
            raise PreconditionFailed(f"invalid stream offset {offset!r}: 'first', 'last', 'next' or a number")
        self._next[consumer] = named[offset] if isinstance(offset, str) else max(offset, 0)
        self.add_consumer(consumer)

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
