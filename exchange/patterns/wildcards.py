"""Patterns with wildcards, arranged for the keys of one length.

For keys of n words, a pattern without ``MANY`` asks for certain words at certain places, and nothing else; so does one
with a single ``MANY``, whose length is then known. With several, each way to place the parts between them is such a
conjunction, and for short keys there are few. All these go to a `Conjunctions`. What remains, patterns with so many
ways that listing them would not pay, is listed under a word it needs and compared when a key has that word: part by
part, each as early as it can be, which never backtracks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from typing import Final, Generic, TypeVar

from exchange.patterns.conjunctions import PRESENT, Conditions, Conjunctions
from exchange.patterns.pattern import MANY, Wildcard, Word

__all__ = ["LONGEST", "Wild", "WildIndex"]

LONGEST: Final = 8
"""Keys of up to so many words have an index for their very length; one index serves all longer ones."""

PLACEMENTS: Final = 16
"""A pattern with more ways to be placed in a key of one length is compared instead."""

V = TypeVar("V", bound=Hashable)


class Wild(dict[V, None]):
    """A pattern with wildcards: ``head``, then each of ``inner`` and ``tail`` after a ``MANY``. Its keys are the values
    bound under it, so that the values of several patterns are put together at the speed of C.

    Compared by identity, since patterns that match alike are still bound and unbound apart.
    """

    __slots__ = ("head", "inner", "least", "open", "tail", "words")

    __hash__ = object.__hash__  # type: ignore[assignment]  # which a dict has not
    __eq__ = object.__eq__
    __ne__ = object.__ne__

    def __init__(self, words: tuple[Word, ...]) -> None:
        super().__init__()
        parts: list[tuple[Word, ...]] = []
        start = 0
        for end in [*(place for place, word in enumerate(words) if word is MANY), len(words)]:
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
        """The words that it names."""
        return {word for word in self.words if isinstance(word, str)}

    def fits(self, length: int | None) -> bool:
        """Whether keys of this length may match, or for None some above ``LONGEST``: only lengths are compared."""
        if length is None:
            return self.open or self.least > LONGEST
        return self.least <= length if self.open else self.least == length

    def conjunctions(self, length: int) -> list[Conditions] | None:
        """The conjunctions of which a key of this length satisfies one if it matches; None when too many to list.

        The pattern must fit the length.
        """
        spare = length - self.least
        ends = [*enumerate(self.head), *enumerate(self.tail, length - len(self.tail))]
        if not self.inner:
            return [_literal(ends)]
        listed: list[Conditions] = []
        for places in _placements(self.inner, len(self.head), spare):
            if len(listed) == PLACEMENTS:
                return None
            inner = chain.from_iterable(enumerate(part, at) for part, at in zip(self.inner, places, strict=True))
            listed.append(_literal([*ends, *inner]))
        return list(dict.fromkeys(listed))

    def conjunctions_when_longer(self) -> list[Conditions] | None:
        """The same for all keys of more than ``LONGEST`` words: places are counted from both ends."""
        if self.inner:
            return None
        conditions = _literal([*enumerate(self.head), *enumerate(self.tail, -len(self.tail))])
        if not self.open:
            return [(*conditions, ("length", self.least))]
        if self.least > LONGEST and self.least - 1 not in dict(conditions):
            return [(*conditions, (self.least - 1, PRESENT))]
        return [conditions]

    def matches(self, words: Sequence[str]) -> bool:
        """Whether a key of these words matches, for patterns with ``MANY``; time is (its words) x (the key's)."""
        at, end = len(self.head), len(words) - len(self.tail)
        if at > end or not _fits(self.head, words, 0) or not _fits(self.tail, words, end):
            return False
        try:
            for part in self.inner:
                last = max(end - len(part) + 1, 0)  # list.index would count a negative one from the end
                at = words.index(part[0], at, last)  # a part begins with a literal: see `ordered`
                while len(part) > 1 and not _fits(part, words, at):
                    at = words.index(part[0], at + 1, last)
                at += len(part)
        except ValueError:
            return False
        return True


class WildIndex(Generic[V]):
    """The patterns with wildcards that keys of ``length`` words can match; None stands for all above ``LONGEST``.

    Patterns are added only where they fit. ``answers`` bounds the answers that are remembered.
    """

    def __init__(self, length: int | None, *, answers: int) -> None:
        self._length: Final = length
        self._conjunctions: Final[Conjunctions[Wild[V]]] = Conjunctions(answers=answers)
        self._compared: dict[str, dict[Wild[V], None]] = {}  # each under one of its inner words
        self._under: dict[Wild[V], str] = {}

    def add(self, wild: Wild[V]) -> None:
        """Add a pattern that is not in here."""
        listed = self._listed(wild)
        if listed is not None:
            for conditions in listed:
                self._conjunctions.add(conditions, wild)
            return
        inner = {word for part in wild.inner for word in part if isinstance(word, str)}
        rarest = min(inner, key=lambda word: (len(self._compared.get(word, ())), word))
        self._under[wild] = rarest
        self._compared.setdefault(rarest, {})[wild] = None

    def remove(self, wild: Wild[V]) -> None:
        """Remove a pattern that is in here."""
        listed = self._listed(wild)
        if listed is not None:
            for conditions in listed:
                self._conjunctions.remove(conditions, wild)
            return
        word = self._under.pop(wild)
        del self._compared[word][wild]
        if not self._compared[word]:
            del self._compared[word]

    def search(self, words: list[str]) -> tuple[Wild[V], ...]:
        """The patterns that a key of these words matches; some of them may be there several times."""
        length = len(words)
        if self._length is None:
            features = chain(enumerate(words), enumerate(words, -length), [("length", length)])
            found = self._conjunctions.search(length, features)
        else:
            found = self._conjunctions.search(None, enumerate(words))
        if self._compared:
            for word in self._compared.keys() & words:
                found += tuple([wild for wild in self._compared[word] if wild.matches(words)])
        return found

    def _listed(self, wild: Wild[V]) -> list[Conditions] | None:
        return wild.conjunctions_when_longer() if self._length is None else wild.conjunctions(self._length)


def _literal(places: list[tuple[int, Word]]) -> Conditions:
    return tuple([(place, word) for place, word in places if isinstance(word, str)])


def _placements(parts: Sequence[Sequence[Word]], start: int, spare: int) -> Iterator[tuple[int, ...]]:
    """Where the parts can begin, from ``start`` on and in order, with ``spare`` words to leave out among them."""
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
