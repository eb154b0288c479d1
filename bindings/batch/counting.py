"""From batches of an archive to a tally.

Two plans, one counter. Rows where they lie: each row is a message. Count first: each row is an exchange and a key, with
a column ``count``, and ``first`` and ``last`` for times; whoever made them has grouped the messages. The second is
exact where only keys decide, which `Counter.by_key` tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.fields import tables_of
from bindings.archive.names import has_nul, unescaped
from bindings.batch.classes import STATES, Classifier
from bindings.batch.hashing import hashes_of
from bindings.batch.keys import plain
from bindings.batch.table import IntArray, KeyArray
from bindings.outcome import Outcome
from bindings.sketch import RANK_BITS, REGISTER_BITS, REGISTERS, SAMPLE, Frequent, Item, merged, sampled
from bindings.tally import HOUR, Facts, Tally, fingerprint
from exchange.message import Message
from exchange.partition.batch import UNDECIDED, partition_batch
from exchange.partition.partitioning import Partitioning
from exchange.topology import Topology

__all__ = ["Counter", "grouped"]

WINDOW: Final = 1 << 17
"""So many rows are counted together."""

SHARE: Final = 32
"""A key that is less than one in so many of its outcome's messages in a window is not held for hot."""

LIKELY: Final = 64
"""Among so many keys of an outcome there are enough for a sample, unless a few are most of it."""

BUCKETS: Final = 18
"""Bits of a bucket's number: only keys in full buckets are looked at one by one."""

NEVER: Final = np.iinfo(np.int64).max
MIX: Final = np.uint64(0xBF58476D1CE4E5B9)


def grouped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Messages as exchanges and keys with their counts and times: the first step of the plan that counts first."""
    table = pa.Table.from_batches([batch]).select(
        [n for n in ("exchange", "routing_key", "time") if n in batch.schema.names]
    )
    sums: list[Any] = [([], "count_all")]
    names = {"count_all": "count"}
    if "time" in table.schema.names:
        sums += [("time", "min"), ("time", "max")]
        names |= {"time_min": "first", "time_max": "last"}
    counted = table.group_by(["exchange", "routing_key"]).aggregate(sums)
    return _one(counted.rename_columns([names.get(name, name) for name in counted.schema.names]))


class Counter:
    """Counts messages for one topology: ``add`` batches, then take the ``tally``. Not safe for several threads.

    ``sketches`` off leaves out what is approximate, and samples: the number of different keys and the hot ones.
    """

    def __init__(self, topology: Topology, *, states: int = STATES, sketches: bool = True) -> None:
        self._topology: Final = topology
        self._fingerprint: Final = fingerprint(topology)
        self._sketches: Final = sketches
        self._classifier: Final = Classifier(topology, states=states)
        self._partitionings: Final[dict[str, Partitioning]] = {
            name: queue.partitioning for name, queue in topology.queues.items() if queue.partitioning is not None
        }
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._clear()

    def _clear(self) -> None:
        self._messages = np.zeros(0, np.int64)
        self._firsts = np.zeros(0, np.int64)
        self._lasts = np.zeros(0, np.int64)
        self._registers = np.zeros((0, REGISTERS), np.uint8)
        self._thresholds = np.zeros(0, np.uint64)
        self._samples: dict[int, tuple[tuple[int, str], ...]] = {}
        self._hot: dict[int, Frequent] = {}
        self._shapes: dict[int, Frequent] = {}
        self._partitions: dict[tuple[str, int | None], int] = {}
        self._timeline: dict[tuple[int, str, bool | None], int] = {}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the archive that it reads."""
        parts = {partitioning.key.part for partitioning in self._partitionings.values()}
        named = {"header": "headers", "property": "properties", "body": "body"}
        more = [name for part, name in named.items() if part in parts]
        return tuple(dict.fromkeys((*self._classifier.columns, "time", *more)))

    @property
    def by_key(self) -> bool:
        """Whether exchange and key decide everything, so that messages without CC and BCC may be counted first."""
        return not {"headers", "properties", "body"}.intersection(self.columns)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch, at once or with others. Raises InputError as `Classifier.classify`."""
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        if self._pending_rows >= WINDOW:
            self._count_pending()

    def tally(self) -> Tally:
        """What was added since the last time; begins anew."""
        self._count_pending()
        outcomes = self._classifier.outcomes
        facts: dict[Outcome, Facts] = {}
        for number in np.flatnonzero(self._messages).tolist():
            first, last = int(self._firsts[number]), int(self._lasts[number])
            facts[outcomes[number]] = Facts(
                int(self._messages[number]),
                None if first == NEVER else first,
                None if first == NEVER else last,
                self._registers[number].tobytes() if self._sketches else b"",
                self._samples.get(number, ()),
                self._hot.get(number, Frequent()),
                self._shapes.get(number, Frequent()),
            )
        result = Tally(self._fingerprint, facts, self._partitions, self._timeline)
        self._clear()
        return result

    def _count_pending(self) -> None:
        if self._pending_rows:
            full = self._pending_rows >= WINDOW
            batch = _one(pa.Table.from_batches(self._pending))
            self._count(batch, least=2 if full else 1)
        self._pending, self._pending_rows = [], 0

    def _count(self, batch: pa.RecordBatch, least: int) -> None:
        classes, shapes = self._classifier.classify(batch)
        self._grow()
        weights = _integers(batch, "count")
        self._messages += _counts(classes, weights, len(self._messages))
        self._count_times(batch, classes, weights)
        keys = plain(batch.column("routing_key"))
        for queue, partitioning in self._partitionings.items():
            self._count_partitions(batch, keys, classes, weights, queue, partitioning)
        if not self._sketches:
            return
        hashes = hashes_of(keys)
        self._count_distinct(classes, hashes)
        self._take_samples(keys, classes, hashes)
        per_class = _counts(classes, weights, len(self._messages))
        for number, items, error in _items(keys, _frequent(classes, hashes, weights, per_class, least)):
            self._hot[number] = merged(self._hot.get(number, Frequent()), Frequent(tuple(items), error))
        lost = np.array([o.routed is not True or bool(o.alternates) for o in self._classifier.outcomes], np.bool_)
        at = np.flatnonzero(lost[classes])
        if len(at):
            self._count_shapes(
                keys.take(pa.array(at)), classes[at], shapes[at], None if weights is None else weights[at], least
            )

    def _grow(self) -> None:
        more = len(self._classifier.outcomes) - len(self._messages)
        if more:
            self._messages = np.append(self._messages, np.zeros(more, np.int64))
            self._firsts = np.append(self._firsts, np.full(more, NEVER))
            self._lasts = np.append(self._lasts, np.full(more, -NEVER))
            if self._sketches:
                self._registers = np.concatenate([self._registers, np.zeros((more, REGISTERS), np.uint8)])
                self._thresholds = np.append(self._thresholds, np.full(more, ~np.uint64(0)))

    def _count_times(self, batch: pa.RecordBatch, classes: IntArray, weights: npt.NDArray[np.int64] | None) -> None:
        names = batch.schema.names
        firsts = batch.column("first" if "first" in names else "time") if {"first", "time"} & set(names) else None
        if firsts is None:
            return
        lasts = batch.column("last") if "last" in names else firsts
        there = np.asarray(pc.is_valid(firsts))
        first, last = _microseconds(firsts), _microseconds(lasts)
        if not there.all():
            classes, first, last = classes[there], first[there], last[there]
            weights = None if weights is None else weights[there]
        np.minimum.at(self._firsts, classes, first)
        np.maximum.at(self._lasts, classes, last)
        if "first" not in names:
            self._count_hours(classes, first // HOUR, weights)

    def _count_hours(
        self, classes: IntArray, hours: npt.NDArray[np.int64], weights: npt.NDArray[np.int64] | None
    ) -> None:
        if not len(hours):
            return
        outcomes = self._classifier.outcomes
        begin, number = int(hours.min()), len(outcomes)
        places = (hours - begin) * number + classes
        if int(hours.max()) - begin < 1_000:  # hours that lie together are counted without sorting
            counts = _counts(places, weights, int(places.max()) + 1)
            distinct = np.flatnonzero(counts)
            found = counts[distinct]
        else:
            distinct, which = np.unique(places, return_inverse=True)
            found = _counts(which, weights, len(distinct))
        for place, count in zip(distinct.tolist(), found.tolist(), strict=True):
            outcome = outcomes[place % number]
            key = (begin + place // number, outcome.exchange, outcome.routed)
            self._timeline[key] = self._timeline.get(key, 0) + count

    def _count_partitions(
        self,
        batch: pa.RecordBatch,
        keys: pa.Array,
        classes: IntArray,
        weights: npt.NDArray[np.int64] | None,
        queue: str,
        partitioning: Partitioning,
    ) -> None:
        gets = np.array([queue in outcome.queues for outcome in self._classifier.outcomes], np.bool_)
        rows = np.flatnonzero(gets[classes])
        if not len(rows):
            return
        places = pa.array(rows)
        source = partitioning.key
        chosen: npt.NDArray[Any]
        if source.by_routing_key:
            encoded = keys.take(places).dictionary_encode() if source.part == "word" else None
            column = keys.take(places) if encoded is None else encoded.dictionary
            if encoded is not None:
                column = [source.of(Message("", unescaped(key))) for key in column.to_pylist()]
            elif has_nul(column):
                column = [unescaped(key) for key in column.to_pylist()]
            chosen = partition_batch(partitioning.partitioner, column, partitioning.partitions)
            if encoded is not None:
                chosen = chosen[np.asarray(encoded.indices)]
        else:
            found = [partitioning.choose(message).partition for message in _carrying(batch.take(places), source.part)]
            chosen = np.array([UNDECIDED if partition is None else partition for partition in found], np.int32)
        distinct, which = np.unique(chosen, return_inverse=True)
        counts = _counts(which, None if weights is None else weights[rows], len(distinct))
        for partition, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            key = (queue, None if partition == UNDECIDED else partition)
            self._partitions[key] = self._partitions.get(key, 0) + count

    def _count_distinct(self, classes: IntArray, hashes: KeyArray) -> None:
        places = (classes.astype(np.int64) << REGISTER_BITS) + (hashes >> np.uint64(64 - REGISTER_BITS)).view(np.int64)
        rest = (hashes & np.uint64((1 << RANK_BITS) - 1)).astype(np.float64)  # which holds so many bits exactly
        ranks = (RANK_BITS + 1 - np.frexp(rest)[1]).astype(np.uint8)
        flat = self._registers.reshape(-1)
        higher = np.flatnonzero(flat[places] < ranks)
        np.maximum.at(flat, places[higher], ranks[higher])

    def _take_samples(self, keys: pa.Array, classes: IntArray, hashes: KeyArray) -> None:
        # The least hashes of many are small: at first only such as are.
        rows_of = np.bincount(classes, minlength=len(self._thresholds))
        small = (2.0**64 * np.minimum(LIKELY / np.maximum(rows_of, 1), 0.5)).astype(np.uint64)
        first = np.minimum(self._thresholds, small)
        self._sample_of(keys, classes, hashes, np.flatnonzero(hashes < first[classes]))
        open_still = (first < self._thresholds) & (rows_of > 0)
        rows = np.flatnonzero(open_still[classes] & (hashes < self._thresholds[classes]))
        if len(rows):
            self._sample_of(keys, classes, hashes, rows)

    def _sample_of(self, keys: pa.Array, classes: IntArray, hashes: KeyArray, rows: npt.NDArray[np.intp]) -> None:
        rows = rows[np.lexsort((hashes[rows], classes[rows]))]
        new = np.ones(len(rows), np.bool_)
        new[1:] = (np.diff(classes[rows]) != 0) | (np.diff(hashes[rows]) != 0)
        rows = rows[new]
        begins = np.flatnonzero(np.diff(classes[rows], prepend=-1))
        rank = np.arange(len(rows)) - np.repeat(begins, np.diff(begins, append=len(rows)))
        rows = rows[rank < SAMPLE]
        texts = [unescaped(key) for key in keys.take(pa.array(rows)).to_pylist()]
        found: dict[int, list[tuple[int, str]]] = {}
        for number, value, text in zip(classes[rows].tolist(), hashes[rows].tolist(), texts, strict=True):
            found.setdefault(number, []).append((value, text))
        for number, some in found.items():
            sample = self._samples[number] = sampled((*self._samples.get(number, ()), *some))
            if len(sample) == SAMPLE:
                self._thresholds[number] = sample[-1][0]

    def _count_shapes(
        self, keys: pa.Array, classes: IntArray, shapes: KeyArray, weights: npt.NDArray[np.int64] | None, least: int
    ) -> None:
        per_class = _counts(classes, weights, len(self._messages))
        for number, items, error in _items(keys, _frequent(classes, shapes, weights, per_class, least)):
            shaped = [Frequent((Item(self._shape(item.text), item.count, item.text),)) for item in items]
            self._shapes[number] = merged(self._shapes.get(number, Frequent()), *shaped, Frequent((), error))

    def _shape(self, key: str) -> str:
        return ".".join(["*" if word is None else word for word in self._classifier.shape(key)])


def _items(
    keys: pa.Array, found: list[tuple[npt.NDArray[np.intp], int, list[int], int]]
) -> Iterator[tuple[int, list[Item], int]]:
    """What `_frequent` found, with the texts: class, what is frequent in it, and the error."""
    rows = np.concatenate([each[0] for each in found]) if found else np.zeros(0, np.intp)
    texts = iter(keys.take(pa.array(rows)).to_pylist())
    for _, number, counts, error in found:
        yield number, [Item(unescaped(next(texts)), count) for count in counts], error


def _frequent(
    classes: IntArray,
    hashes: KeyArray,
    weights: npt.NDArray[np.int64] | None,
    per_class: npt.NDArray[np.int64],
    least: int,
) -> list[tuple[npt.NDArray[np.intp], int, list[int], int]]:
    """For each class the rows, one each, of what is frequent in it, how often it is, and how often the rest may be.

    Whatever is frequent is in a full bucket, so only what is in one is sorted.
    """
    limits = np.maximum(least, -(-per_class // SHARE))
    if least == 1:
        limits[per_class <= SHARE] = 1
    mixed = (hashes ^ (classes.astype(np.uint64) + np.uint64(1)) * MIX) * MIX
    buckets = (mixed >> np.uint64(64 - BUCKETS)).view(np.int64)
    full = _counts(buckets, weights, 1 << BUCKETS)[buckets] >= limits[classes]
    rows = np.flatnonzero(full)
    rows = rows[np.lexsort((mixed[rows], classes[rows]))]
    result = []
    if len(rows):
        new = np.ones(len(rows), np.bool_)
        new[1:] = (np.diff(classes[rows]) != 0) | (mixed[rows[1:]] != mixed[rows[:-1]])
        begins = np.flatnonzero(new)
        counts = np.add.reduceat(np.ones(len(rows), np.int64) if weights is None else weights[rows], begins)
        rows = rows[begins]
        often = counts >= limits[classes[rows]]
        rows, counts = rows[often], counts[often]
    of = classes[rows]
    ends = np.searchsorted(of, np.arange(len(per_class) + 1))
    errors = (limits - 1) * (per_class > 0)
    if least == 1:
        totals = _counts(of, counts if len(rows) else None, len(per_class))
        errors[totals == per_class] = 0  # all of them were frequent
    for number in np.flatnonzero(per_class).tolist():
        some = slice(int(ends[number]), int(ends[number + 1]))
        if some.stop > some.start or errors[number]:
            result.append((rows[some], number, counts[some].tolist() if len(rows) else [], int(errors[number])))
    return result


def _counts(places: npt.NDArray[Any], weights: npt.NDArray[np.int64] | None, size: int) -> npt.NDArray[np.int64]:
    """How many there are of each; exact up to 2 to the 53rd."""
    if weights is None:
        return np.bincount(places, minlength=size)
    return np.bincount(places, weights.astype(np.float64), size).astype(np.int64)


def _integers(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int64] | None:
    if name not in batch.schema.names:
        return None
    found: npt.NDArray[np.int64] = np.asarray(batch.column(name)).astype(np.int64)
    return found


def _microseconds(times: pa.Array) -> npt.NDArray[np.int64]:
    """The times; nulls are some number."""
    plain = times.cast(pa.timestamp("us", getattr(times.type, "tz", None))).cast(pa.int64())
    return np.asarray(pc.fill_null(plain, 0))


def _carrying(batch: pa.RecordBatch, part: str) -> list[Message]:
    """Messages with this part, and no other."""
    names = {"header": "headers", "property": "properties"}
    if part == "body":
        return [Message(body=body or b"") for body in batch.column("body").to_pylist()]
    tables: list[Mapping[str, Any]] = list(tables_of(batch.column(names[part])))
    return [Message(headers=table) if part == "header" else Message(properties=table) for table in tables]


def _one(table: pa.Table) -> pa.RecordBatch:
    whole = table.combine_chunks()
    columns = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in whole.columns]
    return pa.RecordBatch.from_arrays(columns, schema=whole.schema)
