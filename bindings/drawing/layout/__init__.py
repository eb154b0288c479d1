"""The layout of a graph: columns from left to right, in the manner of Sugiyama, Tagawa and Toda (1981).

Pure arithmetic on indexes: sizes come in, points go out. One module for each step, in this order: ranks, slots, order,
coordinates, routes, for each connected part of the graph.
"""

from __future__ import annotations

from bindings.drawing.layout.layout import lay_out
from bindings.drawing.layout.values import NOTHING, LaidEdge, Layout, PlacedEdge, Point, Size

__all__ = ["NOTHING", "LaidEdge", "Layout", "PlacedEdge", "Point", "Size", "lay_out"]
