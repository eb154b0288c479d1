"""Complete command lines, and print help, by a table: without the imports of what a command computes with.

``completions.tsv`` has a row for each parameter of each command; ``python -m docs.scripts.completions`` writes it.
Names of exchanges and queues are read from a topology file as far as its text shows them, else by the command itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from pkgutil import get_data
from typing import Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from exchange.commands.completion import SOURCE, NameCompletion
from exchange.commands.options import CommandGroup, Exemplified, TopologyOption

TABLE: Final = "completions.tsv"
NAMES, ASKED, FILES, CHOICES = "names:", "asked", "files", "choices:"
"""What a shell completes as a value: names of these parts of a topology; what the command says; files; these texts."""


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
    """Help of an option; of a command, its whole help."""
    shown: str = ""
    """What ``--help`` shows: the forms of an option, an argument's name; of a command, its example."""
    more: str = ""
    """What ``--help`` shows behind the help of an option: its default, and the range of its values."""


def list_rows(path: str, command: click.Command, context: click.Context) -> Iterator[Row]:
    """Yield the rows of a command and of all below it."""
    assert isinstance(command, Exemplified)  # noqa: S101  tests/test_help.py
    yield Row(path, "", getattr(command, "_default", ""), "", "", _escape(command.help or ""), command.example)
    for param in command.params:
        yield _describe(path, param, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None  # noqa: S101  it is listed
            yield from list_rows(f"{path} {name}", below, click.Context(below, parent=context, info_name=name))


def _describe(path: str, param: click.Parameter, context: click.Context) -> Row:
    own = param._custom_shell_complete
    completes = f"{NAMES}{' '.join(own.kinds)}" if isinstance(own, NameCompletion) else ASKED
    if own is None:
        choices = param.type.choices if isinstance(param.type, click.Choice) else ()
        items = {item.type for item in param.type.shell_complete(context, param, "")}
        completes = CHOICES + " ".join(map(str, choices)) if choices else FILES if items == {"file"} else ""
        completes = ASKED if items == {"dir"} else completes
    if not isinstance(param, click.Option):
        return Row(
            path, param.name or "", "argument", str(param.nargs), completes, "", param.get_usage_pieces(context)[0]
        )
    kind = "flag" if param.is_flag else "count" if param.count else "option"
    kind = "optional" if param._flag_needs_value else "topology" if isinstance(param, TopologyOption) else kind
    number = f"{param.nargs}{'*' * param.multiple}{'-' * param.hidden}"
    about = param.help or ""
    shown, whole = param.get_help_record(context) or ("", about)
    names = " ".join([*param.opts, *param.secondary_opts])
    return Row(path, names, kind, number, completes, about, shown, whole.removeprefix(about))


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], text)


class _WithRecord(click.Option):
    """An option whose line of the help is in the table."""

    record: tuple[str, str] | None = None

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return self.record


class _TopologyWithRecord(_WithRecord, TopologyOption):
    """The option for the topology, with its help from the record."""


def has_command(words: Sequence[str]) -> bool:
    """Return whether words are the names of a command of the table."""
    return any(row.path == " ".join(words) for row in _read_rows(words[0]))


def _read_rows(name: str) -> Iterator[Row]:
    data = get_data(__package__, TABLE)
    assert data is not None  # noqa: S101  the table is a file of this package
    for line in data.decode("utf-8").splitlines():
        if line.startswith((f"{name}\t", f"{name} ")):
            yield Row(*line.split("\t"))


def build_sketch(name: str, find: Callable[[str], click.Command | None]) -> click.Command | None:
    """Return a command that completes, and prints its help, as the real one does; None if there is none in the table.

    ``find`` returns the real one.
    """
    rows: dict[str, list[Row]] = {}
    for row in _read_rows(name):
        rows.setdefault(row.path, []).append(row)
    built: dict[str, click.Command] = {}
    for path, (head, *own) in reversed(rows.items()):
        below = {each.rpartition(" ")[2]: built[each] for each in reversed(built) if each.rpartition(" ")[0] == path}
        params = [_build_parameter(row, partial(_find_parameter, row, find)) for row in own]
        values: dict[str, Any] = {"params": params, "help": _unescape(head.help)}
        last = path.rpartition(" ")[2]
        built[path] = (
            CommandGroup(last, example=head.shown, default=head.kind, commands=below, **values)
            if below
            else Exemplified(last, example=head.shown, **values)
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


def _read_names(
    kinds: Sequence[str], find: Callable[[], click.Parameter], source: str, vhost: str | None
) -> Mapping[str, Iterable[str]]:
    """Return the names that the text of a source shows, else ask the command's own parameter for them."""
    from bindings.sources.names import read_names

    names = read_names(Path(source)) if vhost is None else {}
    if names.keys() >= {*kinds}:
        return names
    own = find()._custom_shell_complete
    assert isinstance(own, NameCompletion)  # noqa: S101  the table is that of the commands
    return own.read(source, vhost)


def _build_parameter(row: Row, find: Callable[[], click.Parameter]) -> click.Parameter:
    def ask(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        return find().shell_complete(context, begun)

    number = int(row.number.rstrip("*-"))
    values: dict[str, Any] = {"type": SOURCE if row.completes == FILES else click.STRING, "nargs": number}
    if row.completes == ASKED:
        values["shell_complete"] = ask
    if row.completes.startswith(NAMES):
        kinds = row.completes.removeprefix(NAMES).split()
        values["shell_complete"] = NameCompletion(kinds, partial(_read_names, kinds, find))
    if row.completes.startswith(CHOICES):
        values["type"] = click.Choice(row.completes.removeprefix(CHOICES).split())
    if row.kind == "argument":
        return click.Argument([row.names], required=False, metavar=row.shown, **values)
    values |= {"multiple": "*" in row.number, "hidden": "-" in row.number, "help": row.help}
    if row.kind in ("flag", "count"):
        values = {"is_flag": row.kind == "flag", "count": row.kind == "count", **values, "type": None}
    if row.kind == "optional":
        values |= {"is_flag": False, "flag_value": ""}
    names = row.names.split()
    key = max(names, key=len).lstrip("-").replace("-", "_")
    option = (_TopologyWithRecord if row.kind == "topology" else _WithRecord)([key, *names], **values)
    option.record = (row.shown, row.help + row.more) if row.shown else None
    return option
