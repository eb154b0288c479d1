"""Pack the connected parts of a drawing into one rectangle of about the proportions of a screen."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

from bindings.drawing.layout.values import Point, Size

__all__ = ["find_parts", "pack"]

PROPORTION: Final = 1.6
"""Wanted width of all parts together, divided by their height."""
PART_GAP: Final = 32.0
"""Distance between two parts."""


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
