"""Find the heavy hitters of each group of rows: keys or shapes, by their hashes (vectorised Misra-Gries)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.names import unescape
from bindings.counts.columnar.arrays.spans import count_by_number
from bindings.counts.sketch import FREQUENT, Frequent, Item, merge_summaries
from exchange.arrays.table import IntArray, KeyArray

__all__ = ["HeavyHitters"]

SHARE: Final = 32
"""A key is frequent in a window of rows if it has at least 1/SHARE of its group's messages there."""

BUCKETS: Final = 18
"""Maximum number of bits of a bucket's number. Only keys in full buckets are counted one by one."""

PENDING: Final = 1 << 15
"""Maximum number of candidates that wait to be added to the summaries."""

MIX: Final = np.uint64(0xBF58476D1CE4E5B9)


class HeavyHitters:
    """The heavy hitters of groups: a `bindings.counts.sketch.Frequent` per group. Groups are numbered from 0.

    ``item`` returns the item under which a key is counted; the count in that item is ignored.
    """

    def __init__(self, item: Callable[[str], Item]) -> None:
        self._item: Final = item
        self._summaries: Final[dict[int, Frequent]] = {}
        self._errors = np.zeros(0, np.int64)
        """Group -> error to be added to its summary."""
        self._pending: list[_Candidates] = []

    def add(
        self,
        groups: IntArray,
        hashes: KeyArray,
        weights: npt.NDArray[np.int64] | None,
        keys: Callable[[npt.NDArray[np.intp]], pa.Array],
        least: int,
    ) -> None:
        """Add rows, as one message each or as ``weights``; leave out keys with fewer than ``least`` messages in them.

        ``hashes`` are those of the rows' keys or shapes. ``keys`` returns the keys of the rows at given indices; it is
        called for candidates only.
        """
        rows, counts, errors = _frequent(groups, hashes, weights, least)
        more = len(errors) - len(self._errors)
        self._errors = np.append(self._errors, np.zeros(max(more, 0), np.int64))
        self._errors[: len(errors)] += errors
        self._pending.append(_Candidates(groups[rows], hashes[rows], counts, keys(rows)))
        if sum(len(candidates.counts) for candidates in self._pending) > PENDING:
            self._settle()

    def all(self) -> dict[int, Frequent]:
        """Return group -> its heavy hitters, for each group with heavy hitters or an error."""
        self._settle()
        for group in np.flatnonzero(self._errors).tolist():
            summary = self._summaries.get(group, Frequent())
            self._summaries[group] = summary._replace(error=summary.error + int(self._errors[group]))
        self._errors[:] = 0
        return self._summaries

    def _settle(self) -> None:
        """Add the waiting candidates to the summaries, as `merge_summaries` does; decode only the keys that stay."""
        if not self._pending:
            return
        columns = list(zip(*self._pending, strict=True))
        groups, hashes, counts = (np.concatenate(column) for column in columns[:3])
        keys = pa.concat_arrays(columns[3])
        self._pending = []
        order, begins = _runs(groups, hashes)
        if not len(order):
            return
        counts = np.add.reduceat(counts[order], begins)
        rows = order[begins]
        # Sorted by group, most frequent first. The first FREQUENT items of each group stay; the count of the next item
        # is subtracted from theirs and added to the error (Misra-Gries).
        order = np.lexsort((hashes[rows], -counts, groups[rows]))
        rows, counts = rows[order], counts[order]
        starts = np.flatnonzero(np.diff(groups[rows], prepend=-1))
        sizes = np.diff(starts, append=len(rows))
        over = np.flatnonzero(sizes > FREQUENT)
        errors = np.zeros(len(starts), np.int64)
        errors[over] = counts[starts[over] + FREQUENT]
        kept = np.flatnonzero(np.arange(len(rows)) - np.repeat(starts, sizes) < FREQUENT)
        items = map(self._item, map(unescape, keys.take(pa.array(rows[kept])).to_pylist()))
        for start, size, error in zip(starts.tolist(), sizes.tolist(), errors.tolist(), strict=True):
            end = start + min(size, FREQUENT)
            group_counts = counts[start:end].tolist()
            # The counts come first in the zip: so it ends before it takes an item of the next group from ``items``.
            # Two keys may have one shape, so each item becomes a summary of its own, and the merge adds their counts.
            pairs = zip(group_counts, items, strict=False)
            each = [Frequent((item._replace(count=count - error),)) for count, item in pairs]
            group = int(groups[rows[start]])
            known = self._summaries.get(group, Frequent())
            frequent = [summary for summary in each if summary.items[0].count]
            self._summaries[group] = merge_summaries(known, *frequent, Frequent((), error))


class _Candidates(NamedTuple):
    """Keys that are frequent in a window of rows, as columns: one element per pair of group and hash."""

    groups: IntArray
    hashes: KeyArray
    counts: npt.NDArray[np.int64]
    keys: pa.Array


def _frequent(
    groups: IntArray, hashes: KeyArray, weights: npt.NDArray[np.int64] | None, least: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return one row per frequent key, the counts of these keys, and for each group the maximum count of any other key.

    Rows are first counted by bucket. The bucket of a frequent key is full by that key alone, so only the rows of full
    buckets are sorted and counted by key.
    """
    per_group = count_by_number(groups, weights)
    limits = np.maximum(least, -(-per_group // SHARE))  # the least count of a frequent key, rounded up
    if least == 1:
        limits[per_group <= SHARE] = 1
    mixed = (hashes ^ (groups.astype(np.uint64) + np.uint64(1)) * MIX) * MIX
    bits = min((2 * len(groups)).bit_length(), BUCKETS)
    buckets = (mixed >> np.uint64(64 - bits)).view(np.int64)
    rows = np.flatnonzero(count_by_number(buckets, weights, 1 << bits).take(buckets) >= limits.take(groups))
    order, begins = _runs(groups[rows], hashes[rows])
    rows = rows[order]
    each = np.ones(len(rows), np.int64) if weights is None else weights[rows]
    counts = np.add.reduceat(each, begins) if len(rows) else each
    rows = rows[begins]
    is_frequent = counts >= limits[groups[rows]]
    rows, counts = rows[is_frequent], counts[is_frequent]
    errors = (limits - 1) * (per_group > 0)
    if least == 1:
        errors[count_by_number(groups[rows], counts, len(per_group)) == per_group] = (
            0  # every key was frequent, so none is missing
        )
    return rows, counts, errors


def _runs(groups: IntArray, hashes: KeyArray) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the order of the rows by group and hash, and the positions in it where a new pair begins."""
    order = np.lexsort((hashes, groups))
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(groups[order]) != 0) | (np.diff(hashes[order]) != 0)
    return order, np.flatnonzero(new)
