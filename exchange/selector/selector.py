"""A SQL92 filter of RocketMQ: its text, its expression, and a fast test of a message's properties.

Its remarks name what the broker accepts silently although the author hardly means it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from exchange.errors import TextError
from exchange.selector.compiled import Test, Wanted, compile_expression
from exchange.selector.expression import (
    ComparisonExpression,
    Constant,
    Expression,
    IsNull,
    Negative,
    Not,
    Property,
    Span,
    TextTest,
    Truth,
    walk,
)
from exchange.selector.meaning import evaluate
from exchange.selector.reading import build_ignored_error, parse_expression
from exchange.values.documents import document
from exchange.values.java_numbers import NotANumber

RELEASES: Final = {"4.1": False, "5.1.3": True}
"""Release of RocketMQ that changed the language -> whether it has CONTAINS, STARTSWITH and ENDSWITH."""

LATEST_RELEASE: Final = "5.1.3"


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
    _wanted: Wanted = field(compare=False, repr=False)
    _exact: Test = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: str, release: str = LATEST_RELEASE, *, exact: bool = False) -> Selector:
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
            raise build_ignored_error(text, end)
        rest = (end, len(text)) if end < len(text) else None
        names = frozenset([each.name for each in walk(expression) if isinstance(each, Property)])
        return cls(text, release, rest, names, expression, *compile_expression(expression))

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Remarks on parts that the broker accepts, but that never match or do not mean what they seem to."""
        return find_remarks(self.expression, self.text)

    def __call__(self, properties: Mapping[str, str]) -> bool:
        """Return whether the broker delivers a message with these properties: only if the filter is true."""
        return self._wanted(properties)

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


@document("RemarkJson", "message, span")
class Remark(NamedTuple):
    """A part of a selector that never matches, or means something else than it seems to."""

    message: str
    source: str
    """The selector's text."""
    span: Span
    """Where it is in the expression: the first character, and the one behind the last."""

    def __str__(self) -> str:
        return str(TextError(*self))


def find_remarks(expression: Expression, text: str) -> tuple[Remark, ...]:
    """Return the remarks on an expression, in the order of its text."""
    parts = list(walk(expression))
    negated = [part for each in parts for part in _negated_property(each)]  # the remark on the NOT is enough
    return tuple([
        Remark(message, text, each.span)
        for each in parts
        if not any(each is part for part in negated)
        for message in _remarks_on(each)
    ])  # fmt: skip


def _negated_property(part: Expression) -> Iterator[Expression]:
    """Yield the property that a NOT takes out of the comparison behind it: ``a`` of ``NOT a = 5``."""
    match part:
        case ComparisonExpression(Not(Truth() as alone) as negated) | IsNull(Not(Truth() as alone) as negated):
            if negated.span[0] == part.span[0]:  # otherwise the NOT is in parentheses, and so meant
                yield alone


def _remarks_on(part: Expression) -> Iterator[str]:
    match part:
        case _ if any(_negated_property(part)):
            yield "NOT goes with what is next to it, and not with all of this; write NOT (...)"
        case Truth(Property(name)):
            yield f"a property is a text and never true; write {name} = TRUE, or {name} IS NOT NULL"
        case Negative(operand) if _kind(operand) != "number":
            yield "only a number that is written here has a negative: this is always null"
        case ComparisonExpression(Constant(_, "Boolean"), "=", Property(name)):
            yield f"the broker fails on every message that has {name}; write {name} = TRUE or {name} = FALSE"
        case ComparisonExpression(Property(), "=", Property(name)):
            yield f"two properties are compared; a text stands in single quotes: did you mean '{name}'?"
        case ComparisonExpression(left, "=", right) if {_kind(left), _kind(right)} == {"truth", "number"}:
            yield "a truth value never equals a number"
        case TextTest(_, operator, ""):
            yield f"{operator} '' is false for every text"
        case TextTest(operand, operator) if _kind(operand) != "text":
            yield f"{operator} is for texts, and this is none: always false"


def _kind(expression: Expression) -> str:
    match expression:
        case Property() | Constant(_, "String"):
            return "text"
        case Constant(_, "Integer" | "Long" | "Double"):
            return "number"
        case Negative(operand):
            return _kind(operand) if _kind(operand) == "number" else "null"
        case Constant(_, "null"):
            return "null"
        case _:
            return "truth"
