"""Accounts of passes over an archive: records read, skipped and bad; an inspection counts exchanges and bodies, too.

They add, in any order: the sum of the inspections of all splits is the inspection of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.names import unescape
from bindings.archive.reading import Bad, Format, Item, Skipped, Split, read_split
from bindings.archive.sums import Detected, Span, Unread

COLUMNS: Final = ("time", "vhost", "exchange", "cc", "bcc", "body_size", "routed_queues")
"""The columns that an inspection reads."""


@dataclass(slots=True)
class Account:
    """The account of an archive, or of a part of it."""

    span: Span = field(default_factory=Span)
    """Number of counted records, and the times of the first and the last."""
    untimed: int = 0
    """Number of counted records without a time."""
    unread: Unread = field(default_factory=Unread)
    detected: Detected = field(default_factory=Detected)
    """Files whose formats were not known before they were read."""

    @property
    def records(self) -> int:
        """Number of records that were counted."""
        return self.span.messages

    @property
    def window(self) -> tuple[int, int] | None:
        """Times of the first and the last record; None if no record has a time."""
        return self.span.window

    @property
    def read(self) -> int:
        """Number of all records: counted, skipped and bad."""
        return self.records + self.unread.skipped_records + self.unread.bad_records

    def add(self, item: Item) -> None:
        """Count an item of a format: a batch with its column ``time``, or a skipped or bad record."""
        if isinstance(item, Skipped):
            self.unread.skipped[item.reason] += item.records
        elif isinstance(item, Bad):
            self.unread.add_bad(item)
        else:
            self._add_batch(item)

    def _add_batch(self, batch: pa.RecordBatch) -> None:
        times = batch.column("time")
        self.untimed += times.null_count
        ends = pc.min_max(times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())).as_py()
        self.span += Span(batch.num_rows, ends["min"], ends["max"])

    def __add__(self, other: object) -> Account:
        if not isinstance(other, Account):
            return NotImplemented
        return Account(
            self.span + other.span, self.untimed + other.untimed, self.unread + other.unread,
            self.detected + other.detected,
        )  # fmt: skip


@dataclass(slots=True)
class Inspection(Account):
    """An account of an archive, or of a part of it, with more counts."""

    body_bytes: int = 0
    without_size: int = 0
    with_outcome: int = 0
    """Number of records for which the archive has the queues that the broker routed them to."""
    unrouted: int = 0
    """Number of these records that the broker routed to no queue."""
    exchanges: Counter[tuple[str | None, str]] = field(default_factory=Counter)
    """Virtual host (None: unknown) and exchange -> number of records."""

    def _add_batch(self, batch: pa.RecordBatch) -> None:
        Account._add_batch(self, batch)  # no super(): a dataclass with slots is made twice
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

    def __add__(self, other: object) -> Inspection:
        if not isinstance(other, Inspection):
            return NotImplemented
        return Inspection(
            self.span + other.span,
            self.untimed + other.untimed,
            self.unread + other.unread,
            self.detected + other.detected,
            self.body_bytes + other.body_bytes,
            self.without_size + other.without_size,
            self.with_outcome + other.with_outcome,
            self.unrouted + other.unrouted,
            self.exchanges + other.exchanges,
        )


def inspect_split(form: Format, split: Split) -> Inspection:
    """Return the inspection of a split."""
    inspection = Inspection()
    for item in read_split(form, split, COLUMNS):
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
