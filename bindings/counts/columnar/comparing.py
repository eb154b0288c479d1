"""Compare two topologies over batches of an archive.

Each row has a class in each of the two topologies. Each pair of classes is compared once, and only rows whose pair
differs are studied further. Pairs are forgotten when they are too many, as outcomes are by a `Tallier`.

A row may stand for several messages (see `bindings.counts.columnar.arrays.spans`) where `Comparer.by_key` allows it;
then witnesses have no source and offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bindings.archive.names import unescape
from bindings.counts.columnar.arrays.hashing import hash_column
from bindings.counts.columnar.arrays.ranges import Indices, compute_offsets
from bindings.counts.columnar.arrays.rows import BatchCollector, choose_partitions, find_columns
from bindings.counts.columnar.arrays.spans import Spans, compute_weights, count_by_number
from bindings.counts.columnar.classes.classes import STATES, AddressClasses, Classifier
from bindings.counts.columnar.sketches.hyperloglog import Registers
from bindings.counts.columnar.witnessing import COLUMNS, Witnesses
from bindings.counts.comparison import (
    SIDES,
    ChangeFacts,
    Comparison,
    MessageSum,
    OutcomeChange,
    Pair,
    PartitionMove,
    change_of,
    count_queues,
    list_bindings_alone,
    make_zero,
)
from bindings.counts.groups import PIECE, Pairs, pair
from bindings.counts.sketch import FREQUENT, Frequent, FrequentItem, merge_summaries
from bindings.counts.witness import keep_witnesses
from exchange.arrays.table import IntArray, IntTable, KeyArray, pack_pairs
from exchange.limits import CHANGES, OUTCOMES
from exchange.partition.batch import UNDECIDED
from exchange.partition.partitioning.specification import Partitioning
from exchange.routing.columns.addresses import RowAddresses, find_addresses
from exchange.topology.topology import Topology

WINDOW: Final = 1 << 17
"""Number of rows that are compared together."""

REMEMBERED: Final = 1 << 16
"""Maximum number of shapes in the cache of their texts."""

MOST_PAIRS: Final = 2 * OUTCOMES
"""Number of pairs above which a comparer adds up those of a comparison, and forgets those that it knows."""

MOST_CHANGES: Final = 2 * CHANGES
"""The same of changes, of which it keeps more."""

TAKEN: Final = MessageSum("taken")
POSSIBLE: Final = MessageSum("possible")

SAME: Final = -1
"""Mark of a pair of equal outcomes, which is no change; changes are numbered from 0."""

MIX: Final = np.uint64(0xD6E8FEB86659FD93)
"""Odd factor that combines the two hashes of a key's shape, one by each topology, into one."""


class Comparer:
    """Compares the outcomes of messages in two topologies: call ``add`` for each batch, then ``result``.

    Not safe for several threads.
    """

    def __init__(self, before: Topology, after: Topology, *, states: int = STATES) -> None:
        self._topologies: Final = before, after
        self._alone: Final = tuple(
            [
                frozenset([number for number, _ in list_bindings_alone(*both)])
                for both in ((before, after), (after, before))
            ]
        )
        self._states: Final = states
        self._zero: Final = make_zero(before, after)
        self._repartitioned: Final[dict[str, tuple[Partitioning | None, Partitioning | None]]] = {
            name: (queue.partitioning, after.queues[name].partitioning)
            for name, queue in before.queues.items()
            if name in after.queues and queue.partitioning != after.queues[name].partitioning
        }
        self._shape_texts: Final[dict[int, str]] = {}
        self._total = self._zero
        self._forget()
        self._window: Final = BatchCollector((*self.columns, "count", "last"), WINDOW)
        self._reset()

    def _forget(self) -> None:
        """Begin without any pair that is known."""
        before, after = self._topologies
        one = Classifier(before, states=self._states)
        self._classifiers = (one, Classifier(after, states=self._states, like=one))
        self._pair_numbers = IntTable()
        self._pairs: list[Pair] = []
        self._changes_of = np.zeros(0, np.int32)
        """Number of a pair -> number of its change, or ``SAME``."""
        self._gets = dict.fromkeys(self._repartitioned, np.zeros(0, np.bool_))
        """Queue whose partitioning differs -> for each pair of outcomes, whether the queue is in both."""
        self._changes: dict[OutcomeChange, int] = {}

    def _reset(self) -> None:
        self._pair_spans = Spans()
        self._spans = Spans()
        self._distinct = Registers()
        self._witnesses = Witnesses()
        self._shapes: dict[int, Frequent] = {}
        self._moves: dict[PartitionMove, int] = {}

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the archive that are read."""
        routing = [column for classifier in self._classifiers for column in classifier.columns]
        partitionings = [each for pair in self._repartitioned.values() for each in pair if each is not None]
        return tuple(dict.fromkeys((*routing, *find_columns(partitionings), "time", *COLUMNS)))

    @property
    def by_key(self) -> bool:
        """Whether exchange and key decide everything, so that equal messages without CC and BCC may come as one row."""
        return not {"headers", "properties", "body"}.intersection(self.columns)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch, and compare it now or with later ones. Raises InputError as `Classifier.classify`."""
        for ready in self._window.add(batch):
            self._compare(ready)

    def result(self) -> Comparison:
        """Return the comparison of what was added since the last call, and begin anew."""
        for ready in self._window.take_rest():
            self._compare(ready)
        self._settle()
        total, self._total = self._total, self._zero
        return total

    def _settle(self) -> None:
        """Add what was compared since the last call to the total, and begin anew."""
        sums = Counter[MessageSum]()
        met = np.flatnonzero(self._pair_spans.messages)
        for begin in range(0, len(met), PIECE):
            self._add_sums(met[begin : begin + PIECE], sums)
        numbers = np.flatnonzero(self._spans.messages)
        changes = list(self._changes)
        names = [changes[number] for number in numbers.tolist()]
        sums.update(count_queues(zip(names, self._spans.messages[numbers].tolist(), strict=True)))
        if self._total.folds(len(names)):
            names = [each.fold(self._zero.many) for each in names]
        sums = +sums  # without those of no message
        self._total += replace(self._zero, sums=sums, changes=self._add_up(names, numbers), moves=self._moves)
        if len(self._pairs) > MOST_PAIRS:
            self._forget()
        self._reset()

    def _add_up(self, names: Sequence[OutcomeChange], numbers: Indices) -> dict[OutcomeChange, ChangeFacts]:
        """Return the facts of changes, given the name of each number; those of one name are added at once."""
        groups: dict[OutcomeChange, int] = {}
        of = np.array([groups.setdefault(name, len(groups)) for name in names], np.int64)
        order = np.argsort(of, kind="stable")
        rows, of = numbers[order], of[order]
        spans, keys = self._spans.all().merge(rows, of, len(groups)), self._distinct.merge(rows, of)
        ends, listed = compute_offsets(of, len(groups)).tolist(), rows.tolist()
        return {
            name: ChangeFacts(
                spans.get_group(number),
                keys.get_group(number),
                keep_witnesses(chain.from_iterable(map(self._witnesses.get_group, listed[begin:end]))),
                merge_summaries(*map(self._shapes.__getitem__, listed[begin:end])),
            )
            for (name, number), begin, end in zip(groups.items(), ends, ends[1:], strict=False)
        }

    def _add_sums(self, numbers: npt.NDArray[np.intp], sums: Counter[MessageSum]) -> None:
        """Add the sums of the messages of these pairs."""
        pairs = [self._pairs[number] for number in numbers.tolist()]
        messages = self._pair_spans.messages[numbers]
        rerouted = np.where(self._changes_of[numbers] == SAME, 0, messages)
        sums[MessageSum("message")] += int(messages.sum())
        known = {name for topology in self._topologies for name in topology.exchanges}
        unknown = np.array([each.before.exchange not in known for each in pairs])
        sums[MessageSum("unknown exchange")] += int(messages[unknown].sum())

        def add(of: MessageSum, found: Pairs, counts: npt.NDArray[np.int64], names: Sequence[str] = ()) -> None:
            totals = np.zeros(int(found.values.max(initial=-1)) + 1, np.int64)
            np.add.at(totals, found.values, counts[found.rows])
            for number in np.flatnonzero(totals).tolist():
                each = of._replace(name=names[number]) if names else of._replace(number=number)
                sums[each] += int(totals[number])

        for at, (side, topology) in enumerate(zip(SIDES, self._topologies, strict=True)):
            alone = self._alone[at]
            outcomes = [each[at] for each in pairs]
            queues = [*topology.queues]
            got = pair((each.queues for each in outcomes), {name: number for number, name in enumerate(queues)})
            add(MessageSum("got", side), got, messages, queues)
            taken = [each.bindings for each in outcomes], [each.possible_bindings for each in outcomes]
            for what, lists in zip((TAKEN, POSSIBLE), taken, strict=True):
                found = pair([tuple(alone.intersection(numbers)) for numbers in lists] if alone else [])
                add(what._replace(side=side), found, messages)
                add(MessageSum("rerouted", side), found, rerouted)

    def _compare(self, batch: pa.RecordBatch) -> None:
        addresses = find_addresses(batch)
        before, after = (classifier.classify_addresses(batch, addresses) for classifier in self._classifiers)
        weights = compute_weights(batch)
        numbers = self._number_pairs(before.classes, after.classes)
        self._pair_spans.count(numbers, weights)
        for queue in self._repartitioned:
            self._count_moves(batch, queue, np.flatnonzero(self._gets[queue].take(numbers)), weights)
        changed = self._changes_of.take(numbers)
        rows = np.flatnonzero(changed != SAME)
        if len(rows):
            self._study(batch, rows, changed, weights, addresses, before, after)
        met = np.count_nonzero(self._pair_spans.messages), np.count_nonzero(self._spans.messages)
        if met[0] > MOST_PAIRS or met[1] > MOST_CHANGES:
            self._settle()

    def _study(
        self,
        batch: pa.RecordBatch,
        rows: npt.NDArray[np.intp],
        changed: IntArray,
        weights: npt.NDArray[np.int64] | None,
        addresses: RowAddresses,
        before: AddressClasses,
        after: AddressClasses,
    ) -> None:
        """Count the rows whose messages have a change."""
        changed, weights = changed[rows], None if weights is None else weights[rows]
        self._spans.count(changed, weights)
        self._spans.note_times(batch, rows, changed)
        at = rows if addresses.address_of_row is None else addresses.address_of_row[rows]
        keys = addresses.keys.take(pa.array(at))
        hashes = hash_column(keys)
        self._witnesses.add(batch, rows, changed, hashes)
        self._distinct.add(changed, hashes)
        self._count_shapes(keys, changed, before.shapes[at] * MIX ^ after.shapes[at], weights)

    def _number_pairs(self, before: IntArray, after: IntArray) -> IntArray:
        """Return the number of each row's pair of classes, from 0; compare the pairs that are new.

        Keys and values of the table must not be 0, so it holds ``before`` plus 1 and numbers plus 1.
        """
        keys = pack_pairs(before + np.int32(1), after)
        numbers = self._pair_numbers.find(keys)
        if not numbers.all():
            new = np.unique(keys[numbers == 0])
            first, second = (classifier.outcomes for classifier in self._classifiers)
            new_pairs = [Pair(first[(key >> 32) - 1], second[key & 0xFFFFFFFF]) for key in new.tolist()]
            begin = len(self._pairs) + 1
            self._pair_numbers.put(new, np.arange(begin, begin + len(new), dtype=np.int32))
            self._pairs.extend(new_pairs)
            changes = [change_of(*pair) for pair in new_pairs]
            change_numbers = [
                SAME if each is None else self._changes.setdefault(each, len(self._changes)) for each in changes
            ]
            self._changes_of = np.append(self._changes_of, np.array(change_numbers, np.int32))
            for queue, gets in self._gets.items():
                gets_new = [queue in old.queues and queue in new.queues for old, new in new_pairs]
                self._gets[queue] = np.append(gets, gets_new)
            numbers = self._pair_numbers.find(keys)
        return numbers - np.int32(1)

    def _count_moves(
        self, batch: pa.RecordBatch, queue: str, rows: npt.NDArray[np.intp], weights: npt.NDArray[np.int64] | None
    ) -> None:
        if not len(rows):
            return
        undecided = np.full(len(rows), UNDECIDED, np.int32)
        old, new = (
            undecided if partitioning is None else choose_partitions(batch, rows, partitioning)
            for partitioning in self._repartitioned[queue]
        )
        # UNDECIDED is the smallest id, and negative: subtracting it makes ids non-negative, as pack_pairs needs.
        keys, which = np.unique(pack_pairs(old - UNDECIDED, new - UNDECIDED), return_inverse=True)
        counts = count_by_number(which, None if weights is None else weights[rows])
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            ids = [part + UNDECIDED for part in divmod(key, 1 << 32)]
            before, after = (None if number == UNDECIDED else number for number in ids)
            move = PartitionMove(queue, before, after)
            self._moves[move] = self._moves.get(move, 0) + count

    def _count_shapes(
        self, keys: pa.Array, groups: IntArray, shapes: KeyArray, weights: npt.NDArray[np.int64] | None
    ) -> None:
        """Count all shapes, since there are few of them, unlike keys, and keep the most frequent ones of each group."""
        order = np.lexsort((shapes, groups))
        ordered = shapes[order]
        is_new = np.diff(groups[order], prepend=-1) != 0
        is_new[1:] |= ordered[1:] != ordered[:-1]  # np.diff makes floats of uint64, for which close hashes are equal
        begins = np.flatnonzero(is_new)
        counts = np.add.reduceat(np.ones(len(order), np.int64) if weights is None else weights[order], begins)
        rows = order[begins]
        order = np.lexsort((shapes[rows], -counts, groups[rows]))
        rows, counts = rows[order], counts[order]
        starts = np.flatnonzero(np.diff(groups[rows], prepend=-1))
        sizes = np.diff(starts, append=len(rows))
        # Cut as `merge_summaries` does, but by hash, so that only the shapes that stay become texts.
        errors = np.zeros(len(starts), np.int64)
        errors[sizes > FREQUENT] = counts[starts[sizes > FREQUENT] + FREQUENT]
        of = np.repeat(np.arange(len(starts)), sizes)
        counts -= errors[of]
        kept = np.flatnonzero((np.arange(len(rows)) - starts[of] < FREQUENT) & (counts > 0))
        examples = [*map(unescape, keys.take(pa.array(rows[kept])).to_pylist())]
        texts = self._format_shapes(shapes[rows[kept]].tolist(), examples)
        items = [*map(FrequentItem, texts, counts[kept].tolist(), examples)]
        ends = compute_offsets(of[kept], len(starts)).tolist()
        each = zip(groups[rows[starts]].tolist(), errors.tolist(), ends, ends[1:], strict=False)
        for number, error, begin, end in each:
            known = self._shapes.get(number)
            if known is None and end == begin + 1:
                self._shapes[number] = Frequent((items[begin],), error)
                continue
            # A word of a key may itself be ``*``, so two shapes may have one text: each item becomes a summary of its
            # own, and the merge adds their counts.
            added = [Frequent((item,)) for item in items[begin:end]]
            self._shapes[number] = merge_summaries(known or Frequent(), *added, Frequent((), error))

    def _format_shapes(self, shapes: Sequence[int], keys: Sequence[str]) -> list[str]:
        """Return the text of each shape, of which a key is given."""
        new = {shape: key for shape, key in zip(shapes, keys, strict=True) if shape not in self._shape_texts}
        both = zip(*(classifier.shapes([*new.values()]) for classifier in self._classifiers), strict=True)
        named = ([one if other is None else other for one, other in zip(*each, strict=True)] for each in both)
        texts = [".".join(["*" if word is None else word for word in words]) for words in named]
        found = dict(zip(new, texts, strict=True))
        listed = [found[shape] if shape in found else self._shape_texts[shape] for shape in shapes]
        self._shape_texts.update(islice(found.items(), REMEMBERED - len(self._shape_texts)))
        return listed
