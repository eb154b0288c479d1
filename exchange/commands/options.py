"""The vocabulary of options: what several commands have in common is defined once, and here.

docs/commands.md has the table that users read. `HashstarCommand` and `CommandGroup` are the classes of all commands of
the program; the other functions return or add the options, and the types of values, that their names say.
"""

from __future__ import annotations

import logging
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from exchange.commands.completion import SOURCE
from exchange.commands.console import QUIET, VERBOSE, echo_line, fail
from exchange.commands.operands import ARGUMENTS
from exchange.errors import InputError
from exchange.limits import ANSWER_SECONDS
from exchange.text.display import suggest, write_milliseconds
from exchange.text.numbers import parse_duration

Function = TypeVar("Function", bound=Callable[..., Any])

RENAMED: Final = "hashstar.renamed"
"""Key of the click context that has the notes about old names of options."""
TIMEOUT: Final = "hashstar.timeout"
"""Key of the click context that has the --timeout of a command."""
LOCALHOST: Final = "127.0.0.1"
LEVELS: Final = (logging.WARNING, logging.INFO, logging.DEBUG)
"""Number of times that --verbose is given -> lowest level of the log that is shown."""
STDOUT: Final = "-"
"""Name of standard output where one of a file is asked for."""
HELP_OPTIONS: Final = ["-h", "--help"]
FILES: Final = ("FILE", "PATH", "DIR", "TOPOLOGY", "ARCHIVE", "IN", "[OUT]", "OUT")
"""What stands in the help for names of files, which shells complete."""


MIN_SEARCHED_LETTERS: Final = 5
"""Minimum number of letters of a word in an unknown option that is searched for in the help of known ones."""
MAX_SUGGESTED: Final = 3
"""Maximum number of options that are suggested for an unknown one."""


def _keep_in_context(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return a callback that keeps the value of an option under a key of the context."""
    return lambda context, _, value: context.meta.update({key: value}) if value else None


def _common_options() -> list[click.Parameter]:
    """Return new options that all commands have, besides --help."""
    return [
        click.Option(
            ["--quiet", "-q"], is_flag=True, expose_value=False, callback=_keep_in_context(QUIET),
            help="Print results and errors only: no warnings, notes and progress.",
        ),
        click.Option(
            ["--verbose", "-v"], count=True, expose_value=False, callback=_keep_in_context(VERBOSE),
            help="Show the log, and where errors come from; twice, in detail.",
        ),
    ]  # fmt: skip


class Exemplified(click.Command):
    """A command whose help, which ``-h`` prints, too, begins with an example, as it is typed."""

    def __init__(self, *arguments: Any, example: str, **values: Any) -> None:
        self.example = example
        values["context_settings"] = {"help_option_names": HELP_OPTIONS, **(values.get("context_settings") or {})}
        super().__init__(*arguments, **values)

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Return the names, whatever made the context: click keeps the option of the first one."""
        ctx.help_option_names = HELP_OPTIONS
        return super().get_help_option_names(ctx)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage, and the example below it."""
        super().format_usage(ctx, formatter)
        formatter.write(f"Example: {self.example}\n")


class HashstarCommand(Exemplified):
    """A command with the options that all commands have, whose options may have had other names."""

    def __init__(
        self, *arguments: Any, example: str, elsewhere: str = "", needs: Mapping[str, str] | None = None, **values: Any
    ) -> None:
        """Take an example, as it is typed; ``elsewhere`` says in errors where settings are that are no options.

        ``needs`` has the options that do nothing without another one, each with that one.
        """
        self.elsewhere = elsewhere and f"; {elsewhere}"
        self.needs = needs or {}
        super().__init__(*arguments, example=example, **values)
        for param in self.params:
            if param.type is click.STRING and (param.metavar or "").removesuffix("...") in FILES:
                param.type = SOURCE
        taken = {name for param in self.params for name in param.opts}
        for option in _common_options():
            option.opts = [name for name in option.opts if name not in taken]
            self.params.append(option)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:  # which may mean an old name, and is answered with the new one
            old = {name: [*each.to] for each in self.params if isinstance(each, Renamed) for name in each.opts}
            meant = dict.fromkeys([name for each in error.possibilities or () for name in old.get(each, [each])])
            forms = next((each.type for each in self.params if each.opts[0] == "--format"), None)
            if error.option_name == "--json" and isinstance(forms, click.Choice):
                names = ", ".join(map(str, forms.choices))
                raise click.UsageError(f"No such option '--json'; --format is one of {names}", ctx) from None
            meant = dict.fromkeys([*self._find_described(error.option_name), *meant][:MAX_SUGGESTED])
            if not meant:
                raise click.UsageError(f"No such option {error.option_name!r}{self.elsewhere}", ctx) from None
            hint = f"No such option {error.option_name!r}; did you mean {' or '.join(meant)}?"
            raise click.UsageError(hint, ctx) from None

    def _find_described(self, name: str) -> list[str]:
        """Return the options with a word of this name in their help, or as a value: ``--min-coverage``, ``--junit``."""
        words = [word for word in name.strip("-").lower().split("-") if len(word) >= MIN_SEARCHED_LETTERS]
        options = [each for each in self.params if isinstance(each, click.Option) and not each.hidden]
        for word in reversed(words):  # the last one is the noun
            found = [f"{each.opts[0]} {word}" for each in options if word in getattr(each.type, "choices", ())]
            found += [
                each.opts[0] for each in options if re.search(rf"\b{re.escape(word)}", each.help or "", re.IGNORECASE)
            ]
            if found and len(found) <= MAX_SUGGESTED:
                return found
        return []

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.meta.get(VERBOSE):
            level = LEVELS[min(ctx.meta[VERBOSE], len(LEVELS) - 1)]
            logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        for note in ctx.meta.get(RENAMED, ()):
            echo_line(f"hashstar: {note}", err=True)
        _check_needs(ctx, self.needs)
        _check_files(ctx)
        return super().invoke(ctx)


class CommandGroup(Exemplified, click.Group):
    """A group of commands that knows which command a misspelt name may mean, and which one need not be named."""

    command_class = HashstarCommand
    group_class = type

    def __init__(self, *arguments: Any, example: str, default: str = "", **values: Any) -> None:
        """Take an example, and the name of the command that is run if none is named; "" for none."""
        super().__init__(*arguments, example=example, **values)
        self._default: Final = default

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands, and what the one that need not be named takes first."""
        found = super().shell_complete(ctx, incomplete)
        taken = self.commands[self._default].params if self._default else ()
        first = next((each for each in taken if isinstance(each, click.Argument)), None)
        files = [] if first is None or incomplete.startswith("-") else first.shell_complete(ctx, incomplete)
        return [*files, *found]  # bash forgets what comes before files

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and ctx.resilient_parsing:  # a shell completes the first word
            return super().parse_args(ctx, args)
        if self._default and (not args or (args[0] not in self.commands and args[0] not in ("--help", "-h"))):
            near = suggest(args[0], self.commands) if args and not Path(args[0]).exists() else ""
            if near:
                raise click.UsageError(f"No such command or file {args[0]!r}{near}", ctx)
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = suggest(args[0], self.list_commands(ctx))
            if near:
                raise click.UsageError(f"{error.message.rstrip('.')}{near}", ctx) from None
            raise


def _check_needs(context: click.Context, needs: Mapping[str, str]) -> None:
    """Raise UsageError for an option that does nothing without another one that is not given."""
    options = {name: param for param in context.command.params for name in param.opts}
    by_default = (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    for name, other in needs.items():
        is_given = [context.get_parameter_source(options[each].name or "") not in by_default for each in (name, other)]
        if is_given == [True, False]:
            raise click.UsageError(f"{name} needs {other} {options[other].metavar or ''}".rstrip(), context)


def _check_files(context: click.Context) -> None:
    """Raise UsageError for a name that is empty, and for a report that would replace a file with another use here."""
    files: dict[object, str] = {}
    for param in sorted(context.command.params, key=lambda each: isinstance(each, ReportOption)):
        if param.type is click.STRING:
            continue
        what = param.opts[0] if isinstance(param, click.Option) else (param.metavar or param.name or "").upper()
        value = context.params.get(param.name or "")
        for each in value if isinstance(value, tuple) else (value,):
            name = each if isinstance(each, str | Path) else getattr(each, "name", None)
            if each == "":
                raise click.UsageError(f"{what}: the name is empty", context)
            reads_input = str(name) == STDOUT and not isinstance(param.type, OutputFile)  # standard input, no file
            identity = _identify(name) if isinstance(name, str | Path) and not reads_input else None
            if identity is None:
                continue
            if isinstance(param, ReportOption) and identity in files:
                raise click.UsageError(f"{what}: {name} is {files[identity]}, too; give another file", context)
            files[identity] = what


def _identify(name: str | Path) -> object:
    """Return a value that is equal for all names of one file, also of a missing one; None for a device or a pipe."""
    try:
        found = Path(name).stat()
    except FileNotFoundError:
        return str(Path(name).resolve())
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


command: Final = partial(click.command, cls=HashstarCommand)
"""Decorator that makes a `HashstarCommand` of a function, as `click.command` does."""


def redirect(option: click.Option, parser: Any, process: Callable[[Any, Any], None]) -> None:
    """Have the parser of a command line call ``process``, with the value and its state, for all names of an option."""
    for name in option.opts:
        known = parser._long_opt.get(name) or parser._short_opt.get(name)
        known.process = process


class OutputFile(click.Path):  # type: ignore[type-arg,unused-ignore]
    """The type of the name of a file to write: the command ends before it begins if there is no folder for the file."""

    def __init__(self, **values: Any) -> None:
        super().__init__(readable=False, **values)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name, or the path; a file of the name may be there."""
        name: Any = super().convert(value, param, ctx)
        folder = Path(name).parent
        with suppress(OSError):  # such as a name that is too long, of which writing says so
            if not (ctx is not None and ctx.resilient_parsing) and not folder.is_dir():
                state = "is no folder" if folder.exists() else "does not exist; create that folder first"
                fail(InputError(f"{name}: cannot be written: {folder} {state}"))
        return name


class ReportOption(click.Option):
    """An option with a file that gets a report, and must be none that the command reads or writes otherwise."""

    def __init__(self, *arguments: Any, **values: Any) -> None:
        super().__init__(*arguments, **{"type": OutputFile(), **values})


class TopologyOption(click.Option):
    """An option whose values are the first arguments: ``-t FILE`` is FILE as TOPOLOGY, wherever it stands."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        given: list[str] = []
        first = next((each for each in ctx.command.params if isinstance(each, click.Argument)), None)

        def process(value: str, state: Any) -> None:
            if given and first is not None and first.nargs == 1:
                raise click.UsageError(f"{self.opts[0]} is given twice; there is one {first.metavar}", ctx)
            state.largs.insert(len(given), value)
            given.append(value)

        redirect(self, parser, process)


class Renamed(click.Option):
    """An old name of an option, hidden, that does what the new one does, with a note."""

    def __init__(self, names: Sequence[str], to: Mapping[str, str | None], **values: Any) -> None:
        """Take the new options, each with its value; None stands for the value that the user gives."""
        super().__init__(names, hidden=True, expose_value=False, **values)
        self.to: Final = to

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)

        def process(value: Any, state: Any) -> None:
            for name, fixed in self.to.items():
                known = parser._long_opt[name]
                known.process(value if fixed is None else fixed, state)
            new = " ".join(name if fixed is None else f"{name} {fixed}".strip() for name, fixed in self.to.items())
            notes = ctx.meta.setdefault(RENAMED, [])
            note = f"{self.opts[0]} is {new} now; the old name works until the next release"
            if note not in notes:
                notes.append(note)

        redirect(self, parser, process)


def accept_old_name(old: str, *to: str, short: str = "", flag: bool = False) -> Callable[[Function], Function]:
    """Add the old name of an option. A new name is ``--name``, or ``--name=value`` where the old one had no value."""
    new = {name: value if equals else None for name, equals, value in (each.partition("=") for each in to)}
    names = [old, *([short] if short else [])]
    return click.option(*names, cls=Renamed, to=new, **({"is_flag": True} if flag else {"metavar": "VALUE"}))


def topology_option(function: Function) -> Function:
    """Add --topology, which stands for the first arguments of a command."""
    option = click.option(
        "--topology", "-t", "as_option", type=SOURCE, cls=TopologyOption, expose_value=False, multiple=True,
        metavar="SOURCE", help="TOPOLOGY, as an option.",
    )  # fmt: skip
    return option(function)


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The type of an option with a time, in seconds: ``30`` or ``30s``, ``250ms``, ``5m``, ``1h30m``."""

    name = "duration"

    def __init__(self, least: float = 0.0, most: float = 365 * 86_400.0) -> None:
        """Take the shortest and the longest time, in seconds."""
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds; end the command for what is no time."""
        seconds = float(value) if isinstance(value, int | float) else parse_duration(str(value))
        if seconds is None:
            self.fail(f"{value!r} is no time: write 30s, 5m or 1h30m", param, ctx)
        if seconds < self._least:
            self.fail(f"{value} is shorter than {write_milliseconds(int(self._least * 1000))}", param, ctx)
        if seconds > self._most:
            self.fail(f"{value} is longer than {write_milliseconds(int(self._most * 1000))}", param, ctx)
        return seconds


class LinesFile(click.File):
    """The type of an argument with a file of JSON lines; errors end with ``hint``, what to write without a file."""

    def __init__(self, hint: str) -> None:
        super().__init__("rb")
        self._hint = hint

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the open file; end the command for what cannot be read."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            raise click.BadParameter(f"{error.message}; {self._hint}", ctx, param) from None


class AddressType(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """The type of an option with an address to serve: ``PORT`` on 127.0.0.1, or ``HOST:PORT``."""

    name = "address"

    def __init__(self, example: int) -> None:
        """Take the port that errors name as an example."""
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return host and port; end the command for what is no address."""
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) or int(port) > 65_535:
            self.fail(f"{value!r} is no address to serve: write {self._example} or 0.0.0.0:{self._example}", param, ctx)
        return host.strip("[]") or LOCALHOST, int(port)


def timeout_option(function: Function) -> Function:
    """Add --timeout to a command that asks a server; `read_timeout` returns its value."""
    return click.option(
        "--timeout",
        type=Duration(least=0.001),
        default=f"{ANSWER_SECONDS:g}s",
        show_default=True,
        metavar="TIME",
        expose_value=False,
        callback=lambda context, _, seconds: context.meta.update({TIMEOUT: seconds}),
        help="Maximum duration of one answer of a broker's management API.",
    )(function)


def read_timeout() -> float:
    """Return the value of the running command's --timeout."""
    seconds: float = click.get_current_context().meta.get(TIMEOUT, ANSWER_SECONDS)
    return seconds


def wait_option(default: float, help_text: str, name: str = "--wait") -> Callable[[Function], Function]:
    """Return the option that bounds the whole of what a command does: ``wait``, in seconds."""
    return click.option(
        name, type=Duration(), default=f"{default:g}s", show_default=True, metavar="TIME", help=help_text
    )


allow_unread_option = click.option(
    "--allow-unread", is_flag=True, help="Make claims about what was read, although parts of a source were not read."
)
"""Without this option, nothing is proved of a source with parts that were not read."""
