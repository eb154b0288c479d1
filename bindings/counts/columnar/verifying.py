"""Verify a topology over batches of an archive that records into which queues the broker put each message.

The class of a message stands for its outcome by the topology; a second number stands for the list of queues in which
the broker put it. The verdict on each such pair is computed once, and looked up for each message.

The lists seen so far form a tree; a list is read name by name, and each name leads from one node to the next. So the
numbers are exact, and each list becomes a Python object only once. A queue that the topology does not have is replaced
by its heading, so that thousands of queues with generated names do not make thousands of lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.names import escape, unescape
from bindings.counts.columnar.arrays.hashing import hash_column
from bindings.counts.columnar.arrays.rows import BatchCollector
from bindings.counts.columnar.arrays.spans import Spans
from bindings.counts.columnar.classes.classes import STATES, Classifier
from bindings.counts.columnar.witnessing import COLUMNS, Witnesses
from bindings.counts.sketch import Frequent, FrequentItem, merge_summaries
from bindings.counts.tally import compute_fingerprint
from bindings.counts.verification import (
    HEADINGS,
    LIMIT,
    OTHERS,
    Evidence,
    PlacementDifference,
    Verdict,
    Verification,
    build_heading,
    keep_smallest,
    verdict_for,
)
from exchange.arrays.grouping import decode_dictionary
from exchange.arrays.table import IntArray, IntTable, pack_pairs
from exchange.limits import OUTCOMES
from exchange.routing.columns.addresses import find_addresses
from exchange.topology.topology import Topology

WINDOW: Final = 1 << 17
"""Number of rows that are compared together."""

ROOM: Final = 1 << 18
"""Maximum number of lists of queues, and of pairs with a verdict; above it, all are computed anew."""

DIFFERENT: Final = 8 * LIMIT
"""Maximum number of differences; above it, only those that may be in the result stay apart."""

MOST_OUTCOMES: Final = 2 * OUTCOMES
"""Number of outcomes above which they are computed anew; those of one window may be more."""

MORE: Final = "more"
"""Replaces a difference that cannot be in the result: its messages are counted in one sum."""

PLAIN: Final = ("agreed", "possible", "undecided", MORE)
"""The verdicts with the numbers 0 to 3; all later numbers are differences."""


class Verifier:
    """Compares messages with a topology: call ``add`` for each batch, then ``result``. Not safe for several threads."""

    by_key: Final = False
    """Always False: each message has its own list of queues."""

    def __init__(self, topology: Topology, *, states: int = STATES) -> None:
        self._fingerprint: Final = compute_fingerprint(topology)
        # A broker records where a message went when it was published, and not where an exchange sends it later.
        self._make_classifier: Final = partial(Classifier, topology, states=states, at_once=True)
        self._classifier = self._make_classifier()
        self._lists: Final = QueueLists(topology.queues)
        self._window: Final = BatchCollector(self.columns, WINDOW)
        self._total = Verification(self._fingerprint)
        self._forget()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the archive that are read."""
        return (*self._classifier.columns, "time", "routed_queues", *COLUMNS)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch, and compare it now or with later ones. Raises InputError as `Classifier.classify`."""
        for ready in self._window.add(batch):
            self._compare(ready)

    def result(self) -> Verification:
        """Return the verification of what was added since the last call, and begin anew."""
        for ready in self._window.take_rest():
            self._compare(ready)
        self._settle()
        total, self._total = self._total, Verification(self._fingerprint)
        if self._bound is None:
            self._reset()
        else:
            self._forget()
        return total

    def _forget(self) -> None:
        """Forget all lists, verdicts and their numbers. Call ``_settle`` first: counts by number lose their meaning."""
        self._lists.clear()
        self._verdict_of = IntTable()
        self._verdicts: list[Verdict | str] = [*PLAIN]
        self._numbers: dict[Verdict | str, int] = {verdict: number for number, verdict in enumerate(PLAIN)}
        self._bound = self._total.bound
        self._reset()

    def _reset(self) -> None:
        self._unknown = 0
        self._spans = Spans()
        self._witnesses = Witnesses()

    def _settle(self) -> None:
        """Add the counts by number to the total."""
        counts = dict.fromkeys(PLAIN, 0)
        differences: dict[PlacementDifference, Evidence] = {}
        for number in np.flatnonzero(self._spans.messages).tolist():
            verdict = self._verdicts[number]
            if isinstance(verdict, PlacementDifference):
                differences[verdict] = Evidence(self._spans.get_group(number), self._witnesses.get_group(number))
            else:
                counts[verdict] = int(self._spans.messages[number])
        differences, beyond = keep_smallest(differences)
        agreed, possible, undecided, more = counts.values()
        more += beyond
        self._total += Verification(self._fingerprint, agreed, possible, undecided, self._unknown, differences, more)

    def _compare(self, batch: pa.RecordBatch) -> None:
        rows = batch.num_rows
        if "routed_queues" not in batch.schema.names:
            self._unknown += rows
            return
        unknown = batch.column("routed_queues").null_count
        if unknown:
            self._unknown += unknown
            if unknown == rows:
                return
            batch = batch.filter(pc.is_valid(batch.column("routed_queues")))
        classes = self._classifier.classify_addresses(batch, find_addresses(batch)).classes
        verdicts = self._judge(classes, self._lists.numbers(batch.column("routed_queues")))
        self._spans.count(verdicts, None)
        differ = np.flatnonzero(verdicts >= len(PLAIN))
        if len(differ):
            groups = verdicts[differ]
            self._note_strangers(batch, differ, groups)
            self._spans.note_times(batch, differ, groups)
            hashes = hash_column(decode_dictionary(batch.column("routing_key")).take(pa.array(differ)))
            self._witnesses.add(batch, differ, groups, hashes)
        if len(self._classifier.outcomes) > MOST_OUTCOMES:
            self._classifier = self._make_classifier()
            self._settle()
            self._forget()
        elif max(len(self._lists), len(self._verdict_of)) > ROOM or len(self._verdicts) > DIFFERENT:
            self._settle()
            self._forget()

    def _judge(self, classes: IntArray, lists: IntArray) -> IntArray:
        """Return the number of the verdict on each row.

        Keys and values of the table must not be 0, so it holds classes plus 1 and numbers plus 1.
        """
        keys = pack_pairs(classes + np.int32(1), lists)
        numbers = self._verdict_of.find(keys)
        if not numbers.all():
            new = np.unique(keys[numbers == 0])
            new_numbers = []
            for key in new.tolist():
                known, unknown = self._lists.names(key & 0xFFFFFFFF)
                verdict: Verdict | str = verdict_for(self._classifier.outcomes[(key >> 32) - 1], known, unknown)
                if self._bound is not None and isinstance(verdict, PlacementDifference) and verdict.hash > self._bound:
                    verdict = MORE
                number = self._numbers.setdefault(verdict, len(self._verdicts))
                if number == len(self._verdicts):
                    self._verdicts.append(verdict)
                new_numbers.append(number + 1)
            self._verdict_of.put(new, np.array(new_numbers, np.int32))
            numbers = self._verdict_of.find(keys)
        return numbers - np.int32(1)

    def _note_strangers(self, batch: pa.RecordBatch, rows: npt.NDArray[np.intp], groups: IntArray) -> None:
        """Count the queues under the heading ``*`` in rows that differ; ``groups`` are the rows' verdict numbers."""
        has_strangers = [
            isinstance(verdict, PlacementDifference) and OTHERS in verdict.unknown for verdict in self._verdicts
        ]
        selected = rows[np.array(has_strangers, np.bool_)[groups]]
        if len(selected):
            counts = self._lists.others(batch.column("routed_queues").take(pa.array(selected)))
            names = merge_summaries(Frequent(tuple([FrequentItem(name, count) for name, count in counts.items()])))
            self._total += Verification(self._fingerprint, strangers=names)


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
        return {name: count for name, count in numbers if build_heading(name) == OTHERS}

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
