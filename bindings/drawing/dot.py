"""The drawing in DOT, the language of Graphviz, for those who lay it out themselves or embed it in their documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from bindings.drawing.captions import caption_node, caption_without_legend, describe_edge, describe_node, mark_lines
from bindings.drawing.looks import COLOURS, EDGE_COLOURS, look_of
from bindings.drawing.model import Drawing, Edge, Node
from exchange.text.display import escape_line

SHAPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "literal": 'shape=box, style="rounded,filled"',
        "pattern": 'shape=ellipse, style="filled"',
        "all": 'shape=cds, style="filled"',
        "headers": 'shape=hexagon, style="filled"',
        "hash": 'shape=parallelogram, style="filled"',
        "chance": 'shape=trapezium, style="filled"',
        "unknown": 'shape=box, style="dashed"',
        "queue": 'shape=box, style="filled"',
        "bundle": 'shape=box3d, style="filled"',
        "partitions": 'shape=cylinder, style="filled"',
        "missing": 'shape=box, style="dashed"',
        "cut": "shape=plaintext",
        "reference": "shape=plaintext",
    }
)
"""Look of a node -> its attributes; the fill is that of the SVG on light paper."""

STYLES: Final = {
    "alternate": "dashed", "dead-letter": "dashed", "partitions": "dotted", "cut": "dotted", "exchange": "bold",
    "queue": "solid",
}  # fmt: skip


def to_dot(drawing: Drawing, title: str) -> str:
    """Return the file. ``dot -Tsvg`` and Graphviz's other layouts read it."""
    return "\n".join(_write(drawing, title)) + "\n"


def _write(drawing: Drawing, title: str) -> Iterator[str]:
    number = {node.id: at for at, node in enumerate(drawing.nodes)}
    yield f"digraph {_quote(escape_line(title))} {{"
    yield '  graph [rankdir=LR, nodesep=0.15, ranksep=0.6, fontname="monospace"]'
    yield '  node [fontname="monospace", fontsize=10, height=0.3, margin="0.16,0.06"]'
    yield '  edge [fontname="monospace", fontsize=9, arrowsize=0.6]'
    for at, node in enumerate(drawing.nodes):
        label = _quote(*mark_lines(node, caption_node(node)))
        yield f"  n{at} [label={label}, tooltip={_quote(*describe_node(node))}, {_look(node)}]"
    for edge in drawing.edges:
        yield f"  n{number[edge.source]} -> n{number[edge.target]} [{_describe(edge)}]"
    yield "}"


def _look(node: Node) -> str:
    look = look_of(node)
    fill = COLOURS.get(f"{look}-fill", COLOURS["sheet"]).light
    line = COLOURS[node.severity or ("error" if node.kind == "missing" else look if look in COLOURS else "line")].light
    return f'{SHAPES[look]}, fillcolor="{fill}", color="{line}"{", penwidth=2" if node.severity else ""}'


def _describe(edge: Edge) -> str:
    [caption] = mark_lines(edge, [caption_without_legend(edge)])
    colour = COLOURS[edge.severity or EDGE_COLOURS[edge.kind]].light
    label = f"label={_quote(caption)}, " if caption else ""
    tooltip = _quote(*describe_edge(edge))
    return f'{label}edgetooltip={tooltip}, labeltooltip={tooltip}, style={STYLES[edge.kind]}, color="{colour}"'


def _quote(*lines: str) -> str:
    r"""Return lines as a quoted string: Graphviz reads ``\`` as the beginning of an escape and ``&`` as an entity's."""
    return '"' + r"\n".join(
        line.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") for line in lines
    ) + '"'  # fmt: skip
