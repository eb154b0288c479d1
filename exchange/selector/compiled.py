"""The fast test of an expression: a Python function that is written for it.

What filters are made of (a property against a text, a number or a truth value) becomes Python's own comparison of what
`dict.get` gives; the rest calls the definition in `exchange.selector.meaning`, which a property test holds this equal
to. There are two tests. The *exact* one gives true, false or None for unknown, and raises where the definition fails.
The *wanted* one tells whether it is true, most of which needs no third value.

Texts and numbers of the expression are written as Python's literals of them (``repr``), names of properties as texts:
nothing of what a user wrote is ever read as code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final, NamedTuple, cast

from exchange.selector.expression import (
    And,
    Comparison,
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
from exchange.selector.numbers import NotANumber, compare_doubles, double_of, integer_of, long_of

__all__ = ["Test", "Tests", "compiled"]

Test = Callable[[Mapping[str, str]], bool | None]
"""Properties -> true, false, or None for unknown. Raises NotANumber, SelectorFailure."""


class Tests(NamedTuple):
    """The two functions of an expression."""

    exact: Test
    wanted: Callable[[Mapping[str, str]], bool]
    """Whether the exact test is true; what is unknown or fails is not."""


def compiled(expression: Expression) -> Tests:
    """The tests of an expression that has a truth value."""
    return Tests(
        _function(expression, _Writer.exact, "return {}"),
        _function(expression, _Writer.wanted, "try: return True if {} else False", "except FAILURES: return False"),
    )


FAILURES: Final = (NotANumber, SelectorFailure)


def _function(expression: Expression, way: Callable[[_Writer, Expression, int], str], *end: str) -> Any:
    writer = _Writer(expression)
    body = way(writer, expression, 0)
    reads = [f"{variable} = get({name!r})" for name, variable in writer.read_once.items()]
    lines = ["def test(properties):", "get = properties.get", *reads, end[0].format(body), *end[1:]]
    scope = writer.scope | {"FAILURES": FAILURES}
    exec("\n    ".join(lines), scope)  # noqa: S102  see the head of this module
    return scope["test"]


MOST_NESTED: Final = 25
"""Levels of one function: Python takes 200 parentheses one in the other."""

MIRRORED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
PYTHON: Final = {"=": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
WHOLE: Final = {"Integer": ("integer_of", 10), "Long": ("long_of", 19)}
"""Java's type -> what converts a text, and the number of digits below which ``int`` does."""


class _Writer:
    """Writes the expressions of Python; each method gives one in parentheses."""

    def __init__(self, expression: Expression) -> None:
        self.scope: dict[str, Any] = {
            "compare_doubles": compare_doubles, "double_of": double_of, "integer_of": integer_of, "long_of": long_of,
        }  # fmt: skip
        self._numbers = count()
        names = [each.name for each in walk(expression) if isinstance(each, Property)]
        several = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        self.read_once = {name: self._new("v") for name in several}
        """Properties that are asked for more than once -> their variables."""

    def _new(self, letter: str) -> str:
        return f"{letter}{next(self._numbers)}"

    def _given(self, value: Any) -> str:
        name = self._new("given")
        self.scope[name] = value
        return name

    def _read(self, name: str) -> tuple[str, str]:
        """How a property is read for the first time, and then."""
        variable = self.read_once.get(name)
        if variable is not None:
            return variable, variable
        variable = self._new("v")
        return f"({variable} := get({name!r}))", variable

    # The ways to be true.

    def exact(self, expression: Expression, level: int) -> str:
        """True, False or None, as the definition has it."""
        if level > MOST_NESTED:
            return f"{self._given(compiled(expression).exact)}(properties)"
        match expression:
            case Not(operand):
                if _is_certain(operand):
                    return f"(not {self.exact(operand, level + 1)})"
                value = self._new("t")
                return f"(None if ({value} := {self.exact(operand, level + 1)}) is None else not {value})"
            case And(parts):
                return self._joined(parts, level, ends="False", otherwise="True")
            case Or(parts):
                return self._joined(parts, level, ends="True", otherwise="False")
            case _:
                return self._leaf(expression, is_exact=True)

    def _joined(self, parts: tuple[Expression, ...], level: int, ends: str, otherwise: str) -> str:
        values = [self._new("t") for _ in parts]
        each = [f"({value} := {self.exact(part, level + 1)})" for value, part in zip(values, parts, strict=True)]
        ended = " or ".join([f"{part} is {ends}" for part in each])
        unknown = " or ".join(
            [f"{value} is None" for value, part in zip(values, parts, strict=True) if not _is_certain(part)]
            or ["False"]
        )
        return f"({ends} if {ended} else None if {unknown} else {otherwise})"

    def wanted(self, expression: Expression, level: int) -> str:
        """True where the definition is true; where that fails it may fail, or not be true."""
        match expression:
            case And(parts) if level <= MOST_NESTED:
                return f"({' and '.join([self.wanted(part, level + 1) for part in parts])})"
            case Or(parts) if level <= MOST_NESTED:
                before = [self._true(part, level + 1) for part in parts[:-1]]
                return f"({' or '.join([*before, self.wanted(parts[-1], level + 1)])})"
            case _:
                return self._true(expression, level)

    def _true(self, expression: Expression, level: int) -> str:
        """True where the definition is true, and failing where that fails."""
        match expression:
            case _ if level > MOST_NESTED:
                return self.exact(expression, level)
            case Not(operand) if not _is_certain(operand):
                return f"({self.exact(operand, level + 1)} is False)"
            case And(parts):
                *first, last = parts
                values = [None if _is_certain(part) else self._new("t") for part in first]
                # Behind what is unknown the next part is evaluated, and can fail; behind what is false it is not.
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

    # What has no parts that are conditions.

    def _leaf(self, expression: Expression, *, is_exact: bool) -> str:
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
                written, within = ", ".join(map(repr, sorted(values))), "not in" if negated else "in"
                return self._if_there(name, lambda text: f"{text} {within} {{{written}}}", is_exact=is_exact)
            case Comparison():
                return self._comparison(expression, is_exact=is_exact)
            case _:
                return self._defined(expression)

    def _defined(self, expression: Expression) -> str:
        return f"{self._given(lambda properties: evaluate(expression, properties).value)}(properties)"

    def _if_there(self, name: str, test: Callable[[str], str], *, is_exact: bool, missing: bool | None = None) -> str:
        """A test of a property's text, and what there is without the property."""
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
        return self._if_there(name, holds, is_exact=False)

    def _comparison(self, comparison: Comparison, *, is_exact: bool) -> str:
        match _folded(comparison.left), comparison.operator, _folded(comparison.right):
            case Property(name), order, Constant() as constant:
                return self._if_there(name, _against(constant, order), is_exact=is_exact)
            case Constant(_, java_type) as constant, order, Property(name) if java_type != "Boolean":
                # Of an equality, what is not there is false on the right and unknown on the left.
                missing = False if order == "=" else None
                return self._if_there(name, _against(constant, MIRRORED[order]), is_exact=is_exact, missing=missing)
            case Property(left), order, Property(right) if order != "=":
                return self._two_properties(left, order, right, is_exact=is_exact)
            case _:
                return self._defined(comparison)

    def _two_properties(self, left: str, order: str, right: str, *, is_exact: bool) -> str:
        (first, one), (second, other) = self._read(left), self._read(right)
        compare = f"compare_doubles(double_of({one}), double_of({other})) {PYTHON[order]} 0"
        if is_exact:
            return f"(None if {first} is None or {second} is None else {compare})"
        return f"({first} is not None and {second} is not None and {compare})"


def _against(constant: Constant, order: str) -> Callable[[str], str]:
    """The test of a text against a constant."""
    literal, symbol = repr(constant.value), PYTHON[order]
    match constant.type:
        case "String":
            return lambda text: f"{text} == {literal}"
        case "Boolean":
            return lambda text: f"({text}.lower() == 'true') is {literal}"
        case "Double":
            # NaN is above all numbers in Java, and neither above nor below in Python.
            also = " or number != number" if order in (">", ">=") else ""
            return lambda text: f"((number := double_of({text})) {symbol} {literal}{also})"
        case _:
            convert, digits = WHOLE[constant.type]
            usual = "len({0}) < {1} and {0}.isascii() and {0}.isdigit()"
            return lambda text: (
                f"(int({text}) if {usual.format(text, digits)} else {convert}({text})) {symbol} {literal}"
            )


def _folded(side: Expression) -> Expression:
    """``-5`` as the constant that it is."""
    match side:
        case Negative(Constant(value, ("Integer" | "Long" | "Double") as java_type)):
            return Constant(-cast("float", value), java_type)
        case _:
            return side


def _is_certain(expression: Expression) -> bool:
    """Whether it is never unknown."""
    match expression:
        case IsNull() | TextTest() | Constant(_, "Boolean"):
            return True
        case Not(operand):
            return _is_certain(operand)
        case And(parts) | Or(parts):
            return all(map(_is_certain, parts))
        case _:
            return False
