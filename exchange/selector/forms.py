"""The forms of what `hashstar selector` prints: what a check of a selector finds, and whether it matches a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypedDict

from exchange.errors import HashstarError
from exchange.selector.expression import And, Expression, Not, Or, Property, list_operands, walk
from exchange.selector.meaning import evaluate
from exchange.selector.selector import Remark, Selector
from exchange.selector.tags import TAGS, Tags
from exchange.values.documents import document, encode_as
from exchange.values.forms import Form, Forms


class RemarksJson(TypedDict):
    """What a check has found."""

    ignored: tuple[int, int] | None
    """The part of the expression that the broker ignores: the first character, and the one behind the last."""
    remarks: Sequence[Remark]


class SelectorCheckJson(RemarksJson):
    """A selector in SQL92: `hashstar selector check --json`."""

    properties: list[str]
    """Properties that it reads, sorted."""


class TagsCheckJson(RemarksJson):
    """A subscription by tags: `hashstar selector check --tags --json`."""

    tags: list[str]
    """Sorted; none for a subscription to everything."""
    codes: list[int]
    """Hashes of the tags, which brokers compare."""


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


class SelectorMatchJson(TypedDict):
    """A selector and a message: `hashstar selector match --json`."""

    matches: bool
    parts: list[Part]
    """Each condition with its outcome, the whole selector first."""


class TagsMatchJson(TypedDict):
    """A subscription by tags and a message: `hashstar selector match --tags --json`."""

    matches: bool
    sent: bool
    """Whether the broker sends the message, by the hash of its tag."""


CHECK_FORMS: Final[Forms] = {
    "text": Form("exchange.selector.forms:check_to_text", (".txt",)),
    "json": Form("exchange.selector.forms:check_to_json", (".json",)),
}
MATCH_FORMS: Final[Forms] = {
    "text": Form("exchange.selector.forms:match_to_text", (".txt",)),
    "json": Form("exchange.selector.forms:match_to_json", (".json",)),
}


def _summary(selector: Selector | Tags) -> dict[str, list[Any]]:
    if isinstance(selector, Selector):
        return {"properties": sorted(selector.names)}
    return {"tags": sorted(selector.tags), "codes": sorted(selector.codes)}


def check_to_text(selector: Selector | Tags, expression: str) -> Iterator[str]:
    """Yield the names that a selector uses, what the broker ignores of it, and the remarks."""
    for name, value in _summary(selector).items():
        yield f"{name}: {', '.join(map(str, value)) or 'none'}"
    if isinstance(selector, Selector):
        if selector.ignored is not None:
            yield f"the broker ignores: {expression[selector.ignored[0] :]}"
        for remark in selector.remarks:
            yield from str(remark).split("\n")


def check_to_json(selector: Selector | Tags, _: str) -> Any:
    """Return what `check_to_text` yields as JSON values."""
    remarks, ignored = (selector.remarks, selector.ignored) if isinstance(selector, Selector) else ((), None)
    found: RemarksJson = {"ignored": ignored, "remarks": remarks}
    return {**_summary(selector), **encode_as(RemarksJson, found)}


def match_to_text(selector: Selector | Tags, properties: Mapping[str, str]) -> Iterator[str]:
    """Yield whether a selector matches a message, and the value of each part."""
    matches = selector(properties)
    yield "matches" if matches else "does not match"
    if isinstance(selector, Selector):
        parts = explain_match(selector, properties)
        texts = ["  " * part.depth + part.text for part in parts]
        width = min(60, max(map(len, texts)))
        for text, part in zip(texts, parts, strict=True):
            yield f"{text:<{width}}  {part.outcome:<7}  {part.why}".rstrip()
    elif not matches and selector.sends(properties.get(TAGS)):
        yield "the broker sends it, as its tag has the same hash as another; the client drops it"


def match_to_json(selector: Selector | Tags, properties: Mapping[str, str]) -> Any:
    """Return what `match_to_text` yields as JSON values."""
    matches = selector(properties)
    if isinstance(selector, Selector):
        value: SelectorMatchJson = {"matches": matches, "parts": explain_match(selector, properties)}
        return encode_as(SelectorMatchJson, value)
    sent: TagsMatchJson = {"matches": matches, "sent": selector.sends(properties.get(TAGS))}
    return sent


def explain_match(selector: Selector, properties: Mapping[str, str]) -> list[Part]:
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
