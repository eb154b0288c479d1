"""What ``--help`` prints: commands by use, whole first lines, plain words."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from bridge.cli import GROUPS, hashstar
from bridge.completions import build_sketch
from tests.support.cases import with_each

COLUMNS = 80
DIALECT = re.compile(r"\b(told|tells?|so many|whoever|whom|graver|belied|of it|how to)\b", flags=re.IGNORECASE)


def commands(context: click.Context) -> Iterator[click.Context]:
    """Yield the contexts of a command and of all commands below it."""
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            yield from commands(click.Context(command, parent=context, info_name=name, terminal_width=COLUMNS))


CONTEXTS = list(commands(click.Context(hashstar, info_name="hashstar", terminal_width=COLUMNS)))
EVERY = with_each("context", CONTEXTS, lambda context: context.command_path)


def test_every_command_is_in_one_group() -> None:
    names = [name for group in GROUPS.values() for name in group]
    assert sorted(names) == hashstar.list_commands(CONTEXTS[0])


def test_the_list_of_commands_has_the_first_line_of_each_help() -> None:
    contexts = {context.info_name: context for context in CONTEXTS[1:] if context.parent is CONTEXTS[0]}
    lines = {str(name): context.command.get_short_help_str(COLUMNS) for name, context in contexts.items()}
    assert lines == {name: summary for group in GROUPS.values() for name, summary in group.items()}


def test_listing_and_completing_commands_loads_none() -> None:
    code = (
        "import sys; from bridge.cli import hashstar; from click.shell_completion import ShellComplete\n"
        "hashstar.main(['--help'], standalone_mode=False)\n"
        "assert ShellComplete(hashstar, {}, 'hashstar', '_H').get_completions([], 'che')[0].help\n"
        "assert not {'bindings.commands', 'exchange.commands.partition', 'exchange.entities'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_the_list_of_commands_is_by_use() -> None:
    titles = re.findall(r"^(\w.*):$", CONTEXTS[0].get_help(), flags=re.MULTILINE)
    assert titles == ["Options", *GROUPS]


@pytest.mark.parametrize("context", CONTEXTS[1:], ids=lambda context: context.command_path)
def test_help_by_the_table_is_that_of_the_command(context: click.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is not, ``python -m docs.scripts.completions`` writes the table anew."""
    monkeypatch.setattr(context.command, "_help_option", None)  # click keeps it, with the names that it first had
    sketch: click.Command | None = build_sketch(context.command_path.split()[1], hashstar.load)
    for name in context.command_path.split()[2:]:
        assert isinstance(sketch, click.Group)
        sketch = sketch.commands[name]
    assert sketch is not None
    for width in (50, 80, 120):
        by_table, real = (
            each.make_context(context.info_name, ["x"], context.parent, resilient_parsing=True, terminal_width=width)
            for each in (sketch, context.command)
        )
        assert by_table.get_help() == real.get_help()


def test_help_of_a_command_is_printed_without_the_engine() -> None:
    code = (
        "import sys; from bridge.cli import hashstar\n"
        "for line in (['check', '--help'], ['bridge', 'run', '-h'], ['audit', '--help']):\n"
        "    hashstar.main(line, standalone_mode=False)\n"
        "assert not {'bindings.commands', 'bridge.daemon', 'exchange.entities', 'exchange.topology'} & {*sys.modules}"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "[OPTIONS] TOPOLOGY..." in done.stdout


@EVERY
def test_first_lines_are_whole(context: click.Context) -> None:
    assert [
        line for line in context.get_help().splitlines() if line.endswith("...") and not line.startswith("Usage")
    ] == []
    assert all(len(line) <= COLUMNS for line in context.get_help().splitlines())


@EVERY
def test_every_option_has_a_help_text_in_plain_english(context: click.Context) -> None:
    options = [option for option in context.command.params if isinstance(option, click.Option) and not option.hidden]
    assert [option.name for option in options if not option.help] == []
    assert all(option.help is not None and option.help[0].isupper() for option in options)
    assert DIALECT.search(context.get_help()) is None


@EVERY
def test_defaults_are_in_brackets(context: click.Context) -> None:
    """Of all options that have a value by default, other than flags and the empty text."""
    values = [
        option
        for option in context.command.params
        if isinstance(option, click.Option) and not option.is_flag and option.default and not option.multiple
        and not callable(option.default) and "Sentinel" not in repr(type(option.default))
    ]  # fmt: skip
    assert [option.name for option in values if not option.show_default] == []


SCREEN = 24
"""Lines of a terminal."""


@EVERY
def test_the_first_screen_has_what_the_command_does_and_an_example(context: click.Context) -> None:
    """All that stands before the options fits on it."""
    lines = context.get_help().splitlines()
    assert lines.index("Options:") < SCREEN
    [example] = [line for line in lines[:3] if line.startswith("Example: ")]
    assert example.startswith("Example: hashstar ")


@EVERY
def test_the_example_is_a_command_that_is_accepted(context: click.Context) -> None:
    """It is one of the command itself, or of one below it; its options and arguments are there, and none is missing."""
    example = context.get_help().partition("Example: ")[2].partition("\n")[0].partition(" > ")[0]
    assert f"{example} ".startswith(f"{context.command_path} ")
    _, *words = shlex.split(example)
    command: click.Command = hashstar
    path = CONTEXTS[0]
    while isinstance(command, click.Group):
        found = command.get_command(path, words[0])
        if found is None:
            assert command.name == "audit", example
            found = command.get_command(path, "run")
        else:
            words.pop(0)
        assert found is not None
        command, path = found, click.Context(found, parent=path, info_name=found.name)
    given, rest, _ = command.make_parser(path).parse_args(words)
    assert rest == []
    wanted = [each for each in command.params if each.required]
    assert [each.name for each in wanted if given.get(each.name or "") in (None, ())] == []
