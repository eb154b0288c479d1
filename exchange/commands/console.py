"""Output of all commands to the terminal: lines, warnings, errors, status and progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeVar

import click

from exchange.display import escape_line, hide_logins, split_error
from exchange.errors import HashstarError, InputError
from exchange.limits import ANSWER_SECONDS

__all__ = [
    "echo_error", "echo_line", "exit_on_error", "fail", "progress", "seconds_to_answer", "show_status", "show_warnings",
    "status", "timeout_option",
]  # fmt: skip

TIMEOUT: Final = "hashstar.timeout"
"""Key of the click context that has the --timeout of a command."""

WARNINGS: Final = 10
"""Maximum number of warnings shown about one file."""

REDRAW_SECONDS: Final = 0.1
"""Minimum number of seconds between two updates of a progress bar."""

BAR: Final = 30
"""Width of a progress bar in characters."""

Command = TypeVar("Command", bound=Callable[..., Any])

Step = Callable[[int, int], None]
"""Function that takes what is done and the total, in any unit; the total is 0 while it is unknown."""


def echo_line(text: str, *, err: bool = False) -> None:
    """Print a text as one line, whatever names it quotes."""
    click.echo(escape_line(text), err=err)


def echo_text(text: str) -> None:
    """Print lines that are escaped already, in UTF-8, whatever the terminal's encoding."""
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()


def echo_error(error: HashstarError | str) -> None:
    """Print an error to standard error, with its own line breaks: a caret stands under the text it is about."""
    click.echo("\n".join(split_error(f"hashstar: {error}")), err=True)


def fail(error: HashstarError) -> NoReturn:
    """Print the error and exit with its exit code: 2 for bad usage and bad input, unless its class has another one."""
    echo_error(error)
    sys.exit(error.exit_code)


@contextmanager
def exit_on_error(extra: str = "") -> Iterator[None]:
    """End the command as `fail` does for a HashstarError, and for a missing module if ``extra`` installs it."""
    try:
        yield
    except HashstarError as error:
        fail(error)
    except ImportError as error:
        if not extra:
            raise
        fail(InputError(f"this needs {error.name}: pip install 'hashstar[{extra}]'"))


def show_warnings(name: str, warnings: Sequence[object]) -> None:
    """Print the first `WARNINGS` warnings about a file to standard error, and the number of the others."""
    for warning in warnings[:WARNINGS]:
        echo_line(hide_logins(f"{name}: warning: {warning}"), err=True)
    if len(warnings) > WARNINGS:
        echo_line(hide_logins(f"{name}: warning: and {len(warnings) - WARNINGS} more"), err=True)


def show_status(text: str) -> None:
    """Show a status on a terminal, in a line that the next status overwrites; "" removes it."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{escape_line(hide_logins(text))}", nl=False, err=True)


@contextmanager
def status(text: str) -> Iterator[Callable[[str], None]]:
    """Show what is being done until it ends; yield the function that shows another text."""
    show_status(text)
    try:
        yield show_status
    finally:
        show_status("")


@contextmanager
def progress(label: str) -> Iterator[Step]:
    """Show a progress bar on a terminal, nothing in a pipe. Yield the function that updates it."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    started = time.monotonic()
    drawn = -REDRAW_SECONDS

    def step(done: int, total: int) -> None:
        nonlocal drawn
        seconds = time.monotonic() - started
        if seconds - drawn < REDRAW_SECONDS:
            return
        drawn = seconds
        done = min(done, total)
        full = BAR * done // total if total else 0
        share = f"{100 * done // total:>3}%" if total else "  ?%"
        clock = f"{int(seconds) // 60}:{int(seconds) % 60:02}"
        show_status(f"{label}  [{'#' * full}{'-' * (BAR - full)}]  {share}  {clock}")

    try:
        step(0, 0)
        yield step
    finally:
        show_status("")


def timeout_option(command: Command) -> Command:
    """Add --timeout to a command that may use the management API of a broker; `seconds_to_answer` returns its value."""
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
