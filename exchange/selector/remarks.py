"""Remarks on a filter that the broker accepts silently although its author hardly means it, each with its position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from exchange.errors import TextError
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

__all__ = ["Remark", "find_remarks"]


class Remark(NamedTuple):
    """A remark on a part that always fails, never matches or means something else than it seems to."""

    message: str
    source: str
    """The selector's text."""
    span: Span

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
