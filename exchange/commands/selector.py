"""``hashstar selector``: check a selector, and evaluate it for a message."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from exchange.commands.console import fail
from exchange.commands.options import CommandGroup
from exchange.commands.output import form_options, output_option, print_form
from exchange.errors import HashstarError, InputError
from exchange.selector.forms import CHECK_FORMS, MATCH_FORMS
from exchange.selector.selector import LATEST_RELEASE, RELEASES, Selector
from exchange.selector.tags import Tags

NO_MATCH: Final = 1


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
