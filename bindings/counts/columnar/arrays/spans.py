"""How many messages there are in each of many groups of rows, and the times of the first and the last of them.

Rows may stand for several messages: then they have a column ``count``, and ``time`` and ``last`` are the times of the
first and the last of them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.sums import Span

__all__ = ["Spans", "counted", "microseconds", "weights_of"]

NEVER: Final = np.iinfo(np.int64).max


class Spans:
    """Of groups, which are numbered from 0 on."""

    def __init__(self) -> None:
        self.messages = np.zeros(0, np.int64)
        self._firsts = np.zeros(0, np.int64)
        self._lasts = np.zeros(0, np.int64)

    def count(self, groups: npt.NDArray[Any], weights: npt.NDArray[np.int64] | None) -> None:
        """Count rows, each once or with its weight; exact up to 2 to the 53rd in one call."""
        if not len(groups):
            return
        more = int(groups.max()) + 1 - len(self.messages)
        if more > 0:
            self.messages = np.append(self.messages, np.zeros(more, np.int64))
            self._firsts = np.append(self._firsts, np.full(more, NEVER))
            self._lasts = np.append(self._lasts, np.full(more, -NEVER))
        self.messages += counted(groups, weights, len(self.messages))

    def see(self, batch: pa.RecordBatch, rows: npt.NDArray[np.intp] | None, groups: npt.NDArray[Any]) -> None:
        """Note the times of rows that were counted, None for all."""
        names = batch.schema.names
        if "time" not in names or not len(groups):
            return
        firsts = batch.column("time")
        lasts = batch.column("last") if "last" in names else None
        if rows is not None:
            places = pa.array(rows)
            firsts, lasts = firsts.take(places), None if lasts is None else lasts.take(places)
        first = microseconds(firsts)
        last = first if lasts is None else microseconds(lasts)
        if firsts.null_count:
            there = np.asarray(pc.is_valid(firsts))
            groups, first, last = groups[there], first[there], last[there]
        np.minimum.at(self._firsts, groups, first)
        np.maximum.at(self._lasts, groups, last)

    def of(self, group: int) -> Span:
        """Return the span of a group."""
        first, last = int(self._firsts[group]), int(self._lasts[group])
        messages = int(self.messages[group])
        return Span(messages) if first == NEVER else Span(messages, first, last)


def counted(places: npt.NDArray[Any], weights: npt.NDArray[np.int64] | None, size: int = 0) -> npt.NDArray[np.int64]:
    """How many there are of each number, at least so many numbers; exact up to 2 to the 53rd."""
    if weights is None:
        return np.bincount(places, minlength=size)
    return np.bincount(places, weights.astype(np.float64), size).astype(np.int64)


def weights_of(batch: pa.RecordBatch) -> npt.NDArray[np.int64] | None:
    """How many messages each row stands for; None where each is one."""
    if "count" not in batch.schema.names:
        return None
    found: npt.NDArray[np.int64] = np.asarray(batch.column("count")).astype(np.int64)
    return found


def microseconds(times: pa.Array) -> npt.NDArray[np.int64]:
    """The times; nulls are some number."""
    plain = times.cast(pa.timestamp("us", getattr(times.type, "tz", None))).cast(pa.int64())
    return np.asarray(pc.fill_null(plain, 0))
