"""A SQL92 filter of RocketMQ: its text, its expression, and a fast test of a message's properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from exchange.selector.compiled import Test, compile_expression
from exchange.selector.expression import Expression, Property, Span, walk
from exchange.selector.meaning import evaluate
from exchange.selector.numbers import NotANumber
from exchange.selector.reading import error_of_ignored, parse_expression
from exchange.selector.remarks import Remark, find_remarks

__all__ = ["LATEST", "RELEASES", "Selector"]

RELEASES: Final = {"4.1": False, "5.1.3": True}
"""Release of RocketMQ that changed the language -> whether it has CONTAINS, STARTSWITH and ENDSWITH."""

LATEST: Final = "5.1.3"


@dataclass(frozen=True, slots=True)
class Selector:
    """A filter as ``MessageSelector.bySql`` takes it, parsed and evaluated as the broker's `SqlFilter` does.

    >>> selector = Selector.parse("region = 'eu' AND price > 10")
    >>> selector({"region": "eu", "price": "11"})
    True
    """

    text: str
    release: str
    """Release of RocketMQ whose language it is, one of `RELEASES`."""
    ignored: Span | None
    """Range of the text that the broker ignores; None when it reads all."""
    names: frozenset[str]
    """Names of the properties that it reads."""
    expression: Expression = field(compare=False)
    matches: Callable[[Mapping[str, str]], bool] = field(compare=False, repr=False)
    """Does the same as calling the selector, with one call less, for millions of messages."""
    _exact: Test = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: str, release: str = LATEST, *, exact: bool = False) -> Selector:
        """Parse a filter. Raises SelectorError, with a caret, for what the broker refuses.

        The broker's parser stops at what does not fit and ignores the rest: it reads ``a LIKE 'x%'`` as ``a``. That is
        an error here, too; with ``exact`` the filter is what the broker reads, and ``ignored`` is the range of the
        rest. Raises ValueError for a release that is not in `RELEASES`.
        """
        if release not in RELEASES:
            raise ValueError(
                f"no release {release!r} has a language of its own; since {', '.join(RELEASES)} there is one"
            )
        expression, end = parse_expression(text, text_operators=RELEASES[release])
        if end < len(text) and not exact:
            raise error_of_ignored(text, end)
        rest = (end, len(text)) if end < len(text) else None
        names = frozenset([each.name for each in walk(expression) if isinstance(each, Property)])
        tests = compile_expression(expression)
        return cls(text, release, rest, names, expression, tests.wanted, tests.exact)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Remarks on parts that the broker accepts, but that never match or do not mean what they seem to."""
        return find_remarks(self.expression, self.text)

    def __call__(self, properties: Mapping[str, str]) -> bool:
        """Return whether the broker delivers a message with these properties: only if the filter is true."""
        return self.matches(properties)

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """Return True, False, or None for unknown. Raises SelectorFailure where the broker's evaluation throws."""
        try:
            return self._exact(properties)
        except NotANumber:
            evaluate(self.expression, properties)  # raises SelectorFailure, which has the position
            raise

    def __reduce__(self) -> tuple[Callable[..., Selector], tuple[str, str, bool]]:
        return _restore, (self.text, self.release, self.ignored is not None)

    def __str__(self) -> str:
        return self.text


def _restore(text: str, release: str, exact: bool) -> Selector:
    return Selector.parse(text, release, exact=exact)
