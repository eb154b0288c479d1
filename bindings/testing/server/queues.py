"""The queues of the test server: messages, consumers and limits of unacknowledged messages.

This module has no I/O: a consumer is a function that is called with each delivery. All calls come from one
thread, that of the server's event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from exchange.amqp import ContentHeader
from exchange.entities.entities import Queue
from exchange.entities.in_force import Settings

__all__ = ["Consumer", "Stored", "StoredQueue"]


@dataclass(slots=True, eq=False)
class Stored:
    """A message in a queue."""

    exchange: str
    routing_key: str
    content: ContentHeader
    body: bytes
    redelivered: bool = False
    place: int = 0
    """Its place in the queue, which it keeps when it is given back."""
    expires: float | None = None
    """Time of the loop's clock after which it is a dead letter; None for never."""


class Limit:
    """A number of unacknowledged messages that must not grow above ``most``; 0 means no limit."""

    def __init__(self, most: int = 0) -> None:
        self.most = most
        self.held = 0

    @property
    def is_reached(self) -> bool:
        """Whether no further message may be delivered."""
        return bool(self.most) and self.held >= self.most


class Limits(NamedTuple):
    """The limits of a consumer: its own, and the one of its channel."""

    own: Limit
    channel: Limit


@dataclass(slots=True, eq=False)
class Consumer:
    """A consumer of one queue."""

    tag: str
    no_ack: bool
    exclusive: bool
    limits: Limits
    deliver: Callable[[Consumer, Stored], None]
    owner: Any = None
    """The channel."""

    def can_take(self) -> bool:
        """Return whether it may get another message now."""
        return self.no_ack or not (self.limits.own.is_reached or self.limits.channel.is_reached)


@dataclass(slots=True, eq=False)
class StoredQueue:
    """A queue with its messages and consumers."""

    declared: Queue
    settings: Settings
    """The settings in force: arguments, policy and operator policy."""
    owner: Any = None
    """The connection that an exclusive queue belongs to; None for all others."""
    ready: deque[Stored] = field(default_factory=deque)
    consumers: deque[Consumer] = field(default_factory=deque)
    """In the order of their turns."""
    was_consumed: bool = False
    places: int = 0

    def put(self, message: Stored) -> None:
        """Add a message at the end."""
        self.places += 1
        message.place = self.places
        self.ready.append(message)
        self.deliver()

    def give_back(self, messages: list[Stored]) -> None:
        """Put unacknowledged messages back in their old places, marked as redelivered."""
        for message in messages:
            message.redelivered = True
        if messages:
            self.ready = deque(sorted((*messages, *self.ready), key=lambda message: message.place))
            self.deliver()

    def deliver(self) -> None:
        """Give the messages that are ready to consumers, in turn, as far as their limits allow."""
        while self.ready:
            consumer = self._next_consumer()
            if consumer is None:
                return
            consumer.deliver(consumer, self.ready.popleft())

    def _next_consumer(self) -> Consumer | None:
        if self.declared.arguments.get("x-single-active-consumer"):
            first = self.consumers[0] if self.consumers else None
            return first if first is not None and first.can_take() else None
        for _ in range(len(self.consumers)):
            consumer = self.consumers[0]
            self.consumers.rotate(-1)
            if consumer.can_take():
                return consumer
        return None

    def add_consumer(self, consumer: Consumer) -> None:
        """Add a consumer, which gets what is ready at once."""
        self.consumers.append(consumer)
        self.was_consumed = True

    def remove_consumer(self, consumer: Consumer) -> bool:
        """Remove a consumer, and return whether the queue is to be deleted with it."""
        self.consumers.remove(consumer)
        self.deliver()
        return self.declared.auto_delete and not self.consumers
