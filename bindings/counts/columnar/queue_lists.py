"""Number the lists of queues in which a broker put each message: one number for each distinct list of names.

The lists seen so far form a tree; a list is read name by name, and each name leads from one node to the next. So the
numbers are exact, and each list becomes a Python object only once. A queue that the topology does not have is replaced
by its heading, so that thousands of queues with generated names do not make thousands of lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.names import escape, unescape
from bindings.counts.verification import HEADINGS, OTHERS, heading_of
from exchange.arrays.grouping import decode_dictionary
from exchange.arrays.table import IntArray, IntTable, pack_pairs

__all__ = ["QueueLists"]


class QueueLists:
    """The lists of queues and their numbers; ``known`` are the queues of the topology."""

    def __init__(self, known: Iterable[str]) -> None:
        self._names: Final = tuple(known)
        self._known: Final = pa.array([escape(name) for name in self._names], pa.string())
        self._headings: Final = (*HEADINGS.values(), OTHERS)
        self.clear()

    def clear(self) -> None:
        """Forget all lists and their numbers."""
        # Node 0 is the empty list. Every other node is the list of its parent with one more code at the end.
        self._nodes = IntTable()
        self._parents = [0]
        self._last = [0]

    def __len__(self) -> int:
        """Return the number of nodes: lists and prefixes of lists."""
        return len(self._parents)

    def numbers(self, lists: pa.ListArray) -> IntArray:
        """Return the number of each list; no list may be null.

        The lists are sorted, longest first: the lists with a name at ``position`` are then the first ``size`` lists.
        """
        offsets = np.asarray(lists.offsets).astype(np.int64)
        begin, end = int(offsets[0]), int(offsets[-1])
        codes = self._codes(decode_dictionary(lists.values.slice(begin, end - begin)))
        counts = np.diff(offsets)
        order = np.argsort(-counts, kind="stable")
        ascending = counts[order[::-1]]
        starts = offsets[:-1][order] - begin
        now = np.zeros(len(counts), np.int32)
        for position in range(int(ascending[-1]) if len(counts) else 0):
            size = len(counts) - int(np.searchsorted(ascending, position, "right"))
            now[:size] = self._step(now[:size], codes[starts[:size] + position])
        result = np.empty_like(now)
        result[order] = now
        return result

    def others(self, lists: pa.ListArray) -> dict[str, int]:
        """Return queue -> how often it occurs in these lists, for the queues under the heading ``*``."""
        names = decode_dictionary(lists.flatten())
        encoded = names.filter(pc.is_null(pc.index_in(names, self._known))).dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        counts: npt.NDArray[Any] = np.bincount(np.asarray(encoded.indices), minlength=len(texts))
        numbers = zip([unescape(text) for text in texts], counts.tolist(), strict=True)
        return {name: count for name, count in numbers if heading_of(name) == OTHERS}

    def names(self, number: int) -> tuple[frozenset[str], frozenset[str]]:
        """Return the known queues of the list with this number, and the headings of its other queues."""
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
        """Return the code of each name, from 1: known queues first, then the headings."""
        indices = pc.index_in(names, self._known)
        if not indices.null_count:
            return np.asarray(indices) + np.int32(1)
        codes: IntArray = np.asarray(pc.fill_null(indices, 0)) + np.int32(1)
        rows = np.flatnonzero(np.asarray(pc.is_null(indices)))
        unknown = names.take(pa.array(rows))
        headings = np.full(len(rows), len(self._headings) - 1, np.int32)
        for number, start in enumerate(HEADINGS):
            headings[np.asarray(pc.starts_with(unknown, start))] = number
        codes[rows] = headings + np.int32(len(self._names) + 1)
        return codes

    def _step(self, nodes: IntArray, codes: IntArray) -> IntArray:
        """Return the nodes to which the codes lead from these nodes; missing nodes are added."""
        keys = pack_pairs(nodes, codes)
        following = self._nodes.find(keys)
        if not following.all():
            new = np.unique(keys[following == 0])
            self._nodes.put(new, np.arange(len(self._parents), len(self._parents) + len(new), dtype=np.int32))
            self._parents += (new >> np.uint64(32)).tolist()
            self._last += (new & np.uint64(0xFFFFFFFF)).tolist()
            following = self._nodes.find(keys)
        return following
