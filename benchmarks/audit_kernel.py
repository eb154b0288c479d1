"""The kernel of the audit: classes for columns of keys, and the tally, beside Arrow's own group_by in the same run.

1,000 patterns of six sorts over five exchanges, of words of which many stand in keys. Tables are in microseconds a
message, so 0.5 is two million a second on one core. The floor is to read the columns; the peer is to count how often
each exchange and key occurs, which is the least that any tool would do that counts first.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measure import Contestant, run_rounds, show, timed
from benchmarks.workloads import SEED
from bindings.batch.classes import Classifier
from bindings.batch.counting import Counter, grouped
from bindings.tally import Tally
from exchange import Binding, Exchange, Queue, Topology

__all__ = ["audit_kernel"]

EXCHANGES: Final = tuple(f"x{number}" for number in range(5))
QUEUES: Final = 50
PATTERNS: Final = 1_000
SHARES: Final = {"literal": 35, "one": 25, "tail": 25, "head": 5, "middle": 5, "two": 5}
"""Sort of a pattern -> percent."""
VOCABULARY: Final = tuple(
    f"{stem}{number}"
    for number in range(25)
    for stem in ("order", "user", "device", "eu", "created", "paid", "svc", "t")
)
ZIPF: Final = 1.1
PIECE: Final = 131_072
"""Rows of a batch."""


def audit_kernel(quick: bool) -> None:
    """Few keys that come often, and many that come once."""
    chance = random.Random(SEED)
    topology = _topology(chance)
    number = 500_000 if quick else 5_000_000
    rounds = 3 if quick else 5
    few = _keys(chance, 50_000)
    weights = 1 / np.arange(1, len(few) + 1) ** ZIPF
    drawn = np.random.default_rng(SEED).choice(len(few), number, p=weights / weights.sum())
    _show("50,000 keys", topology, _batch(pa.array(few).take(pa.array(drawn))), rounds)
    many = pa.array(_keys(chance, number * 9 // 10))
    drawn = np.random.default_rng(SEED).integers(0, len(many), number)
    _show("keys that come once", topology, _batch(many.take(pa.array(drawn))), rounds)


def _topology(chance: random.Random) -> Topology:
    sorts = chance.choices(list(SHARES), list(SHARES.values()), k=PATTERNS)
    bindings = [
        Binding.to_queue(chance.choice(EXCHANGES), f"q{number % QUEUES}", _pattern(chance, sort))
        for number, sort in enumerate(sorts)
    ]
    exchanges = [Exchange(name, "topic") for name in EXCHANGES]
    return Topology(exchanges, [Queue(f"q{number}") for number in range(QUEUES)], bindings)


def _pattern(chance: random.Random, sort: str) -> str:
    words = chance.choices(VOCABULARY, k=chance.randint(3, 5))
    if sort == "one":
        words[chance.randrange(len(words))] = "*"
    elif sort == "tail":
        words = [*words[: chance.randint(1, 3)], "#"]
    elif sort == "head":
        words = ["#", *words[-chance.randint(1, 2) :]]
    elif sort == "middle":
        words[chance.randrange(1, len(words) - 1)] = "#"
    elif sort == "two":
        for place in chance.sample(range(len(words)), 2):
            words[place] = "*"
    return ".".join(words)


def _keys(chance: random.Random, number: int) -> list[str]:
    """Of three to five words, the first ones of the vocabulary more often, and one of them an id."""
    keys = []
    for _ in range(number):
        words = [VOCABULARY[int(len(VOCABULARY) * chance.random() ** 2)] for _ in range(chance.randint(3, 5))]
        words[chance.randrange(len(words))] = str(chance.randrange(1_000_000))
        keys.append(".".join(words))
    return keys


def _batch(keys: pa.Array) -> pa.RecordBatch:
    generator = np.random.default_rng(SEED)
    exchanges = pa.array(EXCHANGES).take(pa.array(generator.integers(0, len(EXCHANGES), len(keys))))
    times = pa.array(generator.integers(0, 10**12, len(keys)), pa.timestamp("us", "UTC"))
    return pa.record_batch({"exchange": exchanges, "routing_key": keys, "time": times})


def _show(name: str, topology: Topology, batch: pa.RecordBatch, rounds: int) -> None:
    pieces = [batch.slice(start, PIECE) for start in range(0, batch.num_rows, PIECE)]
    plain = Counter(topology, sketches=False)
    full = Counter(topology)
    classifier = Classifier(topology)
    cold = timed(lambda: [classifier.classify(piece) for piece in pieces])[0]
    tallies = [
        _counted(counter, some) for counter, some in ((plain, pieces), (full, pieces), (plain, [grouped(batch)]))
    ]
    sums = {tuple(sorted((o, f.messages) for o, f in tally.facts.items())) for tally in tallies}
    distinct = grouped(batch).num_rows
    table = pa.Table.from_batches([batch])

    def group() -> object:
        keys = ["exchange", "routing_key"]
        return table.group_by(keys, use_threads=False).aggregate([([], "count_all")])

    rows = [
        Contestant("read the columns", _per(batch, lambda: [_scan(piece) for piece in pieces]), "floor"),
        Contestant("classes", _per(batch, lambda: [classifier.classify(piece) for piece in pieces])),
        Contestant("tally", _per(batch, lambda: _counted(plain, pieces))),
        Contestant("tally with sketches", _per(batch, lambda: _counted(full, pieces))),
        Contestant("count first, then tally", _per(batch, lambda: _counted(plain, [grouped(batch)]))),
        Contestant("group_by", _per(batch, group), "peer", "pyarrow, exchange and key, count"),
    ]
    about = f"{batch.num_rows:,} messages, {distinct:,} exchanges and keys; {PATTERNS:,} patterns, one thread"
    show(f"audit kernel, {name}", about, run_rounds(rows, rounds))
    print(f"  first pass {batch.num_rows / cold / 1e6:.2f} million/s, {classifier.states:,} states,", end=" ")
    print(f"{len(classifier.outcomes):,} outcomes; tallies agree: {len(sums) == 1}")
    print("  million messages/s: " + ", ".join(f"{row.name} {1 / row.cost:.2f}" for row in rows if row.cost))


def _scan(piece: pa.RecordBatch) -> object:
    return [pc.sum(pc.binary_length(piece.column(name))) for name in ("exchange", "routing_key")]


def _counted(counter: Counter, pieces: list[pa.RecordBatch]) -> Tally:
    for piece in pieces:
        counter.add(piece)
    return counter.tally()


def _per(batch: pa.RecordBatch, work: Callable[[], object]) -> Callable[[], float]:
    return lambda: timed(work)[0] / batch.num_rows * 1e6
