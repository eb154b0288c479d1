"""From batches of an archive to a comparison of two topologies.

Each row has a class in the one and in the other; each pair of the two is looked at once, and only rows whose pair makes
a difference are looked at further. Rows may stand for several messages, see `bindings.counts.columnar.arrays.spans`,
where `Comparer.by_key` allows it; then witnesses have no place.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.names import unescape
from bindings.counts.columnar.arrays.hashing import hashes_of
from bindings.counts.columnar.arrays.placing import columns_of, partitions_of
from bindings.counts.columnar.arrays.spans import Spans, counted, weights_of
from bindings.counts.columnar.arrays.table import IntArray, IntTable, KeyArray, pairs
from bindings.counts.columnar.arrays.window import Window
from bindings.counts.columnar.classes.classes import STATES, Classifier
from bindings.counts.columnar.classes.key_groups import addresses_of
from bindings.counts.columnar.sketches.hyperloglog import Registers
from bindings.counts.columnar.witnessing import COLUMNS, Witnesses
from bindings.counts.comparison import Change, ChangeFacts, Comparison, Move, Pair, change_of
from bindings.counts.sketch import FREQUENT, Frequent, Item, merge_summaries
from bindings.counts.tally import fingerprint
from exchange.partition.batch import UNDECIDED
from exchange.partition.partitioning.specification import Partitioning
from exchange.topology.topology import Topology

__all__ = ["Comparer"]

WINDOW: Final = 1 << 17
"""So many rows are compared together."""

REMEMBERED: Final = 1 << 16
"""So many shapes of keys are remembered as texts."""

SAME: Final = -1
"""In the place of a change."""

MIX: Final = np.uint64(0xD6E8FEB86659FD93)


class Comparer:
    """Compares what becomes of messages in two topologies: ``add`` batches, then take the ``result``.

    Not safe for several threads.
    """

    def __init__(self, before: Topology, after: Topology, *, states: int = STATES) -> None:
        self._fingerprints: Final = (fingerprint(before), fingerprint(after))
        self._classifiers: Final = (Classifier(before, states=states), Classifier(after, states=states))
        self._repartitioned: Final[dict[str, tuple[Partitioning | None, Partitioning | None]]] = {
            name: (queue.partitioning, after.queues[name].partitioning)
            for name, queue in before.queues.items()
            if name in after.queues and queue.partitioning != after.queues[name].partitioning
        }
        self._pair_numbers: Final = IntTable()
        self._pairs: Final[list[Pair]] = []
        self._changes_of = np.zeros(0, np.int32)
        """Of each pair, the number of the change, or ``SAME``."""
        self._gets: Final = dict.fromkeys(self._repartitioned, np.zeros(0, np.bool_))
        """Of each queue that is partitioned otherwise, whether it gets the messages of each pair before and after."""
        self._changes: Final[dict[Change, int]] = {}
        self._shape_texts: Final[dict[int, str]] = {}
        self._window: Final = Window((*self.columns, "count", "last"), WINDOW)
        self._begin()

    def _begin(self) -> None:
        self._pair_spans = Spans()
        self._spans = Spans()
        self._distinct = Registers()
        self._witnesses = Witnesses()
        self._shapes: dict[int, Frequent] = {}
        self._moves: dict[Move, int] = {}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the archive that it reads."""
        routing = [column for classifier in self._classifiers for column in classifier.columns]
        partitionings = [each for pair in self._repartitioned.values() for each in pair if each is not None]
        return tuple(dict.fromkeys((*routing, *columns_of(partitionings), "time", *COLUMNS)))

    @property
    def by_key(self) -> bool:
        """Whether exchange and key decide everything, so that messages without CC and BCC may come counted."""
        return not {"headers", "properties", "body"}.intersection(self.columns)

    def add(self, batch: pa.RecordBatch) -> None:
        """Compare a batch, at once or with others. Raises InputError as `Classifier.classify`."""
        for ready in self._window.add(batch):
            self._compare(ready)

    def result(self) -> Comparison:
        """What was added since the last time; begins anew."""
        for ready in self._window.rest():
            self._compare(ready)
        numbers = np.flatnonzero(self._pair_spans.messages)
        counts = self._pair_spans.messages[numbers].tolist()
        found = {self._pairs[number]: count for number, count in zip(numbers.tolist(), counts, strict=True)}
        changes = list(self._changes)
        facts = {
            changes[number]: ChangeFacts(
                self._spans.of(number), self._distinct.of(number), self._witnesses.of(number), self._shapes[number]
            )
            for number in np.flatnonzero(self._spans.messages).tolist()
        }
        result = Comparison(*self._fingerprints, found, facts, self._moves)
        self._begin()
        return result

    def _compare(self, batch: pa.RecordBatch) -> None:
        addresses = addresses_of(batch)
        (before, shapes), (after, others) = (c.classify_addresses(batch, addresses) for c in self._classifiers)
        weights = weights_of(batch)
        numbers = self._numbers(before, after)
        self._pair_spans.count(numbers, weights)
        for queue, ways in self._repartitioned.items():
            self._count_moves(batch, queue, ways, np.flatnonzero(self._gets[queue].take(numbers)), weights)
        changed = self._changes_of.take(numbers)
        rows = np.flatnonzero(changed != SAME)
        if not len(rows):
            return
        changed, weights = changed[rows], None if weights is None else weights[rows]
        self._spans.count(changed, weights)
        self._spans.see(batch, rows, changed)
        at = rows if addresses.of is None else addresses.of[rows]
        keys = addresses.keys.take(pa.array(at))
        hashes = hashes_of(keys)
        self._witnesses.add(batch, rows, changed, hashes)
        self._distinct.add(changed, hashes)
        self._count_shapes(keys, changed, shapes[at] * MIX ^ others[at], weights)

    def _numbers(self, before: IntArray, after: IntArray) -> IntArray:
        """The number of each row's pair, from 0 on."""
        keys = pairs(before + np.int32(1), after)
        found = self._pair_numbers.find(keys)
        if not found.all():
            new = np.unique(keys[found == 0])
            first, second = (classifier.outcomes for classifier in self._classifiers)
            some = [Pair(first[(key >> 32) - 1], second[key & 0xFFFFFFFF]) for key in new.tolist()]
            begin = len(self._pairs) + 1
            self._pair_numbers.put(new, np.arange(begin, begin + len(new), dtype=np.int32))
            self._pairs.extend(some)
            changes = [change_of(*pair) for pair in some]
            numbers = [SAME if each is None else self._changes.setdefault(each, len(self._changes)) for each in changes]
            self._changes_of = np.append(self._changes_of, np.array(numbers, np.int32))
            for queue, gets in self._gets.items():
                here = [queue in old.queues and queue in new.queues for old, new in some]
                self._gets[queue] = np.append(gets, here)
            found = self._pair_numbers.find(keys)
        return found - np.int32(1)

    def _count_moves(
        self,
        batch: pa.RecordBatch,
        queue: str,
        ways: tuple[Partitioning | None, Partitioning | None],
        rows: npt.NDArray[np.intp],
        weights: npt.NDArray[np.int64] | None,
    ) -> None:
        if not len(rows):
            return
        nowhere = np.full(len(rows), UNDECIDED, np.int32)
        old, new = (nowhere if way is None else partitions_of(batch, rows, way) for way in ways)
        keys, places = np.unique(pairs(old - UNDECIDED, new - UNDECIDED), return_inverse=True)
        counts = counted(places, None if weights is None else weights[rows])
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            ids = [part + UNDECIDED for part in divmod(key, 1 << 32)]
            before, after = (None if number == UNDECIDED else number for number in ids)
            move = Move(queue, before, after)
            self._moves[move] = self._moves.get(move, 0) + count

    def _count_shapes(
        self, keys: pa.Array, groups: IntArray, shapes: KeyArray, weights: npt.NDArray[np.int64] | None
    ) -> None:
        """Unlike keys, shapes are few: all of them are counted, and the most frequent kept."""
        order = np.lexsort((shapes, groups))
        begins = np.flatnonzero((np.diff(groups[order], prepend=-1) != 0) | (np.diff(shapes[order], prepend=0) != 0))
        counts = np.add.reduceat(np.ones(len(order), np.int64) if weights is None else weights[order], begins)
        rows = order[begins]
        order = np.lexsort((shapes[rows], -counts, groups[rows]))
        rows, counts = rows[order], counts[order]
        starts = np.flatnonzero(np.diff(groups[rows], prepend=-1))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
            # As `merge_summaries` does, but before all of them are texts.
            error = int(counts[start + FREQUENT]) if end - start > FREQUENT else 0
            some = slice(start, min(end, start + FREQUENT))
            texts = [unescape(key) for key in keys.take(pa.array(rows[some])).to_pylist()]
            listed = zip(shapes[rows[some]].tolist(), texts, (counts[some] - error).tolist(), strict=True)
            items = [Item(self._shape(shape, key), count, key) for shape, key, count in listed if count]
            number = int(groups[rows[start]])
            # A word that is ``*`` may be named: then two shapes have one text.
            each = [Frequent((item,)) for item in items]
            self._shapes[number] = merge_summaries(self._shapes.get(number, Frequent()), *each, Frequent((), error))

    def _shape(self, shape: int, key: str) -> str:
        text = self._shape_texts.get(shape)
        if text is None:
            words = zip(*(classifier.shape(key) for classifier in self._classifiers), strict=True)
            named = [first if second is None else second for first, second in words]
            text = ".".join(["*" if word is None else word for word in named])
            if len(self._shape_texts) < REMEMBERED:
                self._shape_texts[shape] = text
        return text
