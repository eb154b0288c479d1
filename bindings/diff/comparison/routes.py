"""What a message must match to go from an exchange to a destination by one way or another.

A way asks that a message match its bindings and, where it leads through an alternate exchange, nothing that is bound
before that. Ways are followed together with what they ask: one that no message can take is given up, and so is one
that asks for all that another way to the same exchange asks for. Invariant: a message that gets to the end takes one
of the ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from bindings.analysis.crawl import Budget, OutOfBudget, shortest_key
from bindings.diff.comparison.changes import Start
from bindings.diff.comparison.conditions import ALWAYS, Condition
from bindings.diff.comparison.reach import Ways
from bindings.diff.comparison.search import Demand, shortest_probe
from exchange.entities.entities import Destination
from exchange.patterns.pattern import AMQP, Pattern

__all__ = ["Way", "from_exchange", "implied", "through", "widest"]

Conditions: TypeAlias = tuple[Condition, ...]

IMPLIED_STEPS: Final = 2_000
REMEMBERED: Final = 1 << 18
"""Answers that are kept: many ways begin alike."""


class Way(NamedTuple):
    """What a message matches to go a way."""

    matching: tuple[Condition, ...] = ()
    """All of these; none for all messages."""
    unmatched: tuple[str, ...] = ()
    """And no binding of these exchanges, so that it takes their alternate exchanges."""


class _Narrowing:
    """Ways to several exchanges, of which only the widest to each are kept."""

    def __init__(self, ways: Ways, budget: Budget) -> None:
        self._side = ways.side
        self._budget = budget
        self._known: dict[str, list[Way]] = {}

    def is_new(self, exchange: str, way: Way) -> bool:
        """Whether no way to this exchange asks for less; if so, it is kept."""
        known = self._known.setdefault(exchange, [])
        self._budget.spend(1 + len(known))
        if any(_says(way, other) for other in known):
            return False
        known.append(way)
        return True

    def after(self, way: Way, condition: Condition) -> Way | None:
        """The way with one more binding; None when no message can take it."""
        if condition == ALWAYS:
            return way
        matching = self._joined(way.matching, condition)
        return None if matching is None else Way(matching, way.unmatched)

    def _joined(self, matching: Conditions, condition: Condition) -> Conditions | None:
        asked = matching, condition
        self._budget.spend(1)
        if asked in self._side.joined:
            return self._side.joined[asked]
        self._budget.spend(1 + len(matching))
        result: Conditions | None = matching
        if not implied(condition, matching):
            result = (*(other for other in matching if not implied(other, (condition,))), condition)
            if len(result) > 1 and shortest_probe(Demand(result), self._side.topology.profile, self._budget) is None:
                result = None
        if len(self._side.joined) >= REMEMBERED:
            self._side.joined.clear()
        self._side.joined[asked] = result
        return result


def from_exchange(ways: Ways, exchange: str, way: Way, budget: Budget) -> list[Way]:
    """The ways from an exchange to the end, for messages that went ``way`` so far. Raises OutOfBudget."""
    return _onwards(ways, [(Destination("exchange", exchange), way)], _Narrowing(ways, budget), budget)


def through(ways: Ways, start: Start, budget: Budget) -> dict[str, list[Way]]:
    """The ways to the end that have the leg, from each exchange where one begins. Raises OutOfBudget."""
    first = Way(start.demand.all_of)
    narrowing = _Narrowing(ways, budget)
    if start.condition is None:
        alternate = ways.alternate(start.exchange)
        targets = [] if alternate is None else [Destination("exchange", alternate)]
        first = Way(first.matching, (start.exchange,))
    else:
        edges = ways.branches(start.exchange).near(first.matching)
        targets = [edge.target for edge in edges if edge.condition == start.condition]
    found: dict[str, list[Way]] = {}
    narrowing_back = _Narrowing(ways, budget)
    pending = [(start.exchange, way) for way in _onwards(ways, [(t, first) for t in targets], narrowing, budget)]
    while pending:
        at, way = pending.pop()
        if not narrowing_back.is_new(at, way):
            continue
        found.setdefault(at, []).append(way)
        for source, condition in ways.side.into(at):
            longer = narrowing_back.after(way, condition)
            if longer is not None:
                pending.append((source, longer))
        for source in ways.side.alternate_of(at):
            unmatched = way.unmatched if source in way.unmatched else (*way.unmatched, source)
            pending.append((source, Way(way.matching, unmatched)))
    return {at: widest(several) for at, several in found.items()}


def _onwards(ways: Ways, starts: Iterable[tuple[Destination, Way]], narrowing: _Narrowing, budget: Budget) -> list[Way]:
    found: list[Way] = []
    pending = list(starts)
    while pending:
        at, way = pending.pop()
        if ways.ends(at) and ways.side.exists(at):
            found.append(way)
            continue
        if at.kind == "queue" or not narrowing.is_new(at.name, way):
            continue
        branches = ways.branches(at.name)
        budget.spend(1 + len(branches) // 16)
        for edge in branches.near(way.matching):
            longer = narrowing.after(way, edge.condition)
            if longer is not None:
                pending.append((edge.target, longer))
        alternate = ways.alternate(at.name)
        if alternate is not None:
            unmatched = way.unmatched if at.name in way.unmatched else (*way.unmatched, at.name)
            pending.append((Destination("exchange", alternate), Way(way.matching, unmatched)))
    return widest(found)


def implied(condition: Condition, by: Iterable[Condition]) -> bool:
    """Whether one of ``by`` shows that the condition holds."""
    return condition == ALWAYS or any(condition == other or _covers(condition, other) for other in by)


@lru_cache(maxsize=1 << 16)
def _covers(wide: Condition, narrow: Condition) -> bool:
    """Whether all messages of one condition meet the other; where that is hard to say, False."""
    if not isinstance(wide, Pattern) or not isinstance(narrow, Pattern):
        return False
    if narrow.literal:
        return wide.matches(narrow.text)
    if wide.literal:
        return False
    try:
        return shortest_key(AMQP, (narrow,), (wide,), Budget(IMPLIED_STEPS)) is None
    except OutOfBudget:
        return False


def widest(ways: Sequence[Way]) -> list[Way]:
    """Return the ways that ask for no more than another does, in their order; of equal ones the first.

    Each way kept is filed under the rarest thing it asks for, so that a way is compared only with the few ways filed
    under what it asks for itself: a queue can have a hundred thousand ways, each with a key of its own.
    """
    asked = {way: _asked_of(way) for way in dict.fromkeys(ways)}
    uses = Counter(chain.from_iterable(asked.values()))
    filed: dict[Condition | str | None, list[frozenset[Condition | str]]] = {}
    kept: set[Way] = set()
    for way in sorted(asked, key=lambda way: len(asked[way])):  # stable; what a way asks for less than another is first
        wanted = asked[way]
        if any(other <= wanted for name in (None, *wanted) for other in filed.get(name, ())):
            continue
        kept.add(way)
        filed.setdefault(min(wanted, key=uses.__getitem__, default=None), []).append(wanted)
    return [way for way in asked if way in kept]


def _asked_of(way: Way) -> frozenset[Condition | str]:
    """Return what a way asks for: conditions to match, and names of exchanges of which no binding may match."""
    return frozenset((*way.matching, *way.unmatched))


def _says(narrow: Way, wide: Way) -> bool:
    return set(wide.matching) <= set(narrow.matching) and set(wide.unmatched) <= set(narrow.unmatched)
