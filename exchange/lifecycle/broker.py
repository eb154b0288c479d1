"""A virtual host with queues that live: publish, consume, settle, and let time pass.

The clock is virtual: it stands still until `Broker.advance`. A dead letter is routed once the queue that it died in is
done with what it does, so no queue sees another one half-way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heappop, heappush
from math import inf
from typing import Any, Final

from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.entities.in_force import Policies
from exchange.entities.profile import QueueBehaviour
from exchange.entities.queue_arguments import NO_FLAGS, DeclareFlags, refuse_consumer
from exchange.errors import InputError, NotFound, PreconditionFailed
from exchange.kinds import Choose
from exchange.lifecycle.classic import ClassicQueue
from exchange.lifecycle.consumers import Consumer, Delivery
from exchange.lifecycle.content import Content, publish_content
from exchange.lifecycle.dead_letters import DeadLettering
from exchange.lifecycle.delays import Delays
from exchange.lifecycle.limits import Limits, find_limits
from exchange.lifecycle.outcomes import Cause, DeletionCause, Loss, Publication
from exchange.lifecycle.queues import Death, LiveQueue
from exchange.lifecycle.quorum import QuorumQueue
from exchange.lifecycle.streams import Offset, StreamQueue
from exchange.routing.explain import Explanation
from exchange.routing.route import LaterRoute
from exchange.routing.router import Router
from exchange.topology.rules import VirtualHost
from exchange.topology.topology import Topology
from exchange.values.message import Message

MAX_PREFETCH: Final = 65_535
"""The prefetch count of basic.qos has 16 bits."""


class Broker:
    """A virtual host whose queues live.

    >>> topology = Topology(queues=[Queue("jobs", arguments={"x-message-ttl": 1000, "x-dead-letter-exchange": "",
    ...                                                      "x-dead-letter-routing-key": "late"}), Queue("late")])
    >>> broker = Broker(topology)
    >>> broker.publish(Message("", "jobs", body=b"1")).is_confirmed
    True
    >>> broker.advance(1)
    >>> [(message.body, message.headers["x-first-death-reason"]) for message in broker.messages("late")]
    [(b'1', 'expired')]

    ``now`` is the time at which the clock starts, in seconds since the epoch. ``choose(n)`` returns an integer below n,
    for exchange types that choose at random. ``on_loss`` is called for each message that ends unacknowledged.

    All publishes come from one channel: a quorum queue that rejects publishes does so channel by channel. A server
    looks every five seconds which quorum queues are expired, here they are deleted at once. ``on_dropped`` is called
    for each message that an exchange delayed, and that no queue got, at once or after its delay.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        now: float = 0.0,
        choose: Choose | None = None,
        on_loss: Callable[[Loss], None] | None = None,
        on_dropped: Callable[[Message], None] | None = None,
    ) -> None:
        self.now: float = now * 1000
        self.release: Final[QueueBehaviour] = topology.profile.lives
        self._router: Final = Router(topology, choose=choose)
        self._on_loss: Final = on_loss
        self.hears_losses: Final = on_loss is not None
        self._queues: Final[dict[str, LiveQueue]] = {}
        self.dead: Final[deque[Death]] = deque()
        self.dead_letters: Final = DeadLettering(self, self._router)
        self._alarms: Final[list[tuple[float, int, LiveQueue]]] = []
        self._alarm_count = 0
        self._delays: Final = Delays(self._router, topology.profile, self.offer, on_dropped)
        policies = topology.policies_in_force()
        for queue in topology.queues.values():
            self._add_queue(queue, policies)

    @property
    def topology(self) -> Topology:
        """The present topology."""
        return self._router.topology

    @property
    def time(self) -> float:
        """The present time in seconds since the epoch."""
        return self.now / 1000

    # Messages

    def publish(self, message: Message) -> Publication:
        """Put a message into the queues to which it is routed, as basic.publish.

        Raises `NotFound`, `AccessRefused` or `PreconditionFailed` where the broker would close the channel.
        """
        content = publish_content(message, self.release)
        route = self._router.route(message)
        refused: tuple[str, ...] = ()
        delayed = route.delayed
        for name in route.queues if delayed is None else delayed.at_once.queues:
            if not self.offer(name, content, self):
                refused = (*refused, name)
        if delayed is not None:
            self.delay(content, message, delayed.later, reached=bool(delayed.at_once.queues))
        if self.dead:
            self.dead_letters.send_all()
        return Publication(route, content.message, refused)

    def explain(self, message: Message, queue: str | None = None) -> Explanation:
        """Return where a message would go and why, and why not to ``queue``; nothing is published."""
        return self._router.explain(message, queue)

    def messages(self, queue: str) -> list[Message]:
        """Return the messages of a queue that are ready, the next one first. Raises NotFound."""
        live = self.queue(queue)
        return [message.content.as_message(live.counts_of(message)) for message in live.order]

    def get(self, queue: str, *, auto_ack: bool = False) -> Delivery | None:
        """Take the next message of a queue, as basic.get; None if it has none. Raises NotFound."""
        live = self.queue(queue)
        live.refuse_reader()
        delivery = live.get(auto_ack=auto_ack)
        self._finish(live)
        return delivery

    def consume(
        self, queue: str, *, prefetch: int = 0, priority: int = 0, auto_ack: bool = False, offset: Offset = "next",
        timeout: int | None = None,
    ) -> Consumer:  # fmt: skip
        """Start a consumer, as basic.consume; it gets messages from now on.

        ``prefetch`` is the maximum number of its unacknowledged messages, 0 for no maximum. ``offset`` is where it
        begins to read a stream, as x-stream-offset. ``timeout`` is its argument x-consumer-timeout, in milliseconds.
        Raises NotFound, PreconditionFailed for a stream without prefetch and for arguments that the queue refuses, and
        InputError for a prefetch count that cannot be sent.
        """
        if not isinstance(prefetch, int) or not 0 <= prefetch <= MAX_PREFETCH:
            raise InputError(f"the prefetch count is a number from 0 to {MAX_PREFETCH}, not {prefetch!r}")
        arguments: dict[str, Any] = {"x-priority": priority} if priority else {}
        if offset != "next":
            arguments["x-stream-offset"] = offset
        if timeout is not None:
            arguments["x-consumer-timeout"] = timeout
        live, topology = self.queue(queue), self.topology
        refuse_consumer(topology.queues[live.name], self.describe_queue(queue), arguments, topology.profile)
        consumer = Consumer(queue, prefetch, priority, auto_ack, timeout if isinstance(timeout, int) else None)
        self.start(consumer, offset)
        return consumer

    def start(self, consumer: Consumer, offset: Offset = "next") -> None:
        """Start a consumer that was made before, as `consume`. Raises NotFound, and PreconditionFailed for streams."""
        live = self.queue(consumer.queue)
        live.refuse_reader()
        if isinstance(live, StreamQueue):
            live.start(consumer, offset)
        else:
            live.add_consumer(consumer)
        self._finish(live)

    def resume(self, consumer: Consumer) -> None:
        """Give a consumer its turn again, after something else than its own deliveries kept it from taking more."""
        live = self._queues.get(consumer.queue)
        if live is not None and consumer.is_active:
            live.turns.settled(consumer)
            live.run()
            self._finish(live)

    def cancel(self, consumer: Consumer) -> None:
        """Stop a consumer, as basic.cancel. It keeps the messages that it holds, and may still settle them.

        An auto-delete queue is deleted with its last consumer.
        """
        live = self._queues.get(consumer.queue)
        if not consumer.is_active or live is None:
            return
        if live.ends_with(consumer):
            self._delete(live, "auto-delete queue")
        else:
            live.remove_consumer(consumer)
            self._finish(live)

    def close(self, consumer: Consumer) -> None:
        """Stop a consumer as if its channel was closed: what it holds goes back to the queue.

        An auto-delete queue is deleted with its last consumer.
        """
        live = self._queues.get(consumer.queue)
        consumer.deliveries.clear()
        if live is None:
            return
        if live.ends_with(consumer):
            self._delete(live, "auto-delete queue")
        else:
            live.close_channel(consumer)
            self._finish(live)

    def ack(self, delivery: Delivery) -> None:
        """Acknowledge a delivery. Raises PreconditionFailed if it was settled before, TypeError if it is none."""
        self._settle(delivery, "complete", False)

    def nack(self, delivery: Delivery, *, requeue: bool = True) -> None:
        """Give a delivery back to its queue or discard it, as basic.nack. Raises as `ack`."""
        failed = not self.release.nack_is_no_failure and not requeue
        self._settle(delivery, "requeue" if requeue else "discard", failed)

    def reject(self, delivery: Delivery, *, requeue: bool = True) -> None:
        """Give a delivery back to its queue or discard it, as basic.reject. Raises as `ack`."""
        failed = self.release.nack_is_no_failure or not requeue
        self._settle(delivery, "requeue" if requeue else "discard", failed)

    def purge(self, queue: str) -> int:
        """Delete the messages of a queue that are ready or wait for a retry, as queue.purge, and return their number.

        Raises NotFound, and BrokerError for a stream.
        """
        live = self.queue(queue)
        count = live.purge()
        self._finish(live)
        return count

    def advance(self, seconds: float) -> None:
        """Let time pass: messages and queues expire, each at its time.

        Raises ValueError for a duration that is negative or infinite.
        """
        if not 0 <= seconds < inf:
            raise ValueError(f"time passes by 0 or more seconds, not by {seconds}")
        end = self.now + seconds * 1000
        while True:
            alarm = self._alarms[0][0] if self._alarms else inf
            retry = self.dead_letters.next_retry
            due = self._delays.next_time
            if min(alarm, retry, due) > end:
                break
            if due <= min(alarm, retry):
                self.now = max(self.now, due)
                self._delays.send()
                if self.dead:
                    self.dead_letters.send_all()
            elif alarm <= retry:
                self._ring()
            else:
                self.now = max(self.now, retry)
                self._finish(self.dead_letters.retry())
        self.now = end

    @property
    def next_event(self) -> float | None:
        """The time, in seconds since the epoch, until which nothing happens by itself; None for never."""
        alarm = self._alarms[0][0] if self._alarms else inf
        time = min(alarm, self._delays.next_time, self.dead_letters.next_retry)
        return None if time == inf else time / 1000

    # Topology

    def queue(self, name: str) -> LiveQueue:
        """Return the state of a queue. Raises NotFound."""
        queue = self._queues.get(name)
        if queue is None:
            raise NotFound(f"no {self.describe_queue(name)}")
        return queue

    def describe_queue(self, name: str) -> str:
        """Name a queue as the broker's texts do, as `exchange.lifecycle.queues.QueueHost`."""
        return VirtualHost(self.topology.vhost, self.topology.profile).describe("queue", name)

    @property
    def queues(self) -> Collection[str]:
        """Names of the queues."""
        return self._queues.keys()

    def declare_exchange(self, exchange: Exchange) -> None:
        """Declare an exchange, as exchange.declare."""
        self._router.declare_exchange(exchange)

    def declare_queue(self, queue: Queue, flags: DeclareFlags = NO_FLAGS) -> None:
        """Declare a queue, as queue.declare; it counts as a use of a queue that exists."""
        self._router.declare_queue(queue, flags)
        live = self._queues.get(queue.name)
        if live is None:
            self._add_queue(queue, self.topology.policies_in_force())
        else:
            live.unused_since = self.now
            self._set_alarm(live)

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange, as exchange.delete."""
        self._router.delete_exchange(name, if_unused=if_unused)

    def delete_queue(self, name: str) -> None:
        """Delete a queue, as queue.delete: its messages are lost, without dead letters, and its consumers end."""
        live = self._queues.get(name)
        if live is None:
            self._router.delete_queue(name)
        else:
            self._delete(live, "deleted queue")

    def _delete(self, live: LiveQueue, cause: DeletionCause) -> None:
        """Delete a queue that exists. What it delivered is lost, too: no acknowledgement can reach it any more."""
        self._router.delete_queue(live.name)
        del self._queues[live.name]
        for consumer in live.turns.consumers:
            consumer.is_active = False
        for message in live.unacknowledged():
            self.lose(live, message.content, "queue_deleted", cause)
        for dead, reason in self.dead_letters.forget(live):
            self.lose(live, dead, reason, cause)

    def bind(self, binding: Binding) -> None:
        """Add a binding, as queue.bind or exchange.bind."""
        self._router.bind(binding)

    def unbind(self, binding: Binding) -> None:
        """Remove a binding, as queue.unbind or exchange.unbind."""
        self._router.unbind(binding)

    def set_policy(self, policy: Policy) -> None:
        """Add a policy, or replace the one of its name; it is in force at once."""
        self._router.set_policy(policy)
        self._apply_policies()

    def clear_policy(self, name: str) -> None:
        """Remove a policy."""
        self._router.clear_policy(name)
        self._apply_policies()

    def _apply_policies(self) -> None:
        policies = self.topology.policies_in_force()
        queues = self.topology.queues
        for name, live in [*self._queues.items()]:
            limits = find_limits(queues[name], policies)
            if limits != live.limits and limits.heeds_policies:
                live.set_limits(limits)
                self._finish(live)

    def _add_queue(self, queue: Queue, policies: Policies) -> None:
        limits = find_limits(queue, policies)
        kind = QUEUE_TYPES.get(queue.type, ClassicQueue)
        live = self._queues[queue.name] = kind(queue.name, limits, self)
        live.auto_delete = queue.auto_delete and isinstance(live, ClassicQueue)  # brokers refuse others
        self._set_alarm(live)

    # What follows

    def offer(self, name: str, content: Content, publisher: object | None) -> bool:
        """Publish to one queue, as `exchange.lifecycle.dead_letters.Sender`; return whether it took the message."""
        queue = self._queues[name]
        taken = queue.publish(content, publisher)
        if queue.needs_alarm:
            self._set_alarm(queue)
        return taken

    def delay(self, content: Content, published: Message, later: Iterable[LaterRoute], *, reached: bool) -> None:
        """Keep a message that exchanges delay, as `exchange.lifecycle.dead_letters.Sender`."""
        self._delays.keep(self.now, content, published, later, reached=reached)

    def lose(self, queue: LiveQueue, content: Content, reason: str, cause: Cause | DeletionCause) -> None:
        """Note a message that ended, as `exchange.lifecycle.dead_letters.Sender`."""
        if self._on_loss is not None:
            self._on_loss(Loss(queue.name, content.as_message(), reason, cause))

    def _settle(self, delivery: Delivery, outcome: str, failed: bool) -> None:
        if not isinstance(delivery, Delivery):
            raise TypeError(f"a Delivery is wanted, not {delivery!r:.60}: of an empty queue there is none to settle")
        if delivery.is_settled:
            raise PreconditionFailed("unknown delivery tag: the message was settled before, or taken back by its queue")
        live = self._queues.get(delivery.queue)
        if live is None or live is not delivery.source:  # it was deleted, with all of its messages
            delivery.is_settled = True
            return
        live.settle(delivery, outcome, failed)
        self._finish(live)

    def _finish(self, queue: LiveQueue) -> None:
        """Do what follows from a change of a queue: its dead letters, and its next alarm."""
        if self.dead:
            self.dead_letters.send_all()
        if queue.needs_alarm:
            self._set_alarm(queue)

    def _set_alarm(self, queue: LiveQueue) -> None:
        queue.needs_alarm = queue.ages
        time = queue.next_alarm
        if time is not None and (queue.timer is None or time < queue.timer):
            queue.timer = time
            self._alarm_count += 1
            heappush(self._alarms, (time, self._alarm_count, queue))

    def _ring(self) -> None:
        time, _, queue = heappop(self._alarms)
        if queue.timer != time or self._queues.get(queue.name) is not queue:
            return  # an earlier alarm took its place, or the queue was deleted
        self.now = max(self.now, time)
        queue.timer = None
        if queue.is_expired:
            self._delete(queue, "expired queue")
            return
        queue.wake()
        self._finish(queue)


QUEUE_TYPES: Final[Mapping[str, Callable[[str, Limits, Broker], LiveQueue]]] = {
    "classic": ClassicQueue,
    "quorum": QuorumQueue,
    "stream": StreamQueue,
}
"""Type of a queue -> its model; a queue of a plugin's type is taken for a classic one."""
