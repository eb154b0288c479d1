"""The commands of `bindings` and `exchange`, found by their names.

Each is imported when it is asked for: a program that starts for one command does not wait for the imports of all.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

MODULES: Final = {
    "explain": "bindings.commands.route",
    **{name: f"exchange.commands.{name}" for name in ("partition", "selector")},
    **{
        name: f"bindings.commands.{name}"
        for name in (
            "apply", "archive", "audit", "check", "convert", "diff", "drift", "fmt", "graph", "mcp", "record", "route",
            "serve", "upgrade",
        )
    },
}  # fmt: skip
"""The name of a command -> the module that defines it, as ``NAME_command``."""


def find_command(name: str) -> click.Command:
    """Import and return a command. Raises KeyError if there is none of this name."""
    command: click.Command = getattr(import_module(MODULES[name]), f"{name}_command")
    return command
