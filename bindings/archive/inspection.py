"""The inspection of an archive: records by exchange, the window of time, bad records and why they are bad.

Inspections add: the sum of the inspections of all splits is the inspection of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.names import unescape
from bindings.archive.reading import Bad, Format, Item, Skipped, Split

__all__ = ["COLUMNS", "OTHER", "REASONS", "SAMPLES", "Inspection", "inspect_split", "inspect_splits"]

COLUMNS: Final = ("time", "vhost", "exchange", "cc", "bcc", "body_size", "routed_queues")
"""The columns that an inspection reads."""
REASONS: Final = 100
"""Maximum number of reasons that are counted one by one, as some reasons quote the wrong value."""
OTHER: Final = "other reasons"
SAMPLES: Final = 3
"""Maximum number of bad records of a reason that are kept as samples."""


@dataclass(slots=True)
class Inspection:
    """The counts of an archive or of a part of it."""

    records: int = 0
    first: int | None = None
    """Microseconds since 1970, UTC, of the earliest record that has a time."""
    last: int | None = None
    without_time: int = 0
    body_bytes: int = 0
    without_size: int = 0
    with_outcome: int = 0
    """Number of records for which the archive has the queues that the broker routed them to."""
    unrouted: int = 0
    """Number of these records that the broker routed to no queue."""
    exchanges: Counter[tuple[str | None, str]] = field(default_factory=Counter)
    """Virtual host (None: unknown) and exchange -> number of records."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Reason -> number of records that are no publishings."""
    bad: Counter[str] = field(default_factory=Counter)
    """Reason -> number of records that could not be read."""
    samples: dict[str, list[Bad]] = field(default_factory=dict)
    """Reason -> the first bad records with it."""

    def add(self, item: Item) -> None:
        """Count an item that a format yielded."""
        if isinstance(item, Skipped):
            self.skipped[item.reason] += item.records
        elif isinstance(item, Bad):
            reason = item.reason if item.reason in self.bad or len(self.bad) < REASONS else OTHER
            self.bad[reason] += 1
            kept = self.samples.setdefault(reason, [])
            if len(kept) < SAMPLES:
                kept.append(item)
        else:
            self._count(item)

    def _count(self, batch: pa.RecordBatch) -> None:
        times = batch.column("time")
        self.records += batch.num_rows
        self.without_time += times.null_count
        if times.null_count < len(times):
            ends = pc.min_max(times.cast(pa.int64())).as_py()
            self._widen(ends["min"], ends["max"])
        sizes = batch.column("body_size")
        self.without_size += sizes.null_count
        self.body_bytes += pc.sum(sizes).as_py() or 0
        outcomes = batch.column("routed_queues")
        self.with_outcome += len(outcomes) - outcomes.null_count
        self.unrouted += pc.sum(pc.equal(pc.list_value_length(outcomes), 0)).as_py() or 0
        pairs = pa.Table.from_arrays([batch.column("vhost"), batch.column("exchange")], ["vhost", "exchange"])
        for row in pairs.group_by(["vhost", "exchange"], use_threads=False).aggregate([([], "count_all")]).to_pylist():
            vhost = row["vhost"]
            name = None if vhost is None else unescape(vhost), unescape(row["exchange"])
            self.exchanges[name] += row["count_all"]

    def _widen(self, first: int | None, last: int | None) -> None:
        if first is not None and (self.first is None or first < self.first):
            self.first = first
        if last is not None and (self.last is None or last > self.last):
            self.last = last

    def __add__(self, other: Inspection) -> Inspection:
        both = Inspection(
            records=self.records + other.records,
            first=self.first,
            last=self.last,
            without_time=self.without_time + other.without_time,
            body_bytes=self.body_bytes + other.body_bytes,
            without_size=self.without_size + other.without_size,
            with_outcome=self.with_outcome + other.with_outcome,
            unrouted=self.unrouted + other.unrouted,
            exchanges=self.exchanges + other.exchanges,
            skipped=self.skipped + other.skipped,
            bad=Counter(self.bad),
            samples={reason: list(samples) for reason, samples in self.samples.items()},
        )
        both._widen(other.first, other.last)
        for reason, samples in other.samples.items():
            name = reason if reason in both.bad or len(both.bad) < REASONS else OTHER
            both.bad[name] += other.bad[reason]
            both.samples[name] = [*both.samples.get(name, []), *samples][:SAMPLES]
        return both

    @property
    def bad_records(self) -> int:
        """Number of records that could not be read."""
        return self.bad.total()

    @property
    def skipped_records(self) -> int:
        """Number of records that are no publishings."""
        return self.skipped.total()


def inspect_split(form: Format, split: Split) -> Inspection:
    """Return the inspection of a split."""
    inspection = Inspection()
    for item in form.read(split, COLUMNS):
        inspection.add(item)
    return inspection


def inspect_splits(
    splits: Sequence[tuple[Format, Split]], step: Callable[[int, int], None] = lambda done, total: None
) -> Inspection:
    """Return the inspection of many splits; ``step`` is called with the numbers of splits read and to read."""
    total = Inspection()
    for number, (form, split) in enumerate(splits):
        step(number, len(splits))
        total += inspect_split(form, split)
    return total
