"""The shortest key that all of some patterns match and none of others: one search under every question of the algebra.

The search builds a key word by word. The patterns that must match are the walkers: each stands at a place in its words,
and a word of the key lets it stay, if it stands at a MANY, or go on to its next place. The patterns that must not match
are the watchers: one integer has a bit for each place where one of them could be, and a word shifts these bits. Four
facts keep the search small, and none changes the answer:

* Where no walker stands before a literal word, a fresh word, which no pattern names, is the best choice: fewer watchers
  match it than any other word. So the search tries only the words that walkers stand before and a fresh word, however
  large the vocabulary is.
* Hence a watcher that names a word which no walker names never matches, and is left out.
* Once a watcher stands at a final MANY, it matches whatever follows, so the search goes no further from there.
* If two word sequences bring the walkers to the same places, and the second has its watchers at all the places where
  the first has them, the second is needless: the words that complete the second to a key complete the first, too.

A key has a limited length, so not every sequence of words is a key. The search minimises the number of words first,
since those keys read best; only if the result is too long, it minimises the bytes, and so finds a key if there is one.
The worst patterns need exponentially many steps, so a search has a budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain, count, product
from string import ascii_lowercase, ascii_uppercase
from typing import Final, TypeAlias

from exchange.patterns.pattern import AMQP, MANY, MQTT, NATS, ONE, Dialect, Pattern, Word, normalise_wildcards

Words: TypeAlias = tuple[Word, ...]

NO_KEYS: Final[dict[str, tuple[Words, ...]]] = {AMQP.name: (("",),), MQTT.name: ((), ("",)), NATS.name: ((),)}
"""Dialect -> the word sequences that are no key. In AMQP the key ``""`` has no words, so one empty word is no key; the
empty text is neither an MQTT topic nor a NATS subject."""

SHORTEST: Final[dict[str, tuple[str, ...]]] = {AMQP.name: ("",), MQTT.name: ("", "$"), NATS.name: ()}
"""Dialect -> the words that are shorter than a fresh one; in MQTT also than one that begins with ``$``."""


class OutOfBudget(Exception):
    """Raised where a search has used up its budget; the question stays undecided."""


class Deadline:
    """A moment after which searches stop: ``seconds`` from now, or never if None."""

    __slots__ = ("_clock", "_end")

    def __init__(self, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = None if seconds is None else clock() + seconds

    def share(self, parts: int) -> Deadline:
        """Return a deadline after the time left divided by ``parts``, so that later searches have time, too."""
        if self._end is None:
            return self
        return Deadline(max(0.0, self._end - self._clock()) / parts, self._clock)

    def has_passed(self) -> bool:
        """Return whether the deadline has passed."""
        return self._end is not None and self._clock() >= self._end


LOOK_EVERY: Final = 1_000
"""Number of steps between two looks at the clock: at most some milliseconds."""


class Budget:
    """The number of steps that searches may still take.

    A step reaches a state, which takes about 5 microseconds, or compares two states, which takes 0.1. A budget with a
    deadline is used up when the deadline passes, however many steps are left.
    """

    __slots__ = ("_deadline", "_look_below", "left")

    def __init__(self, steps: int, deadline: Deadline | None = None) -> None:
        self.left = steps
        self._deadline = deadline
        # The clock is read only when ``left`` falls below this; without a deadline, only the steps count.
        self._look_below = 0 if deadline is None else steps

    def spend(self, steps: int) -> None:
        """Take a number of steps from the budget. Raises OutOfBudget if it has fewer, or if its deadline has passed."""
        self.left -= steps
        if self.left < self._look_below:
            self._look()

    def _look(self) -> None:
        if self.left < 0 or (self._deadline is not None and self._deadline.has_passed()):
            raise OutOfBudget
        self._look_below = max(0, self.left - LOOK_EVERY)


def find_shortest_key(
    dialect: Dialect,
    all_of: Sequence[Pattern],
    none_of: Collection[Pattern],
    budget: Budget,
    taken: Collection[str] = (),
) -> str | None:
    """Return a key that all of ``all_of`` match and none of ``none_of``; None when there is none.

    It has as few words as possible; where that is more bytes than the dialect allows, it has as few bytes as possible.
    Where any word would do, it has ``x`` or another word that is neither in ``taken`` nor in a pattern. Raises
    OutOfBudget.
    """
    walkers = [_places(pattern.words) for pattern in all_of]
    named = {word for pattern in all_of for word in pattern.words if isinstance(word, str)}
    watchers = [(words, {word for word in words if isinstance(word, str)}) for words in _words(dialect, none_of)]
    fresh = find_fresh_word(taken, named.union(*(literals for _, literals in watchers)))
    tried = (fresh, "$" + fresh) if dialect is MQTT else (fresh,)

    def search(tried: tuple[str, ...], cost: Callable[[str], int], most: int | None) -> list[str] | None:
        possible = named.union(tried)
        return _crawl(
            walkers,
            PatternAutomaton(words for words, literals in watchers if literals <= possible),
            tried,
            cost,
            most,
            budget,
        )

    words = search(tried, _few_words, None)
    # _size counts a separator for each word, which is one more than the key has: hence the 1 here. A total cost below
    # ``(max_bytes + 2) * LEAD`` is one of at most ``max_bytes + 1`` bytes, however many words there are.
    if words is not None and sum(map(_size, words)) > dialect.max_bytes + 1:
        words = search(tried + SHORTEST[dialect.name], _few_bytes, (dialect.max_bytes + 2) * LEAD - 1)
        if words is None and len(fresh) > 1:
            raise OutOfBudget  # a fresh word of one byte might have made a key
    return None if words is None else dialect.separator.join(words)


def _words(dialect: Dialect, patterns: Iterable[Pattern]) -> Iterator[Words]:
    yield from NO_KEYS[dialect.name]
    for pattern in patterns:
        yield pattern.words


def find_fresh_word(*vocabularies: Collection[str]) -> str:
    """Return a short word that is in none of these vocabularies, neither as it is nor with a ``$`` before it."""
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
"""Greater than the number of words or bytes of any key. A cost is the primary number (words or bytes) times this, plus
the secondary one."""


def _few_words(word: str) -> int:
    return LEAD + _size(word)


def _few_bytes(word: str) -> int:
    return _size(word) * LEAD + 1


Place: TypeAlias = tuple[bool, Word | None]
"""A place in a pattern: whether a MANY stands here, and the next word after it; None at the end of the pattern."""


def _places(words: Words) -> list[Place]:
    places: list[Place] = []
    stays = False
    for word in normalise_wildcards(words):
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
    """An automaton of all patterns at once: a state is an integer with a bit for each place where a pattern may be.

    The places of a pattern are adjacent bits, and so are the patterns. No word fits at the end of a pattern, so a shift
    never carries a bit from one pattern into the next.
    """

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
        self.everything = self.ends & self._stays  # at a final MANY: the pattern matches whatever follows

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
    """Return the words of least total cost that bring all walkers and no watcher to an end; None if there are none.

    Words that cost more than ``most`` do not count; None for no limit. Best first: the heap gives the cheapest state,
    so the first end reached is a cheapest one. A state is skipped if the walkers were at the same places before, and
    the watchers at a subset of the places where they are now: what leads from here to the end led there, too.
    """
    if watch.start & watch.everything:
        return None
    goal = tuple(len(walker) - 1 for walker in walkers)
    costs = {word: cost(word) for word in tried}
    visited: dict[tuple[int, ...], list[int]] = {}
    paths: list[tuple[int, str]] = []  # each: the index of the path that it extends (-1: the start), and one more word
    heap = [(0, -1, (0,) * len(walkers), watch.start)]  # cost, index of the path, places of walkers, state of watchers
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
            # For each walker the places to which the word may bring it: it stays at a MANY, goes on if the word fits.
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
