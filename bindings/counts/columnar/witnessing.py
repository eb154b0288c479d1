"""Keep a few witnesses per group of rows, chosen by hash; only rows that are kept become messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.names import unescape
from bindings.counts.columnar.arrays.hashing import hash_column
from bindings.counts.columnar.arrays.rows import build_messages
from bindings.counts.witness import MAX_WITNESSES, Witness, keep_witnesses
from exchange.arrays.grouping import decode_dictionary
from exchange.arrays.table import KeyArray

COLUMNS: Final = ("source", "offset")
"""Columns that a witness needs, besides those that decide the route."""

CONTENT: Final = ("exchange", "cc", "bcc", "headers", "properties", "source", "offset", "routed_queues")
"""Columns that are hashed into a witness's ``tie``, if the batch has them."""

MIX: Final = np.uint64(0x9E3779B97F4A7C15)
AGAIN: Final = np.uint64(0xBF58476D1CE4E5B9)

NONE: Final = np.uint64(0x94D049BB133111EB)
"""Hash of a null."""


class Witnesses:
    """The witnesses of groups; groups are numbered from 0."""

    def __init__(self) -> None:
        self._witnesses: dict[int, tuple[Witness, ...]] = {}
        self._limits = np.zeros(0, np.uint64)
        """Group -> greatest hash of a key that may still become a witness."""

    def get_group(self, group: int) -> tuple[Witness, ...]:
        """Return the witnesses of a group."""
        return self._witnesses.get(group, ())

    def add(
        self, batch: pa.RecordBatch, rows: npt.NDArray[np.intp], groups: npt.NDArray[Any], hashes: KeyArray
    ) -> None:
        """Keep witnesses among these rows of a batch; ``groups`` and ``hashes`` (of keys) are parallel to ``rows``."""
        if not len(rows):
            return
        missing = int(groups.max()) + 1 - len(self._limits)
        if missing > 0:
            self._limits = np.append(self._limits, np.full(missing, ~np.uint64(0)))
        kept = np.flatnonzero(hashes <= self._limits[groups])
        if not len(kept):
            return
        kept = kept[np.lexsort((hashes[kept], groups[kept]))]
        # Keep of each group the rows with the MOST smallest hashes; ``rank`` numbers a group's distinct hashes from 0.
        new_group = np.diff(groups[kept], prepend=-1) != 0
        new_key = new_group.copy()
        new_key[1:] |= hashes[kept[1:]] != hashes[kept[:-1]]
        rank = np.cumsum(new_key)
        rank -= np.repeat(rank[new_group], np.diff(np.flatnonzero(new_group), append=len(kept)))
        kept = kept[rank < MAX_WITNESSES]
        # Of rows with one key, keep that with the smallest hash of its content. The hash is costly: hence only now.
        ties = _hashes(batch.take(pa.array(rows[kept])))
        order = np.lexsort((ties, hashes[kept], groups[kept]))
        kept, ties = kept[order], ties[order]
        first = np.ones(len(kept), np.bool_)
        first[1:] = (np.diff(groups[kept]) != 0) | (hashes[kept[1:]] != hashes[kept[:-1]])
        kept, ties = kept[first], ties[first]
        self._keep(batch, rows[kept], groups[kept].tolist(), hashes[kept].tolist(), ties.tolist())

    def _keep(
        self,
        batch: pa.RecordBatch,
        rows: npt.NDArray[np.intp],
        groups: Sequence[int],
        hashes: Sequence[int],
        ties: Sequence[int],
    ) -> None:
        better = []
        for at, (group, key, tie) in enumerate(zip(groups, hashes, ties, strict=True)):
            known = self._witnesses.get(group, ())
            if all((witness.hash, witness.tie) > (key, tie) for witness in known if witness.hash == key):
                better.append(at)
        if not better:
            return
        chosen = batch.take(pa.array(rows[better]))
        names = chosen.schema.names
        sources = decode_dictionary(chosen.column("source")).to_pylist() if "source" in names else [""] * len(better)
        offsets = chosen.column("offset").to_pylist() if "offset" in names else [None] * len(better)
        routed = chosen.column("routed_queues").to_pylist() if "routed_queues" in names else [None] * len(better)
        columns = zip(better, build_messages(chosen, np.arange(len(better))), sources, offsets, routed, strict=True)
        for at, message, source, offset, queues in columns:
            group = groups[at]
            seen = None if queues is None else tuple([unescape(queue) for queue in queues])
            witness = Witness(hashes[at], ties[at], message, unescape(source), offset, seen)
            kept = self._witnesses[group] = keep_witnesses((*self._witnesses.get(group, ()), witness))
            if len(kept) == MAX_WITNESSES:
                self._limits[group] = kept[-1].hash


def _hashes(batch: pa.RecordBatch) -> KeyArray:
    """Return a hash of each row's ``CONTENT``: all but its key and times."""
    result = np.zeros(batch.num_rows, np.uint64)
    for name in CONTENT:
        if name in batch.schema.names:
            result = _mix(result ^ _hashes_of(batch.column(name)))
    return result


def _hashes_of(values: pa.Array) -> KeyArray:
    kind = values.type
    result: KeyArray
    if pa.types.is_integer(kind):
        result = _mix(np.asarray(pc.fill_null(values, 0)).astype(np.int64).view(np.uint64))
    elif pa.types.is_struct(kind):
        result = np.zeros(len(values), np.uint64)
        for part in values.flatten():
            result = _mix(result ^ _hashes_of(part))
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        offsets = np.asarray(values.offsets).astype(np.int64)
        begin, end = int(offsets[0]), int(offsets[-1])
        parts = [values.keys, values.items] if pa.types.is_map(kind) else [values.values]
        counts = np.diff(offsets)
        within = (np.arange(begin, end) - np.repeat(offsets[:-1], counts)).astype(np.uint64)
        for part in parts:
            within = _mix(within ^ _hashes_of(part.slice(begin, end - begin)))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(within, dtype=np.uint64)])
        result = _mix((sums[offsets[1:] - begin] - sums[offsets[:-1] - begin]) ^ counts.astype(np.uint64))
    else:
        result = hash_column(pc.fill_null(decode_dictionary(values), ""))
    if values.null_count:
        result[np.asarray(pc.is_null(values))] = NONE
    return result


def _mix(values: KeyArray) -> KeyArray:
    mixed = (values ^ (values >> np.uint64(31)) ^ MIX) * AGAIN
    return (mixed ^ (mixed >> np.uint64(29))) * MIX
