"""What an expression means for a message: the definition, slow and obvious, as RocketMQ's Java classes evaluate it.

A truth value is true, false or null, which is unknown. A property is a text or null, and a comparison converts it to
the Java type of the other side. Whatever the broker's evaluation throws is a `SelectorFailure` here; the broker logs it
and does not deliver the message. The fast test of `exchange.selector.compiled` must agree with this on every expression
and message; nothing here may become clever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from exchange.errors import HashstarError
from exchange.selector.expression import (
    And,
    Comparison,
    Constant,
    Expression,
    In,
    IsNull,
    JavaType,
    Negative,
    Not,
    Or,
    Property,
    TextTest,
    Truth,
)
from exchange.selector.numbers import NotANumber, compare_doubles, double_of, integer_of, long_of, truth_of

__all__ = ["SelectorFailure", "Value", "evaluate"]


class SelectorFailure(HashstarError):
    """What the broker's evaluation of a message throws; ``span`` is the comparison's place in the selector's text."""

    def __init__(self, message: str, span: tuple[int, int] = (0, 0)) -> None:
        super().__init__(message)
        self.span = span


class Value(NamedTuple):
    """A value of Java: its class, and what Python has for it."""

    type: JavaType
    value: str | float | bool | None


NULL = Value("null", None)
TRUE = Value("Boolean", True)
FALSE = Value("Boolean", False)


def evaluate(expression: Expression, properties: Mapping[str, str]) -> Value:
    """``Expression.evaluate`` with these properties. Raises SelectorFailure."""
    match expression:
        case Constant(literal, java_type):
            return Value(java_type, literal)
        case Property(name):
            text = properties.get(name)
            return NULL if text is None else Value("String", text)
        case Negative(operand):
            value = evaluate(operand, properties)
            if value.type in ("Integer", "Long", "Double"):
                return Value(value.type, -_number(value))
            return NULL
        case Truth(operand):
            return NULL if evaluate(operand, properties) == NULL else FALSE
        case Not(operand):
            value = evaluate(operand, properties)
            return NULL if value == NULL else _truth(not value.value)
        case And(parts):
            return _first(parts, properties, ends=FALSE, otherwise=TRUE)
        case Or(parts):
            return _first(parts, properties, ends=TRUE, otherwise=FALSE)
        case IsNull(operand):
            return _truth(evaluate(operand, properties) == NULL)
        case TextTest(operand, _, search):
            # An empty search is false before the operand is evaluated, which could fail.
            return _text_test(expression, evaluate(operand, properties)) if search else FALSE
        case In(operand, values, negated):
            value = evaluate(operand, properties)
            return NULL if value == NULL else _truth((value.value in values) != negated)
        case Comparison():
            return _comparison(expression, properties)


def _number(value: Value) -> float:
    return cast("float", value.value)


def _truth(value: bool) -> Value:
    return TRUE if value else FALSE


def _first(parts: tuple[Expression, ...], properties: Mapping[str, str], ends: Value, otherwise: Value) -> Value:
    unknown = False
    for part in parts:
        value = evaluate(part, properties)
        if value == ends:
            return ends
        unknown = unknown or value == NULL
    return NULL if unknown else otherwise


def _text_test(test: TextTest, value: Value) -> Value:
    if value.type != "String":
        return FALSE
    text = str(value.value)
    holds = {
        "CONTAINS": test.search in text,
        "STARTSWITH": text.startswith(test.search),
        "ENDSWITH": text.endswith(test.search),
    }[test.operator]
    return _truth(holds != test.negated)


def _comparison(comparison: Comparison, properties: Mapping[str, str]) -> Value:
    left = evaluate(comparison.left, properties)
    if left == NULL and comparison.operator != "=":
        return NULL  # before the right side can fail
    right = evaluate(comparison.right, properties)
    if comparison.operator == "=":
        if left == NULL:
            return TRUE if right == NULL else NULL
        if right == NULL:
            return FALSE
        if left.type == right.type and left.type != "Double":
            return _truth(left.value == right.value)
    elif right == NULL:
        return NULL
    try:
        order = _compare(left, right, as_numbers=comparison.operator != "=")
    except NotANumber as error:
        raise SelectorFailure(str(error), comparison.span) from None
    except TypeError:
        problem = "a truth value on the left and a text on the right: the broker throws ClassCastException"
        raise SelectorFailure(problem, comparison.span) from None
    match comparison.operator:
        case "=":
            return _truth(order == 0)
        case "<":
            return _truth(order < 0)
        case "<=":
            return _truth(order <= 0)
        case ">":
            return _truth(order > 0)
        case ">=":
            return _truth(order >= 0)


def _compare(left: Value, right: Value, *, as_numbers: bool) -> int:
    """``ComparisonExpression.__compare``: below, at or above 0. Raises NotANumber; TypeError for a bad cast."""
    match left.type, right.type:
        case "String", "String" if as_numbers:
            return compare_doubles(double_of(str(left.value)), double_of(str(right.value)))
        case "String", other:
            return _compare(_converted(str(left.value), other), right, as_numbers=as_numbers)
        case "Boolean", "String":
            raise TypeError("Boolean cannot be cast to String")
        case other, "String":
            return _compare(left, _converted(str(right.value), other), as_numbers=as_numbers)
        case ("Boolean", other) | (other, "Boolean") if other != "Boolean":
            return -1  # they cannot be compared, and the left one counts as less
        case ("Double", _) | (_, "Double"):
            return compare_doubles(float(_number(left)), float(_number(right)))
        case _:
            return (_number(left) > _number(right)) - (_number(left) < _number(right))


def _converted(text: str, wanted: JavaType) -> Value:
    match wanted:
        case "Boolean":
            return Value(wanted, truth_of(text))
        case "Integer":
            return Value(wanted, integer_of(text))
        case "Long":
            return Value(wanted, long_of(text))
        case "Double":
            return Value(wanted, double_of(text))
        case _:
            raise AssertionError(f"no text is converted to {wanted}")
