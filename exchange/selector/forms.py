"""The forms of what `hashstar selector` prints: what a check of a selector finds, and whether it matches a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypedDict

from exchange.selector import explanation
from exchange.selector.selector import Selector
from exchange.selector.tags import TAGS, Tags
from exchange.values.documents import encode_as
from exchange.values.forms import Form, Forms


class RemarkJson(TypedDict):
    """A part of a selector that never matches, or means something else than it seems to."""

    message: str
    span: tuple[int, int]
    """Where it is in the expression: the first character, and the one behind the last."""


class RemarksJson(TypedDict):
    """What a check has found."""

    ignored: tuple[int, int] | None
    """The part of the expression that the broker ignores: the first character, and the one behind the last."""
    remarks: list[RemarkJson]


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


class SelectorMatchJson(TypedDict):
    """A selector and a message: `hashstar selector match --json`."""

    matches: bool
    parts: list[explanation.Part]
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
    found: RemarksJson = {
        "ignored": ignored,
        "remarks": [{"message": each.message, "span": each.span} for each in remarks],
    }
    return {**_summary(selector), **found}


def match_to_text(selector: Selector | Tags, properties: Mapping[str, str]) -> Iterator[str]:
    """Yield whether a selector matches a message, and the value of each part."""
    matches = selector(properties)
    yield "matches" if matches else "does not match"
    if isinstance(selector, Selector):
        yield from explanation.describe(explanation.explain(selector, properties)).split("\n")
    elif not matches and selector.sends(properties.get(TAGS)):
        yield "the broker sends it, as its tag has the same hash as another; the client drops it"


def match_to_json(selector: Selector | Tags, properties: Mapping[str, str]) -> Any:
    """Return what `match_to_text` yields as JSON values."""
    matches = selector(properties)
    if isinstance(selector, Selector):
        value: SelectorMatchJson = {"matches": matches, "parts": explanation.explain(selector, properties)}
        return encode_as(SelectorMatchJson, value)
    sent: TagsMatchJson = {"matches": matches, "sent": selector.sends(properties.get(TAGS))}
    return sent
