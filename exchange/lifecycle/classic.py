"""Classic queues, after `rabbit_amqqueue_process.erl`, `rabbit_priority_queue.erl` and `rabbit_variable_queue.erl`.

A classic queue does not always look for expired messages: it does after each delivery from the queue, when messages
come back, when a published message becomes the only one, and when a timer rings that it set the last time it looked. So
an expired message may be delivered, and one that overtakes others by its priority may stay beyond its time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from exchange.lifecycle.consumers import Consumer, ConsumerTurns, Delivery, SingleActive, rank_by_priority
from exchange.lifecycle.content import Content
from exchange.lifecycle.limits import Limits
from exchange.lifecycle.orders import ClassicOrder, ClassicPriorities, Order, Stored
from exchange.lifecycle.queues import LiveQueue, QueueHost


class ClassicQueue(LiveQueue):
    """A classic queue."""

    PRECISION: Final = 1
    """Milliseconds by which the next message must expire earlier than the timer rings, for the timer to be moved."""

    def __init__(self, name: str, limits: Limits, host: QueueHost) -> None:
        order: Order = ClassicPriorities(limits.max_priority) if limits.max_priority else ClassicOrder()
        turns = ConsumerTurns(parks_eagerly=False)
        if limits.single_active_consumer:
            turns = SingleActive(rank_by_priority, yields=False, strands=False)
        super().__init__(name, limits, host, order, turns)
        self._expiry: float | None = None
        """Time in milliseconds at which the timer for expired messages rings."""

    def publish(self, content: Content, publisher: object | None) -> bool:
        """Take a message. A full queue that rejects publishes refuses dead letters, too: they are lost."""
        limits = self.limits
        if limits.overflow != "drop-head":
            length, size = limits.max_length, limits.max_bytes
            if (length is not None and len(self.order) >= length) or (
                size is not None and self._bytes + self.size_of(content) > size
            ):
                if limits.overflow == "reject-publish-dlx":
                    self._host.dead.append((self, content, content.failures, "maxlen"))
                return False
        message = self._store(content)
        if self.turns.consumers and (consumer := self.turns.next()) is not None:
            self._deliver(message, consumer, consumer.auto_ack)
            self.turns.delivered(consumer)
            return True
        message.redelivered = self._rules.classic_counts_failures and content.failures is not None
        self.order.put(message)
        dropped = self.drops and self.drop_over_limit()
        if self.ages:
            is_only = len(self.order) == 1
            if (dropped or is_only) and not (dropped and is_only and message.expires is None):
                self._look_for_expired()
        return True

    def get(self, *, auto_ack: bool) -> Delivery | None:
        """Deliver the head even if it is expired, and look for expired messages behind it."""
        self.unused_since = self._host.now
        if not len(self.order):
            return None
        delivery = self._deliver(self.order.take(), None, auto_ack)
        if self.ages:
            self._look_for_expired()
        return delivery

    def run(self) -> None:
        """Give messages to consumers as long as there are both."""
        while len(self.order):
            consumer = self.turns.next()
            if consumer is None:
                return
            self._fetch(consumer)
            self.turns.delivered(consumer)

    def _fetch(self, consumer: Consumer) -> None:
        self._deliver(self.order.take(), consumer, consumer.auto_ack)
        if self.ages:
            self._look_for_expired()

    def _count_return(self, message: Stored, failed: bool) -> None:
        if failed and self._rules.classic_counts_failures:
            message.failures = (message.failures or 0) + 1

    def _take_back(self, deliveries: Iterable[Delivery], failed: bool, closed: bool = False) -> None:
        """Put messages in their old places, then drop what is over the limits and what expired, then deliver."""
        for delivery in deliveries:
            message = delivery.stored
            message.redelivered = True
            self.order.give_back(message)
            self._bytes += message.size
        if self.drops:
            self.drop_over_limit()
        if self.ages:
            self._look_for_expired()
        self.run()

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer. The next active one gets what is ready, in releases that deliver then."""
        self._forget(consumer)
        if self._rules.cancel_delivers:
            self._take_back((), False)

    def set_limits(self, limits: Limits) -> None:
        """Apply other limits: drop what is over them and what expired."""
        super().set_limits(limits)
        self.drop_over_limit()
        self._expiry = None
        self._look_for_expired()

    def wake(self) -> None:
        """Look for expired messages if the timer rings."""
        if self._expiry is not None and self._expiry <= self._host.now:
            self._expiry = None
            self._look_for_expired()

    def _look_for_expired(self) -> None:
        """Drop expired messages from the head, and set the timer for the next one."""
        if not self.ages or not len(self.order):
            return
        self.expire()
        expires = self.order.next_expiry()
        if expires is not None and (self._expiry is None or expires + self.PRECISION < self._expiry):
            self._expiry = expires

    @property
    def next_expiry(self) -> float | None:
        """The time at which the timer rings."""
        return self._expiry
