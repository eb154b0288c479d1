"""Shapes: patterns with wildcards at the same places, looked up by their text where they are many.

The shape of ``a.17.*.b4`` is ``%s.%s.*.%s``. Of all patterns of one shape, a key can match one only, or one for each
place where the words between two ``#`` can be; and its text is known: it is the shape, filled with words of the key. So
any number of patterns of a shape cost a search one lookup in a dict, need no index, and are bound by one entry there.
A search pays for each such shape instead; few patterns each of many shapes are found faster by an index.

Not safe for concurrent use: the owner holds a lock around every call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

from exchange.patterns.conjunctions import with_value, without_value
from exchange.patterns.pattern import AMQP, MANY, ONE, ONE_PLAIN, Pattern, Word, normalise_wildcards
from exchange.patterns.wildcards import Wild

LARGE_SHAPE_PATTERNS: Final = 1024
"""Number of patterns of one shape from which on they are looked up by their text. If it is smaller, a million patterns
of very many shapes cost a search more; if it is larger, their indexes take longer to build: see decision 2."""

LENGTHS: Final = 256
"""Number of words up to which it is kept which shapes fit; keys in AMQP have no more."""

V = TypeVar("V", bound=Hashable)

_SYMBOLS: Final[dict[Word, str]] = {ONE: "*", MANY: "#", ONE_PLAIN: "+"}


class Shapes(Generic[V]):
    """All patterns with wildcards of a matcher, by shape.

    Those of small shapes are `Wild`, for the owner's indexes: ``add`` and ``remove`` are called when there is one more
    or less. A shape that became large stays large until it is empty, so that no edits can move patterns back and forth.
    """

    def __init__(self, add: Callable[[Wild[V]], None], remove: Callable[[Wild[V]], None]) -> None:
        self._add: Final = add
        self._remove: Final = remove
        self._small: Final[dict[str, dict[str, Wild[V]]]] = {}  # template -> text -> pattern
        self.large: Final[dict[str, _Large[V]]] = {}
        """Template -> the patterns of a large shape, for `search`."""
        self._fitting: Final[dict[int, tuple[list[_Lookup[V]], list[_Large[V]]]]] = {}  # by the length of the key

    def __len__(self) -> int:
        """Return the number of patterns."""
        return sum(map(len, self._small.values())) + sum(len(large.values) for large in self.large.values())

    @property
    def has_small(self) -> bool:
        """Whether there are patterns for the owner's indexes."""
        return bool(self._small)

    def small(self) -> Iterator[Wild[V]]:
        """Return the patterns for the owner's indexes."""
        return chain.from_iterable([patterns.values() for patterns in self._small.values()])

    def items(self) -> Iterator[tuple[tuple[Word, ...], tuple[V, ...]]]:
        """Yield the words of each pattern and its values; for AMQP."""
        for wild in self.small():
            yield wild.words, tuple(wild)
        for large in self.large.values():
            for text, values in large.values.items():
                yield normalise_wildcards(Pattern.of_binding_key(text).words), tuple(values)

    def bind(self, pattern: Pattern, value: V) -> bool:
        """Add a value to a pattern; return False if it is there already."""
        text, template = pattern.text, _write_template(pattern)
        large = self.large.get(template)
        if large is not None:
            values = large.values.get(text, ())
            if value in values:
                return False
            large.values[text] = with_value(values, value)
            return True
        patterns = self._small.setdefault(template, {})
        wild = patterns.get(text)
        if wild is None:
            wild = patterns[text] = Wild(normalise_wildcards(pattern.words))
            self._add(wild)
        elif value in wild:
            return False
        wild[value] = None
        if len(patterns) >= LARGE_SHAPE_PATTERNS and pattern.dialect is AMQP and _can_be_large(wild):
            self.large[template] = _Large(template, wild, patterns)
            self._fitting.clear()
            del self._small[template]
            for each in patterns.values():
                self._remove(each)
        return True

    def unbind(self, pattern: Pattern, value: V) -> bool:
        """Remove a value from a pattern; return False if it is not there."""
        text, template = pattern.text, _write_template(pattern)
        large = self.large.get(template)
        if large is not None:
            values = large.values.get(text, ())
            if value not in values:
                return False
            left = large.values[text] = without_value(values, value)
            if not left:
                del large.values[text]
                if not large.values:
                    del self.large[template]
                    self._fitting.clear()
            return True
        patterns = self._small.get(template, {})
        wild = patterns.get(text)
        if wild is None or value not in wild:
            return False
        del wild[value]
        if not wild:
            del patterns[text]
            if not patterns:
                del self._small[template]
            self._remove(wild)
        return True

    def search(self, words: list[str]) -> dict[str, Collection[V]]:
        """Return the patterns of large shapes that a key of these words matches, by their texts, with their values."""
        fitting = self._fitting.get(len(words))
        if fitting is None:
            fitting = self._find_fitting(len(words))
        found: dict[str, Collection[V]] = {}
        lookups, with_inner = fitting
        for template, read, get in lookups:
            text = template % read(words)
            values = get(text)
            if values is not None:
                found[text] = values
        for large in with_inner:
            large.search(words, found)
        return found

    def _find_fitting(self, length: int) -> tuple[list[_Lookup[V]], list[_Large[V]]]:
        large = [each for each in self.large.values() if each.form.fits(length)]
        fitting = [each.lookup for each in large if not each.form.inner], [each for each in large if each.form.inner]
        if length <= LENGTHS:
            self._fitting[length] = fitting
        return fitting


_Lookup = tuple[str, Callable[[Sequence[str]], Any], Callable[[str], Collection[V] | None]]
"""The template of a shape, the words of a key that fill it, and the values of a pattern by its text."""


class _Large(Generic[V]):
    """The patterns of one shape: text -> values. ``form`` is any of them."""

    __slots__ = ("form", "lookup", "values")

    def __init__(self, template: str, form: Wild[V], patterns: dict[str, Wild[V]]) -> None:
        self.form: Final = Wild[V](form.words)
        self.values: Final[dict[str, Collection[V]]] = {
            text: tuple(wild) if len(wild) < 16 else dict(wild) for text, wild in patterns.items()
        }
        # Places in the words of a key, those of the tail counted from the end; see `search` for the inner part.
        ahead = (*form.head, *(form.inner[0] if form.inner else ()))
        places = [*enumerate(ahead), *enumerate(form.tail, -len(form.tail))]
        read = itemgetter(*[place for place, word in places if isinstance(word, str)])
        self.lookup: Final[_Lookup[V]] = (template, read, self.values.get)

    def search(self, words: list[str], found: dict[str, Collection[V]]) -> None:
        """Add the patterns that match, with their values: one at most for each place of the inner part."""
        template, read, get = self.lookup
        first, size, end = len(self.form.head), len(self.form.inner[0]), len(words) - len(self.form.tail)
        head, tail = words[:first], words[end:]
        for at in range(first, end - size + 1):
            text = template % read([*head, *words[at : at + size], *tail])
            values = get(text)
            if values is not None:
                found[text] = values


def _can_be_large(wild: Wild[Any]) -> bool:
    """Return whether patterns of its shape can be looked up: the places of several inner parts multiply."""
    return len(wild.inner) < 2 and bool(wild.literals)


def _write_template(pattern: Pattern) -> str:
    """Return the shape of a pattern: its text with ``%s`` in place of each literal word."""
    return ".".join(map(_SYMBOLS.get, pattern.words, repeat("%s")))
