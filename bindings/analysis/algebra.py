"""How patterns relate: which keys they share, whether one covers others, which keys are left over.

Every question comes down to emptiness: is there a key that all of these patterns match and none of those? Invariant:
an answer is proved for all keys that a client can send to a broker, and comes with a shortest key as its witness where
a key can show it. A question that needs more steps than allowed is undecided, never guessed. For many patterns at once
see `bindings.analysis.pattern_set.PatternSet`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, NoReturn, TypeAlias

from bindings.analysis.crawl import Budget, OutOfBudget, shortest_key
from exchange.patterns.pattern import AMQP, MANY, Dialect, Pattern, Word

__all__ = ["STEPS", "Answer", "Patterns", "covers", "dialect_of", "empty", "equivalent", "exhaustive", "overlap"]

STEPS: Final = 100_000
"""Default maximum number of steps for a question: half a second; most questions take 50 microseconds."""


class Answer(NamedTuple):
    """The answer to a question: whether it holds (None: undecided), and the shortest key that proves or refutes it.

    The shortest key has the fewest words, or the fewest bytes where the key of fewest words would be too long. An
    answer has no truth value, since it may be undecided, and the witness ``""`` is a key like any other: compare
    ``holds`` and ``witness`` with None.
    """

    holds: bool | None
    witness: str | None = None

    def __bool__(self) -> NoReturn:
        raise TypeError("an answer can be undecided: ask for .holds or .witness")


UNDECIDED: Final = Answer(None)


Patterns: TypeAlias = Pattern | Iterable[Pattern]
"""One pattern, or the union of several: a key matches the union if it matches any of them."""


def overlap(one: Pattern, other: Pattern, *, steps: int = STEPS) -> Answer:
    """Return whether some key matches both patterns; the witness is such a key.

    >>> overlap(Pattern("order.*"), Pattern("#.created"))
    Answer(holds=True, witness='order.created')
    """
    dialect_of((one, other))
    if _clash(one.words, other.words) or _clash(one.words[::-1], other.words[::-1]):
        return Answer(False)
    nothing = empty((one, other), steps=steps)
    return nothing if nothing.holds is None else Answer(not nothing.holds, nothing.witness)


def covers(patterns: Patterns, pattern: Pattern, *, steps: int = STEPS) -> Answer:
    """Return whether every key of ``pattern`` is a key of ``patterns``; the witness is a key that is not.

    >>> covers([Pattern("order"), Pattern("order.*.#")], Pattern("order.#"))
    Answer(holds=True, witness=None)
    >>> covers([Pattern("order"), Pattern("order.*")], Pattern("order.#"))
    Answer(holds=False, witness='order.x.x')
    """
    return empty((pattern,), _as_tuple(patterns), steps=steps)


def equivalent(one: Patterns, other: Patterns, *, steps: int = STEPS) -> Answer:
    """Return whether both match the same keys; the witness is a key that only one of them matches.

    Where one of several patterns is undecided and another one gives a witness, a shorter witness may exist.

    >>> equivalent(Pattern("#.*"), Pattern("*.#"))
    Answer(holds=True, witness=None)
    """
    ones, others = _as_tuple(one), _as_tuple(other)
    answers = [covers(others, pattern, steps=steps) for pattern in ones]
    answers += [covers(ones, pattern, steps=steps) for pattern in others]
    witnesses = [answer.witness for answer in answers if answer.witness is not None]
    if witnesses:
        split = (*ones, *others)[0].dialect.split
        return Answer(False, min(witnesses, key=lambda key: (len(split(key)), len(key))))
    return UNDECIDED if any(answer.holds is None for answer in answers) else Answer(True)


def exhaustive(patterns: Patterns, *, steps: int = STEPS) -> Answer:
    """Return whether ``patterns`` match every key; the witness is a key that they do not match.

    >>> exhaustive([Pattern("*"), Pattern("*.*.#")])
    Answer(holds=False, witness='')
    """
    return empty((), _as_tuple(patterns), steps=steps)


def empty(all_of: Iterable[Pattern], none_of: Iterable[Pattern] = (), *, steps: int = STEPS) -> Answer:
    """Return whether no key matches all of ``all_of`` and none of ``none_of``; the witness is a key that does.

    Raises ValueError if the patterns are of different dialects.
    """
    all_of, none_of = tuple(all_of), tuple(none_of)
    try:
        witness = shortest_key(dialect_of((*all_of, *none_of)), all_of, none_of, Budget(steps))
    except OutOfBudget:
        return UNDECIDED
    return Answer(witness is None, witness)


def dialect_of(patterns: Iterable[Pattern]) -> Dialect:
    """Return the dialect of all patterns, AMQP if there are none. Raises ValueError if they have different ones."""
    dialect: Dialect | None = None
    for pattern in patterns:
        if dialect is None:
            dialect = pattern.dialect
        elif pattern.dialect is not dialect:
            raise ValueError(f"patterns in {dialect.name} and {pattern.dialect.name}: see Pattern.to")
    return dialect or AMQP


def _as_tuple(patterns: Patterns) -> tuple[Pattern, ...]:
    return (patterns,) if isinstance(patterns, Pattern) else tuple(patterns)


def _clash(one: Sequence[Word], other: Sequence[Word]) -> bool:
    """Return whether two literal words differ before any MANY: a quick test that settles most disjoint pairs."""
    for a, b in zip(one, other, strict=False):
        if a is MANY or b is MANY:
            return False
        if a != b and isinstance(a, str) and isinstance(b, str):
            return True
    return False
