"""Many patterns as one set: does it cover a pattern, which of them do, and which are redundant?

Every question comes down to emptiness: is there a key that all of these patterns match and none of those? Invariant:
an answer is proved for all keys that a client can send to a broker, and comes with a shortest key as its witness where
a key can show it. A question that needs more steps than allowed is undecided, never guessed.

A set never looks at all its patterns. A `Matcher` holds them, and the search for a key that is not covered starts with
none of them. It finds a shortest key that the patterns in the search do not cover and looks it up in the matcher; a
pattern that matches the key joins the search. It ends when no pattern matches the key, or no key is left. So the cost
of a question depends only on the few patterns that it concerns, and the last key is a shortest one: with fewer
patterns, the shortest uncovered key cannot be longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, NoReturn

from bindings.analysis.crawl import Budget, OutOfBudget, find_fresh_word, find_shortest_key
from exchange.patterns.matcher import Matcher
from exchange.patterns.pattern import AMQP, MANY, Dialect, Pattern, normalise_wildcards

MAX_STEPS: Final = 100_000
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


class Cover(NamedTuple):
    """Whether patterns together match every key of another (None: undecided), and which; none of these is needless."""

    holds: bool | None
    by: tuple[Pattern, ...] = ()


class PatternSet:
    """A mutable set of patterns of one dialect.

    ``steps`` bounds the cost of a question.
    """

    def __init__(self, patterns: Iterable[Pattern] = (), dialect: Dialect = AMQP, *, steps: int = MAX_STEPS) -> None:
        self.dialect: Final = dialect
        self._steps: Final = steps
        self._matcher: Final[Matcher[Pattern]] = Matcher(dialect, cache=0, distinct=True)
        self._patterns: Final[dict[Pattern, None]] = {}
        self._vocabulary: Final[set[str]] = set()  # the literal words of all patterns that ever were in the set
        for pattern in patterns:
            self.add(pattern)

    def __len__(self) -> int:
        return len(self._patterns)

    def __contains__(self, pattern: Pattern) -> bool:
        return pattern in self._patterns

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self._patterns)

    def add(self, pattern: Pattern) -> None:
        """Add a pattern, if it is not in the set. Raises ValueError if it has another dialect."""
        self._matcher.bind(pattern, pattern)
        self._patterns[pattern] = None
        self._vocabulary.update(word for word in pattern.words if isinstance(word, str))

    def remove(self, pattern: Pattern) -> None:
        """Remove a pattern, which must be in the set."""
        self._matcher.unbind(pattern, pattern)
        del self._patterns[pattern]

    def covers(self, pattern: Pattern | None = None) -> Answer:
        """Return whether the set matches all keys of ``pattern`` (None: all keys); the witness is one it misses."""
        all_of = () if pattern is None else (pattern,)
        joined: list[Pattern] = []
        budget = Budget(self._steps)
        try:
            while True:
                key = find_shortest_key(self.dialect, all_of, joined, budget, self._vocabulary)
                if key is None:
                    return Answer(True)
                matching = self._matcher.match(key)
                if not matching:
                    return Answer(False, key)
                joined.append(min(matching, key=_narrowness))
        except OutOfBudget:
            return UNDECIDED

    def cover(self, pattern: Pattern) -> Cover:
        """Return the patterns of the set, other than ``pattern``, that cover it: a widest one alone, if one can."""
        joined: list[Pattern] = []
        budget = Budget(self._steps)
        key: str | None = self._ordinary_key(pattern)
        try:
            while key is not None:
                matching = sorted((other for other in self._matcher.match(key) if other != pattern), key=_narrowness)
                if not matching:
                    return Cover(False)
                if pattern.literal:
                    return Cover(True, tuple(matching[:1]))
                if not joined:  # a pattern that covers alone matches every key of this one, so also the first
                    for other in matching:
                        if find_shortest_key(self.dialect, (pattern,), (other,), budget) is None:
                            return Cover(True, (other,))
                joined.append(matching[0])
                key = find_shortest_key(self.dialect, (pattern,), joined, budget, self._vocabulary)
            # Leave out what the others cover without it, the narrowest first.
            for other in sorted(joined, key=_narrowness, reverse=True):
                rest = [one for one in joined if one is not other]
                if find_shortest_key(self.dialect, (pattern,), rest, budget) is None:
                    joined = rest
        except OutOfBudget:
            return Cover(None)
        return Cover(True, tuple(joined))

    def _ordinary_key(self, pattern: Pattern) -> str | None:
        """Return a key of the pattern that few others match: fresh words where it has wildcards, one for each."""
        fresh = find_fresh_word(self._vocabulary)
        key = self.dialect.separator.join([word if isinstance(word, str) else fresh for word in pattern.words])
        if len(key.encode("utf-8", "surrogatepass")) > self.dialect.max_bytes:
            return find_shortest_key(self.dialect, (pattern,), (), Budget(self._steps))
        return key


def find_redundant(
    patterns: Iterable[Pattern], dialect: Dialect = AMQP, *, steps: int = MAX_STEPS
) -> Iterator[tuple[Pattern, Cover]]:
    """Yield patterns that can all be removed without losing a key, each with a cover; and those that are undecided.

    A pattern given twice counts once. Of equivalent ones the shortest stays. A cover may have patterns that are
    redundant themselves, since others cover those.
    """
    kept = PatternSet((), dialect, steps=steps)
    for pattern in sorted(dict.fromkeys(patterns), key=_narrowness):
        cover = kept.cover(pattern)
        if cover.holds:
            yield pattern, cover
        else:
            kept.add(pattern)
    # A pattern that no wider ones cover may still be covered by wider and narrower ones together.
    for pattern in sorted(kept, key=_narrowness, reverse=True):
        cover = kept.cover(pattern)
        if cover.holds:
            kept.remove(pattern)
        if cover.holds is not False:
            yield pattern, cover


def _narrowness(pattern: Pattern) -> tuple[int, int, int, int]:
    """Return a sort key that is greater for a pattern than for those that cover it, unless they are equivalent.

    Proof: take a key of the pattern with a fresh word for each ONE and none for a MANY. A pattern that covers this one
    matches the key, so it has no more literal words and requires no more words. If it has as many of both, it has the
    same words at the same positions, and a MANY wherever this one has.
    """
    words = normalise_wildcards(pattern.words)
    single = [word for word in words if word is not MANY]
    many = len(words) - len(single)
    least = len(single)
    if many and single == [""] and pattern.dialect is AMQP:
        least = 2  # one empty word is no key, so that ``#.`` is ``*.#.``
    return sum(isinstance(word, str) for word in single), least, -many, len(pattern.text)
