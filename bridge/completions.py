"""Complete a command line by a table of all options: a shell waits for no import of what the command computes with.

``completions.tsv`` has a row for each parameter of each command; ``python -m docs.scripts.completions`` writes it.
Names of exchanges and queues are asked of the command itself, which reads the topology.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from typing import Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from exchange.commands.completion import SOURCE
from exchange.commands.options import CommandGroup, TopologyOption

__all__ = ["TABLE", "Row", "build_sketch", "list_rows"]

TABLE: Final = "completions.tsv"
NAMES, FILES, CHOICES = "names", "files", "choices:"
"""What a shell completes as a value: what the command finds in a topology; files; one of these texts."""


class Row(NamedTuple):
    """A parameter of a command, or the command itself."""

    path: str
    """Names of the command, such as ``audit run``."""
    names: str
    """Names of an option, with spaces between; name of an argument; "" for the command itself."""
    kind: str
    """``argument``, ``option``, ``topology``, ``flag``, ``count`` or ``optional``; of a group, the default command."""
    number: str
    """Number of values; ``*`` behind it if the option may be given again, ``-`` if it is hidden."""
    completes: str
    help: str


def list_rows(path: str, command: click.Command, context: click.Context) -> Iterator[Row]:
    """Yield the rows of a command and of all below it."""
    yield Row(path, "", getattr(command, "_default", ""), "", "", command.get_short_help_str())
    for param in command.params:
        yield _describe(path, param, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None  # noqa: S101  it is listed
            yield from list_rows(f"{path} {name}", below, click.Context(below, parent=context, info_name=name))


def _describe(path: str, param: click.Parameter, context: click.Context) -> Row:
    completes = NAMES
    if param._custom_shell_complete is None:
        choices = param.type.choices if isinstance(param.type, click.Choice) else ()
        items = {item.type for item in param.type.shell_complete(context, param, "")}
        completes = CHOICES + " ".join(map(str, choices)) if choices else FILES if items == {"file"} else ""
        completes = NAMES if items == {"dir"} else completes
    if not isinstance(param, click.Option):
        return Row(path, param.name or "", "argument", str(param.nargs), completes, "")
    kind = "flag" if param.is_flag else "count" if param.count else "option"
    kind = "optional" if param._flag_needs_value else "topology" if isinstance(param, TopologyOption) else kind
    number = f"{param.nargs}{'*' * param.multiple}{'-' * param.hidden}"
    return Row(path, " ".join([*param.opts, *param.secondary_opts]), kind, number, completes, param.help or "")


def build_sketch(name: str, find: Callable[[str], click.Command | None]) -> click.Command | None:
    """Return a command that completes as the real one does, and does nothing; None if there is none in the table.

    ``find`` returns the real one.
    """
    rows: dict[str, list[Row]] = {}
    for line in files(__package__).joinpath(TABLE).read_text("utf-8").splitlines():
        if line.startswith((f"{name}\t", f"{name} ")):
            row = Row(*line.split("\t"))
            rows.setdefault(row.path, []).append(row)
    built: dict[str, click.Command] = {}
    for path, (head, *own) in reversed(rows.items()):
        below = {each.rpartition(" ")[2]: built[each] for each in reversed(built) if each.rpartition(" ")[0] == path}
        values: dict[str, Any] = {
            "params": [_build_parameter(row, partial(_find_parameter, row, find)) for row in own],
            "short_help": head.help, "context_settings": {"help_option_names": ["-h", "--help"]},
        }  # fmt: skip
        last = path.rpartition(" ")[2]
        built[path] = (
            CommandGroup(last, example="", default=head.kind, commands=below, **values)
            if below
            else click.Command(last, **values)
        )
    return built.get(name)


def _find_parameter(row: Row, find: Callable[[str], click.Command | None]) -> click.Parameter:
    first, *others = row.path.split()
    command = find(first)
    for name in others:
        assert isinstance(command, click.Group)  # noqa: S101  the table is that of the commands
        command = command.commands[name]
    assert command is not None  # noqa: S101
    return next(
        each for each in command.params if row.names in (each.name, " ".join([*each.opts, *each.secondary_opts]))
    )


def _build_parameter(row: Row, find: Callable[[], click.Parameter]) -> click.Parameter:
    def ask(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        return find().shell_complete(context, begun)

    number = int(row.number.rstrip("*-"))
    values: dict[str, Any] = {"type": SOURCE if row.completes == FILES else click.STRING, "nargs": number}
    if row.completes == NAMES:
        values["shell_complete"] = ask
    if row.completes.startswith(CHOICES):
        values["type"] = click.Choice(row.completes.removeprefix(CHOICES).split())
    if row.kind == "argument":
        return click.Argument([row.names], required=False, **values)
    values |= {"multiple": "*" in row.number, "hidden": "-" in row.number, "help": row.help}
    if row.kind in ("flag", "count"):
        values = {"is_flag": row.kind == "flag", "count": row.kind == "count", **values, "type": None}
    if row.kind == "optional":
        values |= {"is_flag": False, "flag_value": ""}
    names = row.names.split()
    key = max(names, key=len).lstrip("-").replace("-", "_")
    return (TopologyOption if row.kind == "topology" else click.Option)([key, *names], **values)
