"""Write the table by which shells complete command lines: ``python -m docs.scripts.completions``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

import bridge.completions
from bridge.cli import hashstar
from bridge.completions import list_rows

PATH: Final = Path(bridge.completions.__file__).with_name(bridge.completions.TABLE)


def write_table() -> str:
    """Return the table of all commands."""

    def lines() -> Iterator[str]:
        top = click.Context(hashstar, info_name="hashstar")
        for name in hashstar.list_commands(top):
            command = hashstar.get_command(top, name)
            assert command is not None
            yield from ("\t".join(row) for row in list_rows(name, command, click.Context(command, info_name=name)))

    return "".join(f"{line}\n" for line in lines())


if __name__ == "__main__":
    PATH.write_text(write_table(), encoding="utf-8")
