"""The values of a layout: points, sizes, and where all nodes, edges and labels are. All lengths are in px."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


class Point(NamedTuple):
    """A position: x to the right, y down."""

    x: float
    y: float

    def move(self, by: Point) -> Point:
        """Return the point at this distance."""
        return Point(self.x + by.x, self.y + by.y)


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


class PlacedEdge(NamedTuple):
    """Where an edge is drawn."""

    curve: tuple[Point, ...]
    """From its source to its target, as a chain of cubic Bézier curves: a first point, then for each curve two control
    points and its last point."""
    label: Point | None
    """The upper left corner of its label; None for an edge without a label."""
    is_reversed: bool = False
    """Whether it closes a cycle. It leads to the left; all others lead to the right, loops aside."""

    def move(self, by: Point) -> PlacedEdge:
        """Return the edge at another position."""
        label = None if self.label is None else self.label.move(by)
        return self._replace(curve=tuple([point.move(by) for point in self.curve]), label=label)


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of all nodes, edges and labels, from (0, 0) to ``size``."""

    nodes: tuple[Point, ...]
    """The upper left corner of each node."""
    edges: tuple[PlacedEdge, ...]
    size: Size
