"""Run a bridge between two archives: a day's messages go through a topology into an archive by partition."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Final

import click
import pyarrow.parquet as pq

import bridge

CONFIG: Final = Path(__file__).with_name("bridge.toml")
WIDTH: Final = 32
"""Length of the longest bar, in characters."""


def replay(day: Path, into: Path) -> None:
    """Run the bridge of bridge.toml from one archive into a new one, and print the number of messages by partition."""
    shutil.rmtree(into, ignore_errors=True)
    config = bridge.read_config(CONFIG, {"DEMO_ARCHIVE": str(day.resolve()), "DEMO_INTO": str(into.resolve())})
    started = perf_counter()
    if not asyncio.run(bridge.run(config, handle_signals=True)):
        sys.exit(1)
    seconds = perf_counter() - started
    written: Counter[str] = Counter()
    for path in into.rglob("*.parquet"):
        written[_partition_of(path.relative_to(into))] += pq.read_metadata(path).num_rows
    click.echo(f"Replayed {written.total():,} messages of {day.name.partition('.')[0]} in {seconds:.1f} s:\n")
    width, most = max(map(len, written), default=0), max(written.values(), default=0)
    for partition, count in sorted(written.items()):
        click.echo(f"  {partition:{width}} {'█' * (count * WIDTH // most):{WIDTH}} {count:>7,}")


def _partition_of(path: Path) -> str:
    """Return the queue and partition of a file, or ``dead-letters``."""
    parts = [part.removeprefix("queue=").replace("=", " ") for part in path.parts[:-1] if not part.startswith("day=")]
    return ", ".join(parts)
