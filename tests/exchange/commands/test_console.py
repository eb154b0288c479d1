"""The console of all commands: what a terminal sees, and what a pipe does not."""

from __future__ import annotations

import re
import signal
from io import StringIO

import click
import pytest
from click.testing import CliRunner

from exchange.commands import console
from exchange.commands.console import (
    catch_signals,
    exit_on_error,
    interrupt_at,
    show_progress,
    show_status,
    show_warnings,
)
from exchange.errors import HashstarError, InputError
from exchange.text.site import build_install_command
from tests.support.syntax import read_modules


class Terminal(StringIO):
    """A terminal, with what is printed to it."""

    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return what is standard error now; each state of a bar is drawn. No fixture: pytest opens its own before a test."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(console, "REDRAW_SECONDS", 0)
    return terminal


def test_a_terminal_sees_how_far_a_job_is_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with show_progress("counting") as step:
        step(1, 4)
        step(5, 4)  # a file may have grown
    *states, last = terminal.getvalue().split("\r\033[K")[1:]
    assert [" ".join(state.split()[:-1]) for state in states] == [
        f"counting [{'-' * 30}] ?%",
        f"counting [{'#' * 7}{'-' * 23}] 25%",
        f"counting [{'#' * 30}] 100%",
    ]
    assert last == ""


def test_status_and_progress_are_not_printed_to_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with show_status("reading ...") as show, show_progress("counting") as step:
        show("thinking ...")
        step(1, 4)
    assert capsys.readouterr() == ("", "")


def test_a_status_is_gone_before_an_error_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with pytest.raises(SystemExit), exit_on_error(), show_status("reading ..."):
        raise InputError("no such file")
    assert terminal.getvalue() == "\r\033[Kreading ...\r\033[Khashstar: no such file\n"


class Stopped(HashstarError):
    """An error with an exit code of its own."""

    exit_code = 1


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InputError("no such file"), 2, "hashstar: no such file\n"),
        (Stopped("too many"), 1, "hashstar: too many\n"),
        (ImportError(name="numpy"), 2, f"hashstar: this needs numpy: {build_install_command('audit')}\n"),
    ],
    ids=repr,
)
def test_a_command_ends_with_the_exit_code_of_its_error(error: Exception, code: int, text: str) -> None:
    @click.command()
    def command() -> None:
        with exit_on_error("audit"):
            raise error

    result = CliRunner().invoke(command)
    assert (result.exit_code, result.stderr) == (code, text)


def test_missing_modules_that_no_extra_brings_are_no_error_of_ours() -> None:
    with pytest.raises(ImportError), exit_on_error():
        raise ImportError(name="numpy")


def test_only_the_first_of_many_warnings_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_warnings("t.bindings", list(range(12)))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "t.bindings: warning: 0"
    assert lines[10:] == ["t.bindings: warning: and 2 more"]


ENDING = (signal.SIGINT, signal.SIGTERM)
OWNERS = {"exchange/commands/console.py", "bridge/daemon/signals.py"}
"""What sets handlers of signals: the first until its command ends, the second in processes of its own."""


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize("raises", [True, False])
def test_signals_are_caught_until_a_command_ends_and_then_do_what_they_did(
    number: signal.Signals, raises: bool
) -> None:
    before, caught = [signal.getsignal(each) for each in ENDING], []

    @click.command
    def command() -> None:
        if raises:
            interrupt_at(*ENDING)
        else:
            catch_signals(lambda: caught.append(number), *ENDING)
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            caught.append(number)
        for each in ENDING:  # the second one of a program that sends it twice
            signal.raise_signal(each)

    @click.group
    def group() -> None:
        pass

    group.add_command(command)
    assert CliRunner().invoke(group, ["command"]).exit_code == 0
    assert len(caught) == (1 if raises else 3)
    assert [signal.getsignal(each) for each in ENDING] == before


def test_nothing_else_sets_handlers_of_signals() -> None:
    setting = {
        path
        for path, text in read_modules().items()
        if re.search(r"signal\.signal\(|\(signal\.signal\b|add_signal_handler|set_wakeup_fd", text)
    }
    assert setting == OWNERS
