"""``hashstar graph``: a picture of a topology, as text or SVG."""

from __future__ import annotations

from pathlib import Path

import click

from bindings.check.check import check
from bindings.commands.messages import fail, warn
from bindings.files import save_lines
from bindings.graph.drawing import drawing
from bindings.graph.svg import svg
from bindings.graph.text import text
from bindings.sources import open_source
from exchange.console import seconds_to_answer, timeout_option
from exchange.errors import HashstarError

__all__ = ["graph_command"]


@click.command("graph")
@click.option("--vhost", help="The virtual host; needed only where the source has several.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="An .svg file, instead of text.")
@click.option("--findings/--no-findings", default=True, help="Colour what hashstar check finds.")
@timeout_option
@click.argument("source", metavar="TOPOLOGY")
def graph_command(vhost: str | None, output: Path | None, findings: bool, source: str) -> None:
    """Draw exchanges, bindings, queues and partitions; what check finds is coloured, and told in tooltips.

    TOPOLOGY is a .bindings file, definitions.json (or .gz), - or http://HOST:15672[/VHOST].
    """
    try:
        given = open_source(source, vhost, seconds=seconds_to_answer())
        topology = given.topology(vhost)
        warn(given)
        found = check(topology, given.expectations(topology.vhost)) if findings else ()
        drawn = drawing(topology, found)
        if output is None:
            click.echo(text(drawn))
            return
        save_lines(str(output), [svg(drawn, f"{given.name}, virtual host {topology.vhost}")])
    except HashstarError as error:
        fail(error)
