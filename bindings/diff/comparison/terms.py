"""Which messages a queue gains or loses, said in patterns.

The messages gained are those of the changed ways of one side but for those of the other side's ways. Invariant: terms
that are exact say all that is gained or lost and nothing else; where that would take too many words, they only say
within which patterns it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bindings.analysis.crawl import Budget, Deadline, OutOfBudget
from bindings.diff.comparison.reach import Ways
from bindings.diff.comparison.routes import Way, from_exchange, implied, widest
from bindings.diff.comparison.search import Demand, shortest_probe

__all__ = ["Term", "terms"]

STEPS: Final = 20_000
"""What finding the words for one change may cost."""
FEW: Final = 8
"""So many ways are still said."""


class Term(NamedTuple):
    """Messages that go a way of one side and none of some ways of the other side."""

    way: Way
    unless: tuple[Way, ...] = ()
    exact: bool = True
    """Whether all such messages are meant; else only some of those that go the way."""


def terms(
    entry: str, ways: Ways, others: Ways | None, changed: Sequence[Way], deadline: Deadline | None = None
) -> tuple[Term, ...]:
    """The messages published to ``entry`` that go a changed way, and by ``others`` do not get to the end.

    ``ways`` are those of the side of the changed ones. The terms are exact or none of them is; after the deadline,
    none is.
    """
    changed = widest(changed)
    budget = Budget(STEPS, deadline)
    try:
        if len(changed) <= FEW:
            said = [_term(entry, ways, others, way, budget) for way in changed]
            return tuple(term for term in said if term is not None)
    except OutOfBudget:
        pass
    return tuple(Term(way, exact=False) for way in changed)


def _term(entry: str, ways: Ways, others: Ways | None, way: Way, budget: Budget) -> Term | None:
    unless: list[Way] = []
    for other in () if others is None else from_exchange(others, entry, Way(way.matching), budget):
        rest = tuple(condition for condition in other.matching if not implied(condition, way.matching))
        unless.append(Way(rest, other.unmatched))
    unless = widest(unless)
    if len(unless) > FEW:
        raise OutOfBudget
    if Way() in unless:
        return None
    not_these = tuple(other.matching[0] for other in unless if len(other.matching) == 1 and not other.unmatched)
    if shortest_probe(Demand(way.matching, not_these), ways.side.topology.profile, budget) is None:
        return None
    return Term(way, tuple(unless))
