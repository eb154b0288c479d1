"""``hashstar selector``: check a selector, and evaluate it for a message."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypedDict

import click

from exchange.commands.console import fail
from exchange.commands.options import CommandGroup
from exchange.commands.output import form_options, output_option, print_form
from exchange.errors import HashstarError, InputError
from exchange.selector import explanation
from exchange.selector.selector import LATEST_RELEASE, RELEASES, Selector
from exchange.selector.tags import TAGS, Tags
from exchange.values.documents import encode_as
from exchange.values.forms import Form, Forms

NO_MATCH: Final = 1


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
    "text": Form("exchange.commands.selector:check_to_text", (".txt",)),
    "json": Form("exchange.commands.selector:check_to_json", (".json",)),
}
MATCH_FORMS: Final[Forms] = {
    "text": Form("exchange.commands.selector:match_to_text", (".txt",)),
    "json": Form("exchange.commands.selector:match_to_json", (".json",)),
}


@click.group("selector", cls=CommandGroup, example="hashstar selector check \"NOT region = 'eu'\"")
def selector_command() -> None:
    """Check and evaluate RocketMQ's selectors: SQL92 and tags."""


def _options(command: Any) -> Any:
    for option in (
        output_option,
        form_options(CHECK_FORMS),
        click.option("--exact", is_flag=True, help="Read as the broker does: ignore what it does not parse."),
        click.option("--release", type=click.Choice(list(RELEASES)), default=LATEST_RELEASE, show_default=True,
                     help="RocketMQ release whose language is used."),
        click.option("--tags", "by_tags", is_flag=True, help="Read EXPRESSION as a subscription by tags: a || b."),
    ):  # fmt: skip
        command = option(command)
    return command


@selector_command.command("check", example="hashstar selector check \"NOT region = 'eu'\"")
@_options
@click.argument("expression")
def check_command(expression: str, by_tags: bool, release: str, exact: bool, form: str) -> None:
    """Check a selector as a broker would read it.

    Reports mistakes, and parts of EXPRESSION that never match or mean something else than they seem to.

    Exit codes: 0 fine; 1 accepted, with remarks; 2 refused.
    """
    selector = _parse(expression, by_tags, release, exact)
    print_form(CHECK_FORMS[form], selector, expression)
    sys.exit(1 if isinstance(selector, Selector) and (selector.remarks or selector.ignored) else 0)


@selector_command.command("match", example="hashstar selector match \"region = 'eu'\" -P region=eu")
@_options
@click.option(
    "--property", "-P", "given", multiple=True, metavar="NAME=VALUE", help="Property of the message; repeatable."
)
@click.argument("expression")
def match_command(expression: str, given: tuple[str, ...], by_tags: bool, release: str, exact: bool, form: str) -> None:
    """Evaluate a selector for one message.

    Shows whether EXPRESSION selects a message with these properties, and the value of each part.

    The tag of a message is its property TAGS. Exit codes: 0 it matches; 1 it does not match; 2 EXPRESSION is refused.
    """
    selector = _parse(expression, by_tags, release, exact)
    try:
        properties = dict([_parse_property(each) for each in given])
    except InputError as error:
        fail(error)
    matches = selector(properties)
    print_form(MATCH_FORMS[form], selector, properties)
    sys.exit(0 if matches else NO_MATCH)


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


def _parse(expression: str, by_tags: bool, release: str, exact: bool) -> Selector | Tags:
    try:
        return Tags.parse(expression, exact=exact) if by_tags else Selector.parse(expression, release, exact=exact)
    except HashstarError as error:
        fail(error)


def _parse_property(given: str) -> tuple[str, str]:
    name, separator, value = given.partition("=")
    if not separator:
        raise InputError(f"--property {given!r}: expected NAME=VALUE")
    return name, value
