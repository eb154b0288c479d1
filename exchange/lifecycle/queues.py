"""Classic and quorum queues: what is kept, refused, dropped, delivered and dead-lettered.

Written after `rabbit_amqqueue_process.erl`, `rabbit_priority_queue.erl` and `rabbit_fifo.erl`. A queue knows nothing of
other queues: its dead letters go to its host, which routes them when the queue is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from exchange.amqp import ContentHeader
from exchange.lifecycle.consumers import Consumer, Delivery, SingleActive, Turns
from exchange.lifecycle.content import Content
from exchange.lifecycle.limits import Limits
from exchange.lifecycle.orders import ClassicOrder, ClassicPriorities, Order, QuorumOrder, Stored
from exchange.lifecycle.release import Release

__all__ = ["ClassicQueue", "Host", "LiveQueue", "QuorumQueue"]


class Host(Protocol):
    """What a queue needs of its virtual host."""

    now: float
    """The time in milliseconds since the epoch."""
    release: Release

    def bury(self, queue: LiveQueue, content: Content, failures: int | None, reason: str) -> None:
        """Take a message that died in a queue; it is dead-lettered or lost once the queue is done."""


class LiveQueue:
    """A queue with its messages and consumers; the base of the types that delete what is acknowledged."""

    def __init__(self, name: str, limits: Limits, host: Host, order: Order, turns: Turns) -> None:
        self.name: Final = name
        self.limits = limits
        self.order: Final = order
        self.turns: Final = turns
        self.unused_since: float = host.now
        """Time in milliseconds at which the queue was declared, read by basic.get or left by a consumer."""
        self.timer: float | None = None
        """Time for which the host has an alarm for this queue; None for no alarm."""
        self.ages = limits.expires is not None
        """Whether the queue or a message that it got can expire."""
        self.unacked: Final[dict[Stored, Delivery]] = {}
        self._host: Final = host
        self._bytes = 0
        self._places = 0

    def publish(self, content: Content, *, is_dead_letter: bool = False) -> bool:
        """Take a message, and return whether it was accepted. A refused one is nacked to a publisher with confirms."""
        raise NotImplementedError

    def settle(self, delivery: Delivery, outcome: str, *, failed: bool) -> None:
        """End a delivery: ``complete``, ``requeue`` or ``discard`` it; ``failed`` counts it as a failed delivery."""
        del self.unacked[delivery.stored]
        delivery.is_settled = True
        consumer = delivery.consumer
        if consumer is not None:
            consumer.held -= 1
            self.turns.settled(consumer)
        if outcome != "complete":
            self._refuse(delivery.stored, outcome == "requeue", failed)
        elif not len(self.order):
            return
        self.run()

    def _refuse(self, message: Stored, requeue: bool, failed: bool) -> None:
        """Take back or bury a message that was not acknowledged."""
        raise NotImplementedError

    def run(self) -> None:
        """Drop what expired, deliver what can be delivered, and apply the limits."""
        raise NotImplementedError

    def get(self, *, auto_ack: bool) -> Delivery | None:
        """Deliver the next message to no consumer, as basic.get; None if the queue is empty."""
        self.unused_since = self._host.now
        self.expire()
        if not len(self.order):
            return None
        delivery = self._deliver(self.order.take(), None, auto_ack)
        self.run()
        return delivery

    def _deliver(self, message: Stored, consumer: Consumer | None, auto_ack: bool) -> Delivery:
        self._bytes -= message.size
        added = self.counts_of(message)
        delivery = Delivery(self, message, consumer, self.was_delivered(message), added)
        if auto_ack:
            delivery.is_settled = True
        else:
            self.unacked[message] = delivery
            if consumer is not None:
                consumer.held += 1
        if consumer is not None:
            consumer.deliveries.append(delivery)
        return delivery

    def deliver(self) -> None:
        """Give messages to consumers as long as there are both."""
        order, turns = self.order, self.turns
        while len(order):
            consumer = turns.next()
            if consumer is None:
                return
            self._deliver(order.take(), consumer, consumer.auto_ack)
            turns.delivered(consumer)

    def expire(self) -> None:
        """Bury the messages whose time is over and that the queue looks at."""
        expired = self.order.take_expired(self._host.now)
        for message in expired:
            self._bury(message, "expired")

    def _bury(self, message: Stored, reason: str) -> None:
        self._bytes -= message.size
        self._host.bury(self, message.content, message.failures, reason)

    def _store(self, content: Content) -> Stored:
        """Make a message of the queue, with its size and expiry."""
        ttl, own = self.limits.ttl, content.ttl
        if own is not None and (ttl is None or own < ttl):
            ttl = own
        self._places += 1
        priority = content.message.properties.get("priority", -1)
        size = self.size_of(content)
        self._bytes += size
        expires = None
        if ttl is not None:
            expires = self._host.now + self.milliseconds_of(ttl)
            self.ages = True
        return Stored(content, self._places, size, priority, expires)

    @staticmethod
    def milliseconds_of(ttl: int) -> int:
        """Return how long a message of this time to live stays."""
        return ttl

    def size_of(self, content: Content) -> int:
        """Return the number of bytes that count for the limit of the queue's length."""
        return len(content.message.body)

    def counts_of(self, message: Stored) -> Mapping[str, Any] | None:
        """Return the headers that the queue adds to a message."""
        return None

    def was_delivered(self, message: Stored) -> bool:
        """Return the redelivered flag of a message."""
        return message.redelivered

    @property
    def is_over_limit(self) -> bool:
        """Whether more messages are ready than the limits allow."""
        limits = self.limits
        length, size = limits.max_length, limits.max_bytes
        return (length is not None and len(self.order) > length) or (size is not None and self._bytes > size)

    def drop_over_limit(self) -> None:
        """Drop messages from the head until the limits hold."""
        limits = self.limits
        if limits.overflow == "drop-head" and (limits.max_length is not None or limits.max_bytes is not None):
            while len(self.order) and self.is_over_limit:
                self._bury(self.order.take(), "maxlen")

    def add_consumer(self, consumer: Consumer) -> None:
        """Add a consumer, which gets at once what it can take."""
        self.turns.add(consumer)
        self.run()

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer; its deliveries stay with it."""
        consumer.is_active = False
        self.turns.remove(consumer)
        self.unused_since = self._host.now
        self.run()

    def give_back(self, deliveries: Iterable[Delivery]) -> None:
        """Take back deliveries whose channel was closed."""
        for delivery in deliveries:
            self.settle(delivery, "requeue", failed=True)

    def remove(self, message: Stored) -> None:
        """Remove a message that is ready, without a trace."""
        self.order.remove(message)
        self._bytes -= message.size

    def set_limits(self, limits: Limits) -> None:
        """Apply other limits, after a change of policies. The time to live counts for later messages only."""
        self.limits = limits
        self.ages = self.ages or limits.expires is not None
        self._bytes = 0
        for message in self.order:
            message.size = self.size_of(message.content)
            self._bytes += message.size
        self.run()

    @property
    def next_alarm(self) -> float | None:
        """The time in milliseconds at which the host must call `expire` or delete the queue; None for never."""
        alarm = self.order.next_expiry()
        expires = self.limits.expires
        if expires is not None and not self.turns.consumers:
            end = self.unused_since + expires
            alarm = end if alarm is None else min(alarm, end)
        return alarm

    @property
    def is_expired(self) -> bool:
        """Whether nobody used the queue for as long as ``x-expires`` allows."""
        expires = self.limits.expires
        return expires is not None and not self.turns.consumers and self._host.now >= self.unused_since + expires


class ClassicQueue(LiveQueue):
    """A classic queue."""

    def __init__(self, name: str, limits: Limits, host: Host) -> None:
        order: Order = ClassicPriorities(limits.max_priority) if limits.max_priority else ClassicOrder()
        turns = SingleActive(yields=False) if limits.single_active_consumer else Turns(parks_eagerly=False)
        super().__init__(name, limits, host, order, turns)

    def publish(self, content: Content, *, is_dead_letter: bool = False) -> bool:
        """Take a message. A full queue that rejects publishes refuses dead letters, too: they are lost."""
        limits = self.limits
        if limits.overflow != "drop-head":
            length, size = limits.max_length, limits.max_bytes
            if (length is not None and len(self.order) >= length) or (
                size is not None and self._bytes + self.size_of(content) > size
            ):
                if limits.overflow == "reject-publish-dlx":
                    self._host.bury(self, content, content.failures, "maxlen")
                return False
        message = self._store(content)
        message.redelivered = self._host.release.classic_counts_failures and content.failures is not None
        self.order.put(message)
        if self.turns.consumers:
            self.deliver()
        self.drop_over_limit()
        if message.expires is not None:
            self.expire()
        return True

    def _refuse(self, message: Stored, requeue: bool, failed: bool) -> None:
        if failed and self._host.release.classic_counts_failures:
            message.failures = (message.failures or 0) + 1
        if not requeue:
            self._host.bury(self, message.content, message.failures, "rejected")
            return
        message.redelivered = True
        self.order.give_back(message)
        self._bytes += message.size

    def run(self) -> None:
        """Drop what is over the limits, then what expired, then deliver."""
        self.drop_over_limit()
        self.expire()
        self.deliver()


class QuorumQueue(LiveQueue):
    """A quorum queue."""

    SOFT_LIMIT: Final = 0.8
    """Part of the limits below which a queue that rejected publishes accepts them again."""

    def __init__(self, name: str, limits: Limits, host: Host) -> None:
        release = host.release
        turns = SingleActive(release.counts_failures) if limits.single_active_consumer else Turns(parks_eagerly=True)
        self.quorum_order: Final = QuorumOrder(release.quorum_priorities)
        super().__init__(name, limits, host, self.quorum_order, turns)
        self._accepts: bool | None = None
        """Whether the publisher may publish; None before its first message."""
        self.retained: Final[dict[Content, int]] = {}
        """Dead letters that wait for their targets (at-least-once) -> size; they count for the limits."""

    def publish(self, content: Content, *, is_dead_letter: bool = False) -> bool:
        """Take a message. Dead letters are never refused; all other messages come from one publisher."""
        if not is_dead_letter and self.limits.overflow == "reject-publish":
            if self._accepts is None:
                self._accepts = not self.is_over_limit
            if not self._accepts:
                return False
        self.order.put(self._store(content))
        self.run()
        return True

    def _refuse(self, message: Stored, requeue: bool, failed: bool) -> None:
        release, limit = self._host.release, self.limits.delivery_limit
        message.returns += 1
        if failed and release.counts_failures:
            message.failures = (message.failures or 0) + 1
        if not requeue:
            self._host.bury(self, message.content, message.failures, "rejected")
            return
        self._bytes += message.size
        if limit is None and not (failed and release.nack_is_no_failure):
            self._places += 1
            self.quorum_order.put_last(message, self._places)
            return
        count = (message.failures or 0) if release.failures_are_limited else message.returns
        if limit is not None and count > limit:
            self._bury(message, "delivery_limit")
        else:
            self.order.give_back(message)

    def run(self) -> None:
        """Drop what expired, deliver, then apply the limits."""
        self.expire()
        self.deliver()
        self.drop_over_limit()
        if self._accepts is not None:
            self._accepts = not self.is_over_limit if self._accepts else self.is_below_soft_limit

    @staticmethod
    def milliseconds_of(ttl: int) -> int:
        """Return the time to live; zero is one millisecond."""
        return ttl or 1

    def size_of(self, content: Content) -> int:
        """Return the size of the body and, since 4.3, of the encoded properties."""
        message = content.message
        size = len(message.body)
        if self._host.release.properties_have_size and self.limits.max_bytes is not None:
            properties = message.properties
            if content.died:
                properties = {name: value for name, value in properties.items() if name != "expiration"}
            size += len(ContentHeader.of(message.headers, properties).payload(0)) - 12
        return size

    def counts_of(self, message: Stored) -> Mapping[str, Any] | None:
        """Return the headers x-delivery-count and x-acquired-count, as far as the release knows them."""
        returns, failures = message.returns, message.failures
        if not returns and failures is None:
            return None
        if not self._host.release.failures_are_limited:
            return {"x-delivery-count": returns or failures}
        counts = {"x-acquired-count": returns or failures}
        if failures is not None:
            counts["x-delivery-count"] = failures
        return counts

    def was_delivered(self, message: Stored) -> bool:
        """Return whether the message has come back to a queue, this one or, since 4.0, an earlier one."""
        return bool(message.returns or message.failures)

    @property
    def is_over_limit(self) -> bool:
        """Whether more messages are ready or wait as dead letters than the limits allow."""
        limits = self.limits
        length, size = limits.max_length, limits.max_bytes
        return (length is not None and len(self.order) + len(self.retained) > length) or (
            size is not None and self._bytes + sum(self.retained.values()) > size
        )

    @property
    def is_below_soft_limit(self) -> bool:
        """Whether the queue accepts messages again after it rejected some."""
        length, size = self.limits.max_length, self.limits.max_bytes
        return (length is None or len(self.order) + len(self.retained) <= int(length * self.SOFT_LIMIT)) and (
            size is None or self._bytes + sum(self.retained.values()) <= int(size * self.SOFT_LIMIT)
        )
