"""The traffic of an upgrade: messages of an archive compared under two releases, beside the audit under one.

Both read the same Parquet files in this process, on one core. ``hashstar upgrade --archive`` compares; ``hashstar
audit --compare-profile`` audits and compares in one pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.audit_archive import PATTERNS, headers_topology, keys_topology, write_archive
from benchmarks.measure import Contestant, run_rounds, show, time_call
from bindings.archive.formats.detect import Archive, detect
from bindings.auditing.local.run import run_here
from bindings.auditing.local.studies import CompareStudy, CoverageStudy
from bindings.auditing.local.study import Study
from exchange.topology.topology import Topology

OLD, NEW = "rabbitmq-3.12", "rabbitmq-4.3"


def upgrade(quick: bool) -> None:
    """50,000 keys by Zipf's law, millions of keys, and bindings that ask for headers."""
    messages = 500_000 if quick else 5_000_000
    rounds = 3 if quick else 5
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hashstar" / "benchmarks"
    for name, archive, topology in (
        ("50,000 keys", "few", keys_topology()),
        ("keys that come once or a few times", "many", keys_topology()),
        ("50,000 keys, headers exchanges", "few", headers_topology()),
    ):
        _show(name, detect(str(write_archive(folder, archive, messages))), topology, messages, rounds)


def _show(name: str, archive: Archive, topology: Topology, messages: int, rounds: int) -> None:
    old, new = topology.with_profile(OLD), topology.with_profile(NEW)
    coverage, comparison = CoverageStudy(old), CompareStudy(old, new)
    [compared] = run_here(archive, [comparison]).values
    rows = [
        Contestant("audit", _counting(archive, [coverage], messages), "peer", "one release"),
        Contestant("compare", _counting(archive, [comparison], messages), note="two releases"),
        Contestant("audit and compare", _counting(archive, [coverage, comparison], messages), note="both at once"),
    ]
    about = f"{messages:,} messages, {PATTERNS:,} bindings, {OLD} and {NEW}, one core; {compared.same:,} stay"
    show(f"upgrade, {name}", about, run_rounds(rows, rounds))
    alone, *others = [row.cost or 0.0 for row in rows]
    speeds = [f"{row.name} {alone / cost:.2f}" for row, cost in zip(rows[1:], others, strict=True)]
    print(f"  speed, where that of the audit is 1: {', '.join(speeds)}")


def _counting(archive: Archive, studies: Sequence[Study[Any]], messages: int) -> Callable[[], float]:
    return lambda: time_call(lambda: run_here(archive, studies))[0] / messages * 1e6
