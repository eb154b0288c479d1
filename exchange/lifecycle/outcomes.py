"""What became of a publish, and of a message that no consumer acknowledged; and where its dead letter goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from exchange.entities.profile import QueueBehaviour
from exchange.errors import BrokerError, NotFound
from exchange.lifecycle.content import Content, DeadLetter, is_cycle
from exchange.routing.route import LaterRoute, Route
from exchange.routing.router import Router
from exchange.values.message import Message

Cause = Literal["no dead letter exchange", "missing exchange", "unroutable", "cycle", "full queue"]
"""Why a message ends in a queue, and has no dead letter in another one."""
NO_EXCHANGE: Final[Cause] = "no dead letter exchange"


def find_targets(
    router: Router, dead: Content, reason: str, release: QueueBehaviour
) -> tuple[Sequence[str], Cause | None, tuple[LaterRoute, ...]]:
    """Return the queues that the dead letter of a message goes to; without any, also the cause.

    Returned last are the exchanges that keep it for a delay, which send it on later.
    """
    keys = dead.keys
    route = router.recall(dead.exchange, keys[0]) if len(keys) == 1 else None
    if route is None:
        try:
            route = router.route_dead_letter(DeadLetter(dead))
        except NotFound:
            return (), "missing exchange", ()
        except BrokerError:
            return (), "unroutable", ()  # the broker's dead-lettering fails, and logs it
    queues: Sequence[str] = route.queues
    later: tuple[LaterRoute, ...] = ()
    if route.delayed is not None:
        queues, later = route.delayed.at_once.queues, route.delayed.later
    if not queues:
        return (), "unroutable", later
    deaths = dead.deaths
    if reason != "rejected" and (len(deaths) > 1 or deaths[0]["queue"] in queues):
        queues = [name for name in queues if not is_cycle(deaths, name, release)]
    return queues, None if queues else "cycle", later


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
