"""Compile an expression to a fast test: a Python function generated for it.

Most filters consist of comparisons of a property with a text, a number or a truth value. Such a comparison becomes a
Python comparison with the result of `dict.get`; all other conditions call the definition in
`exchange.selector.meaning`. A property test proves both equal. An expression has two tests. The *exact* test returns
true, false or None for unknown, and raises where the definition fails. The *wanted* test returns only whether the
expression is true, which seldom needs the third value.

The code contains texts, numbers and names of properties of the expression as Python literals (``repr``) only: nothing
that a user wrote is ever run as code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final, NamedTuple, cast

from exchange.selector.expression import (
    And,
    ComparisonExpression,
    Constant,
    Expression,
    In,
    IsNull,
    Negative,
    Not,
    Or,
    Property,
    TextTest,
    Truth,
    walk,
)
from exchange.selector.meaning import SelectorFailure, evaluate
from exchange.values.java_numbers import NotANumber, compare_doubles, parse_double, parse_integer, parse_long

Test = Callable[[Mapping[str, str]], bool | None]
"""Properties of a message -> true, false, or None for unknown. Raises NotANumber, SelectorFailure."""

Wanted = Callable[[Mapping[str, str]], bool]
"""Properties of a message -> whether an expression is true; false if it is unknown or fails."""


class Tests(NamedTuple):
    """The two tests of an expression."""

    wanted: Wanted
    exact: Test


def compile_expression(expression: Expression) -> Tests:
    """Compile an expression that has a truth value."""
    return Tests(
        _compile(expression, _CodeWriter.wanted, "try: return True if {} else False", "except FAILURES: return False"),
        _compile(expression, _CodeWriter.exact, "return {}"),
    )


FAILURES: Final = (NotANumber, SelectorFailure)


def _compile(expression: Expression, write: Callable[[_CodeWriter, Expression, int], str], *end: str) -> Any:
    writer = _CodeWriter(expression)
    body = write(writer, expression, 0)
    reads = [f"{variable} = get({name!r})" for name, variable in writer.read_once.items()]
    lines = ["def test(properties):", "get = properties.get", *reads, end[0].format(body), *end[1:]]
    scope = writer.scope | {"FAILURES": FAILURES}
    exec("\n    ".join(lines), scope)  # noqa: S102  see the head of this module
    return scope["test"]


MAX_LEVELS: Final = 25
"""Maximum number of levels in one function: Python allows 200 nested parentheses, and a level has several."""

MIRRORED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Operator -> operator with the same result when the two sides are exchanged."""
PYTHON: Final = {"=": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
"""Operator -> the operator in Python."""
WHOLE: Final = {"Integer": ("parse_integer", 10), "Long": ("parse_long", 19)}
"""Java type -> name of the function that parses a text, and the number of digits below which ``int`` does the same."""


class _CodeWriter:
    """A writer of Python code; each method returns one expression in parentheses."""

    def __init__(self, expression: Expression) -> None:
        self.scope: dict[str, Any] = {
            "compare_doubles": compare_doubles, "parse_double": parse_double, "parse_integer": parse_integer,
            "parse_long": parse_long,
        }  # fmt: skip
        self._numbers = count()
        names = [each.name for each in walk(expression) if isinstance(each, Property)]
        several = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        self.read_once = {name: self._make_name("v") for name in several}
        """Name of a property that the expression has more than once -> variable with its text."""

    def _make_name(self, letter: str) -> str:
        return f"{letter}{next(self._numbers)}"

    def _pass_in(self, value: Any) -> str:
        """Make a value known to the function and return its name there."""
        name = self._make_name("given")
        self.scope[name] = value
        return name

    def _read(self, name: str) -> tuple[str, str]:
        """Return the code that reads a property the first time, and the code for later times."""
        variable = self.read_once.get(name)
        if variable is not None:
            return variable, variable
        variable = self._make_name("v")
        return f"({variable} := get({name!r}))", variable

    def exact(self, expression: Expression, level: int) -> str:
        """Write code with the definition's value, True, False or None, that fails where the definition fails."""
        if level > MAX_LEVELS:
            return f"{self._pass_in(compile_expression(expression).exact)}(properties)"
        match expression:
            case Not(operand):
                if _is_certain(operand):
                    return f"(not {self.exact(operand, level + 1)})"
                value = self._make_name("t")
                return f"(None if ({value} := {self.exact(operand, level + 1)}) is None else not {value})"
            case And(parts):
                return self._join(parts, level, ends="False", otherwise="True")
            case Or(parts):
                return self._join(parts, level, ends="True", otherwise="False")
            case _:
                return self._leaf(expression, is_exact=True)

    def _join(self, parts: tuple[Expression, ...], level: int, ends: str, otherwise: str) -> str:
        """Write an AND or OR: evaluation stops at the first part that is ``ends``."""
        values = [self._make_name("t") for _ in parts]
        each = [f"({value} := {self.exact(part, level + 1)})" for value, part in zip(values, parts, strict=True)]
        ended = " or ".join([f"{part} is {ends}" for part in each])
        unknown = " or ".join(
            [f"{value} is None" for value, part in zip(values, parts, strict=True) if not _is_certain(part)]
            or ["False"]
        )
        return f"({ends} if {ended} else None if {unknown} else {otherwise})"

    def wanted(self, expression: Expression, level: int) -> str:
        """Write code that is true where the definition is, and fails or is not true where the definition fails."""
        match expression:
            case And(parts) if level <= MAX_LEVELS:
                return f"({' and '.join([self.wanted(part, level + 1) for part in parts])})"
            case Or(parts) if level <= MAX_LEVELS:
                before = [self._true(part, level + 1) for part in parts[:-1]]
                return f"({' or '.join([*before, self.wanted(parts[-1], level + 1)])})"
            case _:
                return self._true(expression, level)

    def _true(self, expression: Expression, level: int) -> str:
        """Write code that is true where the definition is, and fails where the definition fails."""
        match expression:
            case _ if level > MAX_LEVELS:
                return self.exact(expression, level)
            case Not(operand) if not _is_certain(operand):
                return f"({self.exact(operand, level + 1)} is False)"
            case And(parts):
                *first, last = parts
                values = [None if _is_certain(part) else self._make_name("t") for part in first]
                # After a part that is unknown the next part is evaluated, and can fail; after a false one it is not.
                before = [
                    self._true(part, level + 1) if value is None
                    else f"({value} := {self.exact(part, level + 1)}) is not False"
                    for value, part in zip(values, first, strict=True)
                ]  # fmt: skip
                after = [value for value in values if value is not None]
                return f"({' and '.join([*before, self._true(last, level + 1), *after])})"
            case Or(parts):
                return f"({' or '.join([self._true(part, level + 1) for part in parts])})"
            case Not(operand):
                return f"(not {self._true(operand, level + 1)})"
            case _:
                return self._leaf(expression, is_exact=False)

    def _leaf(self, expression: Expression, *, is_exact: bool) -> str:
        """Write a condition that has no conditions as parts."""
        match expression:
            case Constant(value):
                return repr(value)
            case Truth(Property(name)):
                return f"(None if {self._read(name)[0]} is None else False)" if is_exact else "False"
            case IsNull(Property(name)):
                return f"({self._read(name)[0]} is None)"
            case TextTest(Property(name)):
                return self._text_test(name, expression)
            case In(Property(name), values, negated):
                literals, operator = ", ".join(map(repr, sorted(values))), "not in" if negated else "in"
                return self._if_present(name, lambda text: f"{text} {operator} {{{literals}}}", is_exact=is_exact)
            case ComparisonExpression():
                return self._comparison(expression, is_exact=is_exact)
            case _:
                return self._call_definition(expression)

    def _call_definition(self, expression: Expression) -> str:
        return f"{self._pass_in(lambda properties: evaluate(expression, properties).value)}(properties)"

    def _if_present(self, name: str, test: Callable[[str], str], *, is_exact: bool, missing: bool | None = None) -> str:
        """Write a test of a property's text; ``missing`` is the result if the message has no such property."""
        first, then = self._read(name)
        return (
            f"({missing} if {first} is None else {test(then)})"
            if is_exact
            else f"({first} is not None and {test(then)})"
        )

    def _text_test(self, name: str, test: TextTest) -> str:
        if not test.search:
            return "False"
        search, negation = repr(test.search), "not " * test.negated
        holds = {
            "CONTAINS": lambda text: f"{search} {negation}in {text}",
            "STARTSWITH": lambda text: f"{negation}{text}.startswith({search})",
            "ENDSWITH": lambda text: f"{negation}{text}.endswith({search})",
        }[test.operator]
        return self._if_present(name, holds, is_exact=False)

    def _comparison(self, comparison: ComparisonExpression, *, is_exact: bool) -> str:
        match _fold_negative(comparison.left), comparison.operator, _fold_negative(comparison.right):
            case Property(name), order, Constant() as constant:
                return self._if_present(name, _compare_with(constant, order), is_exact=is_exact)
            case Constant(_, java_type) as constant, order, Property(name) if java_type != "Boolean":
                # With a missing property, an equality is false if that is the right side, unknown if it is the left.
                missing = False if order == "=" else None
                test = _compare_with(constant, MIRRORED[order])
                return self._if_present(name, test, is_exact=is_exact, missing=missing)
            case Property(left), order, Property(right) if order != "=":
                return self._two_properties(left, order, right, is_exact=is_exact)
            case _:
                return self._call_definition(comparison)

    def _two_properties(self, left: str, order: str, right: str, *, is_exact: bool) -> str:
        (first, one), (second, other) = self._read(left), self._read(right)
        compare = f"compare_doubles(parse_double({one}), parse_double({other})) {PYTHON[order]} 0"
        if is_exact:
            return f"(None if {first} is None or {second} is None else {compare})"
        return f"({first} is not None and {second} is not None and {compare})"


def _compare_with(constant: Constant, order: str) -> Callable[[str], str]:
    """Return the function that writes the comparison of a text, given as code, with a constant."""
    literal, symbol = repr(constant.value), PYTHON[order]
    match constant.type:
        case "String":
            return lambda text: f"{text} == {literal}"
        case "Boolean":
            return lambda text: f"({text}.lower() == 'true') is {literal}"
        case "Double":
            # NaN is above all numbers in Java; in Python it is neither above nor below any.
            also = " or number != number" if order in (">", ">=") else ""
            return lambda text: f"((number := parse_double({text})) {symbol} {literal}{also})"
        case _:
            convert, digits = WHOLE[constant.type]
            is_simple = "len({0}) < {1} and {0}.isascii() and {0}.isdigit()"
            return lambda text: (
                f"(int({text}) if {is_simple.format(text, digits)} else {convert}({text})) {symbol} {literal}"
            )


def _fold_negative(side: Expression) -> Expression:
    """Return a negated number, such as ``-5``, as a constant, and any other side unchanged."""
    match side:
        case Negative(Constant(value, ("Integer" | "Long" | "Double") as java_type)):
            return Constant(-cast("float", value), java_type)
        case _:
            return side


def _is_certain(expression: Expression) -> bool:
    """Return whether the expression is never unknown."""
    match expression:
        case IsNull() | TextTest() | Constant(_, "Boolean"):
            return True
        case Not(operand):
            return _is_certain(operand)
        case And(parts) | Or(parts):
            return all(map(_is_certain, parts))
        case _:
            return False
