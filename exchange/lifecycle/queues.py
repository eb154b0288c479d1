"""What the queues of all types have in common: messages, deliveries, limits, times to live.

A queue knows nothing of other queues: its dead letters go to its host, which routes them when the queue is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, Final, Protocol, TypeAlias

from exchange.entities.profile import QueueBehaviour
from exchange.errors import BrokerError
from exchange.lifecycle.consumers import Consumer, ConsumerTurns, Delivery
from exchange.lifecycle.content import Content
from exchange.lifecycle.limits import Limits
from exchange.lifecycle.orders import Order, Stored


class QueueHost(Protocol):
    """What a queue needs of its virtual host."""

    now: float
    """The time in milliseconds since the epoch."""

    @property
    def release(self) -> QueueBehaviour:
        """The behaviour of the broker's release."""

    @property
    def hears_losses(self) -> bool:
        """Whether messages that end without a dead letter are reported."""

    def describe_queue(self, name: str) -> str:
        """Name a queue as the broker's texts do."""

    @property
    def dead(self) -> deque[Death]:
        """What died, the oldest first; it is dead-lettered or lost once the queue is done."""


Death: TypeAlias = tuple["LiveQueue", Content, "int | None", str]
"""The queue that a message died in, the message, the number of its failed deliveries, and why it died."""


class LiveQueue:
    """A queue with its messages and consumers; the base of the types that delete what is acknowledged."""

    def __init__(self, name: str, limits: Limits, host: QueueHost, order: Order, turns: ConsumerTurns) -> None:
        self.name: Final = name
        self.limits = limits
        self.address = limits.dead_letter_address
        self.order: Final = order
        self.turns: Final = turns
        self.unused_since: float = host.now
        """Time in milliseconds at which the queue was declared, read by basic.get or left by a consumer."""
        self.timer: float | None = None
        """Time for which the host has an alarm for this queue; None for no alarm."""
        self.ages = limits.expires is not None
        """Whether the queue or a message that it got can expire."""
        self.needs_alarm = self.ages
        """Whether the time of the next alarm may have changed: always, where something can expire."""
        self.drops = limits.drops_head
        """Whether the queue drops messages that are over its limits."""
        self.auto_delete = False
        """Whether the queue is deleted with its last consumer."""
        self.unacked: Final[dict[Stored, Delivery]] = {}
        self._host: Final = host
        self._rules: Final = host.release
        self._bytes = 0
        self._places = 0
        self._deadline = inf
        """Time in milliseconds of the next look for consumers that are too slow."""

    @property
    def consumer_count(self) -> int:
        """Number of consumers that queue.declare-ok has."""
        return len(self.turns.consumers)

    def publish(self, content: Content, publisher: object | None) -> bool:
        """Take a message, and return whether it was accepted.

        ``publisher`` gets the refusal: a channel, by a nack, or a queue whose dead letters must arrive. None is a
        queue whose dead letters need not.
        """
        raise NotImplementedError

    def settle(self, delivery: Delivery, outcome: str, failed: bool) -> None:
        """End a delivery: ``complete``, ``requeue`` or ``discard`` it; ``failed`` counts it as a failed delivery."""
        message, consumer = delivery.stored, delivery.consumer
        if delivery.is_late:
            self._settle_late(delivery, outcome)
            return
        delivery.is_settled = True
        if outcome == "discard" and self._ignores_discard(consumer):
            return
        del self.unacked[message]
        if consumer is not None:
            consumer.held -= 1
            self.turns.settled(consumer, outcome == "requeue")
        if outcome != "complete":
            self._count_return(message, failed)
            if outcome == "requeue":
                self._take_back((delivery,), failed)
                return
            self._give_up(message, "rejected")
        self.run()

    def _settle_late(self, delivery: Delivery, outcome: str) -> None:
        """End a delivery that the queue has taken back from its consumer, as only quorum queues do."""
        raise NotImplementedError

    def _ignores_discard(self, consumer: Consumer | None) -> bool:
        """Return whether the queue keeps what this consumer discards until the channel is closed."""
        return False

    def _count_return(self, message: Stored, failed: bool) -> None:
        """Count a message that was delivered and not acknowledged."""
        raise NotImplementedError

    def _take_back(self, deliveries: Iterable[Delivery], failed: bool, closed: bool = False) -> None:
        """Make messages ready again, and do what follows; ``closed`` is whether their channel was closed."""
        raise NotImplementedError

    def run(self) -> None:
        """Deliver what can be delivered; a quorum queue drops what expired and applies its limits, too."""
        raise NotImplementedError

    def wake(self) -> None:
        """Drop what expired, at the time of `next_alarm`."""
        raise NotImplementedError

    def refuse_reader(self) -> None:
        """Raise BrokerError if each channel crashes that consumes or gets from the queue."""
        if self.limits.crash:
            raise BrokerError(self.limits.crash)

    def get(self, *, auto_ack: bool) -> Delivery | None:
        """Deliver the next message to no consumer, as basic.get; None if the queue is empty."""
        raise NotImplementedError

    def _deliver(self, message: Stored, consumer: Consumer | None, auto_ack: bool) -> Delivery:
        self._bytes -= message.size
        added = self.counts_of(message) if message.returns or message.failures is not None else None
        delivery = Delivery(self.name, self, message, consumer, message.redelivered, added)
        if auto_ack:
            delivery.is_settled = True
        else:
            self.unacked[message] = delivery
            timeout = self.limits.consumer_timeout
            if consumer is not None:
                consumer.held += 1
                if timeout is not None:
                    timeout = consumer.timeout
            if timeout is not None:
                delivery.deadline = deadline = self._host.now + timeout
                if deadline < self._deadline:
                    self._deadline = deadline
                    self.needs_alarm = True
        if consumer is not None:
            consumer.deliveries.append(delivery)
        return delivery

    def expire(self) -> None:
        """Discard the messages whose time is over and that the queue looks at."""
        if not self.ages:
            return
        for message in self.order.take_expired(self._host.now):
            self.discard(message, "expired")

    def discard(self, message: Stored, reason: str) -> None:
        """End the life of a message that was ready, here."""
        self._bytes -= message.size
        self._give_up(message, reason)

    def _give_up(self, message: Stored, reason: str) -> None:
        """Hand a dead message to the host, unless nothing follows from its death."""
        if self.address is not None or self._host.hears_losses:
            self._host.dead.append((self, message.content, message.failures, reason))

    def _store(self, content: Content) -> Stored:
        """Make a message of the queue, with its size and expiry."""
        ttl, own = self.limits.ttl, content.ttl
        if own is not None and (ttl is None or own < ttl):
            ttl = own
        self._places += 1
        properties = content.message.properties
        priority = properties.get("priority", -1) if properties else -1
        size = self.size_of(content)
        self._bytes += size
        expires = None
        if ttl is not None:
            expires = self._host.now + self.milliseconds_of(ttl)
            self.ages = self.needs_alarm = True
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

    def is_over_limit(self) -> bool:
        """Return whether more messages are ready than the limits allow."""
        limits = self.limits
        length, size = limits.max_length, limits.max_bytes
        return (length is not None and len(self.order) > length) or (size is not None and self._bytes > size)

    def drop_over_limit(self) -> bool:
        """Drop messages from the head until the limits hold; return whether one was dropped."""
        dropped = False
        while self.drops and self.is_over_limit() and len(self.order):
            self.discard(self.order.take(), "maxlen")
            dropped = True
        return dropped

    def add_consumer(self, consumer: Consumer) -> None:
        """Add a consumer, which gets at once what it can take."""
        self.turns.add(consumer)
        self.run()

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer; its deliveries stay with it."""
        self._forget(consumer)
        self.run()

    def close_channel(self, consumer: Consumer) -> None:
        """Take back what a consumer holds, and remove it if it was not cancelled."""
        if consumer.is_active:
            self._forget(consumer)
        held = [delivery for delivery in self.unacked.values() if delivery.consumer is consumer]
        consumer.held = 0
        consumer.late.clear()
        for delivery in held:
            del self.unacked[delivery.stored]
            delivery.is_settled = True
            self._count_return(delivery.stored, True)
        self._take_back(held, True, True)

    def ends_with(self, consumer: Consumer) -> bool:
        """Return whether the queue is deleted when this consumer leaves: an auto-delete queue, and its last one."""
        return self.auto_delete and self.turns.consumers == [consumer]

    def unacknowledged(self) -> list[Stored]:
        """Return the messages that are deleted with the queue: what was delivered, and what no consumer has."""
        return [*self.unacked, *self.kept()]

    def kept(self) -> Iterable[Stored]:
        """Return the messages that no consumer has: those that are ready."""
        return self.order

    def _forget(self, consumer: Consumer) -> None:
        consumer.is_active = False
        self.turns.remove(consumer)
        self.unused_since = self._host.now

    def purge(self) -> int:
        """Remove all messages that are ready, without a trace, and return their number."""
        ready = [*self.order]
        for message in ready:
            self.remove(message)
        self.run()
        return len(ready)

    def remove(self, message: Stored) -> None:
        """Remove a message that is ready, without a trace."""
        self.order.remove(message)
        self._bytes -= message.size

    def set_limits(self, limits: Limits) -> None:
        """Apply other limits, after a change of policies. The time to live counts for later messages only."""
        self.limits = limits
        self.address = limits.dead_letter_address
        self.drops = limits.drops_head
        self.ages = self.ages or limits.expires is not None
        self.needs_alarm = self.needs_alarm or self.ages
        self._bytes = 0
        for message in self.kept():
            message.size = self.size_of(message.content)
            self._bytes += message.size
        self.run()

    @property
    def next_alarm(self) -> float | None:
        """The time in milliseconds at which the host must call `wake` or delete the queue; None for never."""
        alarm = self.next_expiry
        expires = self.limits.expires
        if expires is not None and not self.turns.consumers:
            end = self.unused_since + expires
            alarm = end if alarm is None else min(alarm, end)
        return alarm

    @property
    def next_expiry(self) -> float | None:
        """The time in milliseconds at which the queue looks for expired messages; None for never."""
        return self.order.next_expiry()

    @property
    def is_expired(self) -> bool:
        """Whether nobody used the queue for as long as ``x-expires`` allows."""
        expires = self.limits.expires
        return expires is not None and not self.turns.consumers and self._host.now >= self.unused_since + expires
