"""The drawing as one SVG file: no script, no font and no style from elsewhere; light and dark as the reader has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Final, Literal

from bindings.graph.drawing import Drawing, Edge, Node
from bindings.graph.layout import Layout, Point, Size, lay_out
from exchange.display import escape_line, escape_lines

__all__ = ["svg"]

LETTER: Final = 6.7
"""The width of a character of the 11 px monospaced letters, in px; wide ones (CJK, emoji) count twice."""
LINE: Final = 14.0
MARGIN: Final = 24.0
LABELS: Final = 3
"""Routing keys written on an edge; the others are in its tooltip."""
TIPS: Final = 60
LONGEST: Final = 42
"""Characters of a name or a key; the rest is in the tooltip."""

Beside = Literal["source", "target", "neither"]
"""Which end of an edge has no other edge."""

STYLE: Final = """
svg { background: #fff; font: 11px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.node rect { fill: #f6f8fa; stroke: #57606a; }
.exchange rect { fill: #ddf4ff; stroke: #0969da; }
.missing rect { fill: none; stroke-dasharray: 4 3; }
text { fill: #1f2328; }
.detail { fill: #57606a; }
.edge path { fill: none; stroke: #8c959f; }
.label { fill: #57606a; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
.alternate path { stroke-dasharray: 5 4; }
.tick { stroke: #57606a; }
.error rect, .error path { stroke: #cf222e; stroke-width: 2; }
.warning rect, .warning path { stroke: #bf8700; stroke-width: 2; }
.note rect, .note path { stroke: #8250df; }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; }
  .node rect { fill: #161b22; stroke: #8b949e; }
  .exchange rect { fill: #0c2d4d; stroke: #388bfd; }
  text { fill: #e6edf3; }
  .detail, .label { fill: #8b949e; }
  .label { stroke: #0d1117; }
  .edge path { stroke: #6e7681; }
  .tick { stroke: #8b949e; }
}
"""


def svg(drawing: Drawing, title: str) -> str:
    """The whole file."""
    at = {node.id: index for index, node in enumerate(drawing.nodes)}
    labels = [_labels(edge) for edge in drawing.edges]
    layout = lay_out(
        [_size(node) for node in drawing.nodes],
        [(at[edge.source], at[edge.target]) for edge in drawing.edges],
        [max(map(_width, lines), default=0.0) + 90 for lines in labels],
    )
    return "\n".join(_document(drawing, layout, labels, title)) + "\n"


def _document(drawing: Drawing, layout: Layout, labels: Sequence[Sequence[str]], title: str) -> Iterator[str]:
    width, height = (round(length + 2 * MARGIN) for length in layout.size)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    yield f"<title>{_text(title)}</title>"
    yield f"<style>{STYLE}</style>"
    yield '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    yield '<path d="M0 0 8 4 0 8z" fill="#8c959f"/></marker></defs>'
    yield f'<g transform="translate({MARGIN:g} {MARGIN:g})">'
    for edge, points in zip(drawing.edges, layout.edges, strict=True):
        yield from _edge(edge, points)
    into = Counter([edge.target for edge in drawing.edges])
    out = Counter([edge.source for edge in drawing.edges])
    for edge, points, lines in zip(drawing.edges, layout.edges, labels, strict=True):
        beside: Beside = "target" if into[edge.target] == 1 else "source" if out[edge.source] == 1 else "neither"
        yield from _label(points, lines, beside)
    for node, place in zip(drawing.nodes, layout.nodes, strict=True):
        yield from _node(node, place)
    yield "</g></svg>"


def _node(node: Node, place: Point) -> Iterator[str]:
    width, height = _size(node)
    yield f'<g class="node {node.kind} {node.severity or ""}" transform="translate({place.x:.1f} {place.y:.1f})">'
    tip = [f"{node.id.kind} {node.id.name or '(the default exchange)'}", node.partitions, *node.findings]
    yield f"<title>{_text(chr(10).join(filter(None, tip)))}</title>"
    radius = 8 if node.id.kind == "exchange" else 1
    yield f'<rect width="{width:.1f}" height="{height:.1f}" rx="{radius}"/>'
    for line, text in enumerate(_texts(node)):
        detail = ' class="detail"' if line else ""
        yield f'<text x="8" y="{LINE * (line + 1):g}"{detail}>{_text(text)}</text>'
    if node.id.kind == "queue":  # the end where messages wait
        for step in (4, 8):
            yield f'<path class="tick" d="M{width - step:.1f} 3V{height - 3:.1f}"/>'
    yield "</g>"


def _edge(edge: Edge, points: Sequence[Point]) -> Iterator[str]:
    kind = "edge alternate" if edge.alternate else "edge"
    yield f'<g class="{kind} {edge.severity or ""}">'
    shown = [*edge.findings, f"{edge.source.name} -> {edge.target.name}", *edge.labels[:TIPS]]
    if len(edge.labels) > TIPS:
        shown.append(f"and {len(edge.labels) - TIPS:,} more")
    yield f"<title>{_text(chr(10).join(shown))}</title>"
    yield f'<path d="{_curve(points)}" marker-end="url(#head)"/></g>'


def _label(points: Sequence[Point], lines: Sequence[str], beside: Beside) -> Iterator[str]:
    x, y, anchor = _label_place(points, lines, beside)
    for line, text in enumerate(lines):
        above = (line - (len(lines) - 1) / 2) * 12
        yield f'<text class="label" x="{x:.1f}" y="{y + above + 3:.1f}" text-anchor="{anchor}">{_text(text)}</text>'


def _label_place(points: Sequence[Point], lines: Sequence[str], beside: Beside) -> tuple[float, float, str]:
    """Beside the end that has no other edge, where nothing is in the way; else in the middle of the edge."""
    width = max(map(_width, lines), default=0.0)
    first, last = points[:2], points[-2:]
    if beside == "target":
        return last[1].x - 14, _height_at(last, last[1].x - 14 - width / 2), "end"
    if beside == "source":
        return first[0].x + 8, _height_at(first, first[0].x + 8 + width / 2), "start"
    one, two = points[(len(points) - 2) // 2 :][:2]
    return (one.x + two.x) / 2, (one.y + two.y) / 2, "middle"


def _height_at(points: Sequence[Point], x: float) -> float:
    """The y of the curve between two points, at x: a cubic whose ends are level is nearly smoothstep."""
    one, two = points
    part = min(max((x - one.x) / (two.x - one.x), 0.0), 1.0) if two.x != one.x else 0.5
    return one.y + (two.y - one.y) * part * part * (3 - 2 * part)


def _curve(points: Sequence[Point]) -> str:
    """Through all points, level at each."""
    path = f"M{points[0].x:.1f} {points[0].y:.1f}"
    for one, two in pairwise(points):
        bend = (two.x - one.x) / 2
        path += f"C{one.x + bend:.1f} {one.y:.1f} {two.x - bend:.1f} {two.y:.1f} {two.x:.1f} {two.y:.1f}"
    return path


def _labels(edge: Edge) -> list[str]:
    if edge.alternate or edge.labels == ("",):  # dashed says it
        return []
    lines = [_shortened(label or '""') for label in edge.labels[:LABELS]]
    if len(edge.labels) > LABELS:
        lines[-1] = f"and {len(edge.labels) - LABELS + 1:,} more"
    return lines


def _texts(node: Node) -> list[str]:
    lines = [_shortened(node.id.name or "(default)"), node.detail]
    if node.partitions:
        lines.append(_shortened(node.partitions))
    return lines


def _size(node: Node) -> Size:
    lines = _texts(node)
    return Size(max(map(_width, lines)) + 26, LINE * len(lines) + 6)


def _width(text: str) -> float:
    return LETTER * sum(2 if ord(letter) > 0x1100 else 1 for letter in text)


def _shortened(name: str) -> str:
    text = escape_line(name)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _text(text: str) -> str:
    return escape(escape_lines(text))
