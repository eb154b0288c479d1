"""The kernel of the audit: classes for columns of keys, and the tally, beside Arrow's own group_by in the same run.

1,000 patterns of six sorts over five exchanges, of words of which many stand in keys. Tables are in microseconds a
message, so 0.5 is two million a second on one core. The floor is to read the columns; the peer is to count how often
each exchange and key occurs, which is the least that any tool would do that counts first. Coded keys are numbers of a
dictionary's, as Parquet has them where they repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.audit_archive import EXCHANGES, PATTERNS, draw_by_rank, draw_keys, keys_topology
from benchmarks.measure import Contestant, run_rounds, show, time_call
from benchmarks.workloads import SEED
from bindings.counts.columnar.classes.classes import Classifier
from bindings.counts.columnar.counting import Tallier
from bindings.counts.tally import Tally

PIECE: Final = 131_072
"""Rows of a batch."""


def audit_kernel(quick: bool) -> None:
    """Few keys that come often, and many that come once."""
    generator = np.random.default_rng(SEED)
    number = 500_000 if quick else 5_000_000
    rounds = 3 if quick else 5
    few, many = draw_keys(generator, 50_000), draw_keys(generator, number * 9 // 10)
    _show("50,000 keys", _batch(few.take(pa.array(draw_by_rank(generator, len(few), number)))), rounds)
    _show("keys that come once", _batch(many.take(pa.array(generator.integers(0, len(many), number)))), rounds)


def _batch(keys: pa.Array) -> pa.RecordBatch:
    generator = np.random.default_rng(SEED)
    exchanges = pa.array(EXCHANGES).take(pa.array(generator.integers(0, len(EXCHANGES), len(keys))))
    times = pa.array(np.sort(generator.integers(0, 10**12, len(keys))), pa.timestamp("us", "UTC"))
    return pa.record_batch({"exchange": exchanges, "routing_key": keys, "time": times})


def _encode(piece: pa.RecordBatch) -> pa.RecordBatch:
    columns = {name: piece.column(name).dictionary_encode() for name in ("exchange", "routing_key")}
    return pa.record_batch({**columns, "time": piece.column("time")})


def _show(name: str, batch: pa.RecordBatch, rounds: int) -> None:
    topology = keys_topology()
    pieces = [batch.slice(start, PIECE) for start in range(0, batch.num_rows, PIECE)]
    coded = [_encode(piece) for piece in pieces]
    plain = Tallier(topology, sketches=False)
    full = Tallier(topology)
    classifier = Classifier(topology)
    cold = time_call(lambda: [classifier.classify(piece) for piece in pieces])[0]
    tallies = [_count(counter, some) for counter, some in ((plain, pieces), (full, pieces), (full, coded))]
    sums = {tuple(sorted((o, f.messages) for o, f in tally.facts.items())) for tally in tallies}
    table = pa.Table.from_batches([batch])

    def group() -> pa.Table:
        keys = ["exchange", "routing_key"]
        return table.group_by(keys, use_threads=False).aggregate([([], "count_all")])

    rows = [
        Contestant("read the columns", _per(batch, lambda: [_scan(piece) for piece in pieces]), "floor"),
        Contestant("classes", _per(batch, lambda: [classifier.classify(piece) for piece in pieces])),
        Contestant("tally", _per(batch, lambda: _count(plain, pieces))),
        Contestant("tally with sketches", _per(batch, lambda: _count(full, pieces))),
        Contestant("tally with sketches, coded keys", _per(batch, lambda: _count(full, coded))),
        Contestant("group_by", _per(batch, group), "peer", "pyarrow, exchange and key, count"),
    ]
    about = f"{batch.num_rows:,} messages, {group().num_rows:,} exchanges and keys; {PATTERNS:,} patterns, one thread"
    show(f"audit kernel, {name}", about, run_rounds(rows, rounds))
    print(f"  first pass {batch.num_rows / cold / 1e6:.2f} million/s, {classifier.sets:,} sets of patterns,", end=" ")
    print(f"{len(classifier.outcomes):,} outcomes; tallies agree: {len(sums) == 1}")
    print("  million messages/s: " + ", ".join(f"{row.name} {1 / row.cost:.2f}" for row in rows if row.cost))


def _scan(piece: pa.RecordBatch) -> object:
    return [pc.sum(pc.binary_length(piece.column(name))) for name in ("exchange", "routing_key")]


def _count(counter: Tallier, pieces: list[pa.RecordBatch]) -> Tally:
    for piece in pieces:
        counter.add(piece)
    return counter.result()


def _per(batch: pa.RecordBatch, work: Callable[[], object]) -> Callable[[], float]:
    return lambda: time_call(work)[0] / batch.num_rows * 1e6
