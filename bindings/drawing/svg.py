"""The drawing as one SVG file without scripts or external fonts and styles; light or dark as the reader prefers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Final

from bindings.check.rules.finding import SEVERITIES
from bindings.drawing.drawing import Drawing, Edge, Node
from bindings.drawing.layout import Layout, Point, Size, lay_out
from exchange.display import escape_line, escape_lines

__all__ = ["to_svg"]

LETTER: Final = 6.7
"""Width in px of a character of 11 px monospaced text; wide characters (CJK, emoji) count as two."""
LINE: Final = 14.0
LABEL_LINE: Final = 12.0
MARGIN: Final = 24.0
LABELS: Final = 3
"""Maximum number of routing keys written on an edge; the others are in its tooltip."""
TIPS: Final = 60
"""Maximum number of routing keys in a tooltip."""
LEGEND_WIDTH: Final = 640.0
LONGEST: Final = 42
"""Maximum number of characters of a name or a key; the rest is in the tooltip."""

STYLE: Final = """
svg { background: #fff; font: 11px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.node rect { fill: #f6f8fa; stroke: #57606a; }
.exchange rect { fill: #ddf4ff; stroke: #0969da; }
.missing rect { fill: none; stroke-dasharray: 4 3; }
text { fill: #1f2328; }
.detail { fill: #57606a; }
.edge path { fill: none; stroke: #8c959f; }
.label { fill: #57606a; }
.paper { fill: #fff; }
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
  .paper { fill: #0d1117; }
  .edge path { stroke: #6e7681; }
  .tick { stroke: #8b949e; }
}
"""


def to_svg(drawing: Drawing, title: str) -> str:
    """Return the whole file."""
    at = {node.id: index for index, node in enumerate(drawing.nodes)}
    labels = [_labels(edge) for edge in drawing.edges]
    layout = lay_out(
        [_size(node) for node in drawing.nodes],
        [(at[edge.source], at[edge.target]) for edge in drawing.edges],
        [_label_size(lines) for lines in labels],
    )
    return "\n".join(_document(drawing, layout, labels, title)) + "\n"


def _document(drawing: Drawing, layout: Layout, labels: Sequence[Sequence[str]], title: str) -> Iterator[str]:
    width = round(max(layout.size.width, LEGEND_WIDTH) + 2 * MARGIN)
    height = round(layout.size.height + 2 * LINE + 2 * MARGIN)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    yield f"<title>{_text(title)}</title>"
    yield f"<style>{STYLE}</style>"
    yield '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" '
    yield 'markerUnits="userSpaceOnUse">'
    yield '<path d="M0 0 8 4 0 8z" fill="#8c959f"/></marker></defs>'
    yield f'<g transform="translate({MARGIN:g} {MARGIN:g})">'
    for edge, points in zip(drawing.edges, layout.edges, strict=True):
        yield from _edge(edge, points)
    for label_corner, lines in zip(layout.labels, labels, strict=True):
        if label_corner is not None:
            yield from _label(label_corner, lines)
    for node, corner in zip(drawing.nodes, layout.nodes, strict=True):
        yield from _node(node, corner)
    yield from _legend(drawing, layout.size.height + LINE)
    yield "</g></svg>"


def _legend(drawing: Drawing, y: float) -> Iterator[str]:
    """Yield the legend: one line below the drawing that explains its shapes and colours."""
    severities = {node.severity for node in drawing.nodes} | {edge.severity for edge in drawing.edges}
    entries = [("node exchange", "exchange"), ("node", "queue")]
    if any(edge.alternate for edge in drawing.edges):
        entries.append(("edge alternate", "to the alternate exchange"))
    entries += [(f"node {severity}", severity) for severity in reversed(SEVERITIES) if severity in severities]
    x = 0.0
    for kind, text in entries:
        yield f'<g class="legend {kind}" transform="translate({x:.1f} {y:.1f})">'
        if kind.startswith("edge"):
            yield '<path d="M0 6H16"/>'
        else:
            yield f'<rect width="16" height="12" rx="{5 if "exchange" in kind else 1}"/>'
        yield f'<text class="detail" x="22" y="10">{text}</text></g>'
        x += 22 + _width(text) + 24
    if drawing.left_out:
        yield f'<text class="detail" x="{x:.1f}" y="{y + 10:.1f}">{drawing.left_out:,} more further away</text>'


def _node(node: Node, corner: Point) -> Iterator[str]:
    width, height = _size(node)
    yield f'<g class="node {node.kind} {node.severity or ""}" transform="translate({corner.x:.1f} {corner.y:.1f})">'
    tip = [f"{node.id.kind} {node.id.name or '(the default exchange)'}", node.partitions, *node.findings]
    yield f"<title>{_text(chr(10).join(filter(None, tip)))}</title>"
    radius = 8 if node.id.kind == "exchange" else 1
    yield f'<rect width="{width:.1f}" height="{height:.1f}" rx="{radius}"/>'
    for line, text in enumerate(_texts(node)):
        detail = ' class="detail"' if line else ""
        yield f'<text x="8" y="{LINE * (line + 1):g}"{detail}>{_text(text)}</text>'
    if node.id.kind == "queue":  # ticks at the end where messages wait
        for step in (4, 8):
            yield f'<path class="tick" d="M{width - step:.1f} 3V{height - 3:.1f}"/>'
    yield "</g>"


def _edge(edge: Edge, points: Sequence[Point]) -> Iterator[str]:
    kind = "edge alternate" if edge.alternate else "edge"
    yield f'<g class="{kind} {edge.severity or ""}">'
    tip = [*edge.findings, f"{edge.source.name} -> {edge.target.name}", *edge.labels[:TIPS]]
    if len(edge.labels) > TIPS:
        tip.append(f"and {len(edge.labels) - TIPS:,} more")
    yield f"<title>{_text(chr(10).join(tip))}</title>"
    yield f'<path d="{_curve(points)}" marker-end="url(#head)"/></g>'


def _label(corner: Point, lines: Sequence[str]) -> Iterator[str]:
    """Yield a label on a rectangle in the colour of the background, so that its edge seems to pass behind it."""
    width, height = _label_size(lines)
    yield f'<rect class="paper" x="{corner.x:.1f}" y="{corner.y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
    for line, text in enumerate(lines):
        y = corner.y + LABEL_LINE * (line + 1) - 3
        yield f'<text class="label" x="{corner.x + 4:.1f}" y="{y:.1f}">{_text(text)}</text>'


def _label_size(lines: Sequence[str]) -> Size:
    return Size(max(map(_width, lines)) + 8, LABEL_LINE * len(lines)) if lines else Size(0.0, 0.0)


def _curve(points: Sequence[Point]) -> str:
    """Return the SVG path through all points: Bézier curves, level at each point."""
    path = f"M{points[0].x:.1f} {points[0].y:.1f}"
    for one, two in pairwise(points):
        bend = (two.x - one.x) / 2
        path += f"C{one.x + bend:.1f} {one.y:.1f} {two.x - bend:.1f} {two.y:.1f} {two.x:.1f} {two.y:.1f}"
    return path


def _labels(edge: Edge) -> list[str]:
    if edge.alternate:  # the dashed line shows it
        return [] if edge.labels == ("alternate",) else ["?"]
    if edge.labels == ("",):
        return []
    lines = [_shorten(label or '""') for label in edge.labels[:LABELS]]
    if len(edge.labels) > LABELS:
        lines[-1] = f"and {len(edge.labels) - LABELS + 1:,} more"
    return lines


def _texts(node: Node) -> list[str]:
    lines = [_shorten(node.id.name or "(default)"), node.detail]
    if node.partitions:
        lines.append(_shorten(node.partitions))
    return lines


def _size(node: Node) -> Size:
    lines = _texts(node)
    return Size(max(map(_width, lines)) + 26, LINE * len(lines) + 6)


def _width(text: str) -> float:
    return LETTER * sum(2 if ord(letter) > 0x1100 else 1 for letter in text)


def _shorten(name: str) -> str:
    text = escape_line(name)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _text(text: str) -> str:
    return escape(escape_lines(text))
