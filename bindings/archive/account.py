"""The account of a pass over an archive: records read, skipped and bad. Accounts of parts add, in any order."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.reading import Bad, Item, Skipped
from bindings.archive.sums import Span, Unread

__all__ = ["Account"]


@dataclass(slots=True)
class Account:
    """The account of an archive, or of a part of it."""

    span: Span = field(default_factory=Span)
    """Number of counted records, and the times of the first and the last."""
    untimed: int = 0
    """Number of counted records without a time."""
    unread: Unread = field(default_factory=Unread)

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
        return Account(self.span + other.span, self.untimed + other.untimed, self.unread + other.unread)
