"""What a message must match to go from an exchange to a destination by one path or another.

To take a path, a message must match each binding on it; where the path leads to an alternate exchange, the message must
match no binding of the exchange that has this alternate. The search follows paths together with what they require. It
gives up a path that no message can take, and one that requires all that another path to the same exchange requires.
Invariant: each message that gets to the end takes one of the paths that are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from bindings.analysis.crawl import Budget, OutOfBudget, find_shortest_key
from bindings.diffing.comparison.changes import Start
from bindings.diffing.comparison.search import Demand, find_shortest_probe
from bindings.diffing.comparison.sides import Ways
from exchange.entities.entities import Destination
from exchange.kinds.condition import ALWAYS, Condition
from exchange.patterns.pattern import AMQP, Pattern

Conditions: TypeAlias = tuple[Condition, ...]

IMPLIED_STEPS: Final = 2_000
"""Maximum cost of deciding whether one condition implies another."""
REMEMBERED: Final = 1 << 18
"""Maximum number of answers that are kept: many paths begin alike."""


class PathConditions(NamedTuple):
    """What a message must match to take a path."""

    matching: tuple[Condition, ...] = ()
    """Conditions that must all hold; none where every message takes the path."""
    unmatched: tuple[str, ...] = ()
    """Exchanges of which no binding may match, so that the message goes to their alternates."""


class _Narrowing:
    """The paths that a search has found to each exchange, without those that require more than another one."""

    def __init__(self, ways: Ways, budget: Budget) -> None:
        self._side = ways.side
        self._budget = budget
        self._known: dict[str, list[PathConditions]] = {}

    def is_new(self, exchange: str, path: PathConditions) -> bool:
        """Return False if a known path to the exchange requires no more than this one; else keep it and return True."""
        known = self._known.setdefault(exchange, [])
        self._budget.spend(1 + len(known))
        if any(_requires(path, other) for other in known):
            return False
        known.append(path)
        return True

    def after(self, path: PathConditions, condition: Condition) -> PathConditions | None:
        """Return the path with one more condition; None when no message can take it."""
        if condition == ALWAYS:
            return path
        matching = self._join(path.matching, condition)
        return None if matching is None else PathConditions(matching, path.unmatched)

    def _join(self, matching: Conditions, condition: Condition) -> Conditions | None:
        """Return the conditions and one more, without those that others imply; None if no message meets them all."""
        asked = matching, condition
        self._budget.spend(1)
        if asked in self._side.joined:
            return self._side.joined[asked]
        self._budget.spend(1 + len(matching))
        result: Conditions | None = matching
        if not is_implied(condition, matching):
            result = (*(other for other in matching if not is_implied(other, (condition,))), condition)
            if len(result) > 1 and find_shortest_probe(Demand(result), self._budget) is None:
                result = None
        if len(self._side.joined) >= REMEMBERED:
            self._side.joined.clear()
        self._side.joined[asked] = result
        return result


def find_paths(ways: Ways, exchange: str, path: PathConditions, budget: Budget) -> list[PathConditions]:
    """Return the paths from an exchange to the end that go on from ``path``. Raises OutOfBudget."""
    return _onwards(ways, [(Destination("exchange", exchange), path)], _Narrowing(ways, budget), budget)


def find_changed_paths(ways: Ways, start: Start, budget: Budget) -> dict[str, list[PathConditions]]:
    """Return exchange -> the paths from it to the end that have the changed leg. Raises OutOfBudget.

    The search goes from the leg to the end first, then from the leg backwards, exchange by exchange.
    """
    first = PathConditions(start.demand.all_of)
    narrowing = _Narrowing(ways, budget)
    if start.condition is None:
        alternate = ways.alternate(start.exchange)
        targets = [] if alternate is None else [Destination("exchange", alternate)]
        first = PathConditions(first.matching, (start.exchange,))
    else:
        edges = ways.branches(start.exchange).near(first.matching)
        targets = [edge.target for edge in edges if edge.condition == start.condition]
    paths: dict[str, list[PathConditions]] = {}
    narrowing_back = _Narrowing(ways, budget)
    pending = [(start.exchange, path) for path in _onwards(ways, [(t, first) for t in targets], narrowing, budget)]
    while pending:
        at, path = pending.pop()
        if not narrowing_back.is_new(at, path):
            continue
        paths.setdefault(at, []).append(path)
        for source, condition in ways.side.into(at):
            longer = narrowing_back.after(path, condition)
            if longer is not None:
                pending.append((source, longer))
        for source in ways.side.alternate_of(at):
            unmatched = path.unmatched if source in path.unmatched else (*path.unmatched, source)
            pending.append((source, PathConditions(path.matching, unmatched)))
    return {at: keep_widest(paths_from) for at, paths_from in paths.items()}


def _onwards(
    ways: Ways, starts: Iterable[tuple[Destination, PathConditions]], narrowing: _Narrowing, budget: Budget
) -> list[PathConditions]:
    """Return the paths to the end that go on from the starts: destinations, each with the path that leads there."""
    paths: list[PathConditions] = []
    pending = list(starts)
    while pending:
        at, path = pending.pop()
        if ways.ends(at) and ways.side.exists(at):
            paths.append(path)
            continue
        if at.kind == "queue" or not narrowing.is_new(at.name, path):
            continue
        branches = ways.branches(at.name)
        budget.spend(1 + len(branches) // 16)
        for edge in branches.near(path.matching):
            longer = narrowing.after(path, edge.condition)
            if longer is not None:
                pending.append((edge.target, longer))
        alternate = ways.alternate(at.name)
        if alternate is not None:
            unmatched = path.unmatched if at.name in path.unmatched else (*path.unmatched, at.name)
            pending.append((Destination("exchange", alternate), PathConditions(path.matching, unmatched)))
    return keep_widest(paths)


def is_implied(condition: Condition, by: Iterable[Condition]) -> bool:
    """Return whether one of the conditions in ``by`` implies the condition."""
    return condition == ALWAYS or any(condition == other or _covers(condition, other) for other in by)


@lru_cache(maxsize=1 << 16)
def _covers(wide: Condition, narrow: Condition) -> bool:
    """Return whether all messages that meet the narrow condition meet the wide one; False where that is too costly."""
    if not isinstance(wide, Pattern) or not isinstance(narrow, Pattern):
        return False
    if narrow.literal:
        return wide.matches(narrow.text)
    if wide.literal:
        return False
    try:
        return find_shortest_key(AMQP, (narrow,), (wide,), Budget(IMPLIED_STEPS)) is None
    except OutOfBudget:
        return False


def keep_widest(paths: Sequence[PathConditions]) -> list[PathConditions]:
    """Return the paths of which no other one requires less, in their order; of equal ones the first.

    Each path kept is filed under the rarest thing it requires, so that a path is compared only with the few paths filed
    under what it requires itself: a queue can have a hundred thousand paths, each with a key of its own.
    """
    required = {path: _requirements(path) for path in dict.fromkeys(paths)}
    uses = Counter(chain.from_iterable(required.values()))
    filed: dict[Condition | str | None, list[frozenset[Condition | str]]] = {}
    kept: set[PathConditions] = set()
    # A path comes after those that require less; the sort is stable, so of equal ones the first stays first.
    for path in sorted(required, key=lambda path: len(required[path])):
        wanted = required[path]
        # A path that requires less is filed under something that this one requires, or under None: it requires nothing.
        if any(other <= wanted for name in (None, *wanted) for other in filed.get(name, ())):
            continue
        kept.add(path)
        filed.setdefault(min(wanted, key=uses.__getitem__, default=None), []).append(wanted)
    return [path for path in required if path in kept]


def _requirements(path: PathConditions) -> frozenset[Condition | str]:
    """Return what a path requires: conditions to match, and names of exchanges of which no binding may match."""
    return frozenset((*path.matching, *path.unmatched))


def _requires(narrow: PathConditions, wide: PathConditions) -> bool:
    return set(wide.matching) <= set(narrow.matching) and set(wide.unmatched) <= set(narrow.unmatched)
