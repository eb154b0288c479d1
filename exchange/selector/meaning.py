"""The definition of an expression's value for a message: slow and obvious, as RocketMQ's Java classes evaluate it.

A truth value is true, false or null, which means unknown. A property is a text or null; a comparison converts it to the
Java type of the other side. An exception in the broker's evaluation is a `SelectorFailure` here: the broker logs it and
does not deliver the message. The fast test of `exchange.selector.compiled` must agree with this module on every
expression and message, so nothing here may become clever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from exchange.errors import HashstarError
from exchange.selector.expression import (
    And,
    ComparisonExpression,
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
from exchange.values.java_numbers import (
    NotANumber,
    compare_doubles,
    parse_boolean,
    parse_double,
    parse_integer,
    parse_long,
)


class SelectorFailure(HashstarError):
    """An exception in the broker's evaluation of a message; ``span`` is where the comparison that fails is written."""

    def __init__(self, message: str, span: tuple[int, int] = (0, 0)) -> None:
        super().__init__(message)
        self.span = span


class Value(NamedTuple):
    """A Java value: its class, and the Python value for it."""

    type: JavaType
    value: str | float | bool | None


NULL = Value("null", None)
TRUE = Value("Boolean", True)
FALSE = Value("Boolean", False)


def evaluate(expression: Expression, properties: Mapping[str, str]) -> Value:
    """Evaluate as the Java method ``Expression.evaluate`` does with these properties. Raises SelectorFailure."""
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
            return _evaluate_parts(parts, properties, ends=FALSE, otherwise=TRUE)
        case Or(parts):
            return _evaluate_parts(parts, properties, ends=TRUE, otherwise=FALSE)
        case IsNull(operand):
            return _truth(evaluate(operand, properties) == NULL)
        case TextTest(operand, _, search):
            # An empty search is false without evaluating the operand, which could fail.
            return _evaluate_text_test(expression, evaluate(operand, properties)) if search else FALSE
        case In(operand, values, negated):
            value = evaluate(operand, properties)
            return NULL if value == NULL else _truth((value.value in values) != negated)
        case ComparisonExpression():
            return _evaluate_comparison(expression, properties)


def _number(value: Value) -> float:
    return cast("float", value.value)


def _truth(value: bool) -> Value:
    return TRUE if value else FALSE


def _evaluate_parts(
    parts: tuple[Expression, ...], properties: Mapping[str, str], ends: Value, otherwise: Value
) -> Value:
    """Evaluate an AND or OR: stop at the first part that is ``ends``."""
    unknown = False
    for part in parts:
        value = evaluate(part, properties)
        if value == ends:
            return ends
        unknown = unknown or value == NULL
    return NULL if unknown else otherwise


def _evaluate_text_test(test: TextTest, value: Value) -> Value:
    if value.type != "String":
        return FALSE
    text = str(value.value)
    holds = {
        "CONTAINS": test.search in text,
        "STARTSWITH": text.startswith(test.search),
        "ENDSWITH": text.endswith(test.search),
    }[test.operator]
    return _truth(holds != test.negated)


def _evaluate_comparison(comparison: ComparisonExpression, properties: Mapping[str, str]) -> Value:
    left = evaluate(comparison.left, properties)
    if left == NULL and comparison.operator != "=":
        return NULL  # without evaluating the right side, which could fail
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
    """Compare as ``ComparisonExpression.__compare`` does: return a number below, at or above 0.

    Raises NotANumber, and TypeError for a bad cast.
    """
    match left.type, right.type:
        case "String", "String" if as_numbers:
            return compare_doubles(parse_double(str(left.value)), parse_double(str(right.value)))
        case "String", other:
            return _compare(_convert(str(left.value), other), right, as_numbers=as_numbers)
        case "Boolean", "String":
            raise TypeError("Boolean cannot be cast to String")
        case other, "String":
            return _compare(left, _convert(str(right.value), other), as_numbers=as_numbers)
        case ("Boolean", other) | (other, "Boolean") if other != "Boolean":
            return -1  # not comparable: for the broker, the left value is less
        case ("Double", _) | (_, "Double"):
            return compare_doubles(float(_number(left)), float(_number(right)))
        case _:
            return (_number(left) > _number(right)) - (_number(left) < _number(right))


def _convert(text: str, wanted: JavaType) -> Value:
    match wanted:
        case "Boolean":
            return Value(wanted, parse_boolean(text))
        case "Integer":
            return Value(wanted, parse_integer(text))
        case "Long":
            return Value(wanted, parse_long(text))
        case "Double":
            return Value(wanted, parse_double(text))
        case _:
            raise AssertionError(f"no text is converted to {wanted}")
