"""How a few patterns relate, asked of the search of `bindings.analysis.crawl` alone: the oracle of sets of patterns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from bindings.analysis.crawl import Budget, OutOfBudget, find_shortest_key
from bindings.analysis.pattern_set import MAX_STEPS, UNDECIDED, Answer
from exchange.patterns.pattern import AMQP, Dialect, Pattern

Patterns: TypeAlias = Pattern | Iterable[Pattern]
"""One pattern, or the union of several: a key matches the union if it matches any of them."""


def overlap(one: Pattern, other: Pattern, *, steps: int = MAX_STEPS) -> Answer:
    """Return whether some key matches both patterns; the witness is such a key.

    >>> overlap(Pattern("order.*"), Pattern("#.created"))
    Answer(holds=True, witness='order.created')
    """
    nothing = empty((one, other), steps=steps)
    return nothing if nothing.holds is None else Answer(not nothing.holds, nothing.witness)


def covers(patterns: Patterns, pattern: Pattern, *, steps: int = MAX_STEPS) -> Answer:
    """Return whether every key of ``pattern`` is a key of ``patterns``; the witness is a key that is not.

    >>> covers([Pattern("order"), Pattern("order.*")], Pattern("order.#"))
    Answer(holds=False, witness='order.x.x')
    """
    return empty((pattern,), (patterns,) if isinstance(patterns, Pattern) else patterns, steps=steps)


def empty(all_of: Iterable[Pattern], none_of: Iterable[Pattern] = (), *, steps: int = MAX_STEPS) -> Answer:
    """Return whether no key matches all of ``all_of`` and none of ``none_of``; the witness is a key that does."""
    all_of, none_of = tuple(all_of), tuple(none_of)
    dialects: set[Dialect] = {pattern.dialect for pattern in (*all_of, *none_of)} or {AMQP}
    (dialect,) = dialects
    try:
        witness = find_shortest_key(dialect, all_of, none_of, Budget(steps))
    except OutOfBudget:
        return UNDECIDED
    return Answer(witness is None, witness)
