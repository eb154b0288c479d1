"""What became of a publish, and of a message that no consumer acknowledged."""

from __future__ import annotations

from typing import Literal, NamedTuple

from exchange.lifecycle.targets import Cause
from exchange.routing.route import Route
from exchange.values.message import Message

__all__ = ["DeletionCause", "Loss", "Publication"]

DeletionCause = Literal["deleted queue", "expired queue", "auto-delete queue"]
"""Why a queue is no more: queue.delete, its ``x-expires``, or the end of the last consumer of an auto-delete queue."""


class Publication(NamedTuple):
    """What became of a publish."""

    route: Route
    message: Message
    """The message as queues get it: without its header BCC."""
    refused: tuple[str, ...] = ()
    """Queues on the route that are full and reject publishes."""

    @property
    def is_confirmed(self) -> bool:
        """Whether a publisher with confirms gets an ack: no queue refused the message. Unroutable ones get an ack."""
        return not self.refused


class Loss(NamedTuple):
    """The end of a message that no consumer acknowledged."""

    queue: str
    """The queue in which it died."""
    message: Message
    """The message as it would have been dead-lettered or, without a dead letter exchange, as it was in the queue."""
    reason: str
    """Why it died: rejected, expired, maxlen or delivery_limit; queue_deleted if its queue ended before it did."""
    cause: Cause | DeletionCause
    """Why it ended there, and has no dead letter in another queue."""
