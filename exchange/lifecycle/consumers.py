"""Consumers of a queue, what they were delivered, and whose turn is next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from math import inf
from operator import attrgetter
from typing import Any, Final, TypeAlias

from exchange.lifecycle.orders import Stored
from exchange.values.message import Message

Rank: TypeAlias = tuple[int, ...]
UNLIMITED: Final = 2000
"""Number of messages that a quorum queue gives a consumer without a prefetch, as if it had this one."""


class Delivery:
    """A message that a consumer got, until it is settled.

    ``queue`` is the name of the queue that it came from, ``redelivered`` the flag of that name of basic.deliver.
    ``source`` is that queue, and ``stored`` the message as it holds it; ``added`` are the headers that it adds.
    """

    __slots__ = ("added", "consumer", "deadline", "is_late", "is_settled", "queue", "redelivered", "source", "stored")

    def __init__(
        self,
        queue: str,
        source: object,
        stored: Stored,
        consumer: Consumer | None,
        redelivered: bool,
        added: Mapping[str, Any] | None,
    ) -> None:
        self.queue = queue
        self.source = source
        self.stored = stored
        self.consumer = consumer
        self.redelivered = redelivered
        self.added = added
        self.is_settled = False
        self.deadline = inf
        """Time in milliseconds at which the queue takes the message back."""
        self.is_late = False
        """Whether the queue has taken the message back, as its consumer was too slow."""

    @property
    def message(self) -> Message:
        """The message, with the headers that the broker added: those of its deaths, and counts of quorum queues."""
        return self.stored.content.as_message(self.added)

    def __repr__(self) -> str:
        return f"<Delivery from {self.queue!r}: {self.message!r}>"


class Consumer:
    """A consumer of one queue. ``deliveries`` are those that it did not take with `receive` yet, oldest first."""

    __slots__ = (
        "auto_ack", "deliveries", "held", "is_active", "late", "most", "number", "prefetch", "priority", "queue",
        "timeout", "timeouts",
    )  # fmt: skip

    def __init__(self, queue: str, prefetch: int, priority: int, auto_ack: bool, timeout: int | None = None) -> None:
        self.queue = queue
        self.prefetch = prefetch
        self.priority = priority
        self.auto_ack = auto_ack
        self.held = 0
        """Number of its deliveries that are not settled."""
        self.most: float = prefetch if prefetch and not auto_ack else inf
        """Maximum number of them, by the prefetch count."""
        self.deliveries: deque[Delivery] = deque()
        self.is_active = True
        """False after it was cancelled, or after its queue was deleted."""
        self.timeout = timeout
        """Milliseconds after which a quorum queue takes back what it has not settled; None for the queue's own time."""
        self.late: Final[set[Delivery]] = set()
        """Deliveries that the queue took back from it: it gets no more until it has settled them."""
        self.timeouts = 0
        """How often that happened; each time RabbitMQ sends its client basic.cancel."""
        self.number: Final = next(_NUMBERS)
        """The order in which consumers were started."""

    def receive(self) -> Delivery | None:
        """Return the oldest delivery that was not taken yet; None if there is none."""
        return self.deliveries.popleft() if self.deliveries else None

    def __repr__(self) -> str:
        return f"<Consumer of {self.queue!r}: {self.held} unacknowledged>"


class ConsumerTurns:
    """The consumers of a queue take turns; those of the highest priority that can take a message come first.

    A full consumer loses its place: in a quorum queue at once (``parks_eagerly``), in a classic queue only when a
    message comes that it cannot take.
    """

    def __init__(self, parks_eagerly: bool) -> None:
        self.consumers: Final[list[Consumer]] = []
        self._eager: Final = parks_eagerly
        self._turns: Final[deque[Consumer]] = deque()
        self._parked: Final[set[Consumer]] = set()

    def add(self, consumer: Consumer) -> None:
        """Add a consumer."""
        self.consumers.append(consumer)
        self._turns.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self.consumers.remove(consumer)
        self._parked.discard(consumer)
        if consumer in self._turns:
            self._turns.remove(consumer)

    def next(self) -> Consumer | None:
        """Return the consumer of the next message, None if no consumer can take one."""
        turns = self._turns
        while turns:
            if len(turns) == 1:
                consumer = turns.pop()
            else:
                consumer = max(turns, key=_priority)  # the first of those with the highest
                turns.remove(consumer)
            if consumer.held < consumer.most and not consumer.late:
                return consumer
            self._parked.add(consumer)
        return None

    def delivered(self, consumer: Consumer) -> None:
        """Put the consumer that `next` returned behind the others, after it got its message."""
        if self._eager and consumer.held >= consumer.most:
            self._parked.add(consumer)
        else:
            self._turns.append(consumer)

    def settled(self, consumer: Consumer, returned: bool = False) -> None:
        """Give a consumer that settled a delivery, or ``returned`` it, its turn again."""
        if self._parked and consumer in self._parked and consumer.held < consumer.most and not consumer.late:
            self._parked.remove(consumer)
            self._turns.append(consumer)


class SingleActive(ConsumerTurns):
    """Only one consumer gets messages, the first one; when it leaves, the next is that with the least `rank`.

    ``yields`` is whether it makes room for one of higher priority, as in quorum queues since 4.0: it gets no more until
    it holds nothing, even if the other one has left by then. ``strands`` is whether no other one becomes active if it
    gave its last message back, until a consumer comes, goes or settles a message.
    """

    def __init__(self, rank: Callable[[Consumer], Rank], *, yields: bool, strands: bool) -> None:
        super().__init__(parks_eagerly=False)
        self._rank: Final = rank
        self._yields: Final = yields
        self._strands: Final = strands
        self.active: Consumer | None = None
        self._quiesces = False
        """Whether the active consumer makes room for one of higher priority."""

    def add(self, consumer: Consumer) -> None:
        """Add a consumer, which is the active one if there is no other."""
        self.consumers.append(consumer)
        self._choose()

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer; if it was the active one, choose the next."""
        self.consumers.remove(consumer)
        if consumer is self.active:
            self.active = None
        self._choose()

    def _choose(self) -> None:
        active = self.active
        best = min((each for each in self.consumers if not each.late), key=self._rank, default=None)
        if best is None or active is None or active.late:
            self.active, self._quiesces = best, False
        elif self._yields and best.priority > active.priority:
            self.active, self._quiesces = (active, True) if active.held else (best, False)

    def next(self) -> Consumer | None:
        """Return the active consumer, None if it is full or must leave its turn to one of higher priority."""
        active = self.active
        return None if active is None or active.held >= active.most or self._quiesces else active

    def delivered(self, consumer: Consumer) -> None:
        """Do nothing: the active consumer stays."""

    def settled(self, consumer: Consumer, returned: bool = False) -> None:
        """Let a consumer of higher priority take over."""
        if self._quiesces and consumer is self.active and not consumer.held:
            self.active, self._quiesces = None, False
        if not (returned and self._strands):
            self._choose()


def rank_by_priority(consumer: Consumer) -> Rank:
    """Return the rank in a classic queue: the highest priority first, then the first one."""
    return (-consumer.priority,)


def rank_by_prefetch(consumer: Consumer) -> Rank:
    """Return the rank in a quorum queue since 4.0: of one priority, the one that may hold most, then the first one."""
    return -consumer.priority, -(consumer.prefetch or UNLIMITED)


def rank_by_arrival(consumer: Consumer) -> Rank:
    """Return the rank in a quorum queue before 4.0: the first one first."""
    return ()


_NUMBERS: Final = count()
_priority: Final[Callable[[Consumer], int]] = attrgetter("priority")
