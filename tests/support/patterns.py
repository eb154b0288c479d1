"""Small patterns that overlap often, and all short keys: the oracle of the algebra."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import TypeVar

from hypothesis import strategies as st

from exchange import Pattern
from exchange.patterns.pattern import DIALECTS

T = TypeVar("T")

LONGEST = {"amqp": 5, "mqtt": 4, "nats": 5}
"""Maximum number of words of the keys that are tried."""

KEY_WORDS = {"amqp": ["a", "b", "", "x"], "mqtt": ["a", "", "$s", "x", "$x"], "nats": ["a", "b", "x"]}
"""Words that patterns name, and further words of each kind that wildcards distinguish."""

PATTERN_WORDS = {
    "amqp": ["a", "b", "", "*", "*", "#", "#"],
    "mqtt": ["a", "", "$s", "+", "+"],
    "nats": ["a", "b", "*", "*"],
}


@cache
def all_keys(dialect: str) -> list[str]:
    """Return all keys of at most `LONGEST` words, each once."""
    sequences = (
        words for length in range(LONGEST[dialect] + 1) for words in product(KEY_WORDS[dialect], repeat=length)
    )
    keys = dict.fromkeys(DIALECTS[dialect].separator.join(words) for words in sequences)
    return [key for key in keys if key or dialect == "amqp"]


@cache
def matched(pattern: Pattern) -> frozenset[str]:
    """Return the keys that a pattern matches by the slow matcher."""
    return frozenset(filter(pattern.matches, all_keys(pattern.dialect.name)))


def words_in(dialect: str, key: str) -> int:
    """Return the number of words of a key, by which witnesses are the shortest."""
    return len(DIALECTS[dialect].split(key))


@cache
def patterns(dialect: str) -> st.SearchStrategy[Pattern]:
    """Make patterns of up to four words."""
    words = st.lists(st.sampled_from(PATTERN_WORDS[dialect]), max_size=4)
    if dialect != "amqp":
        last = {"mqtt": "#", "nats": ">"}[dialect]
        words = st.builds(list.__add__, words, st.sampled_from([[], [last], [last]]))
    separator = DIALECTS[dialect].separator
    return words.map(separator.join).filter(lambda text: text or dialect == "amqp").map(lambda t: Pattern(t, dialect))


def in_a_dialect(make: Callable[[str], st.SearchStrategy[T]]) -> st.SearchStrategy[T]:
    """Draw from one of the strategies that ``make`` makes of the names of dialects, each once and not for each draw."""
    return st.sampled_from(list(KEY_WORDS)).flatmap(cache(make))
