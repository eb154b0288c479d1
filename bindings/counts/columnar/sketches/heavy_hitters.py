"""What occurs often in each of many groups of rows: keys or shapes of keys, by their hashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.names import unescape
from bindings.counts.columnar.arrays.spans import counted
from bindings.counts.columnar.arrays.table import IntArray, KeyArray
from bindings.counts.sketch import FREQUENT, Frequent, Item, merge_summaries

__all__ = ["Often"]

SHARE: Final = 32
"""What is less than one in so many of its group's messages is not held for frequent."""

BUCKETS: Final = 18
"""Bits of a bucket's number, at most: only what is in full buckets is looked at one by one."""

PENDING: Final = 1 << 15
"""So many of what was found may wait until they are put together."""

MIX: Final = np.uint64(0xBF58476D1CE4E5B9)


class Often:
    """Of groups, which are numbered from 0 on; a `bindings.counts.sketch.Frequent` for each.

    ``item`` makes of a key what is counted; its count is not looked at.
    """

    def __init__(self, item: Callable[[str], Item]) -> None:
        self._item: Final = item
        self._found: Final[dict[int, Frequent]] = {}
        self._errors = np.zeros(0, np.int64)
        self._pending: list[_Found] = []

    def add(
        self,
        groups: IntArray,
        hashes: KeyArray,
        weights: npt.NDArray[np.int64] | None,
        keys: Callable[[npt.NDArray[np.intp]], pa.Array],
        least: int,
    ) -> None:
        """Add what rows stand for, once each or with weights, but for what occurs less than ``least`` times in them.

        ``keys`` gives the keys of some rows.
        """
        rows, counts, errors = _frequent(groups, hashes, weights, least)
        more = len(errors) - len(self._errors)
        self._errors = np.append(self._errors, np.zeros(max(more, 0), np.int64))
        self._errors[: len(errors)] += errors
        self._pending.append(_Found(groups[rows], hashes[rows], counts, keys(rows)))
        if sum(len(found.counts) for found in self._pending) > PENDING:
            self._settle()

    def all(self) -> dict[int, Frequent]:
        """What is frequent in each group, where anything is."""
        self._settle()
        for group in np.flatnonzero(self._errors).tolist():
            found = self._found.get(group, Frequent())
            self._found[group] = found._replace(error=found.error + int(self._errors[group]))
        self._errors[:] = 0
        return self._found

    def _settle(self) -> None:
        """What was found in different rows, together; as `merge_summaries` does, but before it is texts."""
        if not self._pending:
            return
        parts = list(zip(*self._pending, strict=True))
        groups, hashes, counts = (np.concatenate(part) for part in parts[:3])
        keys = pa.concat_arrays(parts[3])
        self._pending = []
        order, begins = _runs(groups, hashes)
        if not len(order):
            return
        counts = np.add.reduceat(counts[order], begins)
        rows = order[begins]
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
            some = counts[start : start + min(size, FREQUENT)].tolist()  # which is looked at first, as items go on
            # Two may have one text, so that each is a summary of its own.
            each = [Frequent((item._replace(count=count - error),)) for count, item in zip(some, items, strict=False)]
            group = int(groups[rows[start]])
            there = [found for found in each if found.items[0].count]
            self._found[group] = merge_summaries(self._found.get(group, Frequent()), *there, Frequent((), error))


class _Found(NamedTuple):
    """What is frequent in some rows: one row for each group and hash."""

    groups: IntArray
    hashes: KeyArray
    counts: npt.NDArray[np.int64]
    keys: pa.Array


def _frequent(
    groups: IntArray, hashes: KeyArray, weights: npt.NDArray[np.int64] | None, least: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows for what is frequent, one each; how often it is; and for each group how often anything else may be in it.

    Whatever is frequent is in a full bucket, so only what is in one is sorted.
    """
    per_group = counted(groups, weights)
    limits = np.maximum(least, -(-per_group // SHARE))
    if least == 1:
        limits[per_group <= SHARE] = 1
    mixed = (hashes ^ (groups.astype(np.uint64) + np.uint64(1)) * MIX) * MIX
    bits = min((2 * len(groups)).bit_length(), BUCKETS)
    buckets = (mixed >> np.uint64(64 - bits)).view(np.int64)
    rows = np.flatnonzero(counted(buckets, weights, 1 << bits).take(buckets) >= limits.take(groups))
    order, begins = _runs(groups[rows], hashes[rows])
    rows = rows[order]
    each = np.ones(len(rows), np.int64) if weights is None else weights[rows]
    counts = np.add.reduceat(each, begins) if len(rows) else each
    rows = rows[begins]
    often = counts >= limits[groups[rows]]
    rows, counts = rows[often], counts[often]
    errors = (limits - 1) * (per_group > 0)
    if least == 1:
        errors[counted(groups[rows], counts, len(per_group)) == per_group] = 0  # all of them were frequent
    return rows, counts, errors


def _runs(groups: IntArray, hashes: KeyArray) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """An order in which what is equal in both lies together, and where in it something else begins."""
    order = np.lexsort((hashes, groups))
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(groups[order]) != 0) | (np.diff(hashes[order]) != 0)
    return order, np.flatnonzero(new)
