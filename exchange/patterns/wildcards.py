"""Patterns with wildcards, indexed for the keys of one length.

For keys of n words, a pattern without ``MANY`` is a conjunction: it requires certain words at certain positions. A
pattern with a single ``MANY`` is a conjunction, too, since n determines how many words the ``MANY`` stands for. With
several ``MANY``, each placement of the parts between them is a conjunction, and short keys allow few placements. All
these conjunctions are in a `Conjunctions`. A pattern with too many placements is listed under one of its inner words,
and compared with the keys that have this word: part by part, each at the first position where it fits. This needs no
backtracking.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from typing import Final, Generic, TypeVar

from exchange.patterns.conjunctions import PRESENT, WIDTH, Block, Conditions, Conjunctions
from exchange.patterns.pattern import MANY, Wildcard, Word

LONGEST: Final = 8
"""Maximum length of keys, in words, that have an index for their own length; one index serves all longer keys."""

PLACEMENTS: Final = 16
"""Maximum number of placements of a pattern in keys of one length; others are compared with keys, part by part."""

V = TypeVar("V", bound=Hashable)


class Wild(dict[V, None]):
    """A pattern with wildcards: a ``head``, then, each after a ``MANY``, ``inner`` parts and a ``tail``.

    ``words`` are in the order of `normalise_wildcards`, so each inner part begins with a literal. ``least`` is the
    minimum number of words of a key that matches; ``open`` is whether there is a ``MANY``, so that longer keys may
    match. Without it, all words are in the head.

    It is a dict whose keys are the values bound under it, so that the values of several patterns are joined at the
    speed of C. Compared by identity: two patterns that match the same keys are still bound and unbound separately.
    """

    __slots__ = ("head", "inner", "least", "open", "tail", "words")

    __hash__ = object.__hash__  # type: ignore[assignment]  # a dict has none
    __eq__ = object.__eq__
    __ne__ = object.__ne__

    def __init__(self, words: tuple[Word, ...]) -> None:
        super().__init__()
        parts: list[tuple[Word, ...]] = []
        start = 0
        ends = [place for place, word in enumerate(words) if word is MANY] if MANY in words else []
        for end in [*ends, len(words)]:
            parts.append(words[start:end])
            start = end + 1
        self.words = words
        self.head = parts[0]
        self.inner = tuple(parts[1:-1])
        self.open = len(parts) > 1
        self.tail = parts[-1] if self.open else ()
        self.least = len(words) - len(parts) + 1

    @property
    def literals(self) -> set[str]:
        """Literal words of the pattern."""
        return {word for word in self.words if isinstance(word, str)}

    def fits(self, length: int | None) -> bool:
        """Return whether the length allows keys to match; None stands for any length above ``LONGEST``."""
        if length is None:
            return self.open or self.least > LONGEST
        return self.least <= length if self.open else self.least == length

    def conjunctions(self, length: int, most: int = PLACEMENTS) -> list[Conditions] | None:
        """Return the placements in keys of this length as conjunctions; None if there are more than ``most``.

        A key of this length matches if it satisfies one of them. The pattern must fit the length.
        """
        spare = length - self.least
        ends = [*enumerate(self.head), *enumerate(self.tail, length - len(self.tail))]
        if not self.inner:
            return [_literal(ends)]
        conjunctions: list[Conditions] = []
        for places in _placements(self.inner, len(self.head), spare):
            if len(conjunctions) == most:
                return None
            inner = chain.from_iterable(enumerate(part, at) for part, at in zip(self.inner, places, strict=True))
            conjunctions.append(_literal([*ends, *inner]))
        return list(dict.fromkeys(conjunctions))

    def conjunctions_when_longer(self) -> list[Conditions] | None:
        """Return the same for all keys of more than ``LONGEST`` words.

        Positions in the tail count backwards from the end of the key, from -1 on.
        """
        if self.inner:
            return None
        conditions = _literal([*enumerate(self.head), *enumerate(self.tail, -len(self.tail))])
        if not self.open:
            return [(*conditions, ("length", self.least))]
        if self.least > LONGEST and self.least - 1 not in dict(conditions):
            return [(*conditions, (self.least - 1, PRESENT))]  # the key has at least ``least`` words
        return [conditions]

    def matches(self, words: Sequence[str]) -> bool:
        """Return whether a key of these words matches a pattern with ``MANY``. Time: (pattern's words) x (key's words).

        Each inner part is placed at the first position where it fits. That is right, because what follows a ``MANY``
        can be anywhere behind it: an earlier position never excludes a match.
        """
        at, end = len(self.head), len(words) - len(self.tail)
        if at > end or not _fits(self.head, words, 0) or not _fits(self.tail, words, end):
            return False
        try:
            for part in self.inner:
                last = max(end - len(part) + 1, 0)  # not negative: list.index would count that from the end
                at = words.index(part[0], at, last)  # a part begins with a literal: see `normalise_wildcards`
                while len(part) > 1 and not _fits(part, words, at):
                    at = words.index(part[0], at + 1, last)
                at += len(part)
        except ValueError:
            return False
        return True


class WildIndex(Generic[V]):
    """The patterns with wildcards that keys of ``length`` words can match; None stands for all above ``LONGEST``.

    Only patterns that fit the length may be added. ``answers`` is the maximum number of answers kept.
    """

    def __init__(self, length: int | None, *, answers: int) -> None:
        self._length: Final = length
        self._conjunctions: Final[Conjunctions[Wild[V]]] = Conjunctions(answers=answers)
        self._compared: dict[str, dict[Wild[V], None]] = {}  # inner word -> patterns compared with keys that have it
        self._under: dict[Wild[V], str] = {}  # pattern -> its word in _compared

    def add(self, wild: Wild[V]) -> None:
        """Add a pattern that is not in the index yet."""
        conjunctions = self._list_conjunctions(wild)
        if conjunctions is not None:
            for conditions in conjunctions:
                self._conjunctions.add(conditions, wild)
            return
        inner = {word for part in wild.inner for word in part if isinstance(word, str)}
        # The word with the shortest list, so that a key is compared with few patterns.
        rarest = min(inner, key=lambda word: (len(self._compared.get(word, ())), word))
        self._under[wild] = rarest
        self._compared.setdefault(rarest, {})[wild] = None

    def remove(self, wild: Wild[V]) -> None:
        """Remove a pattern that is in the index."""
        conjunctions = self._list_conjunctions(wild)
        if conjunctions is not None:
            for conditions in conjunctions:
                self._conjunctions.remove(conditions, wild)
            return
        word = self._under.pop(wild)
        del self._compared[word][wild]
        if not self._compared[word]:
            del self._compared[word]

    def search(self, words: list[str]) -> tuple[Wild[V], ...]:
        """Return the patterns that a key of these words matches; a pattern may appear several times."""
        length = len(words)
        if self._length is None:
            features = chain(enumerate(words), enumerate(words, -length), [("length", length)])
            matching = self._conjunctions.search(length, features)
        else:
            matching = self._conjunctions.search(None, enumerate(words))
        if self._compared:
            for word in self._compared.keys() & words:
                matching += tuple([wild for wild in self._compared[word] if wild.matches(words)])
        return matching

    def sole_block(self) -> Block[Wild[V]] | None:
        """Return the one block of conjunctions that decides about all keys; None if a search needs more than that."""
        return None if self._compared or self._length is None else self._conjunctions.sole_block(WIDTH)

    def _list_conjunctions(self, wild: Wild[V]) -> list[Conditions] | None:
        return wild.conjunctions_when_longer() if self._length is None else wild.conjunctions(self._length)


def _literal(places: list[tuple[int, Word]]) -> Conditions:
    return tuple([(place, word) for place, word in places if isinstance(word, str)])


def _placements(parts: Sequence[Sequence[Word]], start: int, spare: int) -> Iterator[tuple[int, ...]]:
    """Yield the positions at which the parts can begin, from ``start`` on, if at most ``spare`` words are skipped."""
    if not parts:
        yield ()
        return
    for skipped in range(spare + 1):
        at = start + skipped
        for rest in _placements(parts[1:], at + len(parts[0]), spare - skipped):
            yield (at, *rest)


def _fits(part: Sequence[Word], words: Sequence[str], at: int) -> bool:
    for place, word in enumerate(part, at):
        if word != words[place] and not isinstance(word, Wildcard):
            return False
    return True
