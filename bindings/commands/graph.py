"""``hashstar graph``: a picture of a topology, as text, SVG, Mermaid or DOT."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from bindings.checking.check import check
from bindings.commands.route import load
from bindings.drawing.captions import count_parts
from bindings.drawing.drawing import draw
from bindings.drawing.forms import FORMS, make_picture
from bindings.drawing.mermaid import TOO_LARGE, is_too_large
from bindings.drawing.surroundings import DIRECTIONS, Direction, crop_around
from bindings.sources.files import save_form
from bindings.sources.management import is_address
from bindings.sources.open import open_source
from exchange.commands.completion import SOURCE, complete_names
from exchange.commands.console import echo_line, exit_on_error, show_caveat, show_status, show_warnings
from exchange.commands.options import STDOUT, OutputFile, command, read_timeout, timeout_option, topology_option
from exchange.commands.output import OutputOption, form_options, print_form
from exchange.commands.release import profile_option
from exchange.topology.unread import find_unread, format_not_proved

DEPTH: Final = 2
"""Bindings from the centre of a neighbourhood to its border, unless the user gives another number."""
LARGE_GRAPH_NODES: Final = 150
"""Minimum number of nodes at which the command names the options that draw a part."""


@command(
    "graph", example="hashstar graph shop.bindings -o shop.svg",
    needs={"--depth": "--around", "--direction": "--around"},
)  # fmt: skip
@click.option("--vhost", help="Virtual host; required only if the source has several.")
@click.option(
    "--output", "-o", cls=OutputOption, type=OutputFile(dir_okay=False, path_type=Path, allow_dash=True),
    metavar="FILE", help="Write a file instead of text: .svg, .mmd (Mermaid), .dot or .gv (Graphviz), .txt.",
)  # fmt: skip
@form_options(FORMS, any_suffix=False)
@click.option("--expand", is_flag=True, help="Draw every queue, where many with the same bindings are drawn as one.")
@click.option(
    "--findings/--no-findings", default=True, show_default=True, help="Colour the findings of hashstar check."
)
@click.option(
    "--around", "centres", metavar="NAME", shell_complete=complete_names(load, "exchanges", "queues"), multiple=True,
    help="Draw only the neighbourhood of this exchange or queue; may be repeated.",
)  # fmt: skip
@click.option(
    "--depth", type=click.IntRange(min=0), default=DEPTH, show_default=True,
    help="With --around: maximum number of bindings from NAME to what is drawn.",
)  # fmt: skip
@click.option(
    "--direction", type=click.Choice(DIRECTIONS), default="any", show_default=True,
    help="With --around: follow bindings both ways, only to NAME, or only from NAME.",
)  # fmt: skip
@profile_option()
@timeout_option
@topology_option
@click.argument("source", type=SOURCE, metavar="TOPOLOGY")
def graph_command(
    vhost: str | None,
    output: Path | None,
    form: str,
    expand: bool,
    findings: bool,
    centres: tuple[str, ...],
    depth: int,
    direction: Direction,
    profile: str | None,
    source: str,
) -> None:
    """Draw a topology, as text, SVG, Mermaid or DOT.

    It shows exchanges, bindings, queues, the ways of dead letters, and partitions; findings of the check are coloured
    and shown in tooltips. A browser moves, zooms and searches an SVG file.

    An alternate or dead letter exchange with a question mark is in force only if a policy applies whose pattern is not
    understood here, or that has the priority of another one.

    TOPOLOGY is a .bindings file, definitions.json (or .gz), a file or folder of another format (hashstar
    convert), - or http://HOST:15672[/VHOST].
    """
    output = None if output == Path(STDOUT) else output
    with exit_on_error():
        opened = open_source(source, vhost, seconds=read_timeout())
        topology = opened.topology(vhost, profile)
        if profile is None:  # else the option has shown it
            show_caveat(topology.profile)
        show_warnings(opened.name, opened.warnings)
        shown = check(topology, opened.expectations(topology.vhost)) if findings else ()
        drawing = draw(topology, shown)
        if centres:
            drawing = crop_around(drawing, centres, depth, direction)
        title = f"{_title(opened.name)}, virtual host {topology.vhost}"
        unread = find_unread(topology)
        parts = [format_not_proved(unread), *map(str, unread[:1])] if unread else []
        caveat = "; ".join(filter(None, [topology.profile.caveat, *parts]))
        pictured = f"{title}; {caveat}" if caveat else title
        result = (drawing, caveat) if form == "text" else (make_picture(drawing, expand=expand), pictured)
        if len(result[0].nodes) >= LARGE_GRAPH_NODES:  # before the wait, which a smaller picture would spare
            echo_line(f"hashstar: {count_parts(result[0])} drawn; to look at a part: --around NAME --depth 1", err=True)
        with show_status("drawing ..."):
            if output is None:
                print_form(FORMS[form], *result)
            else:
                save_form(FORMS[form], *result, path=output)
        if form == "mermaid" and is_too_large(*result):
            echo_line(f"hashstar: {TOO_LARGE}", err=True)


def _title(name: str) -> str:
    """Return the title of a picture: the name of its file without the folders, or the address."""
    return name if is_address(name) else Path(name).name
