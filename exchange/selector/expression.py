"""The expressions of a SQL92 filter, as values: those of RocketMQ, each with its position in the text.

``a <> b`` is `Not` of an equality, ``a BETWEEN 1 AND 5`` an `And` of two comparisons, ``a IS NOT NULL`` a `Not`, as in
the broker: so the same is unknown here and there. Positions do not count when expressions are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

Span = tuple[int, int]
"""A half-open range of characters."""

JavaType = Literal["null", "Boolean", "String", "Integer", "Long", "Double"]
"""The Java class of a value. It decides which conversions a comparison makes."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the message: a text, or null if the message does not have it (`PropertyExpression`)."""

    name: str
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal with its Java type (`ConstantExpression`): ``5`` is an Integer, ``3000000000`` a Long."""

    value: str | float | bool | None
    type: JavaType
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Negative:
    """``-x`` (`UnaryExpression.createNegate`): null if x is no number, and a property never is one."""

    operand: Expression
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Truth:
    """A property in place of a condition (`createBooleanCast`): any text is false, even ``true``."""

    operand: Property
    span: Span = field(default=(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class ComparisonExpression:
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
    """CONTAINS, STARTSWITH, ENDSWITH: never unknown; false of what is no text and for ``''``, even if negated."""

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


Expression = Property | Constant | Negative | Truth | ComparisonExpression | IsNull | TextTest | In | Not | And | Or

TRUTHS: Final = (Truth, ComparisonExpression, IsNull, TextTest, In, Not, And, Or)
"""Expressions that always have a truth value: true, false or unknown. Constants of Boolean and null have one, too."""


def list_operands(expression: Expression) -> tuple[Expression, ...]:
    """Return the operands of an expression, from the left."""
    if isinstance(expression, And | Or):
        return expression.parts
    if isinstance(expression, ComparisonExpression):
        return expression.left, expression.right
    if isinstance(expression, Property | Constant):
        return ()
    return (expression.operand,)


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all its operands, their operands included, in the order of the text."""
    pending = [expression]
    while pending:
        each = pending.pop()
        yield each
        pending.extend(reversed(list_operands(each)))
