"""A broker of one virtual host that exists only in this process, for tests of routing and of what comes after it.

It routes exactly as the RabbitMQ of its topology's profile, by the same `Router`, and its queues behave as those of
that release (`exchange.lifecycle`): messages expire, overflow, are delivered, given back and dead-lettered. Its clock
is virtual: time passes by `VirtualBroker.advance` only.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, SupportsIndex, overload

from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.errors import NotFound
from exchange.kinds import Choose
from exchange.lifecycle.broker import Broker
from exchange.lifecycle.consumers import Consumer, Delivery
from exchange.lifecycle.outcomes import Loss
from exchange.lifecycle.queues import LiveQueue
from exchange.lifecycle.streams import Offset
from exchange.routing.explain import Explanation
from exchange.routing.route import Route
from exchange.text.display import LIKE_NAMES, count_noun, suggest
from exchange.topology.topology import Topology
from exchange.values.message import Message

EMPTY: Final = (
    "the topology is empty: VirtualBroker(bindings.load(PATH)) has that of a file, and so has the fixture "
    "virtual_broker with @pytest.mark.topology(PATH)"
)
"""Note of an error of a broker without exchanges and queues of its own."""


class VirtualBroker:
    """A broker in memory: publish to it, look at its queues, consume from them, and let time pass.

    >>> late = {"x-message-ttl": 30_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "late"}
    >>> broker = VirtualBroker(Topology(queues=[Queue("billing", arguments=late), Queue("late")]))
    >>> broker.bind(Binding.to_queue("amq.topic", "billing", "order.*.created"))
    >>> broker.publish("amq.topic", "order.eu.created", b"{}").queues
    ('billing',)
    >>> [message.body for message in broker.queues["billing"]]
    [b'{}']
    >>> broker.advance(30)
    >>> [message.headers["x-first-death-reason"] for message in broker.queues["late"]]
    ['expired']

    ``choose(n)`` returns an integer below n, for exchange types that choose at random; a fixed function makes a test
    repeatable. ``now`` is the time in seconds since the epoch at which the clock starts. Where a broker would answer
    with an error, the `BrokerError` of that code is raised, and nothing is published.
    """

    queues: Mapping[str, QueueContents]
    """Queue -> its messages that are ready, the next one first; tests may remove some. `NotFound` for a queue that does
    not exist."""
    returned: list[Message]
    """Mandatory messages that no queue got at once: a publisher would get them back with 312 NO_ROUTE."""
    unroutable: list[Message]
    """All messages that no queue got; those that an exchange delays, when their delay is over. A message that an
    exchange of unknown type may have routed is in neither list."""
    refused: list[Message]
    """Messages that a full queue refused: a publisher with confirms would get a basic.nack."""
    lost: list[Loss]
    """Messages that ended in a queue without an acknowledgement: rejected, expired, over a limit or deleted with their
    queue, and in no other queue since. Those that came into no queue at all are in ``unroutable``."""

    def __init__(
        self, topology: Topology | None = None, *, choose: Choose = random.randrange, now: float = 0.0
    ) -> None:
        self.returned = []
        self.unroutable = []
        self.refused = []
        self.lost = []
        topology = Topology() if topology is None else topology
        if not isinstance(topology, Topology):
            raise TypeError(f"a Topology is wanted, not {topology!r}: bindings.load reads one from a file")
        self._broker: Final = Broker(
            topology, now=now, choose=choose, on_loss=self.lost.append, on_dropped=self.unroutable.append
        )
        self.queues = _Queues(self._broker)

    @property
    def topology(self) -> Topology:
        """The current topology."""
        return self._broker.topology

    def publish(
        self,
        exchange: str,
        routing_key: str = "",
        body: bytes = b"",
        headers: Mapping[str, Any] | None = None,
        properties: Mapping[str, Any] | None = None,
        *,
        mandatory: bool = False,
    ) -> Route:
        """Put a message into the queues to which it is routed, as basic.publish, and return its route.

        As in RabbitMQ, a BCC header routes and is then removed. What an x-delayed-message exchange keeps for its header
        x-delay gets to the queues of `Route.later` by `advance`. Raises `NotFound`, `AccessRefused` or
        `PreconditionFailed` where the broker would close the channel.
        """
        try:
            publication = self._broker.publish(_message(exchange, routing_key, body, headers, properties))
        except NotFound as error:
            raise _with_hint(error, self.topology, "exchange", exchange) from None
        route, message = publication.route, publication.message
        if not publication.is_confirmed:
            self.refused.append(message)
        if route.at_once.unroutable:
            if route.delayed is None:
                self.unroutable.append(message)
            if mandatory:
                self.returned.append(message)
        return route

    def get(self, queue: str, *, auto_ack: bool = False) -> Delivery | None:
        """Take the next message of a queue, as basic.get; None if it has none."""
        _find_queue(self._broker, queue)
        return self._broker.get(queue, auto_ack=auto_ack)

    def consume(
        self, queue: str, *, prefetch: int = 0, priority: int = 0, auto_ack: bool = False, offset: Offset = "next",
        timeout: int | None = None,
    ) -> Consumer:  # fmt: skip
        """Start a consumer, as basic.consume: `Consumer.receive` returns its deliveries one by one.

        ``prefetch`` is the maximum number of its unacknowledged messages, 0 for no maximum; of several consumers, those
        of the highest ``priority`` come first. ``offset`` is where it begins to read a stream: ``first``, ``last``,
        ``next``, a number, an age as ``1h``, or a time. ``timeout`` is its argument x-consumer-timeout, in
        milliseconds: a quorum queue of 4.3 takes back what it does not settle in time, and gives it no more until it
        has settled that. Raises `PreconditionFailed` where the queue refuses an argument, as classic queues and streams
        do with a timeout since 4.3, and InputError for a prefetch count that is not 0 to 65535.
        """
        _find_queue(self._broker, queue)
        return self._broker.consume(
            queue, prefetch=prefetch, priority=priority, auto_ack=auto_ack, offset=offset, timeout=timeout
        )

    def cancel(self, consumer: Consumer) -> None:
        """Stop a consumer, as basic.cancel; it keeps what it was delivered.

        An auto-delete queue is deleted with its last consumer, here and in `close`, and its messages are lost.
        """
        self._broker.cancel(consumer)

    def close(self, consumer: Consumer) -> None:
        """Stop a consumer as when its process dies: what it has not acknowledged goes back to the queue."""
        self._broker.close(consumer)

    def ack(self, delivery: Delivery) -> None:
        """Acknowledge a delivery.

        Raises PreconditionFailed if it was settled before, and TypeError for None, which `get` returns for an empty
        queue. So do `nack` and `reject`.
        """
        self._broker.ack(delivery)

    def nack(self, delivery: Delivery, *, requeue: bool = True) -> None:
        """Give a delivery back to the queue or, without ``requeue``, to its dead letter exchange, as basic.nack."""
        self._broker.nack(delivery, requeue=requeue)

    def reject(self, delivery: Delivery, *, requeue: bool = True) -> None:
        """Give a delivery back to the queue or, without ``requeue``, to its dead letter exchange, as basic.reject."""
        self._broker.reject(delivery, requeue=requeue)

    def purge(self, queue: str) -> int:
        """Delete the messages of a queue that are ready or wait for a retry, as queue.purge; return their number."""
        _find_queue(self._broker, queue)
        return self._broker.purge(queue)

    def advance(self, seconds: float) -> None:
        """Let time pass: messages and queues expire, and delayed messages are routed, each at its time."""
        self._broker.advance(seconds)

    @property
    def time(self) -> float:
        """The time of the virtual clock in seconds since the epoch."""
        return self._broker.time

    def explain(
        self, exchange: str, routing_key: str = "", headers: Mapping[str, Any] | None = None, queue: str | None = None
    ) -> Explanation:
        """Return where a message would go and why, and why not to ``queue``; nothing is published."""
        return self._broker.explain(_message(exchange, routing_key, b"", headers, None), queue)

    def expect(
        self, exchange: str, routing_key: str = "", headers: Mapping[str, Any] | None = None, *, queues: Collection[str]
    ) -> None:
        """Assert that a message would go to exactly these queues, at once or later; nothing is published.

        Raises AssertionError, which names the missing and the surplus queues and explains the route.
        """
        __tracebackhide__ = True  # pytest shows the caller's line
        if isinstance(queues, str):
            raise TypeError(f"queues is a collection of names: [{queues!r}]")
        explanation = self.explain(exchange, routing_key, headers)
        route = explanation.route
        missing, surplus = sorted(set(queues) - set(route.queues)), sorted(set(route.queues) - set(queues))
        problems = [f"not routed to {', '.join(missing)}"] if missing else []
        problems += [f"routed to {', '.join(surplus)}"] if surplus else []
        problems += [f"undecided at {', '.join(route.undecided)}"] if route.undecided else []
        if problems:
            if missing and not surplus and not route.undecided:
                explanation = self.explain(exchange, routing_key, headers, missing[0])
            raise AssertionError(f"{'; '.join(problems)}\n\n{explanation}")

    def declare_exchange(self, exchange: Exchange) -> None:
        """Declare an exchange, as exchange.declare."""
        self._broker.declare_exchange(exchange)

    def declare_queue(self, queue: Queue) -> None:
        """Declare a queue, as queue.declare."""
        self._broker.declare_queue(queue)

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange, as exchange.delete."""
        self._broker.delete_exchange(name, if_unused=if_unused)

    def delete_queue(self, name: str) -> None:
        """Delete a queue, as queue.delete; its messages are lost, without dead letters."""
        self._broker.delete_queue(name)

    def bind(self, binding: Binding) -> None:
        """Add a binding, as queue.bind or exchange.bind."""
        self._broker.bind(binding)

    def unbind(self, binding: Binding) -> None:
        """Remove a binding, as queue.unbind or exchange.unbind."""
        self._broker.unbind(binding)

    def set_policy(self, policy: Policy) -> None:
        """Add a policy, or replace the one of its name; it is in force at once."""
        self._broker.set_policy(policy)

    def clear_policy(self, name: str) -> None:
        """Remove a policy."""
        self._broker.clear_policy(name)

    def __repr__(self) -> str:
        count = sum(map(len, self.queues.values()))
        return f"<VirtualBroker of {self.topology!r}: {count_noun(count, 'message')}>"


class QueueContents(Sequence[Message]):
    """The messages of a queue that are ready, the next one first. They can be removed, as by queue.purge.

    It always shows the present state, and equals a list of equal messages.
    """

    __hash__ = None  # type: ignore[assignment]  # its contents change

    def __init__(self, queue: LiveQueue) -> None:
        self._queue: Final = queue

    @overload
    def __getitem__(self, index: SupportsIndex) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Message | list[Message]:
        return [*self][index]

    def __iter__(self) -> Iterator[Message]:
        queue = self._queue
        return iter([message.content.as_message(queue.counts_of(message)) for message in queue.order])

    def __len__(self) -> int:
        return len(self._queue.order)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        found = [*self._queue.order][index]
        for message in found if isinstance(found, list) else [found]:
            self._queue.remove(message)

    def pop(self, index: int = -1) -> Message:
        """Remove and return a message, by default the last."""
        message = self[index]
        del self[index]
        return message

    def remove(self, message: Message) -> None:
        """Remove the first message that equals this one. Raises ValueError if there is none."""
        del self[self.index(message)]

    def clear(self) -> None:
        """Remove all messages."""
        del self[:]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (QueueContents, list)):
            return NotImplemented
        return [*self] == [*other]

    def __repr__(self) -> str:
        return repr([*self])


class _Queues(Mapping[str, QueueContents]):
    """Queue -> its messages; a name that does not exist raises the broker's 404."""

    def __init__(self, broker: Broker) -> None:
        self._broker: Final = broker

    def __getitem__(self, name: str) -> QueueContents:
        return QueueContents(_find_queue(self._broker, name))

    def __contains__(self, name: object) -> bool:
        return name in self._broker.queues

    def __iter__(self) -> Iterator[str]:
        return iter([*self._broker.queues])

    def __len__(self) -> int:
        return len(self._broker.queues)

    def __repr__(self) -> str:
        return repr(dict(self))


def _find_queue(broker: Broker, name: str) -> LiveQueue:
    """Return a queue. Raises NotFound with the broker's text, and a note of what may be meant."""
    try:
        return broker.queue(name)
    except NotFound as error:
        raise _with_hint(error, broker.topology, "queue", name) from None


def _with_hint(error: NotFound, topology: Topology, kind: Literal["exchange", "queue"], name: str) -> NotFound:
    """Return the error with a note below its text, which stays RabbitMQ's: the name that may be meant, or the cause."""
    known = topology.exchanges if kind == "exchange" else topology.queues
    if not topology.queues and topology.exchanges.keys() == Topology().exchanges.keys():
        error.add_note(EMPTY)
    elif hint := suggest(name, known, likeness=LIKE_NAMES):
        error.add_note(hint.removeprefix("; "))
    return error


def _message(
    exchange: str,
    routing_key: str,
    body: bytes,
    headers: Mapping[str, Any] | None,
    properties: Mapping[str, Any] | None,
) -> Message:
    # Copies: a test that changes its dicts later must not change the messages in the queues.
    return Message(exchange, routing_key, dict(headers or {}), dict(properties or {}), body)
