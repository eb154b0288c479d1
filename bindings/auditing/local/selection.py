"""Select the records of an archive to audit: those of one virtual host, in one window of time.

Records that are left out are counted, with the reason. A record with an unknown virtual host is selected, since
archives of a single virtual host often do not name it; a record without a time is outside every window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.names import escape
from exchange.errors import InputError
from exchange.text.numbers import explain_empty_range

OTHER_VHOST: Final = "in another virtual host"
OUTSIDE: Final = "outside the window of time"
UNTIMED: Final = "without a time, which a window asks for"


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects the records of an archive to audit; by default all. Raises InputError for a window that is empty.

    Without ``vhost``, records of all virtual hosts are selected, as by ``--archive-vhost '*'``: with a window, give the
    topology's own, which `bindings.audit` selects if it gets no selection, and the command beside ``--since``.

    >>> third = Selection("/shop", since=1_793_664_000_000_000)  # 2026-11-03
    >>> report = audit("examples/orders/orders.bindings", "examples/orders/traffic.jsonl", selection=third)
    >>> report.audited.records.counted
    13
    """

    vhost: str | None = None
    since: int | None = None
    """Time of the earliest selected record, in microseconds since 1970, UTC (inclusive)."""
    until: int | None = None
    """Time before which records are selected, in microseconds since 1970, UTC (exclusive)."""

    def __post_init__(self) -> None:
        if (problem := explain_empty_range(self.since, self.until, "since")) is not None:
            raise InputError(f"until: {problem}")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of `bindings.archive.record.SCHEMA` that the selection reads."""
        return (*(("vhost",) if self.vhost is not None else ()), *(("time",) if self.timed else ()))

    @property
    def timed(self) -> bool:
        """Whether there is a window of time."""
        return self.since is not None or self.until is not None

    def apply(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, int]]:
        """Return the selected rows of a batch, and reason -> number of rows that it excluded."""
        left_out: dict[str, int] = {}
        if self.vhost is not None:
            batch = _without(batch, pc.not_equal(batch.column("vhost"), escape(self.vhost)), OTHER_VHOST, left_out)
        if self.timed:
            batch = _without(batch, batch.column("time").is_null(), UNTIMED, left_out)
            times = batch.column("time").cast(pa.int64())
            if self.since is not None:
                batch = _without(batch, pc.less(times, self.since), OUTSIDE, left_out)
                times = batch.column("time").cast(pa.int64())
            if self.until is not None:
                batch = _without(batch, pc.greater_equal(times, self.until), OUTSIDE, left_out)
        return batch, left_out


EVERYTHING: Final = Selection()


def _without(batch: pa.RecordBatch, excluded: pa.Array, reason: str, left_out: dict[str, int]) -> pa.RecordBatch:
    """Return the rows that are not excluded, and count the excluded ones; a null does not exclude its row."""
    count = pc.sum(excluded).as_py()
    if not count:
        return batch
    left_out[reason] = left_out.get(reason, 0) + count
    return batch.filter(pc.invert(pc.fill_null(excluded, False)))
