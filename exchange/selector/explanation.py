"""Explain why a selector matches a message or not: the outcome of each of its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from exchange.errors import HashstarError
from exchange.selector.expression import And, Expression, Not, Or, Property, list_operands, walk
from exchange.selector.meaning import evaluate
from exchange.selector.selector import Selector
from exchange.text.display import escape_line
from exchange.values.documents import document

Outcome = Literal["true", "false", "unknown", "fails"]

OUTCOMES: Final[dict[bool | None, Outcome]] = {True: "true", False: "false", None: "unknown"}


@document("PartJson")
class Part(NamedTuple):
    """A condition of a selector with its outcome for a message."""

    text: str
    depth: int
    """Level of nesting; 0 is the whole selector."""
    outcome: Outcome
    why: str
    """The message's properties in the condition, or why it fails; empty if the condition has parts."""


def explain(selector: Selector, properties: Mapping[str, str]) -> list[Part]:
    """Return each part with its outcome, the whole selector first, also parts that the broker would not evaluate."""
    return list(_explain_parts(selector, selector.expression, properties, 0))


def _explain_parts(
    selector: Selector, expression: Expression, properties: Mapping[str, str], depth: int
) -> Iterator[Part]:
    text = " ".join(selector.text[slice(*expression.span)].split())
    is_joined = isinstance(expression, And | Or) and all(part.span != expression.span for part in expression.parts)
    conditions = list_operands(expression) if is_joined else ()
    if isinstance(expression, Not) and isinstance(expression.operand, And | Or):
        conditions = (expression.operand,)
    values = "" if conditions else ", ".join(_describe_property(name, properties) for name in _names(expression))
    try:
        outcome = OUTCOMES[evaluate(expression, properties).value]  # type: ignore[index]
    except HashstarError as error:
        outcome = "fails"
        values = "" if conditions else str(error)
    yield Part(text, depth, outcome, values)
    for condition in conditions:
        yield from _explain_parts(selector, condition, properties, depth + 1)


def _names(expression: Expression) -> list[str]:
    return list(dict.fromkeys([each.name for each in walk(expression) if isinstance(each, Property)]))


def _describe_property(name: str, properties: Mapping[str, str]) -> str:
    return f"{name} is {properties[name]!r}" if name in properties else f"there is no {name}"


def describe(parts: list[Part]) -> str:
    """Return the parts as aligned lines of text."""
    texts = ["  " * part.depth + part.text for part in parts]
    width = min(60, max(map(len, texts)))
    lines = [f"{text:<{width}}  {part.outcome:<7}  {part.why}" for text, part in zip(texts, parts, strict=True)]
    return "\n".join([escape_line(line.rstrip()) for line in lines])
