"""Many outcomes: 1,000 dense patterns, of which nearly every key matches another set, beside what groups the same rows.

The peers count how often each exchange and key occurs, with its first and its last time, on all cores: the least that
anybody would do. The audit counts on one core, groups keys of the next messages on another, and has the report, too:
of queues and bindings, with distinct keys, a sample and the most frequent keys. All in seconds of the wall's clock; a
busy machine shows in all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import Contestant, run_rounds, show
from benchmarks.workloads import EXCHANGE, SEED, dense_1k
from bindings.counts.columnar.counting import Tallier
from bindings.report.build import Sources, build_report
from exchange import Binding, Exchange, Queue, Topology

PIECE = 1 << 17
"""Rows of a batch."""


def dense_outcomes(quick: bool) -> None:
    """Few keys that come often, over ten queues; many keys, each binding with a queue of its own."""
    rounds = 1 if quick else 3
    for keys, messages, queues in ((50_000, 10_000_000, 10), (400_000, 10_000_000, 1_000)):
        _show(keys, messages // 20 if quick else messages, queues, rounds)


def _show(keys: int, messages: int, queues: int, rounds: int) -> None:
    workload = dense_1k(keys)
    bindings = [Binding.to_queue(EXCHANGE, f"q{n % queues}", pattern) for n, pattern in enumerate(workload.patterns)]
    topology = Topology([Exchange(EXCHANGE, "topic")], [Queue(f"q{n}") for n in range(queues)], bindings)
    generator = np.random.default_rng(SEED)
    drawn = pa.array(workload.keys).take(pa.array(generator.integers(0, len(workload.keys), messages)))
    times = pa.array(np.sort(generator.integers(0, 10**12, messages)), pa.timestamp("us", "UTC"))
    exchanges = pa.array([EXCHANGE] * messages)
    table = pa.table({"exchange": exchanges, "routing_key": drawn, "time": times}).combine_chunks()
    found: list[int] = []

    def audit() -> None:
        counter = Tallier(topology)
        for batch in table.to_batches(PIECE):
            counter.add(batch)
        tally = counter.result()
        build_report(topology, tally, Sources("dense"), 0)
        found[:] = [len(tally.facts)]

    rows = [
        Contestant("tally and report", _seconds(audit)),
        Contestant("DuckDB", _seconds(lambda: _group_with_duckdb(table)), "peer", "group by, count, min, max"),
        Contestant("Polars", _seconds(lambda: _group_with_polars(table)), "peer", "group by, count, min, max"),
    ]
    name = f"dense outcomes, {keys:,} keys, {queues:,} queues"
    show(name, f"{messages:,} messages; microseconds of a run", run_rounds(rows, rounds))
    print(f"  {found[0]:,} outcomes; {messages / (rows[0].cost or 1):.2f} million messages/s")


def _seconds(work: Callable[[], Any]) -> Callable[[], float]:
    def measure() -> float:
        start = time.perf_counter()
        work()
        return (time.perf_counter() - start) * 1e6

    return measure


def _group_with_duckdb(messages: pa.Table) -> Any:
    import duckdb

    grouped: Any = duckdb.sql(
        "select exchange, routing_key, count(*), min(time), max(time) from messages group by exchange, routing_key"
    )
    return grouped.to_arrow_table()


def _group_with_polars(messages: pa.Table) -> Any:
    import polars as pl

    frame: Any = pl.from_arrow(messages)
    time_of = pl.col("time")
    return frame.group_by("exchange", "routing_key").agg(pl.len(), time_of.min().alias("a"), time_of.max().alias("b"))
