"""The horizontal positions of columns, and the curves of edges from slot to slot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from bindings.drawing.layout.slots import Slots
from bindings.drawing.layout.values import LaidEdge, PlacedEdge, Point, Size

CHANNEL: Final = 36.0
"""Minimum distance of two columns; edges bend there."""
WIDEST_CHANNEL: Final = 140.0
"""Maximum distance of two columns."""
PORT_GAP: Final = 7.0
"""Vertical distance of the ends of two edges at one side of a node, if there is room."""
PORT_MARGIN: Final = 5.0
"""Distance of the ends of edges from the corners of a node."""
DETOUR_GAP: Final = 8.0
"""Vertical distance of the detours in which edges are led around all columns."""

LOOP_HEIGHT: Final = 14.0
"""Minimum height of a loop."""
LOOP_START: Final = 20.0
"""Horizontal distance of loops from the left end of their node, which may be round."""


class RouteGrid(NamedTuple):
    """Where columns and slots are."""

    lefts: list[float]
    """The left edge of each column."""
    widths: list[float]
    middles: Sequence[float]
    """The vertical middle of each slot."""
    nodes: Sequence[Size]
    """The sizes of the nodes, which may be smaller than their slots."""
    bottom: float
    """The lower edge of all slots."""

    @property
    def width(self) -> float:
        """The width of all columns."""
        return self.lefts[-1] + self.widths[-1]


def frame_columns(slots: Slots, middles: Sequence[float], nodes: Sequence[Size]) -> RouteGrid:
    """Return the positions of the columns: the steeper the edges between two columns, the farther these are apart."""
    widths = [max(slots.sizes[slot].width for slot in column) for column in slots.columns]
    lefts = [0.0]
    for at, column in enumerate(slots.columns[:-1]):
        rise = max((abs(middles[one] - middles[two]) for one in column for two in slots.after[one]), default=0.0)
        lefts.append(lefts[-1] + widths[at] + min(CHANNEL + rise / 4, WIDEST_CHANNEL))
    bottom = max(middle + size.height / 2 for middle, size in zip(middles, slots.sizes, strict=True))
    return RouteGrid(lefts, widths, middles, nodes, bottom)


def route_edges(slots: Slots, lines: Sequence[LaidEdge], frame: RouteGrid) -> list[tuple[Point, ...]]:
    """Return the curve of each edge, from the left to the right: level in columns, bent between them."""
    routes = []
    for line, path, ports in zip(lines, slots.paths, _place_ports(slots, lines, frame), strict=True):
        source, target = slots.column_of[line.source], slots.column_of[line.target]
        points = [Point(frame.lefts[source] + frame.nodes[line.source].width, ports.start)]
        # Level to the end of the column, past wider nodes above and below.
        points.append(Point(frame.lefts[source] + frame.widths[source], ports.start))
        for slot in path.slots[1:]:
            if slot != line.target:
                points += _cross(frame, slots.column_of[slot], slots.column_of[slot], frame.middles[slot])
        if path.detour is not None:
            y = frame.bottom + DETOUR_GAP * (path.detour + 1)
            points += _cross(frame, slots.column_of[path.slots[-1]] + 1, target - 1, y)
        points.append(Point(frame.lefts[target], ports.end))
        routes.append(join_points(points))
    return routes


def join_points(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return the chain of Bézier curves through these points that is level at each of them."""
    bends = [points[0]]  # without points in the middle of a level line: a line may pass hundreds of columns
    for at, point in enumerate(points[1:-1], 1):
        if not bends[-1].y == point.y == points[at + 1].y:
            bends.append(point)
    bends.append(points[-1])
    chain = [points[0]]
    for one, two in pairwise(bends):
        if one != two:
            bend = (two.x - one.x) / 2
            chain += [Point(one.x + bend, one.y), Point(two.x - bend, two.y), two]
    return tuple(chain)


def draw_loops(corner: Point, node: Size, labels: Sequence[Size]) -> tuple[list[PlacedEdge], Size]:
    """Return the edges from a node to itself, which have these labels, and the room that they need above the node.

    The loops stand on the upper edge of the node, one over the other, each with its label to its right.
    """
    loops: list[PlacedEdge] = []
    middle = corner.x + LOOP_START + 4 * len(labels)
    bottom = corner.y - 2
    right = middle
    for at, label in enumerate(labels):
        height = max(label.height, LOOP_HEIGHT)
        half = 6.0 + 4 * at
        peak = bottom - height / 2 - 1
        # A cubic curve rises to three quarters of the height of its control points.
        control = corner.y - (corner.y - peak) / 0.75
        curve = (
            Point(middle - half, corner.y), Point(middle - half, control), Point(middle + half, control),
            Point(middle + half, corner.y),
        )  # fmt: skip
        left = middle + 6.0 + 4 * len(labels)
        upper_left = Point(left, bottom - height / 2 - label.height / 2) if label.width else None
        loops.append(PlacedEdge(curve, upper_left))
        right = max(right, left + label.width)
        bottom -= height + 2
    return loops, Size(max(right - corner.x, node.width), corner.y - bottom)


def _cross(frame: RouteGrid, first: int, last: int, y: float) -> list[Point]:
    """Return the points where an edge enters the column ``first`` and leaves the column ``last``, at one height."""
    return [Point(frame.lefts[first], y), Point(frame.lefts[last] + frame.widths[last], y)]


class _Ports(NamedTuple):
    """The heights at which an edge leaves its source and enters its target."""

    start: float
    end: float


def _place_ports(slots: Slots, lines: Sequence[LaidEdge], frame: RouteGrid) -> Iterator[_Ports]:
    """Yield where each edge leaves its source and enters its target, so that edges are apart and do not cross there.

    Edges that share the slot beside the node share the port; edges without a slot between two nodes do not.
    """
    out: dict[int, dict[tuple[float, int], list[int]]] = {}
    into: dict[int, dict[tuple[float, int], list[int]]] = {}
    for index, (line, path) in enumerate(zip(lines, slots.paths, strict=True)):
        below = frame.bottom + DETOUR_GAP * (path.detour + 1) if path.detour is not None else 0.0
        is_direct = len(path.slots) == 2 and path.detour is None
        first = frame.middles[path.slots[1]] if len(path.slots) > 1 else below
        last = frame.middles[path.slots[-2]] if path.detour is None else below
        key = index + 1 if is_direct else 0
        out.setdefault(line.source, {}).setdefault((first, key), []).append(index)
        into.setdefault(line.target, {}).setdefault((last, key), []).append(index)
    starts, ends = [0.0] * len(lines), [0.0] * len(lines)
    for side, places in ((out, starts), (into, ends)):
        for node, ports in side.items():
            ordered = sorted(ports)
            ys = _spread([y for y, _ in ordered], frame.middles[node], frame.nodes[node].height / 2 - PORT_MARGIN)
            for port, y in zip(ordered, ys, strict=True):
                for index in ports[port]:
                    places[index] = y
    return map(_Ports, starts, ends)


def _spread(wanted: Sequence[float], middle: float, reach: float) -> list[float]:
    """Return places near those wanted, in order and apart, at most ``reach`` from the middle."""
    gap = min(PORT_GAP, 2 * reach / (len(wanted) - 1)) if len(wanted) > 1 else 0.0
    places: list[float] = []
    for at, y in enumerate(wanted):
        lowest = middle - reach + gap * at
        places.append(max(min(max(y, middle - reach), middle + reach), lowest, places[-1] + gap if places else lowest))
    for at in range(len(places) - 1, -1, -1):
        highest = middle + reach - gap * (len(places) - 1 - at)
        places[at] = min(places[at], highest, places[at + 1] - gap if at + 1 < len(places) else highest)
    return places
