"""Where nodes and edges go: columns from left to right, in the manner of Sugiyama, Tagawa and Toda (1981).

Edges that would close a cycle are turned around for the layout only; each node stands in the column after the last of
its sources; long edges pass through places of their own in the columns between; the order within a column is the one
that the middles of the neighbours give, swept back and forth. What is not connected stands one below the other. Pure
arithmetic on indexes: sizes come in, points go out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

__all__ = ["Layout", "Point", "Size", "lay_out"]

SWEEPS: Final = 12
GAP: Final = 14.0
"""Between two nodes of a column."""
PART_GAP: Final = 26.0
"""Between parts that are not connected."""
MOST_PLACES: Final = 20_000
"""Maximum number of places for edges that pass columns; the longest edges beyond it are drawn straight. A chain whose
every exchange leads to one queue would have the square of its length."""
EDGE_ROOM: Final = 10.0
"""The height kept for an edge that passes through a column."""


class Point(NamedTuple):
    """A place: x to the right, y down."""

    x: float
    y: float


class Size(NamedTuple):
    """The width and the height of a node."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is."""

    nodes: tuple[Point, ...]
    """The upper left corner of each."""
    edges: tuple[tuple[Point, ...], ...]
    """The points each passes, from its source to its target."""
    size: Size


def lay_out(sizes: Sequence[Size], edges: Sequence[tuple[int, int]], room: Sequence[float]) -> Layout:
    """Place nodes of these sizes; ``edges`` are pairs of their indexes, ``room`` the width each edge's label wants."""
    forward = _without_cycles(len(sizes), edges)
    columns = _columns(len(sizes), forward)
    # A slot is a node, or the place where a long edge passes a column.
    slots: list[list[int]] = [[] for _ in range(max(columns, default=-1) + 1)]
    for node, column in enumerate(columns):
        slots[column].append(node)
    heights = [size.height for size in sizes]
    paths: list[list[int]] = []
    longest = _longest_with_places([columns[target] - columns[source] - 1 for source, target in forward])
    for source, target in forward:
        path = [source]
        passed = range(columns[source] + 1, columns[target])
        for column in passed if len(passed) <= longest else ():
            path.append(len(heights))
            slots[column].append(len(heights))
            heights.append(EDGE_ROOM)
        paths.append([*path, target])
    near: list[tuple[list[int], list[int]]] = [([], []) for _ in heights]
    for path in paths:
        for one, next_one in pairwise(path):
            near[one][1].append(next_one)
            near[next_one][0].append(one)
    tops = [0.0] * len(heights)
    below = 0.0
    for part in _parts(slots, near):
        _order(part, near)
        below = _stack(part, near, heights, tops, below) + PART_GAP
    lefts = _lefts(slots, sizes, paths, room)
    height = max([tops[slot] + heights[slot] for column in slots for slot in column], default=0.0)
    width = max([lefts[columns[node]] + size.width for node, size in enumerate(sizes)], default=0.0)
    places = tuple(Point(lefts[columns[node]], tops[node]) for node in range(len(sizes)))
    column_of = {slot: column for column, members in enumerate(slots) for slot in members}
    routes = [_route(path, sizes, lefts, tops, heights, column_of) for path in paths]
    turned = [tuple(reversed(r)) if forward[i] != edges[i] else r for i, r in enumerate(routes)]
    return Layout(places, tuple(turned), Size(width, height))


def _longest_with_places(lengths: Sequence[int]) -> int:
    """Return how many columns an edge may pass and have places there, so that all have no more than there may be."""
    places = 0
    for length in sorted(lengths):
        places += max(length, 0)
        if places > MOST_PLACES:
            return length - 1
    return places


def _without_cycles(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The edges, those turned around that lead back into the path of a depth-first walk."""
    out: list[list[int]] = [[] for _ in range(count)]
    entered = [0] * count
    for index, (source, target) in enumerate(edges):
        out[source].append(index)
        entered[target] += source != target
    turned = list(edges)
    state = [0] * count  # 0 not seen, 1 on the path, 2 done
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
    """The length of the longest way to each node."""
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
    """Sort each column by the mean place of what is left of it, then of what is right, and so on."""
    place: dict[int, float] = {}
    for column in slots:
        place |= {slot: float(at) for at, slot in enumerate(column)}
    for sweep in range(SWEEPS):
        side = sweep % 2
        for column in slots if side == 0 else reversed(slots):
            middles = {slot: _mean([place[other] for other in near[slot][side]], place[slot]) for slot in column}
            column.sort(key=middles.__getitem__)
            place |= {slot: float(at) for at, slot in enumerate(column)}


def _parts(slots: Sequence[Sequence[int]], near: Sequence[tuple[list[int], list[int]]]) -> list[list[list[int]]]:
    """The columns of each connected part that it has slots in, left to right, by first slot; what is alone is last."""
    part_of: dict[int, int] = {}
    parts: list[dict[int, list[int]]] = []
    alone = [[slot for slot in column if not any(near[slot])] for column in slots]
    for root in range(len(near)):
        if root in part_of or not any(near[root]):
            continue
        part_of[root] = len(parts)
        pending = [root]
        while pending:
            slot = pending.pop()
            for other in (*near[slot][0], *near[slot][1]):
                if other not in part_of:
                    part_of[other] = len(parts)
                    pending.append(other)
        parts.append({})
    for at, column in enumerate(slots):
        for slot in column:
            if slot in part_of:
                parts[part_of[slot]].setdefault(at, []).append(slot)
    return [*(list(part.values()) for part in parts), alone]


def _stack(
    slots: Sequence[Sequence[int]],
    near: Sequence[tuple[list[int], list[int]]],
    heights: Sequence[float],
    tops: list[float],
    below: float,
) -> float:
    """Set the upper edge of each slot: near the middle of its neighbours, in order, apart. Returns the lowest edge."""
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
    return max([tops[slot] + heights[slot] for slot in middle], default=below - PART_GAP)


def _apart(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """The places nearest to those wanted, in their order, that keep everything apart: pooled neighbours (isotonic)."""
    # With the distances taken out, "in order and apart" is "not decreasing", and the nearest such sequence is the one
    # that averages each run which is out of order.
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
    slots: Sequence[Sequence[int]], sizes: Sequence[Size], paths: Sequence[Sequence[int]], room: Sequence[float]
) -> list[float]:
    """The left edge of each column: after the widest node and the widest label before it."""
    column_of = {slot: column for column, members in enumerate(slots) for slot in members}
    between = [40.0] * len(slots)
    for path, width in zip(paths, room, strict=True):
        between[column_of[path[0]]] = max(between[column_of[path[0]]], width)
    lefts = []
    at = 0.0
    for column, members in enumerate(slots):
        lefts.append(at)
        at += max([sizes[slot].width for slot in members if slot < len(sizes)], default=0.0) + between[column]
    return lefts


def _route(
    path: Sequence[int],
    sizes: Sequence[Size],
    lefts: Sequence[float],
    tops: Sequence[float],
    heights: Sequence[float],
    column_of: dict[int, int],
) -> tuple[Point, ...]:
    source, *between, target = path
    start = Point(lefts[column_of[source]] + sizes[source].width, tops[source] + heights[source] / 2)
    if source == target:  # a loop, drawn over the node's upper right corner
        return (
            start,
            Point(start.x + 18, start.y),
            Point(start.x + 18, tops[source] - 8),
            Point(start.x - 12, tops[source]),
        )
    end = Point(lefts[column_of[target]], tops[target] + heights[target] / 2)
    middle = [Point(lefts[column_of[slot]], tops[slot] + EDGE_ROOM / 2) for slot in between]
    return (start, *middle, end)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
