"""The queues that a broker put each message in, as numbers: one for each list of names that there is.

A list is read name by name, and each name leads from a node to a node of a tree that holds all lists met so far; so the
numbers are exact, and no list becomes a Python object but once. A queue that the topology does not have stands in a
list by its heading: thousands of queues with names that a broker made do not make thousands of lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.names import escape, unescape
from bindings.counts.columnar.arrays.keys import plain
from bindings.counts.columnar.arrays.table import IntArray, IntTable, pairs
from bindings.counts.verification import HEADINGS, OTHERS, heading_of

__all__ = ["QueueLists"]


class QueueLists:
    """Lists of names of queues; those that the topology has are ``known``."""

    def __init__(self, known: Iterable[str]) -> None:
        self._names: Final = tuple(known)
        self._known: Final = pa.array([escape(name) for name in self._names], pa.string())
        self._headings: Final = (*HEADINGS.values(), OTHERS)
        self.clear()

    def clear(self) -> None:
        """Forget all lists."""
        self._nodes = IntTable()
        self._parents = [0]
        self._last = [0]

    def __len__(self) -> int:
        """How many there are, and beginnings of lists."""
        return len(self._parents)

    def numbers(self, lists: pa.ListArray) -> IntArray:
        """The number of each list, none of which is null."""
        offsets = np.asarray(lists.offsets).astype(np.int64)
        begin, end = int(offsets[0]), int(offsets[-1])
        codes = self._codes(plain(lists.values.slice(begin, end - begin)))
        counts = np.diff(offsets)
        order = np.argsort(-counts, kind="stable")
        ascending = counts[order[::-1]]
        places = offsets[:-1][order] - begin
        now = np.zeros(len(counts), np.int32)
        for place in range(int(ascending[-1]) if len(counts) else 0):
            size = len(counts) - int(np.searchsorted(ascending, place, "right"))
            now[:size] = self._step(now[:size], codes[places[:size] + place])
        result = np.empty_like(now)
        result[order] = now
        return result

    def others(self, lists: pa.ListArray) -> dict[str, int]:
        """The names under the heading ``*`` in some lists, and how often each is there."""
        names = plain(lists.flatten())
        encoded = names.filter(pc.is_null(pc.index_in(names, self._known))).dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        counts: npt.NDArray[Any] = np.bincount(np.asarray(encoded.indices), minlength=len(texts))
        found = zip([unescape(text) for text in texts], counts.tolist(), strict=True)
        return {name: count for name, count in found if heading_of(name) == OTHERS}

    def names(self, number: int) -> tuple[frozenset[str], frozenset[str]]:
        """Of a list, the names that are known, and the headings of the others."""
        known, unknown = set(), set()
        while number:
            code = self._last[number] - 1
            if code < len(self._names):
                known.add(self._names[code])
            else:
                unknown.add(self._headings[code - len(self._names)])
            number = self._parents[number]
        return frozenset(known), frozenset(unknown)

    def _codes(self, names: pa.StringArray) -> IntArray:
        """The number of each name, or of its heading, from 1 on."""
        found = pc.index_in(names, self._known)
        if not found.null_count:
            return np.asarray(found) + np.int32(1)
        codes: IntArray = np.asarray(pc.fill_null(found, 0)) + np.int32(1)
        rows = np.flatnonzero(np.asarray(pc.is_null(found)))
        unknown = names.take(pa.array(rows))
        headings = np.full(len(rows), len(self._headings) - 1, np.int32)
        for place, start in enumerate(HEADINGS):
            headings[np.asarray(pc.starts_with(unknown, start))] = place
        codes[rows] = headings + np.int32(len(self._names) + 1)
        return codes

    def _step(self, nodes: IntArray, codes: IntArray) -> IntArray:
        keys = pairs(nodes, codes)
        found = self._nodes.find(keys)
        if not found.all():
            new = np.unique(keys[found == 0])
            self._nodes.put(new, np.arange(len(self._parents), len(self._parents) + len(new), dtype=np.int32))
            self._parents += (new >> np.uint64(32)).tolist()
            self._last += (new & np.uint64(0xFFFFFFFF)).tolist()
            found = self._nodes.find(keys)
        return found
