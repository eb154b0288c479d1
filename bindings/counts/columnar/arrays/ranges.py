"""Ranges of elements: those of many rows at once, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MAX_ELEMENTS: Final = 1 << 21
"""Number of elements at a time, unless one piece has more."""

Indices = npt.NDArray[np.int64]


def compute_offsets(groups: npt.NDArray[Any], number: int) -> Indices:
    """Return where the elements of each of ``number`` groups begin, and the end of the last; ``groups`` ascend."""
    return np.searchsorted(groups, np.arange(number + 1)).astype(np.int64)


def expand_ranges(offsets: Indices, rows: Indices, groups: Indices | None = None) -> Iterator[tuple[Indices, Indices]]:
    """Yield the elements of rows: the index in ``rows`` and the index of the element, as two parallel arrays.

    Row n has the elements from ``offsets[n]`` to ``offsets[n + 1]``. With ``groups``, of each row and ascending, all
    rows of a group come at once.
    """
    sizes = offsets[rows + 1] - offsets[rows]
    for low, high in split_pieces(sizes, groups):
        counts = sizes[low:high]
        total = int(counts.sum())
        if total:
            which = np.repeat(np.arange(low, high), counts)
            first = np.repeat(offsets[rows[low:high]] - (np.cumsum(counts) - counts), counts)
            yield which, first + np.arange(total)


def split_pieces(sizes: Indices, groups: Indices | None = None) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that have about `MAX_ELEMENTS` elements each; no group is in two of them."""
    if not len(sizes):
        return
    ends = np.arange(1, len(sizes) + 1) if groups is None else np.flatnonzero(np.diff(groups, append=-1)) + 1
    sums = np.cumsum(sizes)[ends - 1]
    low = done = 0
    while low < len(sizes):
        at = min(int(np.searchsorted(sums, done + MAX_ELEMENTS, "right")), len(ends) - 1)
        if ends[at] <= low:
            at = int(np.searchsorted(ends, low, "right"))
        high = int(ends[at])
        yield low, high
        low, done = high, int(sums[at])
