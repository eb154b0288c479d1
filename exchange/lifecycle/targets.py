"""Where a dead letter goes: the queues that its exchange routes it to, less those that would close a cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from exchange.errors import BrokerError, NotFound
from exchange.lifecycle.content import Content, DeadLetter, is_cycle
from exchange.routing.router import Router

__all__ = ["NO_EXCHANGE", "Cause", "Targets", "find_targets"]

Cause = Literal["no dead letter exchange", "missing exchange", "unroutable", "cycle", "full queue"]
"""Why a message ends in a queue, and has no dead letter in another one."""
NO_EXCHANGE: Final[Cause] = "no dead letter exchange"


class Targets(NamedTuple):
    """The queues that a dead letter goes to; without any, ``cause`` is the reason."""

    queues: Sequence[str]
    cause: Cause | None = None


def find_targets(router: Router, dead: Content, reason: str) -> Targets:
    """Return where the dead letter of a message that died for a reason goes."""
    keys = dead.keys
    route = router.recall(dead.exchange, keys[0]) if len(keys) == 1 else None
    if route is None:
        try:
            route = router.route_dead_letter(DeadLetter(dead))
        except NotFound:
            return Targets((), "missing exchange")
        except BrokerError:
            return Targets((), "unroutable")  # the broker's dead-lettering fails, and logs it
    queues: Sequence[str] = route.queues
    if not queues:
        return Targets((), "unroutable")
    if reason != "rejected":
        queues = [name for name in queues if not is_cycle(dead.deaths, name)]
    return Targets(queues, None if queues else "cycle")
