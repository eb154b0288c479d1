"""Find the heavy hitters of each group of rows: keys or shapes, by their hashes (vectorised Misra-Gries)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.names import escape, unescape
from bindings.counts.columnar.arrays.spans import count_by_number
from bindings.counts.columnar.sketches.summaries import Summaries, rank_texts, sum_items
from exchange.arrays.table import IntArray, KeyArray

SHARE: Final = 32
"""A key is frequent in a window of rows if it has at least 1/SHARE of its group's messages there."""

BUCKETS: Final = 18
"""Maximum number of bits of a bucket's number. Only keys in full buckets are counted one by one."""

PENDING: Final = 1 << 18
"""Minimum number of candidates that wait to be added up; they take some tens of megabytes."""

MIX: Final = np.uint64(0xBF58476D1CE4E5B9)


class HeavyHitters:
    """The heavy hitters of groups: a `bindings.counts.sketch.Frequent` per group. Groups are numbered from 0.

    With ``shapes``, which returns the shape of each key, keys of one hash are counted under that of their smallest key.
    """

    def __init__(self, shapes: Callable[[Sequence[str]], Sequence[str]] | None = None) -> None:
        self._shapes: Final = shapes
        self._known = _Candidates(
            np.zeros(0, np.int32), np.zeros(0, np.uint64), np.zeros(0, np.int64), pa.array([], pa.string())
        )
        self._errors = np.zeros(0, np.int64)
        """Group -> count by which its items may be too low."""
        self._pending: list[_Candidates] = []
        self._waiting = 0

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
        self._reserve(len(errors))
        self._errors[: len(errors)] += errors
        self._pending.append(_Candidates(groups[rows], hashes[rows], counts, keys(rows)))
        self._waiting += len(counts)
        if self._waiting > max(PENDING, len(self._known.counts)):
            self._settle()

    def all(self, number: int) -> Summaries:
        """Return the heavy hitters of ``number`` groups."""
        self._settle()
        self._reserve(number)
        groups, _, counts, keys = self._known
        of, errors = groups.astype(np.int64), self._errors[:number]
        if self._shapes is None:
            return Summaries(of, keys, counts, None, errors)
        texts = [*map(escape, self._shapes([*map(unescape, keys.to_pylist())]))]
        summaries = Summaries(of, pa.array(texts, pa.string()), counts, keys, errors)
        same = np.arange(number)
        return summaries.merge(same, same, number)  # shapes of two hashes may have one text

    def _reserve(self, number: int) -> None:
        more = number - len(self._errors)
        if more > 0:
            self._errors = np.append(self._errors, np.zeros(more, np.int64))

    def _settle(self) -> None:
        """Add the waiting candidates to the known ones."""
        if not self._pending:
            return
        columns = list(zip(self._known, *self._pending, strict=True))
        groups, hashes, counts = (np.concatenate(column) for column in columns[:3])
        keys = pa.concat_arrays(columns[3])
        self._pending, self._waiting = [], 0
        order = np.lexsort((hashes, groups) if self._shapes is None else (rank_texts(keys), hashes, groups))
        sums = sum_items(groups, hashes, counts, len(self._errors), order)
        self._errors += sums.errors
        rows = sums.rows
        self._known = _Candidates(groups[rows], hashes[rows], sums.counts, keys.take(pa.array(rows)))


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
