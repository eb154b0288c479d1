"""Count batches of an archive to a tally.

Where keys repeat, rows are grouped by address first (`exchange.routing.columns.addresses`). What depends on the key
alone is computed when an address comes first (`bindings.counts.columnar.classes.known`); heavy hitters are counted once
per address of a window of rows. A row whose class differs from that of its address, because of headers, CC or BCC, is
counted by itself. Where keys do not repeat, every row is counted by itself. Times are always read row by row. The tally
is the same in each case.

The keys of a wide window are grouped by a thread of their own while the window before it is counted: that is a third
of the work where many keys repeat, and Arrow does it without the interpreter.

A row may stand for several messages that were counted before (`bindings.counts.columnar.arrays.spans`). These messages
must lie in one slot of the whole archive's timeline, and exchange and key must decide their outcome (`Tallier.by_key`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.counts.columnar.arrays.hashing import hash_column
from bindings.counts.columnar.arrays.rows import BatchCollector, choose_partitions, find_columns
from bindings.counts.columnar.arrays.spans import Spans, compute_weights, count_by_number
from bindings.counts.columnar.classes.classes import STATES, AddressClasses, Classifier
from bindings.counts.columnar.fact_columns import FactColumns, FactTable
from bindings.counts.columnar.sketches.bottom_k import Samples
from bindings.counts.columnar.sketches.heavy_hitters import HeavyHitters
from bindings.counts.columnar.sketches.hyperloglog import Registers
from bindings.counts.columnar.timeline import TimelineCounter
from bindings.counts.tally import Tally, compute_fingerprint
from exchange.arrays.table import IntArray
from exchange.limits import OUTCOMES
from exchange.partition.batch import UNDECIDED
from exchange.partition.partitioning.specification import Partitioning
from exchange.routing.columns.addresses import RowAddresses, find_addresses
from exchange.topology.topology import Topology

WINDOW: Final = 1 << 17
"""Minimum number of rows that are counted together, if there are as many."""

LIGHT_WINDOWS: Final = 12
"""Maximum number of windows that are counted as one, if their rows are light and keys repeat in them.

What a key costs is paid once in each. Where keys do not repeat, smaller windows are faster.
"""

WORTH_WIDE: Final = 0.5
"""Maximum share of distinct addresses at which windows are counted as one: with more, a full one has more than are kept
(`bindings.counts.columnar.classes.known`), and to group them costs more than it saves."""

MOST_OUTCOMES: Final = 2 * OUTCOMES
"""Number of outcomes above which a counter adds up those of a tally, and forgets those that it knows.

It may have twice as many, and those of a window.
"""


class Tallier:
    """Counts messages for one topology: call ``add`` for each batch, then ``result``. Not safe for several threads.

    Without ``sketches`` the tally has no numbers of distinct keys, no samples and no heavy hitters.
    """

    def __init__(self, topology: Topology, *, states: int = STATES, sketches: bool = True) -> None:
        self._zero: Final = Tally(compute_fingerprint(topology), routed_by=topology)
        self._sketches: Final = sketches
        self._make_classifier: Final = partial(Classifier, topology, states=states)
        self._classifier = self._make_classifier()
        self._partitionings: Final[dict[str, Partitioning]] = {
            name: queue.partitioning for name, queue in topology.queues.items() if queue.partitioning is not None
        }
        self._window: Final = BatchCollector((*self.columns, "count", "last"), WINDOW)
        self._ahead: Future[_Window] | None = None
        """The wide window that is counted next: its keys are being grouped."""
        self._begin()

    def _begin(self) -> None:
        """Begin a tally: nothing that was counted for an earlier one decides anything of it."""
        self._total = self._zero
        self._window.most_rows = LIGHT_WINDOWS * WINDOW
        self._reset()

    def _reset(self) -> None:
        self._spans = Spans()
        self._timeline = TimelineCounter()
        self._partitions: dict[tuple[str, int | None], int] = {}
        self._distinct = Registers()
        self._samples = Samples()
        self._hot = HeavyHitters()
        self._shapes = HeavyHitters(self._format_shapes)
        self._sketched = 0, np.zeros(0, np.int32)
        """Age of the known addresses, and number of one -> class to whose sketches its key was added last."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the archive that are read."""
        return tuple(dict.fromkeys((*self._classifier.columns, "time", *find_columns(self._partitionings.values()))))

    @property
    def by_key(self) -> bool:
        """Whether exchange and key decide everything, so that equal messages without CC and BCC may come as one row."""
        return not {"headers", "properties", "body"}.intersection(self.columns)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch, and count it now or later together with others.

        Raises InputError as `Classifier.classify` and `TimelineCounter.add`.
        """
        for ready in self._window.add(batch):
            self._take(ready)

    def result(self) -> Tally:
        """Return the tally of what was added since the last call, and begin anew."""
        for ready in self._window.take_rest():
            self._take(ready)
        self._count_ahead()
        self._settle()
        total = self._total
        self._begin()
        return total

    def _settle(self) -> None:
        """Add what was counted since the last call to the total, and begin anew."""
        outcomes = self._classifier.outcomes
        spans = self._spans.all()
        columns = FactColumns(
            spans, self._distinct, self._samples.all(), self._hot.all(len(spans.messages)),
            self._shapes.all(len(spans.messages)),
        )  # fmt: skip
        met = np.flatnonzero(spans.messages)
        if len(met) < len(spans.messages):
            columns = columns.merge(met, np.arange(len(met)), len(met))
        facts = FactTable([outcomes[number] for number in met.tolist()], columns)
        counted = replace(self._zero, facts=facts, partitions=self._partitions, timeline=self._timeline.result())
        self._total = counted.bound() if self._total is self._zero else self._total + counted
        if len(outcomes) > MOST_OUTCOMES:
            self._classifier = self._make_classifier()
        self._reset()

    def _take(self, batch: pa.RecordBatch) -> None:
        """Count a window, and a wide one later, with the windows in their order."""
        if batch.num_rows <= WINDOW:
            self._count_ahead()
            self._count(_group_window(batch))
            return
        threads = ThreadPoolExecutor(1, thread_name_prefix="hashstar-keys")
        grouping = threads.submit(_group_window, batch, WORTH_WIDE)
        threads.shutdown(wait=False)
        self._count_ahead()
        self._ahead = grouping

    def _count_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            self._count(ahead.result())

    def _count(self, window: _Window) -> None:
        batch, addresses = window
        is_wide = batch.num_rows > WINDOW
        if addresses.address_of_row is None:
            self._window.most_rows = WINDOW
        if is_wide and (addresses.address_of_row is None or self._has_many_outcomes(batch, addresses)):
            self._window.most_rows = WINDOW
            for start in range(0, batch.num_rows, WINDOW):
                self._count(_group_window(batch.slice(start, WINDOW)))
            return
        self._count_rows(batch, addresses)
        # Only what this tally met decides: what a counter knows of earlier ones must not change heavy hitters.
        if np.count_nonzero(self._spans.messages) > MOST_OUTCOMES:
            self._settle()

    def _has_many_outcomes(self, batch: pa.RecordBatch, addresses: RowAddresses) -> bool:
        """Return whether the first rows of a wide window have more outcomes than a tally keeps."""
        if len(addresses.keys) <= OUTCOMES:
            return False
        classes = self._classifier.classify_addresses(batch.slice(0, WINDOW), addresses.begin(WINDOW)).classes
        return len(np.unique(classes)) > OUTCOMES

    def _count_rows(self, batch: pa.RecordBatch, addresses: RowAddresses) -> None:
        found = self._classifier.classify_addresses(batch, addresses)
        classes, weights = found.classes, compute_weights(batch)
        self._spans.count(classes, weights)
        self._spans.note_times(batch, None, classes)
        self._timeline.add(batch, classes, weights, self._classifier.outcomes)
        if not (self._sketches or self._partitionings):
            return
        groups = _group(addresses, classes, weights)
        for queue, partitioning in self._partitionings.items():
            gets = np.array([queue in outcome.queues for outcome in self._classifier.outcomes], np.bool_)
            if partitioning.key.by_routing_key:  # all rows of a group have one key; else go by row
                keys, rows = pa.record_batch({"routing_key": addresses.keys}), np.flatnonzero(gets[groups.classes])
                self._count_partitions(
                    queue, choose_partitions(keys, groups.addresses(rows), partitioning), rows, groups.weights
                )
            else:
                rows = np.flatnonzero(gets[classes])
                self._count_partitions(queue, choose_partitions(batch, rows, partitioning), rows, weights)
        if self._sketches:
            # In a full window, leave out keys that occur once: they are no heavy hitters, and their texts are costly.
            self._sketch(addresses.keys, groups, found, least=2 if batch.num_rows >= WINDOW else 1)

    def _count_partitions(
        self, queue: str, chosen: IntArray, rows: npt.NDArray[np.intp], weights: npt.NDArray[np.int64] | None
    ) -> None:
        distinct, which = np.unique(chosen, return_inverse=True)
        counts = count_by_number(which, None if weights is None else weights[rows])
        for partition, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            key = (queue, None if partition == UNDECIDED else partition)
            self._partitions[key] = self._partitions.get(key, 0) + count

    def _sketch(self, keys: pa.Array, groups: _Groups, found: AddressClasses, least: int) -> None:
        def keys_of(rows: npt.NDArray[np.intp]) -> pa.Array:
            return keys.take(pa.array(groups.addresses(rows)))

        classes, weights = groups.classes, groups.weights
        outcomes = self._classifier.outcomes
        shapes = groups.spread(found.shapes)
        hashes = groups.spread(hash_column(keys) if found.hashes is None else found.hashes)
        new = self._find_new(classes, found)
        if new is None:
            self._distinct.add(classes, hashes)
            self._samples.add(classes, hashes, keys_of, len(outcomes))
        else:
            self._distinct.add(classes[new], hashes[new])
            self._samples.add(classes[new], hashes[new], lambda rows: keys_of(new[rows]), len(outcomes))
        self._hot.add(classes, hashes, weights, keys_of, least)
        has_shapes = np.array(
            [outcome.routed is not True or bool(outcome.alternates) for outcome in outcomes], np.bool_
        )
        at = np.flatnonzero(has_shapes[classes])
        if len(at):
            weights = None if weights is None else weights[at]
            self._shapes.add(classes[at], shapes[at], weights, lambda rows: keys_of(at[rows]), least)

    def _find_new(self, classes: IntArray, found: AddressClasses) -> npt.NDArray[np.intp] | None:
        """Return the groups whose keys may not be among the distinct ones and in the samples of their classes yet.

        None if that is all of them.
        """
        numbers = found.numbers
        if numbers is None:
            return None
        known = self._classifier.known
        if self._sketched[0] != known.age:
            self._sketched = known.age, np.zeros(0, np.int32)
        before = self._sketched[1]
        if len(known) > len(before):
            before = np.append(before, np.full(len(known) - len(before), -1, np.int32))
        new = np.append(before.take(numbers) != classes[: len(numbers)], np.ones(len(classes) - len(numbers), np.bool_))
        before[numbers] = classes[: len(numbers)]
        self._sketched = known.age, before
        return np.flatnonzero(new)

    def _format_shapes(self, keys: Sequence[str]) -> list[str]:
        shapes = self._classifier.shapes(keys)
        return [".".join(["*" if word is None else word for word in each]) for each in shapes]


class _Window(NamedTuple):
    """Rows that are counted together."""

    batch: pa.RecordBatch
    addresses: RowAddresses


def _group_window(batch: pa.RecordBatch, worth: float | None = None) -> _Window:
    if worth is not None:  # exchanges are coded once, also where the window turns out to be counted in parts
        batch = _encode_exchanges(batch)
    return _Window(batch, find_addresses(batch, worth))


def _encode_exchanges(batch: pa.RecordBatch) -> pa.RecordBatch:
    at = batch.schema.get_field_index("exchange")
    column = batch.column(at)
    if isinstance(column, pa.DictionaryArray):
        return batch
    return batch.set_column(at, "exchange", column.dictionary_encode())


class _Groups(NamedTuple):
    """Groups of messages with the same class and address; several groups may have the same pair."""

    classes: IntArray
    """Group -> class."""
    address_of_group: npt.NDArray[np.intp] | None
    """Group -> address; None if group n is address n."""
    weights: npt.NDArray[np.int64] | None
    """Group -> number of messages; None if each has one."""

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the value of each group, given the value of each address."""
        return values if self.address_of_group is None else values[self.address_of_group]

    def addresses(self, groups: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return the addresses of these groups."""
        return groups if self.address_of_group is None else self.address_of_group[groups]


def _group(addresses: RowAddresses, classes: IntArray, weights: npt.NDArray[np.int64] | None) -> _Groups:
    """Group rows by address.

    Group n has the rows of address n with the class of that address's last row: nearly always all its rows. Each other
    row, whose class differs because of headers, CC or BCC, is a group of its own after these.
    """
    number, of = len(addresses.keys), addresses.address_of_row
    if of is None:
        return _Groups(classes, None, weights)
    one = np.empty(number, np.int32)
    one[of] = classes  # numpy keeps the last value written: the class of each address's last row
    others = np.flatnonzero(one[of] != classes)
    counts = count_by_number(of, weights, number)
    if not len(others):
        return _Groups(one, None, counts)
    apart = np.ones(len(others), np.int64) if weights is None else weights[others]
    counts -= count_by_number(of[others], apart, number)
    group_addresses: npt.NDArray[np.intp] = np.concatenate([np.arange(number), of[others].astype(np.intp)])
    return _Groups(np.append(one, classes[others]), group_addresses, np.append(counts, apart))
