"""``hashstar bridge``: messages from sources through a topology to targets."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from exchange.commands.console import catch_signals, echo_error, is_program
from exchange.commands.options import CommandGroup
from exchange.commands.output import form_options, output_option, print_form
from exchange.errors import HashstarError
from exchange.files.names import TOPOLOGIES
from exchange.files.operating_system import find_signals
from exchange.text.display import hide_logins
from exchange.text.site import build_page_address
from exchange.values.forms import Form, Forms

FORMS: Final[Forms] = {
    "text": Form("bridge.daemon.probe:format_report", (".txt",)),
    "json": Form("bridge.daemon.probe:encode_report", (".json",), indent=2),
}
"""The forms of what a check of a bridge finds."""
ELSEWHERE: Final = (
    'all settings of a bridge are keys of BRIDGE.TOML, such as http = "127.0.0.1:9410" for its status page '
    f"({build_page_address('bridge-configuration')})"
)
"""Where to look for what is no option of these commands."""
LEAVING: Final = 0.5
"""Maximum number of seconds that threads of client libraries can keep the process after the command is done."""


class ConfigPath(click.Path):
    """The type of an argument with the file of a bridge, which may be mistaken for what the file names."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; end the command for an address or a topology, with what to write."""
        shown = hide_logins(str(value))
        key = is_what = ""
        if "://" in shown:
            key, is_what = f'[sources.NAME] or [targets.NAME], as url = "{shown}"', "an address"
        elif shown.endswith(TOPOLOGIES):
            key, is_what = f'the file, as topology = "{shown}"', "a topology"
        if not is_what:
            return Path(os.fsdecode(super().convert(value, param, ctx)))
        way = f"it stands in {key}. {build_page_address('bridge')} has a whole file"
        run = f"then run: hashstar bridge {ctx.info_name if ctx else 'check'} bridge.toml"
        raise click.BadParameter(f"{shown} is {is_what}, and a bridge is a TOML file: {way}; {run}", ctx, param)


@click.group("bridge", cls=CommandGroup, example="hashstar bridge check bridge.toml", default="run")
def bridge_command() -> None:
    """Move messages between RabbitMQ, Kafka, RocketMQ and archives."""


@bridge_command.command("run", example="hashstar bridge run bridge.toml", elsewhere=ELSEWHERE)
@click.option("--worker", type=click.IntRange(min=1), hidden=True, help="Number of this worker.")
@click.argument("path", metavar="BRIDGE.TOML", type=ConfigPath())
def run_command(worker: int | None, path: Path) -> None:
    """Run a bridge: at least once, in order, nothing lost.

    It runs until its sources end, or until SIGTERM or Ctrl-C; a second signal, at least a second later, ends it at
    once. SIGUSR1 pauses it, SIGUSR2 resumes it. SIGHUP has it read BRIDGE.TOML again, and go on as that says; what is
    wrong is refused as a whole, and logged.

    If a broker, a queue or a permission is missing, it logs that and waits for it; "bridge check" finds it before.

    Exit codes: 0 all messages read are settled, 1 some are not and will be read again, 2 bad usage or configuration.
    """
    hangups, owns_process = _hold_hangups(), is_program()

    async def run_to_end() -> int:
        from bridge.daemon.config import read_config
        from bridge.daemon.journal import Journal
        from bridge.daemon.run import run

        config = read_config(path, worker=worker)
        journal = Journal(config.log_format, config.log_level, worker=worker)
        with journal.listen():
            settled = await run(
                config, journal, worker=worker, handle_signals=True, owns_process=owns_process, hangups=hangups
            )
            return 0 if settled else 1

    _exit_after(run_to_end())


def _exit_after(work: Coroutine[Any, Any, int]) -> NoReturn:
    """Run a coroutine on an event loop, and exit with its result: in a program soon, whatever threads of clients do.

    The process of a caller is not ours to end. The loop waits by select or better: pika's connections need such a one.
    """
    from bridge.daemon.signals import end_process_within

    leaving: list[threading.Timer] = []
    owns_process = is_program()

    async def work_to_end() -> int:
        code = await work
        if owns_process:
            leaving.append(end_process_within(LEAVING, code))
        return code

    try:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            code = runner.run(work_to_end())
    except HashstarError as error:
        _fail(error)
    finally:
        for timer in leaving:
            timer.cancel()
    sys.exit(code)


def _fail(error: HashstarError) -> NoReturn:
    """Print an error, or each mistake of a configuration in a line of its own, and exit with 2."""
    from bridge.mistakes import ConfigError

    for each in error.mistakes if isinstance(error, ConfigError) else (error,):
        echo_error(each)
    sys.exit(2)


def _hold_hangups() -> list[int]:
    """Catch SIGHUP, which ends a process by default; return the list to which each one is added.

    The bridge's own handler takes over once the event loop runs.
    """
    held: list[int] = []
    for number in find_signals("SIGHUP"):
        catch_signals(partial(held.append, number), number)
    return held


@bridge_command.command("check", example="hashstar bridge check bridge.toml", elsewhere=ELSEWHERE)
@click.option("--offline", is_flag=True, help="Check the file only, without connecting to anything.")
@form_options(FORMS)
@output_option
@click.argument("path", metavar="BRIDGE.TOML", type=ConfigPath())
def check_command(offline: bool, form: str, path: Path) -> None:
    """Check a configuration, and everything that it names.

    It leaves no trace at brokers: no message is taken or written, no group is joined, nothing is declared. It may run
    beside the bridge, at any time.

    Exit codes: 0 ready to run (warnings included), 1 something is missing or wrong, 2 bad usage or configuration.
    """

    async def run_check() -> int:
        from bridge.daemon.config import read_config
        from bridge.daemon.probe import check

        # Clients log each attempt to connect; the findings already have the reason, once.
        logging.getLogger("bridge").addHandler(logging.NullHandler())
        report = await check(read_config(path), offline=offline)
        print_form(FORMS[form], report)
        return 1 if report.errors else 0

    _exit_after(run_check())
