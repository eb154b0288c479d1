"""Describe the messages that a queue gains or loses by patterns.

The messages gained are those that take the changed paths of one side, without those that take a path of the other side.
Invariant: exact terms describe all that is gained or lost and nothing else; where that would take too many patterns,
the terms only bound it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bindings.analysis.crawl import Budget, Deadline, OutOfBudget
from bindings.diffing.comparison.paths import PathConditions, find_paths, is_implied, keep_widest
from bindings.diffing.comparison.search import Demand, find_shortest_probe
from bindings.diffing.comparison.sides import Ways

MAX_STEPS: Final = 20_000
"""Maximum cost of describing one change."""
MAX_EXACT_PATHS: Final = 8
"""Maximum number of paths in an exact description."""


class Term(NamedTuple):
    """Messages that take a path of one side and none of some paths of the other side."""

    path: PathConditions
    unless: tuple[PathConditions, ...] = ()
    exact: bool = True
    """Whether all such messages are meant; else only some of those that take the path."""


def describe(
    entry: str, ways: Ways, others: Ways | None, changed: Sequence[PathConditions], deadline: Deadline | None = None
) -> tuple[Term, ...]:
    """Describe the messages to ``entry`` that take a changed path, and do not get to the end by ``others``.

    ``ways`` are those of the side with the changed paths. Either all terms are exact or none is; after the deadline,
    none is.
    """
    changed = keep_widest(changed)
    budget = Budget(MAX_STEPS, deadline)
    try:
        if len(changed) <= MAX_EXACT_PATHS:
            terms = [_term(entry, ways, others, path, budget) for path in changed]
            return tuple(term for term in terms if term is not None)
    except OutOfBudget:
        pass
    return tuple(Term(path, exact=False) for path in changed)


def _term(entry: str, ways: Ways, others: Ways | None, path: PathConditions, budget: Budget) -> Term | None:
    """Return the term of a path; None if each message that takes the path gets to the end on the other side, too."""
    unless: list[PathConditions] = []
    for other in () if others is None else find_paths(others, entry, PathConditions(path.matching), budget):
        rest = tuple(condition for condition in other.matching if not is_implied(condition, path.matching))
        unless.append(PathConditions(rest, other.unmatched))
    unless = keep_widest(unless)
    if len(unless) > MAX_EXACT_PATHS:
        raise OutOfBudget
    if PathConditions() in unless:  # a path of the other side that requires nothing more
        return None
    not_these = tuple(other.matching[0] for other in unless if len(other.matching) == 1 and not other.unmatched)
    if find_shortest_probe(Demand(path.matching, not_these), budget) is None:
        return None
    return Term(path, tuple(unless))
