"""Verify a topology over batches of an archive that records into which queues the broker put each message.

The class of a message stands for its outcome by the topology; a second number stands for the list of queues in which
the broker put it. The verdict on each such pair is computed once, and looked up for each message.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.counts.columnar.arrays.hashing import hashes_of
from bindings.counts.columnar.arrays.spans import Spans
from bindings.counts.columnar.arrays.window import BatchCollector
from bindings.counts.columnar.classes.classes import STATES, Classifier
from bindings.counts.columnar.queue_lists import QueueLists
from bindings.counts.columnar.witnessing import COLUMNS, Witnesses
from bindings.counts.sketch import Frequent, FrequentItem, merge_summaries
from bindings.counts.tally import fingerprint
from bindings.counts.verification import (
    LIMIT,
    OTHERS,
    Evidence,
    PlacementDifference,
    Verdict,
    Verification,
    keep_smallest,
    verdict_for,
)
from exchange.arrays.grouping import decode_dictionary
from exchange.arrays.table import IntArray, IntTable, pack_pairs
from exchange.routing.columns.addresses import addresses_of
from exchange.topology.topology import Topology

__all__ = ["Verifier"]

WINDOW: Final = 1 << 17
"""Number of rows that are compared together."""

ROOM: Final = 1 << 18
"""Maximum number of lists of queues, and of pairs with a verdict; above it, all are computed anew."""

DIFFERENT: Final = 8 * LIMIT
"""Maximum number of differences; above it, only those that may be in the result stay apart."""

MORE: Final = "more"
"""Replaces a difference that cannot be in the result: its messages are counted in one sum."""

PLAIN: Final = ("agreed", "possible", "undecided", MORE)
"""The verdicts with the numbers 0 to 3; all later numbers are differences."""


class Verifier:
    """Compares messages with a topology: call ``add`` for each batch, then ``result``. Not safe for several threads."""

    by_key: Final = False
    """Always False: each message has its own list of queues."""

    def __init__(self, topology: Topology, *, states: int = STATES) -> None:
        self._fingerprint: Final = fingerprint(topology)
        # A broker records where a message went when it was published, and not where an exchange sends it later.
        self._classifier: Final = Classifier(topology, states=states, at_once=True)
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
            self._begin()
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
        self._begin()

    def _begin(self) -> None:
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
                differences[verdict] = Evidence(self._spans.of(number), self._witnesses.of(number))
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
        classes, _ = self._classifier.classify_addresses(batch, addresses_of(batch))
        verdicts = self._judge(classes, self._lists.numbers(batch.column("routed_queues")))
        self._spans.count(verdicts, None)
        differ = np.flatnonzero(verdicts >= len(PLAIN))
        if len(differ):
            groups = verdicts[differ]
            self._note_strangers(batch, differ, groups)
            self._spans.note_times(batch, differ, groups)
            hashes = hashes_of(decode_dictionary(batch.column("routing_key")).take(pa.array(differ)))
            self._witnesses.add(batch, differ, groups, hashes)
        if max(len(self._lists), len(self._verdict_of)) > ROOM or len(self._verdicts) > DIFFERENT:
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
