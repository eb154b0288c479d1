"""Names in patterns: ``order.{region}.created`` is the pattern ``order.*.created`` whose second word is ``region``.

``{name}`` stands where the dialect has its wildcard for one word, ``{name:#}`` where it has the one for any number of
words (``{name:>}`` in NATS). Brokers do not know names: a queue is bound with the pattern without names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from exchange.errors import PatternError
from exchange.patterns.pattern import AMQP, Dialect, Pattern

NAME: Final = re.compile(r"\{([^\W\d]\w*)(?::([^{}]*))?\}")


@dataclass(frozen=True, slots=True)
class NamedPattern:
    """A pattern with names for some of its wildcards; equal to another one if text and names are."""

    pattern: Pattern
    """The pattern as a broker knows it."""
    names: tuple[str | None, ...] = ()
    """One for each word of the pattern's text: None for a literal, and for a wildcard without a name. Empty if no word
    has a name."""

    def capture(self, key: str) -> dict[str, str]:
        """Return name -> word of a key that the pattern matches; the words of a `#` as one text, ``""`` if none.

        With several `#`, each but the last stands for as few words as possible.
        """
        dialect = self.pattern.dialect
        words = dialect.split(key)
        parts = self.pattern.text.split(dialect.separator)
        starts = [*_align(parts, words, dialect), len(words)]
        return {
            name: dialect.separator.join(words[start:end])
            for name, start, end in zip(self.names, starts, starts[1:], strict=False)
            if name is not None
        }


def parse_named(text: str, dialect: Dialect = AMQP) -> NamedPattern:
    """Parse a pattern in which words may be names. Raises PatternError, with a caret.

    >>> parse_named("order.{region}.{rest:#}").capture("order.eu.item.1")
    {'region': 'eu', 'rest': 'item.1'}
    """
    if "{" not in text and "}" not in text:
        return NamedPattern(_parse(text, dialect))
    words: list[str] = []
    names: list[str | None] = []
    at = 0
    for word in text.split(dialect.separator):
        span = (at, at + len(word))
        at += len(word) + len(dialect.separator)
        found = NAME.fullmatch(word)
        if found is None:
            if "{" in word or "}" in word:
                raise PatternError(
                    f"a name is a whole word, {{name}} or {{name:{dialect.many}}}; "
                    "for literal braces, give a Pattern instead of a text",
                    text,
                    span,
                )
            words.append(word)
            names.append(None)
            continue
        name, wildcard = found.group(1), found.group(2) or dialect.one
        if wildcard not in (dialect.one, dialect.many):
            raise PatternError(f"expected a wildcard after the colon: {dialect.one} or {dialect.many}", text, span)
        if name in names:
            raise PatternError(f"two words are named {name!r}", text, span)
        words.append(wildcard)
        names.append(name)
    return NamedPattern(_parse(dialect.separator.join(words), dialect), tuple(names))


def _parse(text: str, dialect: Dialect) -> Pattern:
    return Pattern.of_binding_key(text) if dialect is AMQP else Pattern(text, dialect)


def _align(parts: Sequence[str], words: Sequence[str], dialect: Dialect) -> list[int]:
    """Return for each part of a pattern the index of the first word that it stands for, in a key that matches.

    A part for many words starts with none, and takes one more whenever the parts behind it do not match: only the last
    such part is ever extended, so the time is at most (parts) x (words).
    """
    starts = [0] * len(parts)
    part = word = 0
    many, taken = -1, 0  # the last part for many words, and the first word that it does not stand for
    while part < len(parts) or word < len(words):
        if part < len(parts) and parts[part] == dialect.many:
            many, taken = part, word
            starts[part] = word
            part += 1
        elif part < len(parts) and word < len(words) and parts[part] in (dialect.one, words[word]):
            starts[part] = word
            part, word = part + 1, word + 1
        elif many >= 0 and taken < len(words):
            taken += 1
            part, word = many + 1, taken
        else:
            raise ValueError(f"{dialect.separator.join(parts)!r} does not match {dialect.separator.join(words)!r}")
    return starts
