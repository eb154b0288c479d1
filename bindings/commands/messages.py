"""What commands tell on standard error, and how they end when they cannot go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bindings.sources import Source
from exchange.console import echo_line, fail

__all__ = ["fail", "tell", "warn"]

SHOWN: Final = 10


def warn(source: Source) -> None:
    """Tell what RabbitMQ would read otherwise in the source, and what routing cannot follow."""
    tell(source.name, source.warnings)


def tell(name: str, warnings: Sequence[str]) -> None:
    """Tell warnings about a file, the first ones if there are many."""
    for warning in warnings[:SHOWN]:
        echo_line(f"{name}: warning: {warning}", err=True)
    if len(warnings) > SHOWN:
        echo_line(f"{name}: warning: and {len(warnings) - SHOWN} more", err=True)
