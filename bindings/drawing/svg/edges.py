"""Edges and their labels: one path each, with its tooltip; the label stands on the edge, on paper of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from bindings.drawing.captions import MARKS, caption_edge, describe_edge, mark_lines
from bindings.drawing.layout import NOTHING, Point, Size
from bindings.drawing.model import Edge
from bindings.drawing.svg.measure import LINE, measure, write_text

__all__ = ["draw_edge", "head_of", "measure_label", "write_path"]


def measure_label(edge: Edge) -> Size:
    """Return the size of the label of an edge; `NOTHING` if it has none."""
    text = _label(edge)
    return Size(measure(text) + 8, LINE) if text else NOTHING


def head_of(edge: Edge, *, is_back: bool) -> str:
    """Return the name of the arrow head of an edge."""
    return edge.severity or ("back" if is_back else edge.kind)


def draw_edge(
    edge: Edge, curve: Sequence[Point], label: Point | None, ends: tuple[int, int], *, is_back: bool
) -> Iterator[str]:
    """Yield the group of an edge; ``ends`` are the numbers of its nodes, and the curve touches their outlines."""
    style = " ".join(filter(None, ["edge", edge.kind, "back" if is_back else "", edge.severity]))
    yield f'<g class="{style}" data-from="{ends[0]}" data-to="{ends[1]}">'
    yield f"<title>{escape(chr(10).join(describe_edge(edge)), quote=False)}</title>"
    yield f'<path d="{write_path(curve)}" marker-end="url(#head-{head_of(edge, is_back=is_back)})"/>'
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


def write_path(curve: Sequence[Point]) -> str:
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


def _label(edge: Edge) -> str:
    return mark_lines(edge, [caption_edge(edge)])[0]
