"""The order of the slots in each column: few edges cross.

Sweeps over the columns sort each by the mean position of the neighbours in the column before (the barycentre heuristic
of Sugiyama, Tagawa and Toda, 1981), to the right and back; after each sweep, neighbours in a column change places where
that removes crossings (Gansner et al., 1993: transpose). The order with the fewest crossings is kept. The work is
bounded by numbers of steps, never by time: a topology is drawn alike on every machine.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

MAX_SWEEPS: Final = 40
MIN_SWEEPS: Final = 6
WORK: Final = 300_000
"""Maximum number of edges between columns that all sweeps may visit, unless `MIN_SWEEPS` need more."""
PATIENCE: Final = 6
"""Number of sweeps without an improvement after which the search ends."""
TRANSPOSITIONS: Final = 8
"""Maximum number of rounds in which neighbours change places, after one sweep."""


def order_columns(
    columns: Sequence[Sequence[int]], before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Return the columns, each in an order with few crossings of the edges between them."""
    segments = sum(map(len, after))
    sweeps = min(max(MIN_SWEEPS, WORK // max(segments, 1)), MAX_SWEEPS)
    current = _walk_order(columns, after)
    position = [0] * len(after)
    for column in current:
        _number(column, position)
    best, fewest = [list(column) for column in current], count_crossings(current, after, position)
    futile = 0
    for sweep in range(sweeps):
        if not fewest or futile == PATIENCE:
            break
        to_right = sweep % 2 == 0
        near = before if to_right else after
        for column in current if to_right else reversed(current):
            _sort_by_neighbours(column, near, position, ties_last_first=sweep % 4 > 1)
        _transpose(current, before, after, position)
        crossings = count_crossings(current, after, position)
        futile += 1
        if crossings < fewest:
            best, fewest, futile = [list(column) for column in current], crossings, 0
    _sort_twins(best, before, after)
    _sort_twins(best, after, before)
    return best


def count_crossings(columns: Sequence[Sequence[int]], after: Sequence[Sequence[int]], position: Sequence[int]) -> int:
    """Return how many pairs of edges between neighbouring columns cross; ``position`` is that of a slot in its column.

    Edges sorted by their left ends cross where their right ends are not sorted, so the crossings are inversions.
    """
    crossings = 0
    for column in columns:
        ends: list[int] = []
        for slot in column:
            targets = sorted([position[other] for other in after[slot]])
            for target in targets:
                crossings += len(ends) - bisect_right(ends, target)
            for target in targets:
                insort(ends, target)
    return crossings


def _walk_order(columns: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the columns in the order of a depth-first walk from the left: a tree has no crossings then."""
    column_of = {slot: at for at, column in enumerate(columns) for slot in column}
    ordered: list[list[int]] = [[] for _ in columns]
    seen: set[int] = set()
    for column in columns:
        for root in column:
            pending = [root]
            while pending:
                slot = pending.pop()
                if slot not in seen:
                    seen.add(slot)
                    ordered[column_of[slot]].append(slot)
                    pending += reversed(after[slot])
    return ordered


def _number(column: Sequence[int], position: list[int]) -> None:
    for at, slot in enumerate(column):
        position[slot] = at


def _sort_by_neighbours(
    column: list[int], near: Sequence[Sequence[int]], position: list[int], *, ties_last_first: bool
) -> None:
    """Sort a column by the mean positions of the neighbours on one side; slots without any stay where they are."""
    means = {slot: sum([position[other] for other in near[slot]]) / len(near[slot]) for slot in column if near[slot]}
    movable = [slot for slot in column if slot in means]
    if ties_last_first:
        movable.reverse()
    movable.sort(key=means.__getitem__)
    rest = iter(movable)
    column[:] = [next(rest) if slot in means else slot for slot in column]
    _number(column, position)


def _transpose(
    columns: Sequence[list[int]], before: Sequence[Sequence[int]], after: Sequence[Sequence[int]], position: list[int]
) -> None:
    """Exchange neighbours in a column as long as that removes crossings.

    After the first round only those are looked at whose own place, or that of a slot they are joined to, has changed:
    all others would stay as they are again.
    """
    moved = [set(column) for column in columns]
    pending = set(range(len(columns)))
    for _ in range(TRANSPOSITIONS):
        changed: set[int] = set()
        for at in sorted(pending):
            column = columns[at]
            last = len(column) - 1
            rows = sorted(
                {row for slot in moved[at] for row in (position[slot] - 1, position[slot]) if 0 <= row < last}
            )
            moved[at].clear()
            while rows:
                row = heappop(rows)
                one, two = column[row], column[row + 1]
                gain = _gain(one, two, before, position) + _gain(one, two, after, position)
                if gain > 0:
                    column[row], column[row + 1] = two, one
                    position[one], position[two] = row + 1, row
                    if row + 1 < last and (not rows or rows[0] > row + 1):
                        heappush(rows, row + 1)
                    moved[at] |= {one, two}
                    for near, beside in ((before, at - 1), (after, at + 1)):
                        joined = {*near[one], *near[two]}
                        if joined:
                            moved[beside] |= joined
                    changed |= {at - 1, at, at + 1}
        pending = changed & set(range(len(columns)))
        if not pending:
            break


def _sort_twins(columns: list[list[int]], near: Sequence[Sequence[int]], far: Sequence[Sequence[int]]) -> None:
    """Sort chains of slots that hang from the same slot, and lead nowhere else, by the numbers of their last slots.

    Such chains can change places without any change to the crossings. So the queues of an exchange are drawn in the
    order of their names wherever nothing else decides. ``near`` are the neighbours on the side where the chains hang.
    """
    twins: dict[tuple[int, int], list[list[int]]] = {}
    place = {slot: (at, row) for at, column in enumerate(columns) for row, slot in enumerate(column)}
    for column in columns:
        for slot in column:
            if len(near[slot]) != 1 or len(far[near[slot][0]]) == 1:
                continue  # it has no twin: so each slot is walked over once
            chain = [slot]
            while len(far[chain[-1]]) == 1 and len(near[far[chain[-1]][0]]) == 1:
                chain.append(far[chain[-1]][0])
            if not far[chain[-1]]:
                twins.setdefault((near[slot][0], len(chain)), []).append(chain)
    for chains in twins.values():
        if len(chains) == 1:
            continue  # it may be the end of a longer chain, which has been moved
        places = [[place[slot] for slot in chain] for chain in chains]
        for chain, rows in zip(sorted(chains, key=lambda chain: chain[-1]), places, strict=True):
            for slot, (at, row) in zip(chain, rows, strict=True):
                columns[at][row] = slot


def _gain(one: int, two: int, near: Sequence[Sequence[int]], position: Sequence[int]) -> int:
    """Return how many crossings go when two slots change places; negative if more come."""
    low, high = (sorted([position[other] for other in near[slot]]) for slot in (one, two))
    if not low or not high or low[-1] <= high[0]:
        return -_count_pairs(low, high)
    return _count_pairs(high, low) - _count_pairs(low, high)


def _count_pairs(low: Sequence[int], high: Sequence[int]) -> int:
    """Return how many pairs of a position of ``low`` and a greater one of ``high`` there are."""
    return sum([len(high) - bisect_right(high, value) for value in low])
