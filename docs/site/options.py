"""The reference of the command line: every command with the text of its ``--help``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from bridge.cli import hashstar

PAGE: Final = "options.md"
"""Path of the page on the website."""

WIDTH: Final = 88
"""Width of the texts, in characters."""

HEAD: Final = """# Commands and their options

What `hashstar COMMAND --help` prints.
"""


def options_page() -> str:
    """Return the page as Markdown, one heading for each command and group of commands."""
    return HEAD + "".join(_describe(hashstar, click.Context(hashstar, info_name="hashstar", max_content_width=WIDTH)))


def _describe(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the section of a command, and those of the commands below it."""
    context.terminal_width = WIDTH
    yield f"\n## {context.command_path}\n\n````text\n{command.get_help(context)}\n````\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _describe(below, click.Context(below, parent=context, info_name=name))
