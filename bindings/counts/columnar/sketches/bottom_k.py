"""Keep a bottom-k sample per group of rows: the keys with the smallest hashes, as in `bindings.counts.sketch`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.names import unescape
from bindings.counts.sketch import SAMPLE, SampledKey, keep_sample
from exchange.arrays.table import IntArray, KeyArray

__all__ = ["Samples"]

LIKELY: Final = 64
"""Number of rows, those with a group's smallest hashes, that nearly always fill its sample; not if few keys repeat."""


class Samples:
    """The samples of groups; groups are numbered from 0."""

    def __init__(self) -> None:
        self._groups: IntArray = np.zeros(0, np.int32)
        self._hashes: KeyArray = np.zeros(0, np.uint64)
        self._keys: pa.Array = pa.array([], pa.string())
        """The sampled keys. This array, ``_groups`` and ``_hashes`` are parallel, and ordered by group and hash."""
        self._thresholds: KeyArray = np.zeros(0, np.uint64)
        """Group -> hash below which a key is taken: the greatest of a full sample, else the greatest 64-bit integer."""

    def add(
        self, groups: IntArray, hashes: KeyArray, keys: Callable[[npt.NDArray[np.intp]], pa.Array], number: int
    ) -> None:
        """Add the key of each row, by its hash, to the sample of its group; repeated keys change nothing.

        All groups are less than ``number``. ``keys`` returns the keys of the rows at given indices; it is called for
        few rows.
        """
        more = number - len(self._thresholds)
        self._thresholds = np.append(self._thresholds, np.full(max(more, 0), ~np.uint64(0)))
        # Decoding texts is costly, so take few rows. Hashes are uniform: of a group's n rows, about LIKELY are below
        # this bound. Only groups whose sample is not full afterwards take the rest of their rows.
        rows_of = np.bincount(groups, minlength=number)
        small = (2.0**64 * np.minimum(LIKELY / np.maximum(rows_of, 1), 0.5)).astype(np.uint64)
        first = np.minimum(self._thresholds, small)
        self._take(groups, hashes, keys, np.flatnonzero(hashes < first[groups]))
        open_still = (first < self._thresholds) & (rows_of > 0)
        rows = np.flatnonzero(open_still[groups] & (hashes < self._thresholds[groups]))
        self._take(groups, hashes, keys, rows)

    def _take(
        self,
        groups: IntArray,
        hashes: KeyArray,
        keys: Callable[[npt.NDArray[np.intp]], pa.Array],
        rows: npt.NDArray[np.intp],
    ) -> None:
        if not len(rows):
            return
        rows = rows[_smallest(groups[rows], hashes[rows])]
        groups, hashes = np.append(self._groups, groups[rows]), np.append(self._hashes, hashes[rows])
        kept = _smallest(groups, hashes)
        self._groups, self._hashes = groups[kept], hashes[kept]
        self._keys = pa.concat_arrays([self._keys, keys(rows)]).take(pa.array(kept))
        # A sample is full where the element SAMPLE - 1 positions later is of the same group.
        full = np.flatnonzero(self._groups[SAMPLE - 1 :] == self._groups[: max(len(kept) - SAMPLE + 1, 0)])
        self._thresholds[self._groups[full]] = self._hashes[full + SAMPLE - 1]

    def all(self) -> dict[int, tuple[SampledKey, ...]]:
        """Return group -> its sample, for each group that has one."""
        by_group: dict[int, list[SampledKey]] = {}
        columns = (self._groups.tolist(), self._hashes.tolist(), self._keys.to_pylist())
        for group, value, key in zip(*columns, strict=True):
            by_group.setdefault(group, []).append(SampledKey(value, unescape(key)))
        return {group: keep_sample(keys) for group, keys in by_group.items()}


def _smallest(groups: IntArray, hashes: KeyArray) -> npt.NDArray[np.intp]:
    """Return for each group the rows with its ``SAMPLE`` smallest distinct hashes, ordered by group and hash."""
    rows = np.lexsort((hashes, groups))
    new = np.ones(len(rows), np.bool_)
    new[1:] = (np.diff(groups[rows]) != 0) | (np.diff(hashes[rows]) != 0)
    rows = rows[new]
    begins = np.flatnonzero(np.diff(groups[rows], prepend=-1))
    rank = np.arange(len(rows)) - np.repeat(begins, np.diff(begins, append=len(rows)))
    return rows[rank < SAMPLE]
