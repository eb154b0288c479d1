"""What an exchange type means stands in `exchange.kinds` alone: no other module compares a type with a string."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from exchange.kinds import KINDS
from tests.support.syntax import read_modules, walk

HOME: Final = "exchange/kinds/"
PLAIN: Final = frozenset({"headers", "topic"})
"""Types whose names are also those of other things: the headers of a message, a topic of Kafka and RocketMQ."""

PARTS: Final = ("startswith", "endswith", "removeprefix", "removesuffix")

NAMES: Final = ("kind", "exchange_type", "exchange_kind")
"""Variables in which an exchange's type is kept."""

ALLOWED: Final = {
    **{
        ("exchange/entities/effects.py", name): "a row of the table of settings, which have nothing to do with routes"
        for name in (*KINDS, "x-delayed-type")
    },
    **{
        ("exchange/entities/predeclared.py", name): "the exchanges that each virtual host has, each with its type"
        for name in ("topic", "direct", "fanout", "headers")
    },
    ("bridge/consumers/requests/requester.py", "direct"): "direct reply-to, which has nothing to do with exchanges",
    **{
        ("bindings/sources/formats/asyncapi_writer.py", name): "a word of AsyncAPI, whose AMQP bindings know no others"
        for name in ("topic", "direct", "fanout", "headers")
    },
}
"""A module and a type that it names -> why that is no decision by the type."""


def strings_of(node: ast.AST) -> Iterator[str]:
    """Yield the string constants that an expression consists of: itself, or the items of a collection."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        for item in node.elts:
            yield from strings_of(item)
    elif isinstance(node, ast.Dict):
        for key in node.keys:
            if key is not None:
                yield from strings_of(key)


def is_type(node: ast.AST) -> bool:
    """Return whether an expression reads an exchange's type: ``x.type``, or the argument x-delayed-type."""
    if isinstance(node, ast.Call):
        return any(map(is_type, [node.func, *node.args]))
    if isinstance(node, ast.Name):
        return node.id in NAMES
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return any(map(is_type, node.elts))
    if isinstance(node, ast.Attribute):
        return node.attr == "type" or is_type(node.value)
    if isinstance(node, ast.Subscript):
        return is_type(node.value) or is_type(node.slice)
    return isinstance(node, ast.Constant) and node.value == "x-delayed-type"


def comparisons(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Where a type meets a string: compared, asked whether it begins or ends so, looked up, or matched."""
    for node in nodes:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            strings = [text for side in sides for text in strings_of(side)]
            if any(map(is_type, sides)) or any(text in KINDS and text not in PLAIN for text in strings):
                yield from ((node.lineno, text) for text in strings if text in KINDS)
            if any(isinstance(side, ast.Constant) and side.value == "x-delayed-type" for side in sides):
                yield node.lineno, "x-delayed-type"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in PARTS and is_type(node.func.value):
                texts = [text for argument in node.args for text in strings_of(argument)]
                yield from ((node.lineno, text) for text in texts if any(text in name for name in KINDS))
        elif isinstance(node, ast.Match):
            values = [case.value for case in walk(node) if isinstance(case, ast.MatchValue)]
            yield from ((node.lineno, text) for value in values for text in strings_of(value) if text in KINDS)


def tables(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Where types are items of a set, a sequence, or keys or values of a dictionary, as tables of types have them.

    Plain names count where one that is not stands beside them.
    """
    for node in nodes:
        if isinstance(node, (ast.Set, ast.Tuple, ast.List, ast.Dict)):
            strings = list(strings_of(node))
            if isinstance(node, ast.Dict):
                strings += [text for value in node.values for text in strings_of(value)]
            if any(text in KINDS and text not in PLAIN for text in strings):
                yield from ((node.lineno, text) for text in strings if text in KINDS)


def arguments(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Where x-delayed-type is read at all: only `find_kind` unwraps it."""
    for node in nodes:
        if isinstance(node, ast.Constant) and node.value in ("x-delayed-type", "x-delayed-message"):
            yield node.lineno, str(node.value)


HINT: Final = re.compile(rf"""(['"])({"|".join(map(re.escape, KINDS))})\1|x-delayed-|\b({"|".join(PARTS)})\b""")
"""What a module has in its text that does one of these: without it, there is no need to parse."""


def found_in(source: str) -> set[tuple[int, str]]:
    if not HINT.search(source):
        return set()
    nodes = list(walk(ast.parse(source)))
    return {*comparisons(nodes), *tables(nodes), *arguments(nodes)}


def test_no_module_outside_kinds_compares_an_exchange_s_type_with_a_string() -> None:
    """It asks `find_kind` what the type means; what it may name is listed with the reason, as long as it does."""
    modules = [(path, text) for path, text in read_modules().items() if not path.startswith(HOME)]
    found = [(path, *each) for path, text in modules for each in sorted(found_in(text))]
    faults = [f"{module}:{line}: {text}" for module, line, text in found if (module, text) not in ALLOWED]
    assert not faults, "these decide by an exchange type; ask exchange.kinds.find_kind:\n" + "\n".join(faults)
    unused = ALLOWED.keys() - {(module, text) for module, _, text in found}
    assert not unused, f"named there no more, or not yet, as the arguments of a new type in effects.py: {unused}"


@pytest.mark.parametrize("source", [
    'exchange.type == "topic"', 'if kind not in ("topic", "direct"): pass', 'exchange.type.endswith("random")',
    'SPECIAL = {"headers": 1, "x-consistent-hash": 2}', 'HASHING = frozenset({"x-modulus-hash"})',
    'part.arguments.get("x-delayed-type")', 'kind = "x-delayed-message"', 'TYPES = {"hash": "x-modulus-hash"}',
    'match kind:\n    case "fanout": pass', '"topic" in (exchange.type, 1)', '{"fanout": 1}[exchange.type]',
    'kind == "headers"', 'what == "direct"', 'str(exchange.type) != "headers"',
])  # fmt: skip
def test_each_way_to_decide_by_a_type_is_detected(source: str) -> None:
    """All of these stood in the product once, or nearly."""
    assert found_in(source)
