"""A SQL92 filter of RocketMQ, ready to be asked: text, what it says, and a fast test of a message's properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from exchange.selector.compiled import Test, compiled
from exchange.selector.expression import Expression, Property, Span, walk
from exchange.selector.meaning import evaluate
from exchange.selector.numbers import NotANumber
from exchange.selector.reading import ignored, read
from exchange.selector.remarks import Remark, remarks

__all__ = ["LATEST", "RELEASES", "Selector"]

RELEASES: Final = {"4.1": False, "5.1.3": True}
"""RocketMQ's releases since when the language is another -> whether it has CONTAINS, STARTSWITH and ENDSWITH."""

LATEST: Final = "5.1.3"


@dataclass(frozen=True, slots=True)
class Selector:
    """A filter as ``MessageSelector.bySql`` takes it; parsed and evaluated as the broker's `SqlFilter` does.

    >>> selector = Selector.parse("region = 'eu' AND price > 10")
    >>> selector({"region": "eu", "price": "11"})
    True
    """

    text: str
    release: str
    """Of `RELEASES`: whose language it is."""
    ignored: Span | None
    """What the broker ignores of the text; None when it reads all."""
    names: frozenset[str]
    """The properties that it asks for."""
    expression: Expression = field(compare=False)
    matches: Callable[[Mapping[str, str]], bool] = field(compare=False, repr=False)
    """What calling the selector does, without the call in between: for whoever asks millions of times."""
    _exact: Test = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: str, release: str = LATEST, *, exact: bool = False) -> Selector:
        """Read a filter. Raises SelectorError, with a caret, for what the broker refuses.

        The broker's parser stops where it cannot go on and takes what it has: ``a LIKE 'x%'`` as ``a``. That is an
        error too, unless ``exact``: then the filter is what the broker makes of it, and ``ignored`` tells the rest.
        Raises ValueError for a release that is not in `RELEASES`.
        """
        if release not in RELEASES:
            raise ValueError(
                f"no release {release!r} has a language of its own; since {', '.join(RELEASES)} there is one"
            )
        expression, end = read(text, text_operators=RELEASES[release])
        if end < len(text) and not exact:
            raise ignored(text, end)
        rest = (end, len(text)) if end < len(text) else None
        names = frozenset([each.name for each in walk(expression) if isinstance(each, Property)])
        tests = compiled(expression)
        return cls(text, release, rest, names, expression, tests.wanted, tests.exact)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What the broker takes and hardly anybody means: parts that never match, or read otherwise than they look."""
        return remarks(self.expression, self.text)

    def __call__(self, properties: Mapping[str, str]) -> bool:
        """Whether the broker delivers a message with these properties: unknown and failing are no."""
        return self.matches(properties)

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """True, false, or None for unknown. Raises SelectorFailure where the broker's evaluation throws."""
        try:
            return self._exact(properties)
        except NotANumber:
            evaluate(self.expression, properties)  # fails at the same place, and knows which that is
            raise

    def __reduce__(self) -> tuple[Callable[..., Selector], tuple[str, str, bool]]:
        return _parsed, (self.text, self.release, self.ignored is not None)

    def __str__(self) -> str:
        return self.text


def _parsed(text: str, release: str, exact: bool) -> Selector:
    return Selector.parse(text, release, exact=exact)
