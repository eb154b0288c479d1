"""Print for people, and end a command that cannot go on: the same for all commands."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from exchange.display import escape_line, escape_lines
from exchange.errors import HashstarError

__all__ = ["echo_error", "echo_line", "fail"]


def echo_line(text: str, *, err: bool = False) -> None:
    """Print one line, whatever names it holds."""
    click.echo(escape_line(text), err=err)


def echo_error(error: HashstarError | str) -> None:
    """Print an error to standard error; its own line breaks stay, as a caret stands under a text."""
    click.echo(escape_lines(f"hashstar: {error}"), err=True)


def fail(error: HashstarError) -> NoReturn:
    """Print the error and end with 2, the exit code of bad usage and bad input."""
    echo_error(error)
    sys.exit(2)
