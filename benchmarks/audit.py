"""The audit on Spark beside Spark's own ``groupBy(exchange, routing_key).count()``, in one session, by turns.

What is counted against it is the whole audit: the tally with all its summaries and times, added up in this process. The
groupBy reads two columns of the same files and throws its result away. Seconds are of the clock, as both use all cores
of the session; those of the processors, which other programs' work disturbs less, are told below each table.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

from benchmarks.audit_archive import PATTERNS, headers_topology, keys_topology, write_archive
from benchmarks.measure import Contestant, processor_seconds, resident_mb, run_rounds, show
from bindings.archive.formats.detect import detect
from bindings.auditing.local.studies import CoverageStudy
from bindings.auditing.spark.job import run
from bindings.auditing.spark.session import open_session
from exchange.topology.topology import Topology

CORES: Final = 2
SETTINGS: Final = {"spark.sql.files.maxPartitionBytes": "32m", "spark.sql.shuffle.partitions": "8"}
"""Settings with which the groupBy is fastest: all cores are busy until the end."""


def audit(quick: bool) -> None:
    """50,000 keys by Zipf's law, millions of keys, and bindings that ask for headers."""
    messages = 500_000 if quick else 10_000_000
    rounds = 3 if quick else 5
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hashstar" / "benchmarks"
    memory = []
    with open_session(f"local[{CORES}]", conf=SETTINGS) as spark:
        for name, archive, topology in (
            ("50,000 keys", "few", keys_topology()),
            ("keys that come once or a few times", "many", keys_topology()),
            ("50,000 keys, headers exchanges", "few", headers_topology()),
        ):
            _show(spark, name, write_archive(folder, archive, messages), topology, messages, rounds)
            memory.append((name, resident_mb(), _heap_mb(spark)))
    print("\naudit, memory of the driver in MB after each: this process, heap of its JVM in use")
    for name, process, heap in memory:
        print(f"  {name:<40}{process:>10,.0f}{heap:>10,.0f}")


def _show(spark: Any, name: str, path: Path, topology: Topology, messages: int, rounds: int) -> None:
    archive = detect(str(path))
    study = CoverageStudy(topology)
    files = spark.read.option("recursiveFileLookup", "true").parquet(str(path))
    keys = files.select("exchange", "routing_key").distinct().count()
    cpu: dict[str, list[float]] = {"audit": [], "groupBy": []}

    def group() -> None:
        files.groupBy("exchange", "routing_key").count().write.format("noop").mode("overwrite").save()

    def count() -> None:
        (tally,) = run(spark, archive, [study]).values
        assert tally.messages == messages

    cold = _seconds(count)[0]

    def measured(which: str, work: Callable[[], None]) -> Callable[[], float]:
        def measure() -> float:
            seconds, of_processors = _seconds(work)
            cpu[which].append(of_processors)
            return seconds / messages * 1e6

        return measure

    rows = [
        Contestant("groupBy", measured("groupBy", group), "floor", "Spark, exchange and key, count, no output"),
        Contestant("audit", measured("audit", count)),
    ]
    about = f"{messages:,} messages, {keys:,} exchanges and keys; {PATTERNS:,} bindings, {CORES} cores"
    show(f"audit, {name}", about, run_rounds(rows, rounds))
    texts = {row.name: f"{row.name} {row.cost * messages / 1e6:.2f} s" for row in rows if row.cost}
    spent = {which: median(seconds) for which, seconds in cpu.items()}
    print(f"  {', '.join(texts.values())}; first audit, with what workers learn: {cold:.2f} s")
    print("  processors: " + ", ".join(f"{which} {seconds:.2f} s" for which, seconds in spent.items()), end="")
    print(f", x {spent['audit'] / spent['groupBy']:.2f}" if spent["groupBy"] else "")


def _seconds(work: Callable[[], None]) -> tuple[float, float]:
    """Return seconds of the clock, and of the processors for this process and its children where known."""
    before, start = processor_seconds(os.getpid()), perf_counter()
    work()
    return perf_counter() - start, processor_seconds(os.getpid()) - before


def _heap_mb(spark: Any) -> float:
    gc.collect()
    runtime = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
    runtime.gc()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 1e6
