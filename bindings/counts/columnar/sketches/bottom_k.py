"""Keep a bottom-k sample per group of rows: the keys with the smallest hashes, as in `bindings.counts.sketch`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.names import escape, unescape
from bindings.counts.columnar.arrays.ranges import compute_offsets, expand_ranges
from bindings.counts.sketch import SAMPLE, SampledKey, keep_sample
from exchange.arrays.table import IntArray, KeyArray

LIKELY: Final = 64
"""Number of rows, those with a group's smallest hashes, that nearly always fill its sample; not if few keys repeat."""


SLOTS: Final = 1 << 20
"""Maximum number of offered keys that are remembered."""

MIX: Final = np.uint64(0x9E37_79B9_7F4A_7C15)


class Samples:
    """The samples of groups; groups are numbered from 0."""

    def __init__(self) -> None:
        self._groups: IntArray = np.zeros(0, np.int32)
        self._hashes: KeyArray = np.zeros(0, np.uint64)
        self._keys: pa.Array = pa.array([], pa.string())
        """The sampled keys. This array, ``_groups`` and ``_hashes`` are parallel, and ordered by group and hash."""
        self._thresholds: KeyArray = np.zeros(0, np.uint64)
        """Group -> hash below which a key is taken: the greatest of a full sample, else the greatest 64-bit integer."""
        # Slot -> group and hash that were offered last. What was offered changes nothing when it comes again, also if
        # it was not taken, so a slot may forget. Without it, all keys of groups with few of them would be sorted again.
        self._offered_groups: IntArray = np.full(1, -1, np.int32)
        self._offered_hashes: KeyArray = np.zeros(1, np.uint64)

    def add(
        self, groups: IntArray, hashes: KeyArray, keys: Callable[[npt.NDArray[np.intp]], pa.Array], number: int
    ) -> None:
        """Add the key of each row, by its hash, to the sample of its group; repeated keys change nothing.

        All groups are less than ``number``. ``keys`` returns the keys of the rows at given indices; it is called for
        few rows.
        """
        more = number - len(self._thresholds)
        self._thresholds = np.append(self._thresholds, np.full(max(more, 0), ~np.uint64(0)))
        slots = min(1 << (8 * SAMPLE * number).bit_length(), SLOTS)
        if slots > len(self._offered_groups):
            self._offered_groups, self._offered_hashes = np.full(slots, -1, np.int32), np.zeros(slots, np.uint64)
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
        rows = rows[self._are_new(groups[rows], hashes[rows])]
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

    def _are_new(self, groups: IntArray, hashes: KeyArray) -> npt.NDArray[np.bool_]:
        """Return for each key whether it may not have been offered yet, and remember all."""
        slots = (hashes ^ groups.astype(np.uint64) * MIX) & np.uint64(len(self._offered_groups) - 1)
        new: npt.NDArray[np.bool_] = self._offered_groups.take(slots) != groups
        new |= self._offered_hashes.take(slots) != hashes
        self._offered_groups[slots], self._offered_hashes[slots] = groups, hashes
        return new

    def all(self) -> SampleColumns:
        """Return the samples."""
        return SampleColumns(self._groups.astype(np.int64), self._hashes, self._keys)


class SampleColumns(NamedTuple):
    """A bottom-k sample for each of many groups: one element per key, ordered by group and hash; keys are escaped."""

    groups: npt.NDArray[np.int64]
    hashes: KeyArray
    keys: pa.Array

    @classmethod
    def from_values(cls, samples: Iterable[tuple[SampledKey, ...]]) -> SampleColumns:
        """Return the columns of samples."""
        listed = list(samples)
        items = [item for each in listed for item in each]
        groups = np.repeat(np.arange(len(listed)), [len(each) for each in listed]).astype(np.int64)
        keys = pa.array([escape(item.key) for item in items], pa.string())
        return cls(groups, np.array([item.hash for item in items], np.uint64), keys)

    def get_group(self, group: int) -> tuple[SampledKey, ...]:
        """Return the sample of a group."""
        low, high = np.searchsorted(self.groups, [group, group + 1]).tolist()
        keys = map(unescape, self.keys.slice(low, high - low).to_pylist())
        return keep_sample(map(SampledKey, self.hashes[low:high].tolist(), keys))

    def merge(self, rows: npt.NDArray[np.int64], groups: npt.NDArray[np.int64], number: int) -> SampleColumns:
        """Return the samples of new groups: ``groups[n]``, which ascend, gets the keys of the sample of ``rows[n]``.

        All rows are below ``number``.
        """
        of, at = [groups[:0]], [groups[:0]]
        for which, elements in expand_ranges(compute_offsets(self.groups, number), rows, groups):
            kept = _smallest(groups[which], self.hashes[elements])
            of.append(groups[which[kept]])
            at.append(elements[kept])
        taken = np.concatenate(at)
        return SampleColumns(np.concatenate(of), self.hashes[taken], self.keys.take(pa.array(taken)))

    def join(self, other: SampleColumns, number: int) -> SampleColumns:
        """Return these samples of ``number`` groups, and those of more groups, numbered after them."""
        return SampleColumns(
            np.append(self.groups, other.groups + number),
            np.append(self.hashes, other.hashes),
            pa.concat_arrays([self.keys, other.keys]),
        )


def _smallest(groups: npt.NDArray[Any], hashes: KeyArray) -> npt.NDArray[np.intp]:
    """Return for each group the rows with its ``SAMPLE`` smallest distinct hashes, ordered by group and hash."""
    rows = np.lexsort((hashes, groups))
    new = np.ones(len(rows), np.bool_)
    new[1:] = (np.diff(groups[rows]) != 0) | (np.diff(hashes[rows]) != 0)
    rows = rows[new]
    begins = np.flatnonzero(np.diff(groups[rows], prepend=-1))
    rank = np.arange(len(rows)) - np.repeat(begins, np.diff(begins, append=len(rows)))
    return rows[rank < SAMPLE]
