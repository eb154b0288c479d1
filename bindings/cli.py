"""The commands that know files of topologies: those of the engine, given a way to read them."""

from __future__ import annotations

from typing import Final

import click

from bindings.definitions import Definitions
from exchange import cli
from exchange.errors import InputError
from exchange.topology import Topology

__all__ = ["COMMANDS"]

WARNINGS_SHOWN: Final = 10


def load(path: str, vhost: str | None, profile: str | None) -> Topology:
    """Read a definitions file; what RabbitMQ would read otherwise, or routing cannot follow, goes to standard error."""
    definitions = Definitions.load(path, vhost)
    try:
        topology = definitions.topology(vhost, profile)
    except InputError as error:
        raise InputError(f"{path}: {error}; choose with --vhost") from None
    warnings = definitions.warnings
    for warning in warnings[:WARNINGS_SHOWN]:
        click.echo(f"{path}: warning: {warning}", err=True)
    if len(warnings) > WARNINGS_SHOWN:
        click.echo(f"{path}: warning: and {len(warnings) - WARNINGS_SHOWN} more", err=True)
    return topology


COMMANDS: Final = cli.commands(load)
