"""The whole SVG file: heading, legend, edges, nodes, style and script.

The file needs nothing else: no network, no font, no other file. Without a script, as in an ``<img>``, it is a picture
of its natural size; opened by itself in a browser, it can be moved, zoomed and searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files  # not by path: the package may be in a zip, as Spark ships it
from types import MappingProxyType
from typing import Final

from bindings.checking.rules.table import SEVERITIES
from bindings.drawing.captions import count_parts
from bindings.drawing.layout import LaidEdge, Layout, Point, lay_out
from bindings.drawing.looks import COLOURS, EDGE_COLOURS, ROUTING_LOOKS
from bindings.drawing.model import Drawing
from bindings.drawing.svg.legend import draw_legend, list_entries, measure_legend
from bindings.drawing.svg.shapes import (
    LINE,
    draw_edge,
    draw_node,
    indent,
    measure,
    measure_label,
    measure_node,
    write_text,
)
from exchange.text.display import clip_line, escape_line

MARGIN: Final = 24.0
NARROWEST: Final = 720.0
"""Minimum width of a picture in px, without its margins."""
LEGEND: Final = 1_100.0
"""Maximum width of the legend in px: it is in the window when a browser opens a large picture."""
LONGEST_HEADING: Final = 100
LINES: Final[Mapping[str, str]] = MappingProxyType({
    "queue": "stroke-width: 1.2",
    "exchange": "stroke-width: 2",
    "alternate": "stroke-width: 1.4; stroke-dasharray: 6 4",
    "dead-letter": "stroke-width: 1.4; stroke-dasharray: 8 3 1.5 3",
    "partitions": "stroke-width: 2.6; stroke-dasharray: 0.1 5; stroke-linecap: round",
    "cut": "stroke-width: 1.2; stroke-dasharray: 2 3",
})  # fmt: skip
"""Kind of an edge -> how its line is drawn."""

HEADS: Final[Mapping[str, str]] = MappingProxyType({
    **{str(kind): colour for kind, colour in EDGE_COLOURS.items()}, "back": "back-edge",
    **{severity: severity for severity in SEVERITIES},
})  # fmt: skip
"""Name of an arrow head -> its colour."""

FONT: Final = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'

FIXED: Final = f"""
svg {{ font: 11px {FONT}; }}
text {{ white-space: pre; }}
.heading {{ font-weight: bold; }}
.shape {{ stroke-width: 1.4; }}
.centre .shape {{ stroke-width: 3.2; }}
.missing .shape {{ stroke-dasharray: 4 3; }}
.unknown .shape {{ stroke-dasharray: 7 3; }}
.cut text, .reference text {{ font-style: italic; }}
.cut .shape, .reference .shape {{ stroke-dasharray: 2 3; }}
.edge path {{ fill: none; }}
.dim {{ opacity: 0.15; }}
.found .shape {{ stroke-width: 4; }}
.chosen .shape, .chosen path {{ stroke-width: 3; }}
svg.live {{ cursor: grab; touch-action: none; user-select: none; }}
#bar {{ display: flex; gap: 6px; align-items: center; padding: 8px; font: 13px system-ui, sans-serif; }}
#bar {{ color-scheme: light dark; }}
#bar input {{ flex: 1; min-width: 0; font: inherit; }}
#bar output {{ min-width: 4.5em; }}
#bar button {{ font: inherit; min-width: 2em; cursor: pointer; }}
.error .shape, .warning .shape {{ stroke-width: 2.6; }}
"""

Rule = tuple[str, str, str]


def to_svg(drawing: Drawing, title: str) -> str:
    """Return the whole file. Equal drawings give equal texts."""
    number = {node.id: at for at, node in enumerate(drawing.nodes)}
    looks = [(kind, severity) for kind in EDGE_COLOURS for severity in (None, *SEVERITIES)]
    strands = {look: at for at, look in enumerate(looks)}
    layout = lay_out(
        [measure_node(node) for node in drawing.nodes],
        [
            # Edges that look alike may run together into their target.
            LaidEdge(number[edge.source], number[edge.target], measure_label(edge), strands[edge.kind, edge.severity])
            for edge in drawing.edges
        ],
    )  # fmt: skip
    return "\n".join(_write(drawing, layout, title)) + "\n"


def _write(drawing: Drawing, layout: Layout, title: str) -> Iterator[str]:
    entries = list_entries(drawing, [edge.is_reversed for edge in layout.edges])
    heading = clip_line(title, LONGEST_HEADING)
    inner = max(layout.size.width, NARROWEST, measure(heading) * 1.1)
    below = (
        3 * LINE + measure_legend(entries, min(inner, LEGEND)) + LINE
    )  # the top of the drawing, in the frame of the margins
    width, height = round(inner + 2 * MARGIN), round(below + layout.size.height + 2 * MARGIN)
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'role="img" aria-labelledby="title counts">')  # fmt: skip
    yield f'<title id="title">{escape(escape_line(title))}</title>'
    yield f"<style>{write_style_sheet()}</style>"
    yield "<defs>"
    for head in HEADS:
        yield (f'<marker id="head-{head}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" '
               f'orient="auto" markerUnits="userSpaceOnUse"><path class="head-{head}" d="M0 0.5 8 4 0 7.5z"/></marker>'
               )  # fmt: skip
    yield "</defs>"
    yield f'<g id="view"><g transform="translate({MARGIN:g} {MARGIN:g})">'
    yield write_text(heading, 0, LINE - 3, "heading")
    yield f'<g id="counts">{write_text(_describe(drawing), 0, 2 * LINE - 1, "soft")}</g>'
    yield f'<g transform="translate(0 {3 * LINE:g})">'
    yield from draw_legend(entries, min(inner, LEGEND))
    yield f'</g><g id="drawing" transform="translate(0 {below:.1f})">'
    yield from _draw(drawing, layout)
    yield "</g></g></g>"
    yield f"<script>{_read_script()}</script>"
    yield "</svg>"


@cache
def _read_script() -> str:
    return escape(files("bindings.drawing.svg").joinpath("picture.js").read_text("utf-8"), quote=False)


def _describe(drawing: Drawing) -> str:
    more = f"; {drawing.left_out:,} more further away" if drawing.left_out else ""
    return count_parts(drawing) + more


def _draw(drawing: Drawing, layout: Layout) -> Iterator[str]:
    number = {node.id: at for at, node in enumerate(drawing.nodes)}
    for edge, placed in zip(drawing.edges, layout.edges, strict=True):
        ends, is_back = (number[edge.source], number[edge.target]), placed.is_reversed
        curve = placed.curve
        if edge.source != edge.target:
            curve = _touch_outlines(drawing, layout, ends, curve, is_back=is_back)
        yield from draw_edge(edge, curve, placed.label, ends, is_back=is_back)
    for at, (node, corner) in enumerate(zip(drawing.nodes, layout.nodes, strict=True)):
        hub = node.refers_to if node.id.part == "reference" else None
        yield from draw_node(
            node, corner, at, refers_to=None if hub is None else number[hub], is_centre=node.id in drawing.centres
        )


def _touch_outlines(
    drawing: Drawing, layout: Layout, ends: tuple[int, int], curve: Sequence[Point], *, is_back: bool
) -> tuple[Point, ...]:
    """Return the curve, made longer to the outlines of its nodes where these are inside of their rectangles."""
    source, target = ends
    first, last = curve[0], curve[-1]
    out = indent(drawing.nodes[source], first.y - layout.nodes[source].y)[0 if is_back else 1]
    into = indent(drawing.nodes[target], last.y - layout.nodes[target].y)[1 if is_back else 0]
    way = -1 if is_back else 1
    start, end = Point(first.x - way * out, first.y), Point(last.x + way * into, last.y)
    return (start, start, first, *curve, last, end, end)  # two more curves, both level


def list_rules() -> list[Rule]:
    """Return the rules that set colours: selector, property, name of the colour."""
    rules = [
        ("svg, #bar", "background", "paper"), ("#bar", "color", "ink"), ("text, .mark", "fill", "ink"),
        (".soft", "fill", "soft"),
        (".shape", "fill", "sheet"), (".shape, .tick", "stroke", "line"), (".tick", "fill", "none"),
        (".cell", "fill", "partitions-edge"), (".paper", "fill", "paper"), (".missing .shape", "fill", "paper"),
        (".missing .shape", "stroke", "error"), (".cut .shape, .reference .shape", "fill", "paper"),
    ]  # fmt: skip
    for routing in ROUTING_LOOKS:
        rules += [(f".{routing} .shape", "fill", f"{routing}-fill"), (f".{routing} .shape", "stroke", routing)]
    rules += [(f".edge.{kind} path", "stroke", colour) for kind, colour in EDGE_COLOURS.items()]
    rules.append((".edge.back path", "stroke", "back-edge"))
    for severity in SEVERITIES:
        rules += [
            (f".{severity} .shape, .edge.{severity} path", "stroke", severity), (f".{severity} .mark", "fill", severity)
        ]  # fmt: skip
    rules += [(f".head-{head}", "fill", colour) for head, colour in HEADS.items()]
    rules.append((".found .shape, .found .paper", "fill", "mark"))
    return rules


@cache
def write_style_sheet() -> str:
    """Return the style sheet of a picture."""
    lines = [FIXED.strip()]
    lines += [f".edge.{kind} path {{ {properties}; }}" for kind, properties in LINES.items()]
    lines += [_write_rule(rule, dark=False) for rule in list_rules()]
    dark = "\n".join(_write_rule(rule, dark=True) for rule in list_rules())
    return "\n".join([*lines, f"@media (prefers-color-scheme: dark) {{\n{dark}\n}}"])


def _write_rule(rule: Rule, *, dark: bool) -> str:
    selector, what, name = rule
    colour = COLOURS.get(name)
    return f"{selector} {{ {what}: {name if colour is None else colour.dark if dark else colour.light}; }}"
