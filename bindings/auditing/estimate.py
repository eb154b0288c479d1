"""Estimate what an audit would take, before it is run: a part of the archive is counted, drawn from all of it.

Nothing but a run of the same studies shows what a topology costs with these keys and headers on this machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from bindings.archive.formats.detect import Archive
from bindings.auditing.engine import sum_sizes, write_size
from bindings.auditing.local.run import require_records, run_here
from bindings.auditing.local.selection import Selection
from bindings.auditing.local.study import Study
from exchange.text.display import count_noun
from exchange.values.documents import document

SAMPLE_BYTES: Final = 32 << 20
"""Size of the sample in bytes, as files have them; a single part of an archive may be larger."""


@document("EstimateJson", "version = 1, files, size, share, read, seconds, jobs, records, core_hours, hours")
class Estimate(NamedTuple):
    """What an audit would read, and how long."""

    files: int
    """Number of files."""
    size: int
    """Size of all files in bytes."""
    share: float
    """Share of the bytes that was read for the estimate; 1 for all."""
    read: int
    """Number of records that were read."""
    seconds: float
    """Processor time that reading and counting them took."""
    jobs: int | None
    """Number of processes that would count; None if Spark would."""

    @property
    def records(self) -> int:
        """Number of records of the whole archive."""
        return round(self.read / self.share)

    @property
    def core_hours(self) -> float:
        """Processor time of the whole audit."""
        return self.seconds / self.share / 3_600

    @property
    def hours(self) -> float | None:
        """Duration of the whole audit, if each process has a core; None if Spark would count."""
        return None if self.jobs is None else self.core_hours / self.jobs


def to_lines(estimate: Estimate) -> Iterator[str]:
    """Yield what a user reads."""
    percent = estimate.share * 100
    drawn = "all of it" if percent == 100 else f"{percent:{'.2g' if percent < 10 else '.0f'}} % of it, drawn by chance"
    took = f"{count_noun(estimate.read, 'record')}, {estimate.seconds:.1f} s of processor time"
    yield f"archive  {count_noun(estimate.files, 'file')}, {write_size(estimate.size)}"
    yield f"read     {drawn}: {took}"
    yield f"audit    about {count_noun(estimate.records, 'record')}, {_describe_time(estimate)}"


def _describe_time(estimate: Estimate) -> str:
    if estimate.jobs is None or estimate.hours is None:
        return f"{_write_hours(estimate.core_hours)} of processor time, by Spark"
    who = "this process" if estimate.jobs == 1 else f"{estimate.jobs} processes with a core each"
    return f"{_write_hours(estimate.core_hours)} of processor time: {_write_hours(estimate.hours)} for {who}"


def _write_hours(hours: float) -> str:
    if hours < 1 / 60:
        return f"{hours * 3_600:.1f} seconds"
    return f"{hours * 60:.1f} minutes" if hours < 1 else f"{hours:,.1f} hours"


def estimate_audit(
    archive: Archive, studies: Sequence[Study[Any]], selection: Selection, jobs: int | None = 1
) -> Estimate:
    """Count a part of an archive in this process. Raises InputError as `bindings.auditing.local.run.run_here`."""
    starts: list[float] = []  # the first, after tasks are planned: that is done once, whatever is drawn
    passed = run_here(
        archive, studies, selection, most_bytes=SAMPLE_BYTES, may_be_empty=True,
        step=lambda *_: starts.append(time.process_time()),
    )  # fmt: skip
    seconds = time.process_time() - starts[0]
    if passed.share == 1:
        require_records(archive, passed.account)  # of a part, all may be outside of the window
    return Estimate(len(archive.all_files), sum_sizes(archive), passed.share, passed.account.read, seconds, jobs)
