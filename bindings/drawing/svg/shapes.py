"""The shapes of nodes and edges: how an exchange routes, and the type of a queue, can be seen without reading.

A shape is drawn into the rectangle of the node, and its text stays inside it. An edge is one path with its tooltip; its
label stands on it, on paper of its own. Text is measured without a font: letters of a monospaced one are equally wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final
from unicodedata import combining, east_asian_width

from bindings.drawing.captions import MARKS, caption_edge, caption_node, describe_edge, describe_node, mark_lines
from bindings.drawing.layout import NOTHING, Point, Size
from bindings.drawing.looks import look_of
from bindings.drawing.model import Edge, Node
from exchange.text.display import escape_line

SLANT: Final = 9.0
"""Horizontal extent in px of a slanted side."""
PADDING: Final = 8.0
MARK: Final = 14.0
"""Width of the mark of a finding."""
TICKS: Final = 20.0
"""Width of the sign for the type of a queue."""
STACK: Final = 4.0
"""Distance of the sheets that stand for a bundle."""
CELLS: Final = 24
"""Maximum number of partitions that are drawn one by one."""
CELL: Final = 7.0
LETTER: Final = 6.7
"""Width in px of a character of 11 px monospaced text; wide characters (CJK, emoji) count as two."""
LINE: Final = 14.0
"""Height in px of a line of text."""


def measure_node(node: Node) -> Size:
    """Return the size of a node. Of a queue, name and type stand in one line, so that a column of queues is short."""
    lines = caption_node(node)
    width = sum(_insets(node)) + (MARK if node.severity else 0.0)
    if node.kind in ("queue", "missing", "cut", "reference"):
        return Size(width + measure("  ".join(lines)), LINE + 8)
    if node.kind == "partitions":
        return Size(width + max(*map(measure, lines), CELL * _count_cells(node)), 3 * LINE + 6)
    extra = STACK if node.kind == "bundle" else 0.0
    return Size(width + max(map(measure, lines)) + extra, 2 * LINE + 8 + extra)


def draw_node(node: Node, corner: Point, number: int, *, refers_to: int | None, is_centre: bool) -> Iterator[str]:
    """Yield the group of a node with its tooltip, shape and text; the script finds it by its number.

    ``refers_to`` is the number of the node that a reference stands for; a centre is what the user asked for.
    """
    size = measure_node(node)
    styles = ["node", node.kind, look_of(node), node.severity, "centre" if is_centre else ""]
    style = " ".join(dict.fromkeys(filter(None, styles)))
    members = "&#10;".join([escape(escape_line(name)) for name in node.members])
    data = f' data-members="{members}"' if members else ""
    data += f' data-refers="{refers_to}"' if refers_to is not None else ""
    yield f'<g id="n{number}" class="{style}" transform="translate({corner.x:.1f} {corner.y:.1f})"{data}>'
    yield f"<title>{escape(chr(10).join(describe_node(node)), quote=False)}</title>"
    yield from draw_shape(node, size)
    x = _insets(node)[0]
    first, *rest = caption_node(node)
    top = STACK if node.kind == "bundle" else 0.0
    y = LINE + 1 + top
    if node.severity:
        yield write_text(MARKS[node.severity], x, y, "mark")
    x += MARK if node.severity else 0.0
    yield write_text(first, x, y)
    if rest and node.kind in ("queue", "missing"):
        yield write_text(rest[0], x + measure(first + "  "), y, "soft")
    elif rest:
        yield write_text(rest[0], x, y + LINE - 1, "soft")
    if node.kind == "partitions":
        yield from _draw_cells(node, x, 2 * LINE + 5)
    yield "</g>"


def draw_shape(node: Node, size: Size) -> Iterator[str]:
    """Yield the outline of a node without its text."""
    width, height = size
    if node.kind == "bundle":
        for step in (2, 1):
            left, top = step * STACK / 2, STACK - step * STACK / 2
            yield _rectangle(left, top, width - STACK, height - STACK, 1)
        yield _rectangle(0, STACK, width - STACK, height - STACK, 1)
        yield from _draw_queue_sign(node.type, width - STACK, STACK, height)
    elif node.kind in ("queue", "missing", "partitions", "cut", "reference"):
        radius = {"cut": height / 2, "reference": height / 2, "partitions": 5}.get(node.kind, 1)
        yield _rectangle(0, 0, width, height, radius)
        if node.kind == "queue":
            yield from _draw_queue_sign(node.type, width, 0, height)
    else:
        yield SHAPES[look_of(node)](width, height)


def _insets(node: Node) -> tuple[float, float]:
    """Return the widths that are kept free to the left and the right of the text."""
    if node.kind == "exchange":
        return PADDING + SLANT / 2, PADDING + SLANT
    return PADDING, PADDING + (TICKS if node.kind in ("queue", "bundle") else 0.0)


def _rectangle(x: float, y: float, width: float, height: float, radius: float) -> str:
    place = f'x="{x:g}" y="{y:g}" ' if x or y else ""
    return f'<rect class="shape" {place}width="{width:.1f}" height="{height:.1f}" rx="{radius:g}"/>'


def _polygon(*corners: tuple[float, float]) -> str:
    return f'<path class="shape" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in corners)}Z"/>'


SHAPES: Final[dict[str, Callable[[float, float], str]]] = {
    "literal": lambda w, h: _rectangle(0, 0, w, h, 6),
    "pattern": lambda w, h: _rectangle(0, 0, w, h, h / 2),
    "all": lambda w, h: _polygon((0, 0), (w - SLANT, 0), (w, h / 2), (w - SLANT, h), (0, h)),
    "headers": lambda w, h: _polygon((SLANT, 0), (w - SLANT, 0), (w, h / 2), (w - SLANT, h), (SLANT, h), (0, h / 2)),
    "hash": lambda w, h: _polygon((SLANT / 2, 0), (w, 0), (w - SLANT / 2, h), (0, h)),
    "chance": lambda w, h: _polygon((0, 0), (w - SLANT / 2, 0), (w, h), (SLANT / 2, h)),
    "unknown": lambda w, h: _rectangle(0, 0, w, h, 3),
}
"""Name of the look of an exchange -> function from width and height to its outline."""


def indent(node: Node, y: float) -> tuple[float, float]:
    """Return how far the outline of a node is inside its rectangle, to the left and the right, at this height."""
    size = measure_node(node)
    away = min(abs(y - size.height / 2) / (size.height / 2), 1.0)  # 0 in the middle, 1 at the upper and lower edge
    look = look_of(node)
    if look in ("pattern", "cut", "reference"):
        arc = size.height / 2 * (1 - math.sqrt(1 - away * away))
        return arc, arc
    if look in ("all", "headers"):
        return (SLANT * away if look == "headers" else 0.0), SLANT * away
    if look in ("hash", "chance"):
        down = SLANT / 2 * y / size.height
        up = SLANT / 2 - down
        return (up, down) if look == "hash" else (down, up)
    return 0.0, STACK if node.kind == "bundle" else 0.0


QUEUE_SIGNS: Final[dict[str, Callable[[float, float], Iterator[str]]]] = {
    "classic": lambda x, y: (f'<path class="tick" d="M{x - step:.1f} {y - 6:.1f}v12"/>' for step in (5, 9, 13)),
    "quorum": lambda x, y: (
        f'<circle class="tick" cx="{x + right:.1f}" cy="{y + down:.1f}" r="2.3"/>'
        for right, down in ((-12, -3.5), (-6, -3.5), (-9, 3))
    ),
    "stream": lambda x, y: (f'<path class="tick" d="M{x - step:.1f} {y - 5:.1f}l4 5l-4 5"/>' for step in (18, 13, 8)),
}
"""Type of a queue -> function from the middle of its right side to its sign: waiting messages, replicas, a log."""


def _draw_queue_sign(type_: str, right: float, top: float, bottom: float) -> Iterator[str]:
    """Yield the sign at the end of a queue; nothing for a type that has none."""
    if type_ in QUEUE_SIGNS:
        yield from QUEUE_SIGNS[type_](right, (top + bottom) / 2)


def _count_cells(node: Node) -> int:
    return min(node.partitioning.partitions.count, CELLS) if node.partitioning is not None else 0


def _draw_cells(node: Node, x: float, y: float) -> Iterator[str]:
    """Yield a cell for each partition, up to `CELLS` of them, the last ones narrower where there are more."""
    cells = _count_cells(node)
    more = node.partitioning is not None and node.partitioning.partitions.count > cells
    for at in range(cells):
        width = 2.0 if more and at >= cells - 3 else CELL - 2
        yield f'<rect class="cell" x="{x + at * CELL:.1f}" y="{y:.1f}" width="{width:g}" height="6"/>'


def measure_label(edge: Edge) -> Size:
    """Return the size of the label of an edge; `NOTHING` if it has none."""
    text = mark_lines(edge, [caption_edge(edge)])[0]
    return Size(measure(text) + 8, LINE) if text else NOTHING


def _head_of(edge: Edge, *, is_back: bool) -> str:
    """Return the name of the arrow head of an edge."""
    return edge.severity or ("back" if is_back else edge.kind)


def draw_edge(
    edge: Edge, curve: Sequence[Point], label: Point | None, ends: tuple[int, int], *, is_back: bool
) -> Iterator[str]:
    """Yield the group of an edge; ``ends`` are the numbers of its nodes, and the curve touches their outlines."""
    style = " ".join(filter(None, ["edge", edge.kind, "back" if is_back else "", edge.severity]))
    yield f'<g class="{style}" data-from="{ends[0]}" data-to="{ends[1]}">'
    yield f"<title>{escape(chr(10).join(describe_edge(edge)), quote=False)}</title>"
    yield f'<path d="{_write_path(curve)}" marker-end="url(#head-{_head_of(edge, is_back=is_back)})"/>'
    if label is not None:
        size = measure_label(edge)
        yield (f'<rect class="paper" x="{label.x:.1f}" y="{label.y:.1f}" '
               f'width="{size.width:.1f}" height="{size.height:.1f}"/>')  # fmt: skip
        text = caption_edge(edge)
        x, y = label.x + 4, label.y + LINE - 4
        if edge.severity:
            yield write_text(MARKS[edge.severity], x, y, "mark")
            x += measure(f"{MARKS[edge.severity]} ")
        if text:
            yield write_text(text, x, y, "soft")
    yield "</g>"


def _write_path(curve: Sequence[Point]) -> str:
    """Return the path of a chain of cubic curves; level ones are written as lines."""
    parts = [f"M{curve[0].x:.1f} {curve[0].y:.1f}"]
    last = curve[0]
    for at in range(1, len(curve), 3):
        one, two, end = curve[at : at + 3]
        if len({f"{point.y:.1f}" for point in (last, one, two, end)}) > 1:
            parts.append(f"C{one.x:.1f} {one.y:.1f} {two.x:.1f} {two.y:.1f} {end.x:.1f} {end.y:.1f}")
        elif f"{last.x:.1f}" != f"{end.x:.1f}":
            if parts[-1].startswith("H"):
                parts.pop()
            parts.append(f"H{end.x:.1f}")
        last = end
    return "".join(parts)


def measure(text: str) -> float:
    """Return the width of a text in px."""
    if text.isascii():
        return LETTER * len(text)
    return LETTER * sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def write_text(text: str, x: float, y: float, style: str = "") -> str:
    """Return a text element whose text begins at ``x`` on the base line ``y``.

    A text that is not ASCII may come from another font, of any width: it is fitted to the width that is kept for it.
    """
    fitted = "" if text.isascii() else f' textLength="{measure(text):.1f}" lengthAdjust="spacingAndGlyphs"'
    class_ = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{class_}{fitted}>{escape(text, quote=False)}</text>'
