"""The hops of a message, as `explain` describes them, from the visits that `walk` recorded.

The walk itself records what decides only: an audit walks once for each set of bindings, and reads no description.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from exchange.entities.entities import Destination, Exchange
from exchange.entities.in_force import find_policy_in_force
from exchange.entities.unread import SHARDS_MADE, has_shards_made
from exchange.routing.compiled import Compiled
from exchange.routing.route import Alternate, Hop, HopTarget, Outcome
from exchange.routing.walk import Visit
from exchange.topology.rules import find_refusal

BY_KEY: Final = attrgetter("routing_key", "destination")
"""The order of bindings in a hop."""


def describe_hops(compiled: Compiled, visits: Iterable[Visit]) -> tuple[Hop, ...]:
    """Return the hops of visits, all those of one message, in their order; ``compiled`` as when they were made."""
    hops = []
    queues: set[str] = set()
    seen: set[str] = set()
    for visit in visits:
        if visit.came_from is None:  # a walk begins: at once, or after a delay
            queues, seen = set(), {visit.exchange.name}
        hops.append(_describe_hop(compiled, visit, queues, seen))
    return tuple(hops)


def _describe_hop(compiled: Compiled, visit: Visit, queues: set[str], seen: set[str]) -> Hop:
    """Return the hop of a visit; add what it reaches to ``queues`` and ``seen``, those that were reached before it."""
    exchange, came_from, matched, alternate_name, unsure, delay, after, message, keys = visit
    here = compiled.exchanges[exchange.name]
    kind = here.kind
    if kind is None and delay is None:
        return Hop(exchange, came_from, (), (), None, undecided=True, after=after)
    alternate = None
    if alternate_name is not None:
        alternate = _describe_alternate(compiled, exchange, alternate_name, taken=not matched)
    destinations = dict.fromkeys([binding.destination for binding in matched])
    if alternate is not None and alternate.taken:
        destinations = {Destination("exchange", alternate.name): None}
    steps = tuple([HopTarget(each, _reach(compiled, each, queues, seen)) for each in destinations])
    in_order = tuple(sorted(matched, key=BY_KEY))
    undecided = unsure is not None
    if not undecided and not matched and here.is_unsure:
        undecided = True
        unsure = SHARDS_MADE if has_shards_made(exchange, compiled.tables.policies) else None
    chosen_by = None if kind is None or delay is not None else kind.describe_choice(message, keys)
    made = [each for each in in_order if compiled.tables.exists(each.destination)]
    answers = [(each, find_refusal(compiled.tables, compiled.host.profile, each)) for each in made]
    refused = tuple([(each, str(answer)) for each, answer in answers if answer is not None])
    return Hop(exchange, came_from, in_order, steps, alternate, undecided, chosen_by, unsure, delay, after, refused)


def _reach(compiled: Compiled, destination: Destination, queues: set[str], seen: set[str]) -> Outcome:
    """Return what happens at a destination, and add it to those that were reached."""
    if not compiled.tables.exists(destination):
        return "missing"
    kind, name = destination
    reached = queues if kind == "queue" else seen
    if name in reached:
        return "queued already" if kind == "queue" else "seen already"
    reached.add(name)
    return "queued" if kind == "queue" else "followed"


def _describe_alternate(compiled: Compiled, exchange: Exchange, name: str, *, taken: bool) -> Alternate:
    by_argument = "alternate-exchange" in exchange.arguments
    policy = None if by_argument else find_policy_in_force(exchange, compiled.tables.policies)
    return Alternate(name, taken, policy.name if policy is not None else None)
