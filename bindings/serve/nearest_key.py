"""The key nearest to a given one that all of some patterns match, and none of others.

Dijkstra's algorithm over pairs of a position in the given key and the places where each pattern may be: each step
keeps, replaces, removes or adds a word. So the result is a nearest key, and if none is found, there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple, TypeAlias

from bindings.analysis.crawl import Budget, fresh_word
from exchange.limits import SHORTSTR_BYTES
from exchange.patterns.pattern import AMQP, MANY, ONE, Pattern, Word
from exchange.values.field_values import to_bytes

__all__ = ["NearKey", "nearest_key"]

RECASE: Final = 30
"""Cost of writing a word with other capitals."""
REPLACE: Final = 100
"""Cost of replacing a word by another one, which is preferred to adding a word, and that to removing one."""
ADD: Final = 101
REMOVE: Final = 102

Places: TypeAlias = frozenset[int]
"""The places in the words of a pattern where a reader of it can be: after its last word it has matched."""


class NearKey(NamedTuple):
    """A key, and what it takes to get there from the given one."""

    cost: int
    """The sum of the costs of the words that are changed; 0 if it is the given key."""
    key: str


def nearest_key(key: str, all_of: Sequence[Pattern], none_of: Collection[Pattern], budget: Budget) -> NearKey | None:
    """Return a nearest AMQP key; None when no key matches all of ``all_of`` and none of ``none_of``.

    A word that a pattern leaves open is ``x`` or another word that no pattern names. Raises OutOfBudget.
    """  # fmt: skip
    words = AMQP.split(key)
    patterns = [pattern.words for pattern in (*all_of, *none_of)]
    wanted = len(all_of)
    named = {word for pattern in patterns for word in pattern if isinstance(word, str)}
    fresh = fresh_word(named, words)
    order = count()
    start = tuple(_rest(pattern, {0}) for pattern in patterns)
    # cost, tie, words of the given key that are done, places, the new key so far
    heap: list[tuple[int, int, int, tuple[Places, ...], tuple[str, ...]]] = [(0, next(order), 0, start, ())]
    done: set[tuple[int, tuple[Places, ...], bool]] = set()
    while heap:
        cost, _, at, places, new = heappop(heap)
        # The key "" has no words, so one empty word is no key: that the words so far are this one is part of the state.
        state = at, places, new == ("",)
        if state in done:
            continue
        done.add(state)
        budget.spend(1 + len(patterns))
        if at == len(words) and new != ("",) and _fits(patterns, places, wanted):
            text = ".".join(new)
            if len(to_bytes(text)) <= SHORTSTR_BYTES:
                return NearKey(cost, text)
        for more, ahead, word in _steps(words, at, _useful(patterns[:wanted], places, fresh)):
            after = places if word is None else tuple(map(_step, patterns, places, [word] * len(patterns)))
            if all(after[:wanted]):
                heappush(heap, (cost + more, next(order), ahead, after, new if word is None else (*new, word)))
    return None


def _steps(words: Sequence[str], at: int, useful: Collection[str]) -> Iterator[tuple[int, int, str | None]]:
    """Yield cost, words of the given key done afterwards, and the next word of the new key; None for no word."""
    if at < len(words):
        here = words[at]
        yield 0, at + 1, here
        yield REMOVE, at + 1, None
        for word in useful:
            if word != here:
                yield RECASE if word.lower() == here.lower() else REPLACE, at + 1, word
    for word in useful:
        yield ADD, at, word


def _useful(patterns: Sequence[Sequence[Word]], places: Sequence[Places], fresh: str) -> dict[str, None]:
    """Return the words worth trying: those that a pattern names next, and one that no pattern names."""
    nexts = {
        word: None
        for pattern, at in zip(patterns, places, strict=False)
        for place in sorted(at)
        if place < len(pattern) and isinstance(word := pattern[place], str)
    }
    return {**nexts, fresh: None}


def _fits(patterns: Sequence[Sequence[Word]], places: Sequence[Places], wanted: int) -> bool:
    return all(
        (len(pattern) in at) is (number < wanted)
        for number, (pattern, at) in enumerate(zip(patterns, places, strict=True))
    )


def _step(pattern: Sequence[Word], places: Places, word: str) -> Places:
    """Return the places after one more word."""
    reached = set()
    for place in places:
        if place < len(pattern):
            part = pattern[place]
            if part is MANY:
                reached.add(place)
            elif part is ONE or part == word:
                reached.add(place + 1)
    return _rest(pattern, reached)


def _rest(pattern: Sequence[Word], places: Collection[int]) -> Places:
    """Return the places, and those that are reached from there without a word: a MANY matches none, too."""
    reached = set(places)
    for place in places:
        at = place
        while at < len(pattern) and pattern[at] is MANY:
            at += 1
            reached.add(at)
    return frozenset(reached)
