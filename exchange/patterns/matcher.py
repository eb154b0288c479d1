"""The matcher: many patterns, searched by one key.

Each pattern is in one of two structures:

* without a wildcard: in a dict from key to values;
* with wildcards, and many others have theirs at the same places: in a dict from text to values, see `Shapes`;
* with other wildcards: in indexes, one for each length of key that occurs, up to `LONGEST` words, and one for all
  longer keys. Before that, `normalise_wildcards` brings each run of wildcards into one order.

Memory grows with the patterns only, and no search backtracks. docs/decisions/0002-matcher.md explains why these
structures were chosen, and not a trie or an automaton.

Bounded caches are in front of them. The first maps keys to their values, and ``match`` is its lookup, as fast as that
of a dict; on a free-threaded Python each thread has such a cache. Behind it, if one block of bits decides about the
keys of a length (see `exchange.patterns.conjunctions`), the search joins the masks of the key's words itself, and a
cache maps the result to values (`_Narrow`). For other lengths, a cache maps signatures: a signature is the key's words
with None for each word that no pattern names, so keys that differ only in an id share an entry. The last cache maps the
patterns that match to their values, so keys with the same answer share one tuple. A change drops the entries that it
may affect. Reading the first cache needs no lock; all else happens under the lock. So no match sees half a change, and
no result from before a change enters a cache after it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from exchange.concurrency import threads
from exchange.concurrency.forks import MATCHERS, lock_at_forks
from exchange.errors import InputError
from exchange.patterns.conjunctions import with_value, without_value
from exchange.patterns.pattern import AMQP, MQTT, NATS, ONE_PLAIN, Dialect, Pattern, find_dialect
from exchange.patterns.shapes import Shapes
from exchange.patterns.wildcards import LONGEST, Wild, WildIndex

if TYPE_CHECKING:
    from exchange.patterns.columns.column_matcher import ColumnMatcher, Matches

V = TypeVar("V", bound=Hashable)

ANSWERS: Final = 8_192
"""Maximum number of answers kept for the keys of one length."""

LENGTHS: Final = 256
"""Number of words up to which it is kept how keys of that length are searched; keys in AMQP have no more."""

NOT_BUILT: Final[Any] = object()


class Matcher(Generic[V]):
    """A mutable map from patterns to values, searched by key.

    ``bind`` and ``unbind`` take time linear in the length of the pattern; ``unbind`` frees the memory. ``match(key)``
    returns a tuple of the values of all patterns that match the key, each value once, in no particular order. ``cache``
    is the maximum number of entries of each cache; 0 disables caching. ``distinct`` is the owner's promise that no
    value is bound under two patterns, which saves comparing values. Safe to use from several threads.

    >>> matcher = Matcher()
    >>> matcher.bind(Pattern("order.*.created"), "billing")
    True
    >>> matcher.match("order.eu.created")
    ('billing',)
    """

    def __init__(self, dialect: Dialect | str = AMQP, *, cache: int = 65_536, distinct: bool = False) -> None:
        self.dialect: Final = find_dialect(dialect)
        self._separator: Final = self.dialect.separator
        self._distinct: Final = distinct
        self._lock: Final = lock_at_forks(MATCHERS)
        self._literal: dict[str, Collection[V]] = {}
        self._shapes: Final[Shapes[V]] = Shapes(self._add, self._remove)
        self._indexes: dict[int | None, WildIndex[V]] = {}
        self._vocabulary: dict[str, str] = {}  # each word that a pattern in the indexes names -> itself
        self._named: dict[str, int] = {}  # word -> number of patterns that name it, if more than one
        self._narrow: dict[int, _Narrow[V] | None] = {}  # number of words -> how such keys are searched, if narrow
        self._signatures: dict[tuple[str | bool | None, ...], tuple[V, ...]] = {}
        self._answers: dict[tuple[Wild[V], ...], tuple[V, ...]] = {}  # matching patterns -> their values
        # Identity of an answer of the indexes, and texts of patterns of shapes -> that answer, and the one with theirs.
        self._joined: dict[tuple[int | str, ...], tuple[tuple[V, ...], tuple[V, ...]]] = {}
        self._columns: ColumnMatcher[V] | None = None
        self._cache_size: Final = cache
        self._keys: Final = threads.Caches(lambda: _Keys(self._remember))
        self._local: Final = self._keys.local
        if not cache:
            self.match = self._search  # type: ignore[method-assign]
        elif not threads.FREE_THREADED:  # elsewhere the method, which counts no reference that threads share
            self.match = self._local.own.__getitem__  # type: ignore[method-assign]
        threads.defer_counting(self)

    def __len__(self) -> int:
        """Return the number of distinct patterns bound."""
        return len(self._literal) + len(self._shapes)

    def match(self, key: str) -> tuple[V, ...]:
        """Return the values of all patterns that match the key, each once, in no particular order."""
        try:
            keys: _Keys[V] = self._local.own
        except AttributeError:
            keys = self._keys.make_own()
        return keys[key]

    def bind(self, pattern: Pattern, value: V) -> bool:
        """Add a value under a pattern; return False if it is there already. Raises ValueError for another dialect."""
        self._check(pattern)
        with self._lock:
            if pattern.literal:
                values = self._literal.get(pattern.text, ())
                if value in values:
                    return False
                self._literal[pattern.text] = with_value(values, value)
                self._forget_key(pattern.text)
                return True
            added = self._shapes.bind(pattern, value)
            if added:
                self._forget()
            return added

    def unbind(self, pattern: Pattern, value: V) -> bool:
        """Remove a value from a pattern; return False if it is not there. Raises ValueError for another dialect."""
        self._check(pattern)
        with self._lock:
            if pattern.literal:
                values = self._literal.get(pattern.text, ())
                if value not in values:
                    return False
                self._literal[pattern.text] = without_value(values, value)
                if not self._literal[pattern.text]:
                    del self._literal[pattern.text]
                self._forget_key(pattern.text)
                return True
            removed = self._shapes.unbind(pattern, value)
            if removed:
                self._forget()
            return removed

    def match_many(self, keys: Any) -> Matches[V]:
        """Return the values for each key of a column, as `match` returns them one by one.

        ``keys`` is a column of texts or bytes, of a library that exports Arrow's PyCapsule interface, or a sequence of
        str. The result has each distinct answer once, and for each row the index of its answer. What is learned of keys
        is kept until a pattern is bound or unbound. Needs numpy and pyarrow; made for AMQP patterns. Raises InputError
        for a column of another type, for a null, and in other dialects.
        """
        if self.dialect is not AMQP:
            raise InputError(f"columns of keys are matched by AMQP patterns only, not by {self.dialect.name}")
        from exchange.arrays.arrow import import_arrow  # not at the top: it needs numpy

        import_arrow()
        from exchange.patterns.columns.column_matcher import ColumnMatcher

        with self._lock:
            if self._columns is None:
                self._columns = ColumnMatcher(self._literal, list(self._shapes.items()))
            columns = self._columns
        return columns.match(keys, self._search)

    def _check(self, pattern: Pattern) -> None:
        try:
            dialect = pattern.dialect
        except AttributeError:
            raise TypeError(f"a pattern is a Pattern, not {pattern!r}: write Pattern({str(pattern)!r})") from None
        if dialect is not self.dialect:
            raise ValueError(f"a pattern in {pattern.dialect.name} for keys in {self.dialect.name}: see Pattern.to")

    def _add(self, wild: Wild[V]) -> None:
        for word in wild.literals:
            if word in self._vocabulary:
                self._named[word] = self._named.get(word, 1) + 1
            else:
                self._vocabulary[word] = word
        for index in self._list_indexes(wild):
            index.add(wild)

    def _remove(self, wild: Wild[V]) -> None:
        for word in wild.literals:  # a word that `_named` does not have is named by one pattern
            others = self._named.pop(word, 1) - 1
            if others > 1:
                self._named[word] = others
            elif not others:
                del self._vocabulary[word]
        for index in self._list_indexes(wild):
            index.remove(wild)

    def _list_indexes(self, wild: Wild[V]) -> Collection[WildIndex[V]]:
        if wild.open:
            return [index for length, index in self._indexes.items() if wild.fits(length)]
        index = self._indexes.get(wild.least if wild.least <= LONGEST else None)  # such a pattern fits one length
        return () if index is None else (index,)

    def _forget(self) -> None:
        # Searches fill the caches under the same lock, so a result from before this change cannot enter them later.
        for keys in self._keys.all():
            keys.clear()
        self._narrow.clear()
        self._signatures.clear()
        self._answers.clear()
        self._joined.clear()
        self._columns = None

    def _forget_key(self, key: str) -> None:
        for keys in self._keys.all():
            keys.pop(key, None)
        self._columns = None

    def match_once(self, key: str) -> tuple[V, ...]:
        """Return what `match` returns, without keeping the key: for callers that keep their own answers by key."""
        with self._lock:
            return self._find(key) if self._cache_size else self._search(key)

    def _find(self, key: str) -> tuple[V, ...]:
        words = key.split(self._separator) if key else self.dialect.split(key)  # saves a call for nearly all keys
        narrow = self._narrow.get(len(words), NOT_BUILT)
        if narrow is NOT_BUILT:
            narrow = self._narrow_to(len(words))
        if narrow is not None:
            ruled_out = 0
            for position, masks in narrow.masks:
                ruled_out |= masks[words[position]]
            values = narrow.answers.get(ruled_out)
            if values is None:
                values = self._answer_narrow(narrow, ruled_out)
        else:
            values = self._search_named(key, words) if self._shapes.has_small else ()
        if self._shapes.large:
            values = self._join_shapes(values, words)
        literal = self._literal.get(key)
        return self._join(literal, values) if literal else values

    def _remember(self, key: str) -> tuple[V, ...]:
        with self._lock:
            values = self._find(key)
            keys: _Keys[V] = self._local.own
            return keys.add(key, values, self._cache_size)

    def _narrow_to(self, length: int) -> _Narrow[V] | None:
        """Return how keys of this number of words are searched if one block of bits decides about all of them."""
        block = None
        if self.dialect is AMQP and 0 < length <= LONGEST:
            block = (self._indexes.get(length) or self._build(length)).sole_block()
        narrow = None if block is None else _Narrow(block.masks(), block.values_without, {})
        if length <= LENGTHS:
            self._narrow[length] = narrow
        return narrow

    def _answer_narrow(self, narrow: _Narrow[V], ruled_out: int) -> tuple[V, ...]:
        values = self._values_of(tuple(narrow.values_without(ruled_out)))
        if len(narrow.answers) >= min(ANSWERS, self._cache_size):
            narrow.answers.clear()
        narrow.answers[ruled_out] = values
        return values

    def _search_named(self, key: str, words: list[str]) -> tuple[V, ...]:
        signature: tuple[str | bool | None, ...] = tuple(map(self._vocabulary.get, words))
        if None not in signature:
            return self._search_wild(words)  # the signature equals the key: the cache of keys is enough
        if self.dialect is MQTT:
            # In MQTT a leading "$" and an empty topic matter even in words that no pattern names.
            signature = (key[:1] == "$" if key else None, *signature)
        elif self.dialect is NATS:
            signature = ("" in words, *signature)
        values = self._signatures.get(signature)
        if values is None:
            if len(self._signatures) >= self._cache_size:
                self._signatures.clear()
            values = self._signatures[signature] = self._search_wild(words)
        return values

    def _search(self, key: str) -> tuple[V, ...]:
        with self._lock:
            words = self.dialect.split(key)
            values = self._search_wild(words)
            if self._shapes.large:
                values = self._join_shapes(values, words)
            literal = self._literal.get(key)
            return self._join(literal, values) if literal else values

    def _join(self, literal: Collection[V], wild: tuple[V, ...]) -> tuple[V, ...]:
        return (*literal, *wild) if self._distinct else tuple(dict.fromkeys((*literal, *wild)))

    def _join_shapes(self, values: tuple[V, ...], words: list[str]) -> tuple[V, ...]:
        """Return these values and those of the patterns of large shapes: the same tuple again, while it is kept."""
        found = self._shapes.search(words)
        if not found:
            return values
        patterns: tuple[int | str, ...] = (id(values), *found)
        kept = self._joined.get(patterns)
        if kept is None:
            joined = self._join(values, tuple(chain.from_iterable(found.values())))
            kept = values, joined  # with the values, so that their identity stays theirs
            if self._cache_size:
                if len(self._joined) >= self._cache_size:
                    self._joined.clear()
                self._joined[patterns] = kept
        return kept[1]

    def _search_wild(self, words: list[str]) -> tuple[V, ...]:
        if self.dialect is not AMQP and not self.dialect.has_key_of(words):
            return ()
        length = len(words) if len(words) <= LONGEST else None
        index = self._indexes.get(length) or self._build(length)
        matching = index.search(words)  # may repeat a pattern
        # The index treats ONE_PLAIN as ONE: the rule about "$" is applied here.
        if self.dialect is MQTT and words[0][:1] == "$":
            matching = tuple([wild for wild in matching if wild.words[0] is not ONE_PLAIN])
        return self._values_of(matching)

    def _values_of(self, matching: tuple[Wild[V], ...]) -> tuple[V, ...]:
        """Return the values of patterns, each once: the same tuple for the same patterns, as long as it is kept."""
        values = self._answers.get(matching)
        if values is None:
            if self._distinct:
                values = tuple(chain.from_iterable(dict.fromkeys(matching)))
            elif len(matching) == 1:
                values = tuple(matching[0])  # a dict: none is repeated, and a pattern may have very many
            else:
                values = tuple(dict.fromkeys(chain.from_iterable(matching)))
            if self._cache_size:
                if len(self._answers) >= self._cache_size:
                    self._answers.clear()
                self._answers[matching] = values
        return values

    def _build(self, length: int | None) -> WildIndex[V]:
        index = self._indexes[length] = WildIndex(length, answers=min(self._cache_size, 4096))
        for wild in self._shapes.small():
            if wild.fits(length):
                index.add(wild)
        return index


class _Narrow(NamedTuple, Generic[V]):
    """How the keys of one number of words are searched where one block of bits decides about all of them."""

    masks: list[tuple[Any, Mapping[Hashable, int]]]
    """Position, and for each word there the patterns that it rules out, as bits."""
    values_without: Callable[[int], list[Wild[V]]]
    """From the patterns that are ruled out to the others."""
    answers: dict[int, tuple[V, ...]]
    """Patterns that are ruled out -> values of the others."""


class _Keys(dict[str, tuple[V, ...]]):
    """A cache of keys. Its lookup is ``match``: a missing key is searched for and added."""

    __slots__ = ("__weakref__", "_copies", "_remember")

    def __init__(self, remember: Callable[[str], tuple[V, ...]]) -> None:
        self._remember = remember
        # Identity of an answer, which keys share -> the answer, which keeps its identity, and the copy of this thread.
        self._copies: dict[int, tuple[tuple[V, ...], tuple[V, ...]]] = {}

    def __missing__(self, key: str) -> tuple[V, ...]:
        return self._remember(key)

    def add(self, key: str, values: tuple[V, ...], most: int) -> tuple[V, ...]:
        """Add the values of a key, and return them; if there are ``most`` keys already, drop all of them before."""
        if len(self) >= most:
            self.clear()
        if threads.FREE_THREADED:
            _, values = self._copies.setdefault(id(values), (values, (*values,)))
        self[key] = values
        return values

    def clear(self) -> None:
        """Drop all keys."""
        super().clear()
        self._copies.clear()
