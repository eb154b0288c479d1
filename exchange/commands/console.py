"""Print for people, and end a command that cannot go on: the same for all commands."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

import click

from exchange.display import escape_line
from exchange.errors import HashstarError
from exchange.limits import ANSWER_SECONDS

__all__ = ["echo_error", "echo_line", "fail", "seconds_to_answer", "timeout_option"]

TIMEOUT: Final = "hashstar.timeout"
"""The key of the context under which a command keeps its --timeout."""

OWN_BREAK: Final = re.compile(r"\n(?= {2}(?! *(?:::|##\[))|--)")
"""A line break of an error's own: before a text with its caret, or an option. Others are of names, and CI runners take
a line that begins with :: or ##[ for a command."""

LOGIN: Final = re.compile(r"(?<=:/)(/?)[^\s'\"]*@")
"""User and password of an address that was given where a file is wanted, or stands in a line that is shown."""

Command = TypeVar("Command", bound=Callable[..., Any])


def echo_line(text: str, *, err: bool = False) -> None:
    """Print one line, whatever names it holds."""
    click.echo(escape_line(text), err=err)


def echo_error(error: HashstarError | str) -> None:
    """Print an error to standard error; its own line breaks stay, as a caret stands under a text."""
    lines = OWN_BREAK.split(LOGIN.sub(r"\1***@", f"hashstar: {error}"))
    click.echo("\n".join(map(escape_line, lines)), err=True)


def fail(error: HashstarError) -> NoReturn:
    """Print the error and end with 2, the exit code of bad usage and bad input."""
    echo_error(error)
    sys.exit(2)


def timeout_option(command: Command) -> Command:
    """Add --timeout to a command that may ask the management API of a broker; `seconds_to_answer` has its value."""
    return click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        default=ANSWER_SECONDS,
        show_default=True,
        metavar="SECONDS",
        expose_value=False,
        callback=lambda context, _, seconds: context.meta.update({TIMEOUT: seconds}),
        help="Maximum duration of one answer of a broker's management API.",
    )(command)


def seconds_to_answer() -> float:
    """Return the value of the running command's --timeout."""
    seconds: float = click.get_current_context().meta.get(TIMEOUT, ANSWER_SECONDS)
    return seconds
