"""What is given by position: a command that failed says where two values seem swapped, and prints the right command.

Only errors are added to, so that a name of an unusual file is no reason to refuse a command that works.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from os.path import lexists
from typing import Any, Final

import click

from exchange.files.names import ENDINGS, SCHEME, SCHEMES

ARGUMENTS: Final = "hashstar.arguments"
"""Key of the click context that has the arguments of the command as they were given."""
WANTED: Final = {
    "TOPOLOGY": ("topology", "broker", "file"),
    "URL": ("broker",),
    "TALLY": ("tally", "file"),
    "OUT": ("topology", "archive", "file", "name"),
    **dict.fromkeys(("ARCHIVE", "IN", "FILE"), ("archive", "file")),
    **dict.fromkeys(("EXCHANGE", "ROUTING_KEY"), ("name",)),
}
"""What stands in the help for an argument -> what may be given there."""
NEW: Final = ("OUT", "URL", "EXCHANGE", "ROUTING_KEY")
"""Arguments that name no file which must be there."""

WRONG_KIND: Final = 2
"""Cost of a value of another kind than is wanted; that of a file which is not there is 1."""


def explain_swapped(context: click.Context | None) -> str:
    """Return that values of a command that failed seem swapped, with the right command; "" if they do not."""
    given: list[str] = [] if context is None else context.meta.get(ARGUMENTS, [])
    if context is None or not given:
        return ""
    try:
        names, values = _read(context, given)
    except click.UsageError:  # what failed is an option
        return ""
    ways = [[values[at], *values[:at], *values[at + 1 :]] for at in range(len(values))]
    costs = [sum(map(_rate, names, way)) for way in ways]
    best = min(costs, default=0)
    if not costs or best >= min(costs[0], WRONG_KIND) or costs.count(best) > 1:
        return ""
    command = _replace(context, given, values, ways[costs.index(best)])
    return f"the arguments seem swapped, as {names[0]} comes first; run: {command}" if command else ""


def _read(context: click.Context, given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of the arguments as the help has them, and the values given, one name each."""
    found: Mapping[str, Any] = context.command.make_parser(context).parse_args([*given])[0]
    names, values = [], []
    for param in context.command.params:
        value = found.get(param.name or "") if isinstance(param, click.Argument) else None
        for each in value if isinstance(value, (tuple, list)) else [value]:
            if isinstance(each, str):
                names.append(re.sub(r"[^A-Z_]", "", (param.metavar or param.name or "").upper()))
                values.append(each)
    return names, values


def _rate(name: str, value: str) -> int:
    """Return how little a value suits an argument, from 0."""
    if name not in WANTED:
        return 0
    return WRONG_KIND * (_find_kind(value) not in WANTED[name]) + (name not in NEW and not _may_be_there(value))


def _find_kind(value: str) -> str:
    if address := SCHEME.match(value):
        return SCHEMES.get(address[1], "broker")
    if value.startswith(("celery:", "faststream:")):
        return "topology"
    ending = "." + value.removesuffix(".gz").rpartition(".")[2].lower()
    return ENDINGS.get(ending) or ("file" if _may_be_there(value) else "name")


def _may_be_there(value: str) -> bool:
    return value == "-" or ":" in value or lexists(value)


def _replace(context: click.Context, given: Sequence[str], old: Sequence[str], new: Sequence[str]) -> str:
    """Return the command with other values by position; "" if they cannot be distinguished from those of options."""
    words, at = [*given], 0
    for before, after in zip(old, new, strict=True):
        at = words.index(before, at) if before in words[at:] else len(words) - 1
        words[at] = after
        at += 1
    if _read(context, words)[1] != [*new]:
        return ""
    below = context.command_path.removeprefix(context.find_root().info_name or "").split()
    return shlex.join(["hashstar", *below, *words])
