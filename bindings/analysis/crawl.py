"""The shortest key that all of some patterns match and none of others: one search under every question of the algebra.

The patterns that must match walk: each stands at a place in its words, and every word of the key makes it stay, at a
MANY, or go on. The patterns that must not match watch: all the places where they could be are bits of one integer,
which a word shifts. Four facts keep the search small, and none changes the answer:

* Where walkers name no word, any word that no pattern names will do, since it helps the watchers least. So the only
  words ever tried are those that walkers stand before and a fresh one, however large the vocabulary is.
* Hence a watcher that names a word which no walker names never matches, and is left out.
* Where a watcher stands at a final MANY, whatever follows is matched.
* Of two ways to the same places of the walkers, the second is needless if its watchers are the first's and more.

A key is a text of limited length, so that not every sequence of words is one. The search goes by the number of words,
which finds the keys that read best; only where its find is too long, it goes by bytes, and finds a key if there is one.
The worst patterns need exponentially many steps, so a search has a budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain, count, product
from string import ascii_lowercase, ascii_uppercase
from typing import Final, TypeAlias

from exchange.patterns.pattern import AMQP, MANY, MQTT, NATS, ONE, Dialect, Pattern, Word, ordered

__all__ = ["Budget", "Deadline", "OutOfBudget", "PatternAutomaton", "fresh_word", "shortest_key"]

Words: TypeAlias = tuple[Word, ...]

UNSAYABLE: Final[dict[str, tuple[Words, ...]]] = {AMQP.name: (("",),), MQTT.name: ((), ("",)), NATS.name: ((),)}
"""The sequences of words that no key has: in AMQP ``""`` is no word; elsewhere it is one, and no topic or subject."""

SHORTEST: Final[dict[str, tuple[str, ...]]] = {AMQP.name: ("",), MQTT.name: ("", "$"), NATS.name: ()}
"""The words that are shorter than a fresh one."""


class OutOfBudget(Exception):
    """Raised where a search has used up its budget; the question stays undecided."""


class Deadline:
    """A moment after which searches stop; ``seconds`` from now, None for never."""

    __slots__ = ("_clock", "_end")

    def __init__(self, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = None if seconds is None else clock() + seconds

    def share(self, parts: int) -> Deadline:
        """Return an earlier deadline: a part of the time that is left, so that what comes after has some, too."""
        if self._end is None:
            return self
        return Deadline(max(0.0, self._end - self._clock()) / parts, self._clock)

    def has_passed(self) -> bool:
        """Return whether the moment has come."""
        return self._end is not None and self._clock() >= self._end


LOOK_EVERY: Final = 1_000
"""Number of steps between two looks at the clock: at most some milliseconds."""


class Budget:
    """The number of steps that searches may still take; a step reaches a state or compares two: 5 or 0.1 microseconds.

    A budget with a deadline ends with it, whatever is left.
    """

    __slots__ = ("_deadline", "_look_below", "left")

    def __init__(self, steps: int, deadline: Deadline | None = None) -> None:
        self.left = steps
        self._deadline = deadline
        self._look_below = 0 if deadline is None else steps

    def spend(self, steps: int) -> None:
        """Take a number of steps from the budget. Raises OutOfBudget."""
        self.left -= steps
        if self.left < self._look_below:
            self._look()

    def _look(self) -> None:
        if self.left < 0 or (self._deadline is not None and self._deadline.has_passed()):
            raise OutOfBudget
        self._look_below = max(0, self.left - LOOK_EVERY)


def shortest_key(
    dialect: Dialect,
    all_of: Sequence[Pattern],
    none_of: Collection[Pattern],
    budget: Budget,
    taken: Collection[str] = (),
) -> str | None:
    """Return a key that all of ``all_of`` match and none of ``none_of``; None when there is none.

    It has as few words as possible; where that is more bytes than the dialect allows, it has as few bytes as possible.
    A word that does not matter is ``x`` or another that is neither in ``taken`` nor in a pattern. Raises OutOfBudget.
    """
    walkers = [_places(pattern.words) for pattern in all_of]
    named = {word for pattern in all_of for word in pattern.words if isinstance(word, str)}
    watchers = [(words, {word for word in words if isinstance(word, str)}) for words in _words(dialect, none_of)]
    fresh = fresh_word(taken, named.union(*(literals for _, literals in watchers)))
    tried = (fresh, "$" + fresh) if dialect is MQTT else (fresh,)

    def search(tried: tuple[str, ...], cost: Callable[[str], int], most: int | None) -> list[str] | None:
        sayable = named.union(tried)
        return _crawl(
            walkers,
            PatternAutomaton(words for words, literals in watchers if literals <= sayable),
            tried,
            cost,
            most,
            budget,
        )

    words = search(tried, _few_words, None)
    if words is not None and sum(map(_size, words)) > dialect.max_bytes + 1:
        words = search(tried + SHORTEST[dialect.name], _few_bytes, (dialect.max_bytes + 2) * LEAD - 1)
        if words is None and len(fresh) > 1:
            raise OutOfBudget  # there may be a word of one byte that would have done
    return None if words is None else dialect.separator.join(words)


def _words(dialect: Dialect, patterns: Iterable[Pattern]) -> Iterator[Words]:
    yield from UNSAYABLE[dialect.name]
    for pattern in patterns:
        yield pattern.words


def fresh_word(*vocabularies: Collection[str]) -> str:
    """Return a short word that is in none of these, neither alone nor with a ``$`` before it."""
    letters = ascii_lowercase[-3:] + ascii_lowercase[:-3] + ascii_uppercase
    return next(
        word
        for word in chain(letters, map("x{}".format, count(1)))
        if not any(word in vocabulary or "$" + word in vocabulary for vocabulary in vocabularies)
    )


def _size(word: str) -> int:
    """Return the number of bytes that a word takes in a key, with a separator."""
    return len(word.encode("utf-8", "surrogatepass")) + 1


LEAD: Final = 1 << 20
"""More than the words or bytes of any key. The cost that counts first is multiplied by it, the second one added."""


def _few_words(word: str) -> int:
    return LEAD + _size(word)


def _few_bytes(word: str) -> int:
    return _size(word) * LEAD + 1


Place: TypeAlias = tuple[bool, Word | None]
"""A position in a pattern: whether any words may come here first, and the next word of the pattern; None at its end."""


def _places(words: Words) -> list[Place]:
    places: list[Place] = []
    stays = False
    for word in ordered(words):
        if word is MANY:
            stays = True
        else:
            places.append((stays, word))
            stays = False
    return [*places, (stays, None)]


def _fits(word: Word | None, key_word: str) -> bool:
    if isinstance(word, str) or word is None:
        return word == key_word
    return word is ONE or not key_word.startswith("$")


class PatternAutomaton:
    """An automaton of all patterns at once: a state is an integer with a bit for each place where a pattern may be."""

    __slots__ = ("_fitting", "_literal", "_stays", "_wild", "ends", "everything", "start")

    def __init__(self, patterns: Iterable[Words]) -> None:
        self.start = self.ends = self._stays = 0
        self._literal: dict[str, int] = {}
        self._wild: dict[Word, int] = {}
        self._fitting: dict[str, int] = {}
        bit = 1
        for words in patterns:
            self.start |= bit
            for stays, word in _places(words):
                if stays:
                    self._stays |= bit
                if word is None:
                    self.ends |= bit
                elif isinstance(word, str):
                    self._literal[word] = self._literal.get(word, 0) | bit
                else:
                    self._wild[word] = self._wild.get(word, 0) | bit
                bit <<= 1
        self.everything = self.ends & self._stays

    @property
    def literals(self) -> Collection[str]:
        """The words that patterns name."""
        return self._literal.keys()

    def words_at(self, state: int) -> list[str]:
        """Return the words that some pattern waits for in a state."""
        return [word for word, places in self._literal.items() if places & state]

    def after(self, state: int, word: str) -> int:
        """Return the state after one more word."""
        fitting = self._fitting.get(word)
        if fitting is None:
            fitting = self._literal.get(word, 0)
            for wildcard, places in self._wild.items():
                if _fits(wildcard, word):
                    fitting |= places
            self._fitting[word] = fitting
        return (state & fitting) << 1 | state & self._stays


def _crawl(
    walkers: Sequence[Sequence[Place]],
    watch: PatternAutomaton,
    tried: tuple[str, ...],
    cost: Callable[[str], int],
    most: int | None,
    budget: Budget,
) -> list[str] | None:
    """Return the words of least total cost, ``most`` or less, that bring all walkers and no watcher to an end.

    Best first: the heap gives the cheapest state, so the first end reached is a cheapest one. A state is skipped where
    the walkers were at the same places before and the watchers then were a subset of those now: whatever wins from
    here would have won from there.
    """
    if watch.start & watch.everything:
        return None
    goal = tuple(len(walker) - 1 for walker in walkers)
    costs = {word: cost(word) for word in tried}
    visited: dict[tuple[int, ...], list[int]] = {}
    paths: list[tuple[int, str]] = []  # each the number of the path it goes on from, and a word
    heap = [(0, -1, (0,) * len(walkers), watch.start)]
    while heap:
        spent, path, places, watched = heappop(heap)
        rivals = visited.setdefault(places, [])
        budget.spend(1 + len(rivals))
        if any(rival & watched == rival for rival in rivals):
            continue
        rivals.append(watched)
        if places == goal and not watched & watch.ends:
            return _path(paths, path)
        before = [walker[place] for walker, place in zip(walkers, places, strict=True)]
        for word in dict.fromkeys(chain(tried, (word for _, word in before if isinstance(word, str)))):
            moves = [
                (place,) * stays + (place + 1,) * _fits(wanted, word)
                for place, (stays, wanted) in zip(places, before, strict=True)
            ]
            if not all(moves):
                continue
            after = watch.after(watched, word)
            if after & watch.everything:
                continue
            if word not in costs:
                costs[word] = cost(word)
            total = spent + costs[word]
            if most is not None and total > most:
                continue
            paths.append((path, word))
            for nexts in product(*moves):
                budget.spend(1)
                heappush(heap, (total, len(paths) - 1, nexts, after))
    return None


def _path(paths: Sequence[tuple[int, str]], path: int) -> list[str]:
    words: list[str] = []
    while path >= 0:
        path, word = paths[path]
        words.append(word)
    return words[::-1]
