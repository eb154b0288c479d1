"""What commands tell on standard error, and how they end when they cannot go on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import click

from bindings.sources.open import Source
from exchange.commands.console import echo_line, fail
from exchange.display import escape_line

__all__ = ["fail", "show_status", "tell", "warn"]

SHOWN: Final = 10


def show_status(text: str) -> None:
    """Show someone who waits at a terminal what is being done, in a line that is overwritten; "" removes it."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{escape_line(text)}", nl=False, err=True)


def warn(source: Source) -> None:
    """Tell what RabbitMQ would read otherwise in the source, and what routing cannot follow."""
    tell(source.name, source.warnings)


def tell(name: str, warnings: Sequence[str]) -> None:
    """Tell warnings about a file, the first ones if there are many."""
    for warning in warnings[:SHOWN]:
        echo_line(f"{name}: warning: {warning}", err=True)
    if len(warnings) > SHOWN:
        echo_line(f"{name}: warning: and {len(warnings) - SHOWN} more", err=True)
