"""Move slots closer to their neighbours where there is room, without bending what is straight.

`bindings.drawing.layout.coordinates` makes lines straight, but leaves gaps between slots that belong together, since a
position is a mean of four. Slots that a straight line connects form a block, which moves as a whole, between the slots
above and below it, to the median of the slots that other lines lead to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from bindings.drawing.layout.slots import Slots

__all__ = ["relax"]

SWEEPS: Final = 8
"""Number of times that all blocks are moved, by turns from the top and from the bottom."""
STRAIGHT: Final = 1e-6


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
