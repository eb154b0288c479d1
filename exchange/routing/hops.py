"""The hops of a message, as `explain` describes them, from the visits that `walk` recorded.

The walk itself records what decides only: an audit walks once for each set of bindings, and reads no description.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from exchange.entities.entities import Destination, Exchange
from exchange.entities.in_force import find_policy_in_force
from exchange.entities.unread import SHARDS_MADE, has_shards_made
from exchange.routing.compiled import Compiled
from exchange.routing.route import Alternate, Hop, HopTarget, Outcome
from exchange.routing.walk import Visit

__all__ = ["describe_hops"]


def describe_hops(compiled: Compiled, visits: Iterable[Visit]) -> tuple[Hop, ...]:
    """Return the hops of visits, all those of one message, in their order; ``compiled`` as when they were made."""
    hops = []
    queues: set[str] = set()
    seen: set[str] = set()
    for visit in visits:
        if visit.came_from is None:  # a walk begins: at once, or after a delay
            queues, seen = set(), {visit.exchange.name}
        hop = _describe_hop(compiled, visit, queues, seen)
        hops.append(hop)
        for step in hop.steps:
            if step.outcome != "missing":
                (queues if step.destination.kind == "queue" else seen).add(step.destination.name)
    return tuple(hops)


def _describe_hop(compiled: Compiled, visit: Visit, queues: Collection[str], seen: Collection[str]) -> Hop:
    """Return the hop of a visit; ``queues`` and ``seen`` are the queues and exchanges that were reached before it."""
    exchange, matched = visit.exchange, visit.matched
    here = compiled.exchanges[exchange.name]
    if here.kind is None and visit.delay is None:
        return Hop(exchange, visit.came_from, (), (), None, undecided=True, after=visit.after)
    alternate = _describe_alternate(compiled, exchange, visit.alternate, taken=not matched)
    destinations = dict.fromkeys([binding.destination for binding in matched])
    if alternate is not None and alternate.taken:
        destinations = {Destination("exchange", alternate.name): None}
    steps = tuple(
        [HopTarget(destination, _outcome_of(compiled, destination, queues, seen)) for destination in destinations]
    )
    in_order = tuple(sorted(matched, key=lambda binding: (binding.routing_key, binding.destination)))
    undecided, unsure = visit.unsure is not None, visit.unsure
    if not undecided and not matched and here.is_unsure:
        undecided = True
        unsure = SHARDS_MADE if has_shards_made(exchange, compiled.tables.policies) else None
    chosen_by = None
    if here.kind is not None and visit.delay is None:
        chosen_by = here.kind.describe_choice(visit.message, visit.message.routing_keys())
    return Hop(
        exchange, visit.came_from, in_order, steps, alternate, undecided, chosen_by, unsure, visit.delay, visit.after
    )


def _outcome_of(
    compiled: Compiled, destination: Destination, queues: Collection[str], seen: Collection[str]
) -> Outcome:
    if not compiled.tables.exists(destination):
        return "missing"
    if destination.kind == "queue":
        return "queued already" if destination.name in queues else "queued"
    return "seen already" if destination.name in seen else "followed"


def _describe_alternate(compiled: Compiled, exchange: Exchange, name: str | None, *, taken: bool) -> Alternate | None:
    if name is None:
        return None
    by_argument = "alternate-exchange" in exchange.arguments
    policy = None if by_argument else find_policy_in_force(exchange, compiled.tables.policies)
    return Alternate(name, taken, policy.name if policy is not None else None)
