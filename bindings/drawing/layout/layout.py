"""Lay out a graph: each connected part by itself, then all parts and the nodes without edges in one rectangle.

The rectangle has about the proportions of a screen.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from bindings.drawing.layout.coordinates import GAP, place_slots
from bindings.drawing.layout.order import order_columns
from bindings.drawing.layout.ranks import find_back_edges, rank_nodes
from bindings.drawing.layout.routes import DETOUR_GAP, draw_loops, frame_columns, route_edges
from bindings.drawing.layout.slots import build_slots
from bindings.drawing.layout.values import LaidEdge, Layout, PlacedEdge, Point, Size

CELL_GAP: Final = 20.0
"""Horizontal distance between two columns of nodes without edges."""
PROPORTION: Final = 1.6
"""Wanted width of all parts together, divided by their height."""
PART_GAP: Final = 32.0
"""Distance between two parts."""


def lay_out(sizes: Sequence[Size], lines: Sequence[LaidEdge]) -> Layout:
    """Return the layout of nodes of these sizes; lines name the nodes by their indexes."""
    parts = find_parts(len(sizes), [(line.source, line.target) for line in lines])
    part_of = {node: number for number, part in enumerate(parts) for node in part}
    lines_of: list[list[int]] = [[] for _ in parts]
    for index, line in enumerate(lines):
        lines_of[part_of[line.source]].append(index)
    nodes: list[Point] = [Point(0.0, 0.0)] * len(sizes)
    edges: dict[int, PlacedEdge] = {}
    connected = [number for number, indexes in enumerate(lines_of) if indexes]
    layouts = [_lay_out_part(sizes, lines, parts[number], lines_of[number]) for number in connected]
    corners, whole = pack([layout.size for layout in layouts])
    for number, layout, corner in zip(connected, layouts, corners, strict=True):
        for node, point in zip(parts[number], layout.nodes, strict=True):
            nodes[node] = point.move(corner)
        edges |= {index: edge.move(corner) for index, edge in zip(lines_of[number], layout.edges, strict=True)}
    alone = [part[0] for part, indexes in zip(parts, lines_of, strict=True) if not indexes]
    top = whole.height + PART_GAP if layouts else 0.0
    grid = _place_in_grid([sizes[node] for node in alone], whole.width)
    for node, corner in zip(alone, grid, strict=True):
        nodes[node] = corner.move(Point(0.0, top))
    right = max([whole.width, *(nodes[node].x + sizes[node].width for node in alone)])
    bottom = max([whole.height, *(nodes[node].y + sizes[node].height for node in alone)])
    return Layout(tuple(nodes), _in_order(edges), Size(right, bottom))


def _in_order(edges: Mapping[int, PlacedEdge]) -> tuple[PlacedEdge, ...]:
    return tuple([edges[index] for index in range(len(edges))])


def _lay_out_part(
    all_sizes: Sequence[Size], all_lines: Sequence[LaidEdge], part: Sequence[int], indexes: Sequence[int]
) -> Layout:
    """Return the layout of the nodes ``part``, which the lines of these indexes connect; both in this order."""
    number = {node: at for at, node in enumerate(part)}
    sizes = [all_sizes[node] for node in part]
    lines = [
        line._replace(source=number[line.source], target=number[line.target])
        for line in (all_lines[index] for index in indexes)
    ]
    back = find_back_edges(len(sizes), [(line.source, line.target) for line in lines])
    forward = [
        # A strand of lines that are turned around leaves one node to the left, and has to be another one.
        line._replace(source=line.target, target=line.source, strand=~line.strand) if is_back else line
        for line, is_back in zip(lines, back, strict=True)
    ]
    straight = [at for at, line in enumerate(forward) if line.source != line.target]
    loops: dict[int, list[int]] = {}
    for at, line in enumerate(forward):
        if line.source == line.target:
            loops.setdefault(line.source, []).append(at)
    rooms = [_room(size, [lines[at].label for at in loops.get(node, ())]) for node, size in enumerate(sizes)]
    ranked = [forward[at] for at in straight]
    ranks = rank_nodes(len(sizes), [(line.source, line.target) for line in ranked])
    slots = build_slots(rooms, ranks, ranked)
    middles = place_slots(slots, order_columns(slots.columns, slots.before, slots.after))
    frame = frame_columns(slots, middles, sizes)
    nodes = [
        Point(frame.lefts[slots.column_of[node]], middles[node] - size.height / 2) for node, size in enumerate(sizes)
    ]
    edges: dict[int, PlacedEdge] = {}
    for at, curve, path in zip(straight, route_edges(slots, ranked, frame), slots.paths, strict=True):
        label = None
        if path.label is not None:
            left = frame.lefts[slots.column_of[path.label]]
            label = Point(left, middles[path.label] - slots.sizes[path.label].height / 2)
        edges[at] = PlacedEdge(tuple(reversed(curve)) if back[at] else curve, label, back[at])
    for node, members in loops.items():
        drawn, _ = draw_loops(nodes[node], sizes[node], [lines[at].label for at in members])
        edges |= zip(members, drawn, strict=True)
    detours = max((path.detour + 1 for path in slots.paths if path.detour is not None), default=0)
    size = Size(frame.width, frame.bottom + detours * DETOUR_GAP)
    return Layout(tuple(nodes), _in_order(edges), size)


def _room(size: Size, loops: Sequence[Size]) -> Size:
    """Return the size of a node with its loops; below it, the same room stays free, so that it is in the middle."""
    if not loops:
        return size
    room = draw_loops(Point(0.0, 0.0), size, loops)[1]
    return Size(room.width, size.height + 2 * room.height)


def _place_in_grid(sizes: Sequence[Size], width: float) -> list[Point]:
    """Return the corners of nodes in columns of equal width, which are filled one after the other."""
    if not sizes:
        return []
    cell = Size(max(size.width for size in sizes) + CELL_GAP, max(size.height for size in sizes) + GAP)
    wanted = max(width, math.sqrt(len(sizes) * cell.width * cell.height * PROPORTION))
    rows = math.ceil(len(sizes) / max(1, int((wanted + CELL_GAP) / cell.width)))
    return [Point(at // rows * cell.width, at % rows * cell.height) for at in range(len(sizes))]


def find_parts(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the connected parts of a graph as sorted lists of nodes, in the order of their first nodes."""
    near: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        near[source].append(target)
        near[target].append(source)
    parts = []
    seen = [False] * count
    for root in range(count):
        if not seen[root]:
            seen[root] = True
            part = [root]
            for node in part:  # grows while it is walked
                for other in near[node]:
                    if not seen[other]:
                        seen[other] = True
                        part.append(other)
            parts.append(sorted(part))
    return parts


def pack(sizes: Sequence[Size]) -> tuple[list[Point], Size]:
    """Return the upper left corner of each rectangle, and the size of all: none overlap, large ones come first.

    Each takes the highest free place, then the leftmost, below all that was placed above it (a skyline).
    """
    corners = [Point(0.0, 0.0)] * len(sizes)
    area = sum((size.width + PART_GAP) * (size.height + PART_GAP) for size in sizes)
    tallest = max((size.height for size in sizes), default=0.0) + PART_GAP
    # Beside a part that is taller than all others would be together, these need no more width than they fill.
    limit = max([min(math.sqrt(area * PROPORTION), 1.1 * area / tallest), *(size.width + PART_GAP for size in sizes)])
    skyline = [(0.0, 0.0)]  # (x, y): from x on, to the next x, everything below y is free
    for index in sorted(range(len(sizes)), key=lambda index: (-sizes[index].height, index)):
        width, height = sizes[index].width + PART_GAP, sizes[index].height + PART_GAP
        y, x = _find_place(skyline, width, limit)
        corners[index] = Point(x, y)
        skyline = _raise(skyline, x, x + width, y + height, limit)
    right = max((corner.x + size.width for corner, size in zip(corners, sizes, strict=True)), default=0.0)
    bottom = max((corner.y + size.height for corner, size in zip(corners, sizes, strict=True)), default=0.0)
    return corners, Size(right, bottom)


def _find_place(skyline: Sequence[tuple[float, float]], width: float, limit: float) -> tuple[float, float]:
    """Return (y, x) of the highest, then leftmost place for a rectangle of this width; it begins where a step does.

    The steps below a rectangle that moves to the right are a sliding window. ``below`` has those that no later one in
    it is as high as, so the first is the highest, and each step comes and goes once.
    """
    best = (math.inf, 0.0)
    below: deque[int] = deque()
    end = 0
    for at, (x, _) in enumerate(skyline):
        if x + width > limit + 1e-6:
            break
        while end < len(skyline) and skyline[end][0] < x + width - 1e-6:
            while below and skyline[below[-1]][1] <= skyline[end][1]:
                below.pop()
            below.append(end)
            end += 1
        while below[0] < at:
            below.popleft()
        best = min(best, (skyline[below[0]][1], x))
    return best


def _raise(
    skyline: Sequence[tuple[float, float]], left: float, right: float, y: float, limit: float
) -> list[tuple[float, float]]:
    """Return the skyline with ``y`` from ``left`` to ``right``; no two steps side by side are of one height."""
    behind = max((step for step in skyline if step[0] <= right + 1e-6), key=lambda step: step[0])[1]
    kept = [step for step in skyline if step[0] < left - 1e-6 or step[0] > right + 1e-6]
    added = [(left, y)] if right >= limit - 1e-6 else [(left, y), (right, behind)]
    steps = sorted([*kept, *added])
    return [step for at, step in enumerate(steps) if at == 0 or steps[at - 1][1] != step[1]]
