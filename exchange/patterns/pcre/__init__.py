"""Policy patterns, matched as the regular expression library of RabbitMQ's Erlang matches them.

RabbitMQ matches the bytes of a name with Erlang's ``re``: PCRE 8 up to OTP 27, PCRE2 since OTP 28. It is unknown which
of the two a broker has, so an expression is parsed for both, and there is no answer where their results differ. An
answer is exact or absent, never a guess. No expression takes long: see `exchange.patterns.pcre.machine`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from exchange.limits import SHORTSTR_BYTES
from exchange.patterns.pcre import matching
from exchange.patterns.pcre.nodes import Dialect, Invalid, UnknownMatch
from exchange.patterns.pcre.parser import parse

__all__ = ["Expression", "parse_expression"]

DIALECTS: Final[tuple[Dialect, ...]] = ("pcre8", "pcre2")


class Expression:
    """A regular expression as the broker understands it.

    ``error`` is the fault of an expression that every broker refuses. ``unknown`` is the reason why one is not
    understood here. Otherwise both are empty. ``prefix`` has the bytes that each name begins with in which the
    expression is found, as far as they are plain to see.
    """

    __slots__ = ("_matchers", "_same_for_ascii", "error", "pattern", "prefix", "unknown")

    def __init__(self, pattern: str) -> None:
        self.pattern: Final = pattern
        matchers: list[matching.PcreMatcher | None] = []
        errors: list[str] = []
        unknown = ""
        for dialect in DIALECTS:
            try:
                matchers.append(matching.PcreMatcher(parse(pattern.encode("utf-8", "surrogatepass"), dialect)))
            except Invalid as error:
                errors.append(str(error))
                matchers.append(None)
            except UnknownMatch as error:
                unknown = str(error)
        self.error: Final = errors[0] if len(errors) == len(DIALECTS) else ""
        if errors and not self.error:
            unknown = unknown or f"some releases of Erlang refuse it: {errors[0]}"
        self.unknown: Final = unknown
        self._matchers: Final = () if unknown else tuple(m for m in matchers if m is not None)
        self.prefix: Final = matching.find_common_prefix([matcher.prefix for matcher in self._matchers])
        # Whether one search is enough for names in ASCII, since both libraries treat these names alike.
        self._same_for_ascii: Final = len({matcher.source_for_ascii for matcher in self._matchers}) == 1

    def is_found_in(self, name: str) -> bool | None:
        """Return whether the broker finds the expression in the name; None if that is unknown."""
        if self.unknown:
            return None
        data = name.encode("utf-8", "surrogatepass")
        if len(data) > SHORTSTR_BYTES:
            return None
        if not data.startswith(self.prefix):
            return False
        if self._same_for_ascii and data.isascii():
            return self._matchers[0].is_found_in(data)
        # An expression that both libraries refuse has no matcher, and is found in no name.
        answers = {matcher.is_found_in(data) for matcher in self._matchers} or {False}
        return answers.pop() if len(answers) == 1 else None


@lru_cache(maxsize=1 << 16)  # fewer would be read anew by each that asks, if there are more policies
def parse_expression(pattern: str) -> Expression:
    """Return the expression of a policy's pattern, from a cache."""
    return Expression(pattern)
