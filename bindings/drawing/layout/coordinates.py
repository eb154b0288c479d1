"""The vertical positions of the slots: straight edges, nodes in the middle of their neighbours, nothing too close.

The algorithm of Brandes and Köpf (2001): each slot is aligned with a median neighbour, in four ways: with the column to
the left or to the right, from the top or from the bottom. Slots that are aligned form a block with one position; the
blocks are stacked as closely as their heights allow. The position of a slot is the mean of the two in the middle of the
four. Lines that pass several columns are straight wherever possible.

That leaves gaps between slots that belong together, since a position is a mean of four. Slots that a straight line
connects form a block, which is moved at the end, between the slots above and below it, to the median of the slots that
other lines lead to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from bindings.drawing.layout.slots import Slots

GAP: Final = 12.0
"""Vertical distance between two nodes or labels of a column."""
LINE_GAP: Final = 6.0
"""Vertical distance between a line and a slot beside it."""
SWEEPS: Final = 8
"""Number of times that all blocks are moved, by turns from the top and from the bottom."""
STRAIGHT: Final = 1e-6


class _Side(NamedTuple):
    """The columns as one of the four alignments walks them, and the neighbours in the column walked before."""

    columns: list[list[int]]
    near: Sequence[Sequence[int]]
    position: list[int]
    gaps: dict[tuple[int, int], float]
    """Minimum distance of the middles of two slots that follow each other in a column."""


def place_slots(slots: Slots, columns: Sequence[Sequence[int]]) -> list[float]:
    """Return the vertical middle of each slot, for columns in this order. The highest slot begins at 0."""
    crossed = _find_crossed_nodes(columns, slots)
    results = []
    for near, ordered in ((slots.before, list(columns)), (slots.after, list(reversed(columns)))):
        for is_upward in (False, True):
            side = _look_from(
                slots, near, [list(reversed(column)) if is_upward else list(column) for column in ordered]
            )
            middles = _stack_blocks(side, _align(side, crossed))
            results.append([-middle for middle in middles] if is_upward else middles)
    middles = relax(slots, columns, _measure_gaps(slots, columns), _balance(results))
    top = min((middle - size.height / 2 for middle, size in zip(middles, slots.sizes, strict=True)), default=0.0)
    return [middle - top for middle in middles]


def _look_from(slots: Slots, near: Sequence[Sequence[int]], columns: list[list[int]]) -> _Side:
    position = [0] * len(slots.sizes)
    for column in columns:
        for at, slot in enumerate(column):
            position[slot] = at
    return _Side(columns, near, position, _measure_gaps(slots, columns))


def _measure_gaps(slots: Slots, columns: Sequence[Sequence[int]]) -> dict[tuple[int, int], float]:
    """Return the minimum distance of the middles of each two slots that follow each other in a column."""
    gaps = {}
    for column in columns:
        for one, two in pairwise(column):
            gap = LINE_GAP if slots.is_line[one] or slots.is_line[two] else GAP
            gaps[one, two] = (slots.sizes[one].height + slots.sizes[two].height) / 2 + gap
    return gaps


def _find_crossed_nodes(columns: Sequence[Sequence[int]], slots: Slots) -> set[tuple[int, int]]:
    """Return the edges (left slot, right slot) that cross a line between two slots that only lines pass.

    Brandes and Köpf call these conflicts of type 1: the line stays straight, so the other edge is not aligned.
    """
    position = [0] * len(slots.sizes)
    for column in columns:
        for at, slot in enumerate(column):
            position[slot] = at
    crossed: set[tuple[int, int]] = set()
    for left, right in pairwise(columns):
        low, done = -1, 0
        for at, slot in enumerate(right):
            inner = [position[one] for one in slots.before[slot] if slots.is_line[one]] if slots.is_line[slot] else []
            if not inner and at < len(right) - 1:
                continue
            high = inner[0] if inner else len(left)
            for other in right[done : at + 1]:
                for one in slots.before[other]:
                    is_inner = slots.is_line[one] and slots.is_line[other]
                    if not low <= position[one] <= high and not is_inner:
                        crossed.add((one, other))
            low, done = high, at + 1
    return crossed


def _align(side: _Side, crossed: set[tuple[int, int]]) -> list[int]:
    """Return the root of the block of each slot; a slot joins the block of a median neighbour, if none is crossed."""
    root = list(range(len(side.position)))
    is_taken = [False] * len(root)
    for column in side.columns:
        last = -1
        for slot in column:
            others = sorted(side.near[slot], key=side.position.__getitem__)
            for other in others[(len(others) - 1) // 2 : len(others) // 2 + 1]:
                if is_taken[other] or side.position[other] <= last:
                    continue
                if (other, slot) in crossed or (slot, other) in crossed:
                    continue
                root[slot] = root[other]
                is_taken[other] = True
                last = side.position[other]
                break
    return root


def _stack_blocks(side: _Side, root: Sequence[int]) -> list[float]:
    """Return the position of each slot's block: as high as the blocks above allow, then down to the blocks below."""
    above: dict[int, list[tuple[int, float]]] = {block: [] for block in root}
    below: dict[int, list[tuple[int, float]]] = {block: [] for block in root}
    for (one, two), gap in side.gaps.items():
        above[root[two]].append((root[one], gap))
        below[root[one]].append((root[two], gap))
    waiting = {block: len(others) for block, others in above.items()}
    order = [block for block, number in waiting.items() if not number]
    middle: dict[int, float] = {}
    for block in order:  # grows while it is walked
        middle[block] = max((middle[other] + gap for other, gap in above[block]), default=0.0)
        for other, _ in below[block]:
            waiting[other] -= 1
            if not waiting[other]:
                order.append(other)
    for block in reversed(order):
        if below[block]:
            middle[block] = max(middle[block], min(middle[other] - gap for other, gap in below[block]))
    return [middle[block] for block in root]


def _balance(results: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of the two middle positions of each slot, after all results are moved to the lowest one.

    Each of the four keeps the order and the distances in a column, so the second smallest of the four positions does,
    and the third.
    """
    extents = [(min(middles), max(middles)) for middles in results if middles]
    if not extents:
        return []
    low, high = min(extents, key=lambda extent: extent[1] - extent[0])
    moved = []
    for at, (middles, (first, last)) in enumerate(zip(results, extents, strict=True)):
        by = high - last if at % 2 else low - first  # those from the bottom keep their lower ends
        moved.append([middle + by for middle in middles])
    return [sum(sorted(four)[1:3]) / 2 for four in zip(*moved, strict=True)]


def relax(
    slots: Slots, columns: Sequence[Sequence[int]], gaps: Mapping[tuple[int, int], float], middles: Sequence[float]
) -> list[float]:
    """Return the vertical middles of all slots after the moves; ``gaps`` are the minimum distances in the columns."""
    moved = list(middles)
    blocks = _find_blocks(slots, moved)
    above: dict[int, int] = {two: one for column in columns for one, two in pairwise(column)}
    below: dict[int, int] = {one: two for column in columns for one, two in pairwise(column)}
    member = {slot: at for at, block in enumerate(blocks) for slot in block}
    others = [
        [other for slot in block for other in (*slots.before[slot], *slots.after[slot]) if member[other] != at]
        for at, block in enumerate(blocks)
    ]
    for sweep in range(SWEEPS):
        order = sorted(range(len(blocks)), key=lambda at: (moved[blocks[at][0]], at), reverse=sweep % 2 == 1)
        for at in order:
            if not others[at]:
                continue
            wanted = median([moved[other] for other in others[at]])
            for slot in blocks[at]:
                if slot in below:
                    wanted = min(wanted, moved[below[slot]] - gaps[slot, below[slot]])
            for slot in blocks[at]:
                if slot in above:
                    wanted = max(wanted, moved[above[slot]] + gaps[above[slot], slot])
            for slot in blocks[at]:
                moved[slot] = wanted
    return moved


def _find_blocks(slots: Slots, middles: Sequence[float]) -> list[list[int]]:
    """Return the slots that straight lines connect, each slot in one block, in the order of their first slots."""
    block_of: dict[int, int] = {}
    blocks: list[list[int]] = []
    for root in range(len(middles)):
        if root in block_of:
            continue
        block_of[root] = len(blocks)
        block = [root]
        for slot in block:  # grows while it is walked
            for other in (*slots.before[slot], *slots.after[slot]):
                if other not in block_of and abs(middles[other] - middles[slot]) < STRAIGHT:
                    block_of[other] = len(blocks)
                    block.append(other)
        blocks.append(block)
    return blocks
