"""``hashstar graph``: a picture of a topology, as text or SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from bindings.check.check import check
from bindings.drawing.drawing import crop_around, draw
from bindings.drawing.svg import to_svg
from bindings.drawing.text import to_text
from bindings.sources.files import save_lines
from bindings.sources.management import is_address
from bindings.sources.open import open_source
from exchange.commands.console import exit_on_error, seconds_to_answer, show_warnings, timeout_option
from exchange.commands.route import profile_option

__all__ = ["graph_command"]

DEPTH: Final = 2
"""Bindings from the centre of a neighbourhood to its border, unless the user gives another number."""


@click.command("graph")
@click.option("--vhost", help="Virtual host; required only if the source has several.")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write an .svg file instead of text."
)
@click.option(
    "--findings/--no-findings", default=True, show_default=True, help="Colour the findings of hashstar check."
)
@click.option("--around", "centre", metavar="NAME", help="Draw only the neighbourhood of this exchange or queue.")
@click.option(
    "--depth",
    type=click.IntRange(min=0),
    default=DEPTH,
    show_default=True,
    help="Maximum number of bindings from NAME to what is drawn, with --around.",
)
@profile_option()
@timeout_option
@click.argument("source", metavar="TOPOLOGY")
def graph_command(
    vhost: str | None,
    output: Path | None,
    findings: bool,
    centre: str | None,
    depth: int,
    profile: str | None,
    source: str,
) -> None:
    """Draw a topology, as text or as SVG.

    It shows exchanges, bindings, queues and partitions; findings of the check are coloured and shown in tooltips.

    An alternate exchange with a question mark is in force only if a policy applies whose pattern is not understood
    here, or that has the priority of another one.

    TOPOLOGY is a .bindings file, definitions.json (or .gz), - or http://HOST:15672[/VHOST].
    """
    with exit_on_error():
        opened = open_source(source, vhost, seconds=seconds_to_answer())
        topology = opened.topology(vhost, profile)
        show_warnings(opened.name, opened.warnings)
        shown = check(topology, opened.expectations(topology.vhost)) if findings else ()
        picture = draw(topology, shown)
        if centre is not None:
            picture = crop_around(picture, centre, depth)
        if output is None:
            click.echo(to_text(picture))
        else:
            save_lines(str(output), [to_svg(picture, f"{_title(opened.name)}, virtual host {topology.vhost}")])


def _title(name: str) -> str:
    """Return the title of a picture: the name of its file without the folders, or the address."""
    return name if is_address(name) else Path(name).name
