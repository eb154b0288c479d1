"""Lay out a graph: each connected part by itself, then all parts and the nodes without edges in one rectangle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from bindings.drawing.layout.coordinates import GAP, place_slots
from bindings.drawing.layout.cycles import find_back_edges
from bindings.drawing.layout.order import order_columns
from bindings.drawing.layout.packing import PART_GAP, PROPORTION, find_parts, pack
from bindings.drawing.layout.ranks import rank_nodes
from bindings.drawing.layout.routes import DETOUR_GAP, draw_loops, frame_columns, route_edges
from bindings.drawing.layout.slots import build_slots
from bindings.drawing.layout.values import LaidEdge, Layout, Point, Size

__all__ = ["lay_out"]

CELL_GAP: Final = 20.0
"""Horizontal distance between two columns of nodes without edges."""


def lay_out(sizes: Sequence[Size], lines: Sequence[LaidEdge]) -> Layout:
    """Return the layout of nodes of these sizes; lines name the nodes by their indexes."""
    parts = find_parts(len(sizes), [(line.source, line.target) for line in lines])
    part_of = {node: number for number, part in enumerate(parts) for node in part}
    lines_of: list[list[int]] = [[] for _ in parts]
    for index, line in enumerate(lines):
        lines_of[part_of[line.source]].append(index)
    nodes: list[Point] = [Point(0.0, 0.0)] * len(sizes)
    edges: list[tuple[Point, ...]] = [()] * len(lines)
    labels: list[Point | None] = [None] * len(lines)
    is_reversed = [False] * len(lines)
    connected = [number for number, indexes in enumerate(lines_of) if indexes]
    layouts = [_lay_out_part(sizes, lines, parts[number], lines_of[number]) for number in connected]
    corners, whole = pack([layout.size for layout in layouts])
    for number, layout, corner in zip(connected, layouts, corners, strict=True):
        for node, point in zip(parts[number], layout.nodes, strict=True):
            nodes[node] = _move(point, corner)
        for index, curve, label, back in zip(
            lines_of[number], layout.edges, layout.labels, layout.reversed, strict=True
        ):
            edges[index] = tuple([_move(point, corner) for point in curve])
            labels[index] = None if label is None else _move(label, corner)
            is_reversed[index] = back
    alone = [part[0] for part, indexes in zip(parts, lines_of, strict=True) if not indexes]
    top = whole.height + PART_GAP if layouts else 0.0
    grid = _place_in_grid([sizes[node] for node in alone], whole.width)
    for node, corner in zip(alone, grid, strict=True):
        nodes[node] = Point(corner.x, corner.y + top)
    right = max([whole.width, *(nodes[node].x + sizes[node].width for node in alone)])
    bottom = max([whole.height, *(nodes[node].y + sizes[node].height for node in alone)])
    return Layout(tuple(nodes), tuple(edges), tuple(labels), tuple(is_reversed), Size(right, bottom))


def _move(point: Point, by: Point) -> Point:
    return Point(point.x + by.x, point.y + by.y)


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
    edges: list[tuple[Point, ...]] = [()] * len(lines)
    labels: list[Point | None] = [None] * len(lines)
    for at, curve, slot in zip(straight, route_edges(slots, ranked, frame), slots.labels, strict=True):
        edges[at] = tuple(reversed(curve)) if back[at] else curve
        if slot is not None:
            left = frame.lefts[slots.column_of[slot]]
            labels[at] = Point(left, middles[slot] - slots.sizes[slot].height / 2)
    for node, members in loops.items():
        curves, corners, _ = draw_loops(nodes[node], sizes[node], [lines[at].label for at in members])
        for at, curve, corner in zip(members, curves, corners, strict=True):
            edges[at], labels[at] = curve, corner
    detours = max((detour + 1 for detour in slots.around if detour is not None), default=0)
    size = Size(frame.width, frame.bottom + detours * DETOUR_GAP)
    return Layout(tuple(nodes), tuple(edges), tuple(labels), tuple(back), size)


def _room(size: Size, loops: Sequence[Size]) -> Size:
    """Return the size of a node with its loops; below it, the same room stays free, so that it is in the middle."""
    if not loops:
        return size
    room = draw_loops(Point(0.0, 0.0), size, loops)[2]
    return Size(room.width, size.height + 2 * room.height)


def _place_in_grid(sizes: Sequence[Size], width: float) -> list[Point]:
    """Return the corners of nodes in columns of equal width, which are filled one after the other."""
    if not sizes:
        return []
    cell = Size(max(size.width for size in sizes) + CELL_GAP, max(size.height for size in sizes) + GAP)
    wanted = max(width, math.sqrt(len(sizes) * cell.width * cell.height * PROPORTION))
    rows = math.ceil(len(sizes) / max(1, int((wanted + CELL_GAP) / cell.width)))
    return [Point(at // rows * cell.width, at % rows * cell.height) for at in range(len(sizes))]
