"""Why a selector takes a message or does not: what each of its parts came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from exchange.display import escape_line
from exchange.errors import HashstarError
from exchange.selector.expression import And, Expression, Not, Or, Property, children, walk
from exchange.selector.meaning import evaluate
from exchange.selector.selector import Selector

__all__ = ["Part", "describe", "explain", "to_json"]

OUTCOMES: Final = {True: "true", False: "false", None: "unknown"}


class Part(NamedTuple):
    """A condition of a selector, and what it came to for a message."""

    text: str
    depth: int
    """0 is the whole selector, 1 a part of it, and so on."""
    outcome: str
    """``true``, ``false``, ``unknown`` or ``fails``."""
    why: str
    """The message's properties in it, and what failed; empty for what has parts of its own."""


def explain(selector: Selector, properties: Mapping[str, str]) -> list[Part]:
    """Each part with its outcome, the whole first. Parts that the broker would not come to are there too."""
    return list(_parts(selector, selector.expression, properties, 0))


def _parts(selector: Selector, expression: Expression, properties: Mapping[str, str], depth: int) -> Iterator[Part]:
    text = " ".join(selector.text[slice(*expression.span)].split())
    is_joined = isinstance(expression, And | Or) and all(part.span != expression.span for part in expression.parts)
    joined = children(expression) if is_joined else ()
    if isinstance(expression, Not) and isinstance(expression.operand, And | Or):
        joined = (expression.operand,)
    values = "" if joined else ", ".join(_shown(name, properties) for name in _names(expression))
    try:
        outcome = OUTCOMES[evaluate(expression, properties).value]  # type: ignore[index]
    except HashstarError as error:
        outcome, values = "fails", "" if joined else str(error)
    yield Part(text, depth, outcome, values)
    for part in joined:
        yield from _parts(selector, part, properties, depth + 1)


def _names(expression: Expression) -> list[str]:
    return list(dict.fromkeys([each.name for each in walk(expression) if isinstance(each, Property)]))


def _shown(name: str, properties: Mapping[str, str]) -> str:
    return f"{name} is {properties[name]!r}" if name in properties else f"there is no {name}"


def describe(parts: list[Part]) -> str:
    """The parts as lines of text, aligned."""
    texts = ["  " * part.depth + part.text for part in parts]
    width = min(60, max(map(len, texts)))
    lines = [f"{text:<{width}}  {part.outcome:<7}  {part.why}" for text, part in zip(texts, parts, strict=True)]
    return "\n".join([escape_line(line.rstrip()) for line in lines])


def to_json(parts: list[Part]) -> list[dict[str, Any]]:
    """The parts as JSON's objects."""
    return [part._asdict() for part in parts]
