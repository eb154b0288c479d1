"""Find the shortest message that gets to a destination on one side of a comparison and not on the other.

The search begins with the condition of a changed binding. It takes the shortest message that meets it and walks both
sides with it. If the message does not get to the destination, any message that does takes an edge that this one did not
take, out of an exchange that this one reached. If it gets there on the other side, too, any message that does not
avoids a leg of that path. So each failure splits the search by what a better message must match or must not match, and
the shortest message is tried first. Invariant: a message found is a shortest one, and if none is found, there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from bindings.analysis.crawl import Budget, find_shortest_key
from bindings.diffing.comparison.conditions import Probe, holds
from bindings.diffing.comparison.headers import find_fewest_headers
from bindings.diffing.comparison.sides import Leg, Ways
from exchange.kinds.condition import ALWAYS, Condition, HeadersCondition
from exchange.patterns.pattern import AMQP, MANY, ExactKey, Pattern


class Demand(NamedTuple):
    """Conditions that a message must meet, and conditions that it must not."""

    all_of: tuple[Condition, ...] = ()
    none_of: tuple[Condition, ...] = ()

    def with_all(self, condition: Condition) -> Demand:
        """Return the demand with one more condition to meet."""
        return self if condition in self.all_of else Demand((*self.all_of, condition), self.none_of)

    def with_none(self, conditions: Iterable[Condition]) -> Demand:
        """Return the demand with more conditions that must not hold."""
        return Demand(self.all_of, tuple(dict.fromkeys((*self.none_of, *conditions))))


ANY: Final = Demand()

Cost = tuple[int, int, int, str]


def find_shortest_probe(demand: Demand, budget: Budget) -> Probe | None:
    """Return a shortest message of one key that meets the demand; None when there is none. Raises OutOfBudget."""
    budget.spend(1)
    if ALWAYS in demand.none_of or not set(demand.all_of).isdisjoint(demand.none_of):
        return None
    key = _shortest_key(demand, budget)
    if key is None:
        return None
    all_of, none_of = (tuple(c for c in conditions if isinstance(c, HeadersCondition)) for conditions in demand)
    headers = find_fewest_headers(all_of, none_of, budget) if all_of or none_of else {}
    return None if headers is None else Probe(key, headers)


def _shortest_key(demand: Demand, budget: Budget) -> str | None:
    all_of, none_of = ([c for c in conditions if isinstance(c, Pattern)] for conditions in demand)
    exact = next((pattern.text for pattern in all_of if isinstance(pattern, ExactKey)), None)
    if exact is None:
        return find_shortest_key(AMQP, all_of, none_of, budget)
    budget.spend(len(all_of) + len(none_of))
    fits = all(pattern.matches(exact) for pattern in all_of) and not any(pattern.matches(exact) for pattern in none_of)
    return exact if fits else None


def find_shortest_message(
    entry: str, there: Ways | None, not_there: Ways | None, starts: Iterable[Demand], budget: Budget
) -> Probe | None:
    """Return a shortest message to ``entry`` that gets to the end of ``there`` and not to that of ``not_there``.

    Only messages that meet a demand in ``starts`` count. If ``there`` is None, the message need not get anywhere; if
    ``not_there`` is None, no message gets anywhere on that side. Raises OutOfBudget.
    """
    # Best first. A demand goes into the heap with a lower bound of its cost, and comes out to have its shortest message
    # found; that goes in with its exact cost. So the first message that comes out and passes is a shortest one.
    order = count()
    heap: list[tuple[Cost, int, Demand, Probe | None]] = []
    seen: set[tuple[frozenset[Condition], frozenset[Condition]]] = set()

    def add(demand: Demand, least: Cost) -> None:
        identity = frozenset(demand.all_of), frozenset(demand.none_of)
        if identity not in seen:
            seen.add(identity)
            heappush(heap, (least, next(order), demand, None))

    for start in starts:
        add(start, _least(start.all_of))
    while heap:
        cost, _, demand, probe = heappop(heap)
        if probe is None:
            probe = find_shortest_probe(demand, budget)
            if probe is not None:
                heappush(heap, (max(cost, probe.cost), next(order), demand, probe))
            continue
        budget.spend(10)
        better = None if there is None else _towards(entry, there, demand, probe, budget)
        if better is None and not_there is not None:
            better = _away(entry, not_there, demand, probe, budget)
        if better is None:
            return probe
        for child in better:
            budget.spend(1)
            add(child, max(cost, _least(child.all_of[-1:])))  # what meets a child meets its parent: it costs no less
    return None


def _towards(entry: str, ways: Ways, demand: Demand, probe: Probe, budget: Budget) -> Iterator[Demand] | None:
    """Return demands such that each message that gets to the end meets one of them; None if this message gets there."""
    reached, legs = ways.walk(entry, probe)
    budget.spend(len(reached))
    return None if legs is not None else _ways_on(ways, reached, demand, probe, budget)


def _ways_on(
    ways: Ways, reached: dict[str, Leg | None], demand: Demand, probe: Probe, budget: Budget
) -> Iterator[Demand]:
    """Yield the demand with one more edge met, or with all edges unmet that keep messages from an alternate."""
    for exchange in reached:
        branches = ways.branches(exchange)
        budget.spend(len(branches) // 16)
        for edge in branches.near(demand.all_of):
            beyond = edge.target.kind == "queue" or edge.target.name not in reached
            if beyond and edge.condition not in demand.none_of and not holds(edge.condition, probe):
                yield demand.with_all(edge.condition)
        alternate = ways.alternate(exchange)
        if alternate is not None and alternate not in reached:
            yield demand.with_none([edge.condition for edge in ways.side.branches(exchange).taken(probe)])


def _away(entry: str, ways: Ways, demand: Demand, probe: Probe, budget: Budget) -> Iterator[Demand] | None:
    """Return demands such that each message that misses the end meets one of them; None if this message misses it."""
    reached, legs = ways.walk(entry, probe)
    budget.spend(len(reached))
    return None if legs is None else _ways_off(ways, legs, demand, budget)


def _ways_off(ways: Ways, legs: list[Leg], demand: Demand, budget: Budget) -> Iterator[Demand]:
    """Yield, for each leg of a path, the demands under which a message does not take that leg."""
    for leg in legs:
        if leg.edge is not None:
            if leg.edge.condition != ALWAYS and leg.edge.condition not in demand.all_of:
                yield demand.with_none([leg.edge.condition])
            continue
        # A message stays away from an alternate exchange by matching a binding of the exchange before it.
        branches = ways.side.branches(leg.source)
        budget.spend(len(branches) // 16)
        for edge in branches.near(demand.all_of):
            if edge.condition not in demand.none_of:
                yield demand.with_all(edge.condition)


def _least(conditions: Iterable[Condition]) -> Cost:
    """Return a lower bound of the cost of messages that meet all these conditions."""
    words = size = headers = 0
    for condition in conditions:
        if isinstance(condition, Pattern):
            single = [word for word in condition.words if word is not MANY]
            literal = sum(len(word.encode("utf-8", "surrogatepass")) for word in single if isinstance(word, str))
            words = max(words, len(single))
            size = max(size, literal + max(len(single) - 1, 0))
        elif condition.wanted:
            headers = 1
    return words, headers, size, ""
