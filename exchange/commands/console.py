"""Output of all commands to the terminal: lines, warnings, errors, status and progress."""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from exchange.commands.operands import explain_swapped
from exchange.errors import HashstarError, InputError
from exchange.text.display import escape_line, hide_logins, split_error
from exchange.text.site import build_install_command

if TYPE_CHECKING:  # not at run time: each command would load the engine
    from exchange.entities.profile import Profile

QUIET: Final = "hashstar.quiet"
"""Key of the click context that is set where results and errors only are to be shown."""
VERBOSE: Final = "hashstar.verbose"
"""Key of the click context that has the number of times that --verbose is given."""

PROGRAM: Final = "hashstar.program"
"""Object of the click context of a program that ends with its command."""

WARNINGS: Final = 10
"""Maximum number of warnings shown about one file."""

REDRAW_SECONDS: Final = 0.1
"""Minimum number of seconds between two updates of a progress bar."""

BAR: Final = 30
"""Width of a progress bar in characters."""

Step = Callable[[int, int], None]
"""Function that takes what is done and the total, in any unit; the total is 0 while it is unknown."""


def echo_line(text: str, *, err: bool = False) -> None:
    """Print a text as one line, whatever names it quotes; a note to standard error only if notes are wanted."""
    if not (err and is_quiet()):
        click.echo(escape_line(text), err=err)


def echo_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print each of these texts as one line."""
    for line in lines:
        echo_line(line, err=err)


def is_quiet() -> bool:
    """Return whether the running command is to show results and errors only."""
    return bool(_ask_context(QUIET))


def _ask_context(key: str) -> Any:
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(key)


def echo_error(error: HashstarError | str) -> None:
    """Print an error to standard error, with its own line breaks: a caret stands under the text it is about."""
    click.echo("\n".join(split_error(f"hashstar: {error}")), err=True)


class Failed(SystemExit):
    """The end of a command by an error: what it has printed is not whole, whatever its exit code."""


def fail(error: HashstarError) -> NoReturn:
    """Print the error and exit with its exit code: 2 for bad usage and bad input, unless its class has another one."""
    echo_error(error)
    if swapped := explain_swapped(click.get_current_context(silent=True)):
        echo_error(swapped)
    if _ask_context(VERBOSE):
        traceback.print_exc()
    raise Failed(error.exit_code)


def at_terminal() -> bool:
    """Return whether a user can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirm(question: str, without: str, *, yes: bool) -> None:
    """Ask whether to go on, unless the answer is ``yes`` already; end the command with 1 if not.

    ``without`` says what to do where no user can be asked, which ends it with 2.
    """
    if yes:
        return
    if not at_terminal():
        fail(InputError(f"cannot ask for confirmation without a terminal; {without}"))
    if not click.confirm(escape_line(question)):
        echo_error("nothing was changed")
        sys.exit(1)


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
        fail(InputError(f"this needs {error.name}: {build_install_command(extra)}"))


def is_program() -> bool:
    """Return whether the process ends with the running command, rather than being that of a caller."""
    context = click.get_current_context(silent=True)
    return context is not None and context.find_root().obj == PROGRAM


def catch_signals(act: Callable[[], object], *numbers: signal.Signals) -> None:
    """Call a function for each of these signals until the running command ends; then they do again what they did.

    In a program, until it ends: others often send a signal twice, and the second one must not change the exit code. In
    the process of a caller, a handler that stayed behind would be inherited by the workers that it forks and then
    cannot end.
    """
    context = click.get_current_context().find_root()
    for number in numbers:
        before = signal.signal(number, lambda *_: act())
        if not is_program():
            context.call_on_close(partial(signal.signal, number, signal.SIG_DFL if before is None else before))


def interrupt_at(*numbers: signal.Signals) -> None:
    """Raise KeyboardInterrupt at the first of these signals; what tidies up after it is not interrupted by others."""
    interrupts = [KeyboardInterrupt()]

    def interrupt() -> None:
        if interrupts:
            raise interrupts.pop()

    catch_signals(interrupt, *numbers)


def show_warnings(name: str, warnings: Sequence[object]) -> None:
    """Print the first `WARNINGS` warnings about a file to standard error, and the number of the others."""
    for warning in warnings[:WARNINGS]:
        echo_line(hide_logins(f"{name}: warning: {warning}"), err=True)
    if len(warnings) > WARNINGS:
        echo_line(hide_logins(f"{name}: warning: and {len(warnings) - WARNINGS} more"), err=True)


def show_caveat(profile: Profile) -> None:
    """Show the caveat of a profile on standard error, if it has one."""
    if profile.caveat:
        echo_line(f"hashstar: warning: {profile.caveat}", err=True)


def write_status(text: str) -> None:
    """Show a status on a terminal, in a line that the next status overwrites; "" removes it."""
    if sys.stderr.isatty() and not is_quiet():
        click.echo(f"\r\033[K{escape_line(hide_logins(text))}", nl=False, err=True)


@contextmanager
def show_status(text: str) -> Iterator[Callable[[str], None]]:
    """Show what is being done until it ends; yield the function that shows another text."""
    write_status(text)
    try:
        yield write_status
    finally:
        write_status("")


@contextmanager
def show_progress(label: str) -> Iterator[Step]:
    """Show a progress bar on a terminal, nothing in a pipe. Yield the function that updates it."""
    if is_quiet() or not sys.stderr.isatty():
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
        write_status(f"{label}  [{'#' * full}{'-' * (BAR - full)}]  {share}  {clock}")

    try:
        step(0, 0)
        yield step
    finally:
        write_status("")
