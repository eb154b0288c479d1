"""What a SQL92 filter says, as values: RocketMQ's expressions, with the place of each in its text.

``a <> b`` is `Not` of an equality, ``a BETWEEN 1 AND 5`` an `And` of two comparisons, ``a IS NOT NULL`` a `Not`: as in
the broker, so that what is unknown is so here and there. Equal expressions mean the same wherever they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

__all__ = [
    "TRUTHS",
    "And",
    "Comparison",
    "Constant",
    "Expression",
    "In",
    "IsNull",
    "JavaType",
    "Negative",
    "Not",
    "Or",
    "Property",
    "Span",
    "TextTest",
    "Truth",
    "children",
    "walk",
]

Span = tuple[int, int]
"""A half-open range of characters."""

JavaType = Literal["null", "Boolean", "String", "Integer", "Long", "Double"]
"""The Java class of a value, which decides what a comparison converts to what."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the message: a text, or null where the message has none (`PropertyExpression`)."""

    name: str
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal and the Java type that it has (`ConstantExpression`): ``5`` Integer, ``3000000000`` Long."""

    value: str | float | bool | None
    type: JavaType
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Negative:
    """``-x`` (`UnaryExpression.createNegate`): null of what is no number, and a property is none."""

    operand: Expression
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Truth:
    """A property where a truth value is wanted (`createBooleanCast`): a text is false, even ``true``."""

    operand: Property
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """``=`` (`ComparisonExpression.doCreateEqual`) or an order."""

    left: Expression
    operator: Literal["=", "<", "<=", ">", ">="]
    right: Expression
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    """``x IS NULL`` (`createIsNull`): never unknown."""

    operand: Expression
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class TextTest:
    """``x CONTAINS 'a'`` and its like: never unknown; false, negated or not, of what is no text and for ``''``."""

    operand: Expression
    operator: Literal["CONTAINS", "STARTSWITH", "ENDSWITH"]
    search: str
    negated: bool
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class In:
    """``name IN ('a', 'b')`` (`createInExpression`): unknown where the message has no such property."""

    operand: Property
    values: frozenset[str]
    negated: bool
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """``NOT x``: unknown stays unknown."""

    operand: Expression
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class And:
    """``x AND y AND ...`` (`LogicExpression.createAND`): the first that is false ends it."""

    parts: tuple[Expression, ...]
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Or:
    """``x OR y OR ...`` (`LogicExpression.createOR`): the first that is true ends it."""

    parts: tuple[Expression, ...]
    span: Span = field(default=(0, 0), compare=False)


Expression = Property | Constant | Negative | Truth | Comparison | IsNull | TextTest | In | Not | And | Or

TRUTHS: Final = (Truth, Comparison, IsNull, TextTest, In, Not, And, Or)
"""What gives true, false or unknown whatever it is given; with them constants of Boolean and of null."""


def children(expression: Expression) -> tuple[Expression, ...]:
    """What it is made of, from the left."""
    if isinstance(expression, And | Or):
        return expression.parts
    if isinstance(expression, Comparison):
        return expression.left, expression.right
    if isinstance(expression, Property | Constant):
        return ()
    return (expression.operand,)


def walk(expression: Expression) -> Iterator[Expression]:
    """It and all that it is made of, in the order of the text."""
    left = [expression]
    while left:
        each = left.pop()
        yield each
        left.extend(reversed(children(each)))
