"""``hashstar bridge``: messages from sources through a topology to targets."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar

import click

from bindings.sources.address import has_scheme
from exchange.commands.console import echo_error, exit_on_error, is_program
from exchange.commands.options import CommandGroup, wait_option
from exchange.commands.output import form_options, output_option, print_form
from exchange.errors import HashstarError
from exchange.files.names import TOPOLOGIES, WEB
from exchange.text.display import escape_lines, hide_logins
from exchange.text.site import build_page_address
from exchange.values.forms import Form, Forms

if TYPE_CHECKING:
    from bridge.daemon.asking.orders import Result

Function = TypeVar("Function", bound=Callable[..., Any])

FORMS: Final[Forms] = {
    "text": Form("bridge.daemon.probe:format_report", (".txt",)),
    "json": Form("bridge.daemon.probe:encode_report", (".json",), indent=2),
}
"""The forms of what a check of a bridge finds."""
STATUS_FORMS: Final[Forms] = {
    "text": Form("bridge.daemon.asking.forms:to_text", (".txt",)),
    "json": Form("bridge.daemon.asking.forms:to_json", (".json",), indent=2),
}
"""The forms of the state of a bridge that runs."""
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


class BridgePlace(ConfigPath):
    """The type of an argument with the file of a bridge that runs, or the address at which one serves HTTP."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, or the address as it is."""
        return value if has_scheme(str(value), WEB) else super().convert(value, param, ctx)


def _add_place(seconds: float) -> Callable[[Function], Function]:
    """Return what gives a command the bridge that it asks, and the maximum time for the answer of all its workers."""

    def add(function: Function) -> Function:
        option = wait_option(seconds, "Maximum time until all workers have answered, and done it.")
        place = click.argument("place", metavar="BRIDGE.TOML|URL", type=BridgePlace())
        return pipeline_option(option(place(function)))

    return add


pipeline_option: Final = click.option(
    "--pipeline", metavar="NAME", help="Pipeline of a file with several; without it, all of them."
)


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
    owns_process = is_program()
    if owns_process:
        from bridge.daemon.signals import handle_early_signals

        handle_early_signals()

    async def run_to_end() -> int:
        from bridge.daemon.config import read_config
        from bridge.daemon.journal import Journal
        from bridge.daemon.run import run

        config = read_config(path, worker=worker)
        journal = Journal(config.log_format, config.log_level, worker=worker)
        with journal.listen():
            settled = await run(config, journal, worker=worker, handle_signals=True, owns_process=owns_process)
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


@bridge_command.command("check", example="hashstar bridge check bridge.toml", elsewhere=ELSEWHERE)
@click.option("--offline", is_flag=True, help="Check the file only, without connecting to anything.")
@form_options(FORMS)
@output_option
@pipeline_option
@click.argument("path", metavar="BRIDGE.TOML", type=ConfigPath())
def check_command(offline: bool, form: str, pipeline: str | None, path: Path) -> None:
    """Check a configuration, and everything that it names.

    It leaves no trace at brokers: no message is taken or written, no group is joined, nothing is declared. It may run
    beside the bridge, at any time.

    Exit codes: 0 ready to run (warnings included), 1 something is missing or wrong, 2 bad usage or configuration.
    """

    async def run_check() -> int:
        from bridge.daemon.config import read_config
        from bridge.daemon.probe import check, choose_pipeline

        config = read_config(path)
        report = await check(config if pipeline is None else choose_pipeline(config, pipeline), offline=offline)
        print_form(FORMS[form], report)
        return 1 if report.errors else 0

    _exit_after(run_check())


@bridge_command.command("status", example="hashstar bridge status bridge.toml")
@form_options(STATUS_FORMS)
@output_option
@_add_place(10.0)
def status_command(form: str, place: Path | str, pipeline: str | None, wait: float) -> None:
    """Show the state of a bridge that runs: sources, targets, conditions.

    It asks the address under http in BRIDGE.TOML, all workers at once; URL is the address of one of them.

    Exit codes: 0 ready, 1 not ready, 2 a process cannot be reached, or bad usage.
    """
    with exit_on_error():
        from bridge.daemon.asking.processes import find_addresses, read_all

        answers = read_all(find_addresses(str(place), wait), wait, pipeline)
    if answers.processes or form != "text":
        print_form(STATUS_FORMS[form], answers)
    for each in answers.errors:
        echo_error(each)
    sys.exit(2 if answers.errors else 0 if all(each.state == "ready" for each in answers.processes) else 1)


@bridge_command.command("pause", example="hashstar bridge pause bridge.toml")
@_add_place(10.0)
def pause_command(place: Path | str, pipeline: str | None, wait: float) -> None:
    """Have a bridge that runs read nothing more; its connections stay.

    Exit codes: 0 paused, 1 not yet, 2 a process cannot be reached, or bad usage.
    """
    _give_order("pause", place, pipeline, wait)


@bridge_command.command("drain", example="hashstar bridge drain bridge.toml --wait 5m")
@_add_place(60.0)
def drain_command(place: Path | str, pipeline: str | None, wait: float) -> None:
    """Have a bridge settle all that it has read, and close its sources.

    It stays up, with its targets connected, and goes on with "bridge resume". What is not settled in time is still
    waited for: the command only stops looking.

    Exit codes: 0 drained, 1 not yet, 2 a process cannot be reached, or bad usage.
    """
    _give_order("drain", place, pipeline, wait)


@bridge_command.command("resume", example="hashstar bridge resume bridge.toml")
@_add_place(10.0)
def resume_command(place: Path | str, pipeline: str | None, wait: float) -> None:
    """Have a bridge go on that is paused or drained.

    Exit codes: 0 it goes on, 1 not yet, 2 a process cannot be reached, or bad usage.
    """
    _give_order("resume", place, pipeline, wait)


@bridge_command.command("reload", example="hashstar bridge reload bridge.toml")
@_add_place(180.0)
def reload_command(place: Path | str, pipeline: str | None, wait: float) -> None:
    """Have a bridge that runs read its configuration again.

    Of a file with several pipelines those begin anew that have changed; with --pipeline that one alone, changed or not.

    Exit codes: 0 in effect, 1 refused, with the reasons, or not in effect yet, 2 a process cannot be reached, or bad
    usage.
    """
    with exit_on_error():
        from bridge.daemon.asking.orders import reload
        from bridge.daemon.asking.processes import find_addresses

        _show_result(reload(find_addresses(str(place), wait), wait, pipeline))


def _give_order(
    order: Literal["pause", "drain", "resume"], place: Path | str, pipeline: str | None, wait: float
) -> None:
    with exit_on_error():
        from bridge.daemon.asking.orders import give_order
        from bridge.daemon.asking.processes import find_addresses

        _show_result(give_order(find_addresses(str(place), wait), order, wait, pipeline))


def _show_result(result: Result) -> NoReturn:
    """Print what has become of an order, and exit with its code."""
    if result.text:
        click.echo(escape_lines(result.text))
    for each in result.errors:
        echo_error(each)
    sys.exit(2 if result.errors else 0 if result.done else 1)
