"""The positions of nodes and edges: columns from left to right, in the manner of Sugiyama, Tagawa and Toda (1981).

Edges that would close a cycle are reversed, for the layout only. Each node stands in the column after the last of its
sources; a long edge has a slot of its own in each column that it passes. The nodes of a column are sorted by the mean
position of their neighbours, in sweeps from left to right and back. Connected components stand one below the other. The
layout is pure arithmetic on indexes: sizes come in, points go out.

Labels have slots, too, as virtual nodes in columns between those of the nodes (Gansner et al., 1993). An edge is level
within a column and bends only between columns, so that no edge crosses a node or a label, and no two of these overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

__all__ = ["Layout", "Point", "Size", "lay_out"]

SWEEPS: Final = 12
"""Number of sweeps over the columns."""
GAP: Final = 14.0
"""Vertical distance between two nodes of a column."""
COMPONENT_GAP: Final = 26.0
"""Vertical distance between two connected components."""
MOST_SLOTS: Final = 20_000
"""Maximum number of slots for edges that pass columns. If more are needed, the longest edges get only the slot of their
label and are drawn straight. (A chain of exchanges that all lead to one queue needs the square of its length.)"""
EDGE_ROOM: Final = 10.0
"""Height of the slot of an edge that passes through a column."""
CHANNEL: Final = 40.0
"""Minimum distance of two columns; edges bend there."""
WIDEST_CHANNEL: Final = 150.0
"""Maximum distance of two columns."""


class Point(NamedTuple):
    """A position: x to the right, y down."""

    x: float
    y: float


class Size(NamedTuple):
    """The width and the height of a node."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of all nodes, edges and labels."""

    nodes: tuple[Point, ...]
    """The upper left corner of each node."""
    edges: tuple[tuple[Point, ...], ...]
    """The points that each edge passes, from its source to its target."""
    labels: tuple[Point | None, ...]
    """The upper left corner of each edge's label; None for edges without a label and for loops."""
    size: Size


def lay_out(sizes: Sequence[Size], edges: Sequence[tuple[int, int]], labels: Sequence[Size]) -> Layout:
    """Return the layout of nodes of these sizes.

    ``edges`` are pairs of indexes of nodes, ``labels`` the sizes of their labels, zero where there is none.
    """
    forward = _without_cycles(len(sizes), edges)
    columns = _with_label_columns(_columns(len(sizes), forward), forward, labels)
    # A slot is a node, or the room where a long edge passes a column: its first such slot holds its label. Slots below
    # len(sizes) are the nodes; the others are appended to ``heights`` and ``widths``.
    slots: list[list[int]] = [[] for _ in range(max(columns, default=-1) + 1)]
    for node, column in enumerate(columns):
        slots[column].append(node)
    heights = [size.height for size in sizes]
    widths = [size.width for size in sizes]
    labelled: list[int | None] = []
    paths: list[list[int]] = []
    longest = _longest_with_slots([columns[target] - columns[source] - 1 for source, target in forward])
    for (source, target), label in zip(forward, labels, strict=True):
        path = [source]
        passed = range(columns[source] + 1, columns[target])
        labelled.append(None)
        for column in passed if len(passed) <= longest else passed[: label.width > 0]:
            path.append(len(heights))
            slots[column].append(len(heights))
            first = label.width > 0 and len(path) == 2
            heights.append(max(label.height, EDGE_ROOM) if first else EDGE_ROOM)
            widths.append(label.width if first else 0.0)
            if first:
                labelled[-1] = path[-1]
        paths.append([*path, target])
    near: list[tuple[list[int], list[int]]] = [([], []) for _ in heights]  # slot -> its neighbours left, right
    for path in paths:
        for one, next_one in pairwise(path):
            near[one][1].append(next_one)
            near[next_one][0].append(one)
    tops = [0.0] * len(heights)
    below = 0.0
    for component in _components(slots, near):
        _order(component, near)
        below = _stack(component, near, heights, tops, below) + COMPONENT_GAP
    across = [max([widths[slot] for slot in members], default=0.0) for members in slots]
    middles = [top + height / 2 for top, height in zip(tops, heights, strict=True)]
    column_of = {slot: column for column, members in enumerate(slots) for slot in members}
    lefts = _lefts(across, paths, middles, column_of)
    height = max([tops[slot] + heights[slot] for column in slots for slot in column], default=0.0)
    width = max([lefts[columns[node]] + size.width for node, size in enumerate(sizes)], default=0.0)
    corners_of_nodes = tuple(Point(lefts[columns[node]], tops[node]) for node in range(len(sizes)))
    routes = [_route(path, sizes, lefts, across, middles, column_of) for path in paths]
    turned = [tuple(reversed(r)) if forward[i] != edges[i] else r for i, r in enumerate(routes)]
    corners = [
        None if slot is None else Point(lefts[column_of[slot]], middles[slot] - label.height / 2)
        for slot, label in zip(labelled, labels, strict=True)
    ]
    return Layout(corners_of_nodes, tuple(turned), tuple(corners), Size(width, height))


def _with_label_columns(columns: Sequence[int], edges: Sequence[tuple[int, int]], labels: Sequence[Size]) -> list[int]:
    """Return the columns renumbered, with a free one after each column that an edge with a label leaves."""
    left = {columns[source] for (source, target), label in zip(edges, labels, strict=True)
            if label.width and source != target}  # fmt: skip
    numbers: list[int] = []
    for column in range(max(columns, default=-1) + 1):
        numbers.append(numbers[-1] + 1 + (column - 1 in left) if numbers else 0)
    return [numbers[column] for column in columns]


def _longest_with_slots(lengths: Sequence[int]) -> int:
    """Return the maximum number of columns that an edge may pass and have slots in, so that `MOST_SLOTS` suffice."""
    slots = 0
    for length in sorted(lengths):
        slots += max(length, 0)
        if slots > MOST_SLOTS:
            return length - 1
    return slots


def _without_cycles(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the edges, with those reversed that lead back into the path of a depth-first walk."""
    out: list[list[int]] = [[] for _ in range(count)]
    entered = [0] * count
    for index, (source, target) in enumerate(edges):
        out[source].append(index)
        entered[target] += source != target
    turned = list(edges)
    state = [0] * count  # 0 not seen, 1 on the path, 2 done
    # Nodes that no edge enters come first: from them, a walk follows most edges forwards and reverses few.
    for root in sorted(range(count), key=lambda node: (entered[node], node)):
        if state[root]:
            continue
        state[root] = 1
        walk = [(root, iter(out[root]))]
        while walk:
            node, rest = walk[-1]
            for index in rest:
                target = edges[index][1]
                if state[target] == 1:
                    turned[index] = (target, node)
                elif not state[target]:
                    state[target] = 1
                    walk.append((target, iter(out[target])))
                    break
            else:
                state[node] = 2
                walk.pop()
    return turned


def _columns(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the column of each node: the length of the longest path to it."""
    columns = [0] * count
    waiting = [0] * count
    out: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        if source != target:
            waiting[target] += 1
            out[source].append(target)
    ready = [node for node in range(count) if not waiting[node]]
    while ready:
        node = ready.pop()
        for target in out[node]:
            columns[target] = max(columns[target], columns[node] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return columns


def _order(slots: list[list[int]], near: Sequence[tuple[list[int], list[int]]]) -> None:
    """Sort each column by the mean position of its neighbours to the left, then of those to the right, and so on."""
    position: dict[int, float] = {}
    for column in slots:
        position |= {slot: float(at) for at, slot in enumerate(column)}
    for sweep in range(SWEEPS):
        side = sweep % 2
        for column in slots if side == 0 else reversed(slots):
            middles = {slot: _mean([position[other] for other in near[slot][side]], position[slot]) for slot in column}
            column.sort(key=middles.__getitem__)
            position |= {slot: float(at) for at, slot in enumerate(column)}


def _components(slots: Sequence[Sequence[int]], near: Sequence[tuple[list[int], list[int]]]) -> list[list[list[int]]]:
    """Return the columns of each connected component, in the order of their first slots; isolated slots come last."""
    component_of: dict[int, int] = {}
    components: list[dict[int, list[int]]] = []
    alone = [[slot for slot in column if not any(near[slot])] for column in slots]
    for root in range(len(near)):
        if root in component_of or not any(near[root]):
            continue
        component_of[root] = len(components)
        pending = [root]
        while pending:
            slot = pending.pop()
            for other in (*near[slot][0], *near[slot][1]):
                if other not in component_of:
                    component_of[other] = len(components)
                    pending.append(other)
        components.append({})
    for at, column in enumerate(slots):
        for slot in column:
            if slot in component_of:
                components[component_of[slot]].setdefault(at, []).append(slot)
    return [*(list(component.values()) for component in components), alone]


def _stack(
    slots: Sequence[Sequence[int]],
    near: Sequence[tuple[list[int], list[int]]],
    heights: Sequence[float],
    tops: list[float],
    below: float,
) -> float:
    """Set the top of each slot, near the middle of its neighbours, in order and apart; return the lowest bottom."""
    middle = {}
    for column in slots:
        at = 0.0
        for slot in column:
            middle[slot] = at + heights[slot] / 2
            at += heights[slot] + GAP
    for sweep in range(SWEEPS):
        side = sweep % 2
        for column in slots if side == 0 else list(reversed(slots)):
            wanted = [_mean([middle[other] for other in near[slot][side]], middle[slot]) for slot in column]
            middle |= dict(zip(column, _apart(wanted, [heights[slot] for slot in column]), strict=True))
    highest = min([y - heights[slot] / 2 for slot, y in middle.items()], default=0.0)
    for slot, y in middle.items():
        tops[slot] = y - heights[slot] / 2 - highest + below
    return max([tops[slot] + heights[slot] for slot in middle], default=below - COMPONENT_GAP)


def _apart(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return the positions nearest to those wanted that keep order and distances: isotonic regression (PAVA)."""
    # With the distances subtracted, "in order and apart" means "not decreasing". The nearest such sequence replaces
    # each run that is out of order by its mean (pool adjacent violators).
    offsets = [0.0]
    for one, next_one in pairwise(heights):
        offsets.append(offsets[-1] + one / 2 + next_one / 2 + GAP)
    pools: list[list[float]] = []  # sum, count
    for y, offset in zip(wanted, offsets, strict=False):
        pools.append([y - offset, 1])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            total, count = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += count
    flat = [total / count for total, count in pools for _ in range(int(count))]
    return [y + offset for y, offset in zip(flat, offsets, strict=False)]


def _lefts(
    across: Sequence[float], paths: Sequence[Sequence[int]], middles: Sequence[float], column_of: dict[int, int]
) -> list[float]:
    """Return the left edge of each column: the steeper the edges between two columns, the farther these are apart."""
    rise = [0.0] * len(across)
    for path in paths:
        for one, next_one in pairwise(path):
            if column_of[next_one] == column_of[one] + 1:
                column = column_of[one]
                rise[column] = max(rise[column], abs(middles[one] - middles[next_one]))
    lefts = []
    at = 0.0
    for width, height in zip(across, rise, strict=True):
        lefts.append(at)
        at += width + min(CHANNEL + height / 4, WIDEST_CHANNEL)
    return lefts


def _route(
    path: Sequence[int],
    sizes: Sequence[Size],
    lefts: Sequence[float],
    across: Sequence[float],
    middles: Sequence[float],
    column_of: dict[int, int],
) -> tuple[Point, ...]:
    """Return the points of an edge from its source, through its slots, to its target."""
    source, *between, target = path
    start = Point(lefts[column_of[source]] + sizes[source].width, middles[source])
    if source == target:  # a loop, drawn over the node's upper right corner
        top = middles[source] - sizes[source].height / 2
        return start, Point(start.x + 18, start.y), Point(start.x + 18, top - 8), Point(start.x - 12, top)
    points = [start]
    if sizes[source].width < across[column_of[source]]:  # level to the end of its column, past wider nodes
        points.append(Point(lefts[column_of[source]] + across[column_of[source]], start.y))
    for slot in between:
        left = lefts[column_of[slot]]
        points += [Point(left, middles[slot]), Point(left + across[column_of[slot]], middles[slot])]
    return (*points, Point(lefts[column_of[target]], middles[target]))


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
