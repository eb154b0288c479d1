"""Quorum queues, written after `rabbit_fifo.erl`, `rabbit_fifo_q.erl` and `rabbit_fifo_pq.erl`."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, Final

from exchange.amqp import ContentHeader
from exchange.errors import InputError
from exchange.lifecycle.consumers import (
    Consumer,
    ConsumerTurns,
    Delivery,
    SingleActive,
    rank_by_arrival,
    rank_by_prefetch,
)
from exchange.lifecycle.content import Content
from exchange.lifecycle.limits import Limits
from exchange.lifecycle.orders import QuorumOrder, Stored
from exchange.lifecycle.queues import LiveQueue, QueueHost
from exchange.topology.requests import refuse_get

FIXED_BYTES: Final = 12
"""Size of what stands before the properties in a content header: class, weight, size of the body."""


class QuorumQueue(LiveQueue):
    """A quorum queue."""

    SOFT_LIMIT: Final = 0.8
    """Part of the limits below which a queue that rejected publishes accepts them again."""

    def __init__(self, name: str, limits: Limits, host: QueueHost) -> None:
        release = host.release
        turns = ConsumerTurns(parks_eagerly=True)
        if limits.single_active_consumer:
            rank = rank_by_prefetch if release.active_yields else rank_by_arrival
            turns = SingleActive(rank, yields=release.active_yields, strands=release.return_strands)
        self.quorum_order: Final = QuorumOrder(release.quorum_priorities)
        super().__init__(name, limits, host, self.quorum_order, turns)
        self._accepts: Final[dict[object, bool]] = {}
        """Publisher -> whether it may publish; not before its first message."""
        self._died: Final[list[tuple[Stored, str]]] = []
        """What died in the present command, and why."""
        self._retained: Final[dict[Content, int]] = {}
        """Dead messages whose targets have not confirmed them (at-least-once) -> size; they count for the limits."""
        self.waiting: Final[list[tuple[float, int, Stored]]] = []
        """Messages that came back and wait: the time in milliseconds at which they are ready again, and their place."""
        self._soonest: tuple[float, int, Stored] | None = None
        """The one that is ready first: of several at one time, the one that came first; from then on, by place."""

    @property
    def consumer_count(self) -> int:
        """Number of consumers that get messages, or hold one: cancelled ones and each basic.get, too; not who waits."""
        turns = self.turns
        served = {turns.active} - {None} if isinstance(turns, SingleActive) else {*turns.consumers}
        return len({*served, *(delivery.consumer or delivery for delivery in self.unacked.values())})

    def publish(self, content: Content, publisher: object | None) -> bool:
        """Take a message; refuse it if its publisher was asked to stop. One without a publisher is never refused."""
        if publisher is not None and self.limits.overflow == "reject-publish":
            if publisher not in self._accepts:
                self._accepts[publisher] = not self.is_over_limit()
            if not self._accepts[publisher]:
                return False
        message = self._store(content)
        if content.failures:
            message.redelivered = True
        self.quorum_order.put(message)
        self.run()
        return True

    def get(self, *, auto_ack: bool) -> Delivery | None:
        """Deliver the next message that is not expired."""
        has_active = self.limits.single_active_consumer
        refuse_get("quorum", self._host.describe_queue(self.name), self._rules, has_active=has_active)
        self.unused_since = self._host.now
        self.expire()
        if not len(self.order):
            return None
        delivery = self._deliver(self.order.take(), None, auto_ack)
        if self._rules.get_shows_no_returns and delivery.added is None:
            delivery.added = {"x-delivery-count": 0}
        self.run()
        return delivery

    def run(self) -> None:
        """Drop what expired before each delivery, deliver, then apply the limits: what ends each command."""
        order, turns = self.quorum_order, self.turns
        if self.ages:
            self.expire()
        while order.count and (consumer := turns.next()) is not None:
            self._deliver(order.take(), consumer, consumer.auto_ack)
            turns.delivered(consumer)
            if self.ages:
                self.expire()
        if self.drops or self._died or self._accepts:
            self._end_command()

    def _end_command(self) -> None:
        """Apply the limits, hand over what died, and let publishers go on or stop."""
        died = self._died
        ended = len(died)
        if self.drops and self.drop_over_limit() and not self._rules.drops_in_order:
            died[:] = died[ended:][::-1] + died[:ended]
        if self.drops and self.is_over_limit():
            text = (
                f"queue '{self.name}' drops from its head, and more messages than it may have wait for a delayed retry"
            )
            raise InputError(f"{text}: it stops for ever in RabbitMQ")
        for message, reason in died:
            self._host.dead.append((self, message.content, message.failures, reason))
        is_late = self._rules.hears_own_limit_late and bool(died)
        died.clear()
        for publisher, accepts in self._accepts.items():
            if is_late and publisher is self:
                continue  # its own dead letters arrive before the queue stops taking any
            self._accepts[publisher] = not self.is_over_limit() if accepts else self.is_below_soft_limit

    def wake(self) -> None:
        """Make ready what has waited long enough, take messages back from slow consumers, drop what expired."""
        now, waiting = self._host.now, self.waiting
        while self._soonest is not None and self._soonest[0] <= now:
            waiting.remove(self._soonest)
            self.quorum_order.give_back(self._soonest[2])
            self._soonest = waiting[0] if waiting else None
        if self._deadline <= now:
            self._end_late_deliveries(now)
        self.needs_alarm = True
        self.run()

    def add_consumer(self, consumer: Consumer) -> None:
        """Add a consumer, which keeps the timeout that the queue has now."""
        timeout = self.limits.consumer_timeout
        if consumer.timeout is None or timeout is None:
            consumer.timeout = timeout
        super().add_consumer(consumer)

    def _end_late_deliveries(self, now: float) -> None:
        """Take messages back from consumers that are too slow; a channel that has no consumer to cancel is closed."""
        late: defaultdict[Consumer | None, list[Delivery]] = defaultdict(list)
        for delivery in self.unacked.values():
            if delivery.deadline <= now:
                late[delivery.consumer].append(delivery)
        consumers = sorted((each for each in late if each is not None), key=lambda each: each.number)
        back = [delivery for each in (*consumers, None) for delivery in late[each]]
        for delivery in back:
            del self.unacked[delivery.stored]
            self._count_return(delivery.stored, False)
            delivery.is_late, delivery.is_settled = True, delivery.consumer is None
        for consumer in consumers:
            consumer.held -= len(late[consumer])
            consumer.late.update(late[consumer])
            consumer.timeouts += 1
            self.turns.settled(consumer)
        self._deadline = min((each.deadline for each in self.unacked.values()), default=inf)
        self._take_back(back, False)
        for consumer in consumers:
            if not consumer.is_active:
                self.close_channel(consumer)

    def _settle_late(self, delivery: Delivery, outcome: str) -> None:
        """Let the consumer go on, unless it requeues what the queue has taken back."""
        delivery.is_settled = True
        consumer = delivery.consumer
        if consumer is not None:
            consumer.late.discard(delivery)
            # RabbitMQ gives one of several no turn then, until it settles something else.
            if outcome != "requeue" or self.limits.single_active_consumer:
                self.turns.settled(consumer)
        self.run()

    def _ignores_discard(self, consumer: Consumer | None) -> bool:
        return bool(self._rules.discards_need_consumer and consumer and not consumer.is_active)

    def _count_return(self, message: Stored, failed: bool) -> None:
        message.returns += 1
        message.redelivered = True
        if failed and self._rules.counts_failures:
            message.failures = (message.failures or 0) + 1

    def _take_back(self, deliveries: Iterable[Delivery], failed: bool, closed: bool = False) -> None:
        """Make messages ready again, behind earlier ones that came back, or dead-letter those over the delivery limit.

        Up to 4.2, without a limit, a message that was given back goes to the end of the queue.
        """
        release, limits = self._rules, self.limits
        limit, delay = limits.delivery_limit, limits.retry_delay
        goes_last = limit is None and not closed and release.unlimited_returns_go_last
        for delivery in deliveries:
            message, consumer = delivery.stored, delivery.consumer
            self._bytes += message.size
            count = (message.failures or 0) if release.failures_are_limited else message.returns
            if goes_last:
                self._places += 1
                self.quorum_order.put_last(message, self._places)
            elif limit is not None and count > limit:
                self.discard(message, "delivery_limit")
                if release.limit_gives_credit and consumer is not None and consumer.prefetch:
                    consumer.most += 1
                    self.turns.settled(consumer)
            elif delay is not None and delay.applies_to(failed=failed):
                self._wait(message, delay.milliseconds(message.failures))
            else:
                self.quorum_order.give_back(message)
        self.run()

    def _wait(self, message: Stored, milliseconds: int) -> None:
        """Make a message ready again when it has waited."""
        later = self._host.now + milliseconds, message.place, message
        insort(self.waiting, later)
        if self._soonest is None or later[0] < self._soonest[0]:
            self._soonest = later
        self.needs_alarm = True

    @property
    def next_expiry(self) -> float | None:
        """The time in milliseconds of the next `wake`; None for never."""
        expiry = self.order.next_expiry()
        waits = inf if self._soonest is None else self._soonest[0]
        time = min(inf if expiry is None else expiry, waits, self._deadline)
        return None if time == inf else time

    def purge(self) -> int:
        """Remove all messages that are ready or wait to be, and return their number."""
        waiting = len(self.waiting)
        self._bytes -= sum(message.size for _, _, message in self.waiting)
        self.waiting.clear()
        self._soonest = None
        return waiting + super().purge()

    def kept(self) -> list[Stored]:
        """Return the messages that no consumer has: those that are ready, and those that wait to be."""
        return [*self.order, *(message for _, _, message in self.waiting)]

    def _give_up(self, message: Stored, reason: str) -> None:
        """Note a dead message until the end of the command; keep it beyond if its dead letter must arrive."""
        if self.limits.dead_letters.at_least_once:
            self._retained[message.content] = message.size
        self._died.append((message, reason))

    def forget_dead(self, content: Content) -> None:
        """Drop the copy of a dead message whose targets have confirmed it."""
        if self._retained.pop(content, None) is not None:
            self.run()

    @staticmethod
    def milliseconds_of(ttl: int) -> int:
        """Return the time to live; zero is one millisecond."""
        return ttl or 1

    def size_of(self, content: Content) -> int:
        """Return the size of the body and, since 4.3, of the encoded properties."""
        message = content.message
        size = len(message.body)
        if self.limits.max_bytes is not None and self._rules.properties_have_size:
            properties = message.properties
            if content.died:
                properties = {name: value for name, value in properties.items() if name != "expiration"}
            try:
                size += len(ContentHeader.encode(message.headers, properties).payload(0)) - FIXED_BYTES
            except ValueError as error:  # no client can send it
                raise InputError(str(error)) from None
        return size

    def counts_of(self, message: Stored) -> Mapping[str, Any] | None:
        """Return the headers x-delivery-count and x-acquired-count, as far as the release knows them."""
        returns, failures = message.returns, message.failures
        if not returns and failures is None:
            return None
        if not self._rules.failures_are_limited:
            return {"x-delivery-count": returns or failures}
        if failures is None:
            return {"x-acquired-count": returns}
        return {"x-acquired-count": returns or failures, "x-delivery-count": failures}

    @property
    def _length(self) -> int:
        """Number of messages that count for the limit: those that wait, too."""
        return len(self.order) + len(self.waiting) + len(self._retained)

    def is_over_limit(self) -> bool:
        """Return whether there are more messages than the limits allow, but for those that consumers have."""
        limits = self.limits
        length, size = limits.max_length, limits.max_bytes
        return (length is not None and self._length > length) or (
            size is not None and self._bytes + sum(self._retained.values()) > size
        )

    @property
    def is_below_soft_limit(self) -> bool:
        """Whether the queue accepts messages again after it rejected some."""
        length, size = self.limits.max_length, self.limits.max_bytes
        return (length is None or self._length <= int(length * self.SOFT_LIMIT)) and (
            size is None or self._bytes + sum(self._retained.values()) <= int(size * self.SOFT_LIMIT)
        )
