"""Where a dead letter goes: the queues that its exchange routes it to, less those that would close a cycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from exchange.errors import BrokerError, NotFound
from exchange.lifecycle.content import Content, DeadLetter, is_cycle
from exchange.routing.route import LaterRoute
from exchange.routing.router import Router

__all__ = ["NO_EXCHANGE", "Cause", "find_targets"]

Cause = Literal["no dead letter exchange", "missing exchange", "unroutable", "cycle", "full queue"]
"""Why a message ends in a queue, and has no dead letter in another one."""
NO_EXCHANGE: Final[Cause] = "no dead letter exchange"


def find_targets(
    router: Router, dead: Content, reason: str
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
    queues: Sequence[str] = route.at_once.queues
    if not queues:
        return (), "unroutable", route.later
    deaths = dead.deaths
    if reason != "rejected" and (len(deaths) > 1 or deaths[0]["queue"] in queues):
        queues = [name for name in queues if not is_cycle(deaths, name)]
    return queues, None if queues else "cycle", route.later
