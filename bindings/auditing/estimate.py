"""Estimate what an audit would take, before it is run: a part of the archive is counted, drawn from all of it.

Nothing but a run of the same studies shows what a topology costs with these keys and headers on this machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from bindings.archive.formats.detect import Archive
from bindings.auditing.engine import sum_sizes, write_size
from bindings.auditing.local.run import run_here
from bindings.auditing.local.selection import Selection
from bindings.auditing.local.study import Study
from exchange.text.display import count_noun

__all__ = ["Estimate", "estimate_audit"]

SAMPLE_BYTES: Final = 32 << 20
"""Size of the sample in bytes, as files have them; a single part of an archive may be larger."""


class Estimate(NamedTuple):
    """What an audit would read, and how long."""

    files: int
    size: int
    """Size of all files in bytes."""
    share: float
    """Share of the bytes that was read for the estimate; 1 for all."""
    records: int
    """Number of records that were read."""
    seconds: float
    """Processor time that reading and counting them took."""

    @property
    def core_hours(self) -> float:
        """Processor time of the whole audit."""
        return self.seconds / self.share / 3_600

    def lines(self, jobs: int) -> Iterator[str]:
        """Yield what a user reads; ``jobs`` is the number of processes that would count."""
        yield f"archive  {count_noun(self.files, 'file')}, {write_size(self.size)}"
        drawn = "all of it" if self.share == 1 else f"{self.share * 100:.2g} % of it, drawn by chance"
        yield f"read     {drawn}: {count_noun(self.records, 'record')}, {self.seconds:.1f} s of processor time"
        records = count_noun(round(self.records / self.share), "record")
        who = "this process" if jobs == 1 else f"{jobs} processes with a core each"
        minutes = self.core_hours * 60 / jobs
        yield f"audit    about {records}, {self.core_hours:.2g} core hours: {minutes:.2g} minutes for {who}"


def estimate_audit(archive: Archive, studies: Sequence[Study[Any]], selection: Selection) -> Estimate:
    """Count a part of an archive in this process. Raises InputError as `bindings.auditing.local.run.run_here`."""
    start = time.process_time()
    passed = run_here(archive, studies, selection, most_bytes=SAMPLE_BYTES)
    seconds = time.process_time() - start
    return Estimate(len(archive.all_files), sum_sizes(archive), passed.share, passed.account.read, seconds)
