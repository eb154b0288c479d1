"""What commands print about a source of topologies."""

from __future__ import annotations

from bindings.sources.open import Source
from exchange.commands.console import fail, show_status, show_warnings

__all__ = ["fail", "show_status", "warn"]


def warn(source: Source) -> None:
    """Print what RabbitMQ would read otherwise in the source, and what routing cannot follow."""
    show_warnings(source.name, source.warnings)
