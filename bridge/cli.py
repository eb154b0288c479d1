"""``hashstar``: one program with the commands of all three packages."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from bindings.cli import MODULES, find_command
from exchange.commands.console import PROGRAM, echo_error
from exchange.commands.operands import explain_swapped
from exchange.commands.options import CommandGroup
from exchange.files.operating_system import is_closed_by_reader
from exchange.text.display import escape_line, escape_lines, hide_logins
from exchange.text.site import HASHSTAR_VERSION

GROUPS: Final = {
    "Routing": {
        "route": "Route messages: JSON lines in, JSON lines out.",
        "explain": "Explain where one message goes, and why.",
        "partition": "Compute the partition that a given client would choose.",
        "selector": "Check and evaluate RocketMQ's selectors: SQL92 and tags.",
    },
    "Topology files and brokers": {
        "check": "Find mistakes in topologies.",
        "diff": "Show the plan from topology A to B, and what it means.",
        "upgrade": "Show what an upgrade of RabbitMQ does to a topology.",
        "record": "Record what clients declare and ask of a broker.",
        "apply": "Apply a topology to a live RabbitMQ broker.",
        "drift": "Compare a topology file with a live broker.",
        "graph": "Draw a topology, as text, SVG, Mermaid or DOT.",
        "serve": "Explore a topology in a browser.",
        "convert": "Convert between .bindings, definitions and other formats.",
        "fmt": "Format .bindings files in place.",
        "mcp": "Answer an assistant's questions about topologies.",
    },
    "Archives and audits": {
        "archive": "Inspect archives of messages, and convert them to Parquet.",
        "audit": "Report what archived messages do in a topology.",
        "dead": "Group dead letters, show why they died, and publish them again.",
    },
    "Bridge": {"bridge": "Move messages between RabbitMQ, Kafka, RocketMQ and archives."},
    "Consumers": {"group": "Share a partitioned queue of RabbitMQ among consumers."},
    "Brokers": {"rocketmq": "Administer topics of RocketMQ."},
    "Files and outputs": {"schema": "Print the JSON Schema of a file or an output."},
}
"""Title -> the commands under it in ``hashstar --help``, each with the first line of its help: no command is loaded
to be listed or completed."""

OURS: Final = {
    "bridge": "bridge.daemon.commands", "dead": "bridge.dead.commands", "group": "bridge.consumers.groups.commands",
    "rocketmq": "bridge.scaling.commands", "schema": "bridge.schema.command",
}  # fmt: skip
"""The name of a command of this package -> the module that defines it, as ``NAME_command``."""
LOGS: Final = ("bridge", "aio_pika", "aiormq", "pika")
"""Logs of clients, ours and others; that of librdkafka is below ``bridge``. Commands say what goes wrong once, in
their own words; ``bridge run`` has a log, which gets all of it."""


class Program(CommandGroup):
    """All commands. Each is imported when it is needed: no command waits for the imports of another."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*OURS, *MODULES])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, grouped by what they are used for."""
        width = max(map(len, self.list_commands(ctx)))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", summary) for name, summary in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands, and options of the program."""
        summaries = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=summaries[name]) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if ctx.resilient_parsing:  # a shell completes
            from bridge.completions import build_sketch  # no other command line needs it

            return build_sketch(cmd_name, self.load)
        return self.load(cmd_name)

    @staticmethod
    def load(name: str) -> click.Command | None:
        """Import and return a command; None if there is none of this name."""
        if name in OURS:
            logging = import_module("logging")  # not at the top: asyncio brings it, and few commands need that
            for log in LOGS:  # Python prints what no handler takes
                logging.getLogger(log).addHandler(logging.NullHandler())
            command: click.Command = getattr(import_module(OURS[name]), f"{name}_command")
            return command
        return find_command(name) if name in MODULES else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; of one that another command has, the error says where it is."""
        *names, last = args
        if names and last in ctx.help_option_names:
            from bridge.completions import build_sketch, has_command  # as above

            if has_command(names):
                return names[0], build_sketch(names[0], self.load), args[1:]
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            groups = [
                name
                for name in self.list_commands(ctx)
                if args[0] in getattr(self.get_command(ctx, name), "commands", ())
            ]
            if not groups:
                raise
            ways = " or ".join(f"hashstar {name} {args[0]}" for name in groups)
            raise click.UsageError(f"{error.message.partition(';')[0].rstrip('.')}; it is {ways}", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:  # click would end with 1, which stands for findings
            raise _PipeError from error


class _PipeError(Exception):
    """A command wrote to a pipe or a connection that is closed."""


READ_ENOUGH: Final = 128 + 13
"""Exit code if the reader of the output has closed it: that of commands which SIGPIPE ends, as a shell reports it."""


@click.group(
    cls=Program, example="hashstar explain shop.bindings orders order.eu.paid --queue billing", no_args_is_help=True
)
@click.version_option(HASHSTAR_VERSION, prog_name="hashstar")
def hashstar() -> None:
    """Message routing you can embed, explain, carry and audit: RabbitMQ's, exactly."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program. Errors of the user or the machine are printed in one line, without a traceback."""
    if sys.stdout is None:  # closed: what writes to a file that can only be read gets an error with a reason
        sys.stdout = open(os.devnull)  # noqa: SIM115, PTH123
    closed_input = sys.stdin is None
    if closed_input:  # likewise; and no file that is opened later takes its place
        sys.stdin = open(os.open(os.devnull, os.O_WRONLY))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # whatever the locale, a name that it lacks is visible
    try:
        try:
            hashstar.main(arguments, standalone_mode=False, obj=PROGRAM)
        finally:
            if sys.stdout.writable():
                sys.stdout.flush()  # here, where its errors can still be reported
    except click.exceptions.Exit as leave:
        raise SystemExit(leave.exit_code) from None
    except click.Abort:
        raise SystemExit(130) from None
    except click.ClickException as error:
        _show_usage(error)
        if swapped := explain_swapped(getattr(error, "ctx", None)):
            echo_error(swapped)
        raise SystemExit(2) from None
    except (BrokenPipeError, _PipeError) as error:
        if not any(map(is_closed_by_reader, (sys.stdout, sys.stderr))):
            click.echo(f"hashstar: a connection was closed: {error.__cause__ or error}", err=True)
            raise SystemExit(2) from None
        _discard_output()
        raise SystemExit(READ_ENOUGH) from None
    except OSError as error:  # what a command reads and writes by name it reports itself
        _discard_output()
        if error.filename is not None:
            text = f"{error.filename}: {error.strerror or error}"
        elif closed_input and error.errno == errno.EBADF:
            text = "standard input cannot be read: it is closed"
        else:
            text = f"standard output cannot be written: {error.strerror or 'it is closed'}"
        click.echo(hide_logins(escape_lines(f"hashstar: {text}")), err=True)
        raise SystemExit(2) from None
    except MemoryError:
        click.echo("hashstar: not enough memory for this; give it more, or less to read", err=True)
        raise SystemExit(2) from None


def _show_usage(error: click.ClickException) -> None:
    """Print an error of click about arguments, which it quotes; passwords of addresses among them are hidden."""
    text = io.StringIO()
    error.show(file=text)  # without the codes of colours, wherever they come from
    shown, message = text.getvalue().rstrip("\n"), click.unstyle(error.message)
    if message and not isinstance(error, click.exceptions.NoArgsIsHelpError):  # whose message is the help, in lines
        # It quotes arguments, whose newlines would begin lines; click's own newlines are not in it.
        shown = shown.replace(message, escape_line(message))
    click.echo(hide_logins(escape_lines(shown)), err=True)


def _discard_output() -> None:
    """Send what is still buffered to the null device: the interpreter would fail to write it at its end."""
    for stream in (sys.stdout, sys.stderr):
        if stream is sys.stdout or is_closed_by_reader(stream):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
