"""The shapes of nodes: how an exchange routes, and the type of a queue, can be seen without reading.

A shape is drawn into the rectangle of the node, and its text stays inside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape
from typing import Final

from bindings.drawing.captions import MARKS, caption_node, describe_node
from bindings.drawing.layout import Point, Size
from bindings.drawing.looks import look_of
from bindings.drawing.model import Node
from bindings.drawing.svg.measure import LINE, measure, write_text
from exchange.text.display import escape_line

__all__ = ["QUEUE_SIGNS", "draw_node", "draw_shape", "indent", "measure_node"]

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
