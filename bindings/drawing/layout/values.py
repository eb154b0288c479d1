"""The values of a layout: points, sizes, and where all nodes, edges and labels are. All lengths are in px."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["NOTHING", "Layout", "LaidEdge", "Point", "Size"]


class Point(NamedTuple):
    """A position: x to the right, y down."""

    x: float
    y: float


class Size(NamedTuple):
    """Width and height of a rectangle."""

    width: float
    height: float


NOTHING: Final = Size(0.0, 0.0)
"""The size of what is not drawn, such as the label of an edge that has none."""


class LaidEdge(NamedTuple):
    """An edge to lay out, between two nodes that are given by their indexes."""

    source: int
    target: int
    label: Size = NOTHING
    strand: int = 0
    """Edges with the same target and the same strand may share the last part of their way."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of all nodes, edges and labels, from (0, 0) to ``size``."""

    nodes: tuple[Point, ...]
    """The upper left corner of each node."""
    edges: tuple[tuple[Point, ...], ...]
    """Each edge from its source to its target, as a chain of cubic Bézier curves: a first point, then for each curve
    two control points and its last point."""
    labels: tuple[Point | None, ...]
    """The upper left corner of the label of each edge; None for edges without a label."""
    reversed: tuple[bool, ...]
    """Whether an edge closes a cycle. It leads to the left; all others lead to the right, loops aside."""
    size: Size
