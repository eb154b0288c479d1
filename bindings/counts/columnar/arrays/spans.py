"""Spans per group of rows: the number of messages, and the times of the first and the last message.

A row may stand for several messages: the column ``count`` is then their number, and ``time`` and ``last`` are the times
of the first and the last of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.sums import Span

Indices = npt.NDArray[np.int64]

NEVER: Final = np.iinfo(np.int64).max
"""First time of a group without times; its last time is -NEVER."""


class Spans:
    """The spans of groups; groups are numbered from 0."""

    def __init__(self) -> None:
        self.messages = np.zeros(0, np.int64)
        self._firsts = np.zeros(0, np.int64)
        self._lasts = np.zeros(0, np.int64)

    def count(self, groups: npt.NDArray[Any], weights: npt.NDArray[np.int64] | None) -> None:
        """Add each row to its group, as one message or as ``weights`` messages.

        Exact up to 2**53 messages in one call.
        """
        if not len(groups):
            return
        more = int(groups.max()) + 1 - len(self.messages)
        if more > 0:
            self.messages = np.append(self.messages, np.zeros(more, np.int64))
            self._firsts = np.append(self._firsts, np.full(more, NEVER))
            self._lasts = np.append(self._lasts, np.full(more, -NEVER))
        self.messages += count_by_number(groups, weights, len(self.messages))

    def note_times(self, batch: pa.RecordBatch, rows: npt.NDArray[np.intp] | None, groups: npt.NDArray[Any]) -> None:
        """Extend the spans of the groups by the times of these rows; None for all rows of the batch.

        Call ``count`` with the same groups first: it makes room for new groups.
        """
        names = batch.schema.names
        if "time" not in names or not len(groups):
            return
        firsts = batch.column("time")
        lasts = batch.column("last") if "last" in names else None
        if rows is not None:
            indices = pa.array(rows)
            firsts, lasts = firsts.take(indices), None if lasts is None else lasts.take(indices)
        first = to_microseconds(firsts)
        last = first if lasts is None else to_microseconds(lasts)
        if firsts.null_count:
            known = np.asarray(pc.is_valid(firsts))
            groups, first, last = groups[known], first[known], last[known]
        np.minimum.at(self._firsts, groups, first)
        np.maximum.at(self._lasts, groups, last)

    def get_group(self, group: int) -> Span:
        """Return the span of a group."""
        return self.all().get_group(group)

    def all(self) -> SpanColumns:
        """Return the spans."""
        return SpanColumns(self.messages, self._firsts, self._lasts)


class SpanColumns(NamedTuple):
    """A span for each of many groups."""

    messages: Indices
    firsts: Indices
    """`NEVER` for a group without times, as is minus its last time."""
    lasts: Indices

    @classmethod
    def from_values(cls, spans: Iterable[Span]) -> SpanColumns:
        """Return the columns of spans."""
        listed = list(spans)
        return cls(
            np.array([each.messages for each in listed], np.int64),
            np.array([NEVER if each.first is None else each.first for each in listed], np.int64),
            np.array([-NEVER if each.last is None else each.last for each in listed], np.int64),
        )

    def get_group(self, group: int) -> Span:
        """Return the span of a group."""
        first, last = int(self.firsts[group]), int(self.lasts[group])
        messages = int(self.messages[group])
        return Span(messages) if first == NEVER else Span(messages, first, last)

    def total(self, rows: Sequence[int] | None = None) -> Span:
        """Return the sum of the spans of these groups, by default of all."""
        of = np.arange(len(self.messages)) if rows is None else np.array(rows, np.int64)
        return self.merge(of, np.zeros(len(of), np.int64), 1).get_group(0)

    def merge(self, rows: Indices, groups: Indices, number: int) -> SpanColumns:
        """Return the spans of ``number`` new groups: ``groups[n]`` adds the span of ``rows[n]``."""
        merged = SpanColumns(np.zeros(number, np.int64), np.full(number, NEVER), np.full(number, -NEVER))
        np.add.at(merged.messages, groups, self.messages[rows])
        np.minimum.at(merged.firsts, groups, self.firsts[rows])
        np.maximum.at(merged.lasts, groups, self.lasts[rows])
        return merged

    def join(self, other: SpanColumns) -> SpanColumns:
        """Return these spans, and those of more groups, numbered after them."""
        return SpanColumns(*[np.append(*both) for both in zip(self, other, strict=True)])


def count_by_number(
    numbers: npt.NDArray[Any], weights: npt.NDArray[np.int64] | None, size: int = 0
) -> npt.NDArray[np.int64]:
    """Return how often each number from 0 occurs, as an array of at least ``size`` elements; exact up to 2**53.

    With weights, np.bincount adds in float64, which is exact for integers up to 2**53.
    """
    if weights is None:
        return np.bincount(numbers, minlength=size)
    return np.bincount(numbers, weights.astype(np.float64), size).astype(np.int64)


def compute_weights(batch: pa.RecordBatch) -> npt.NDArray[np.int64] | None:
    """Return how many messages each row stands for; None if each stands for one."""
    if "count" not in batch.schema.names:
        return None
    weights: npt.NDArray[np.int64] = np.asarray(batch.column("count")).astype(np.int64)
    return weights


def to_microseconds(times: pa.Array) -> npt.NDArray[np.int64]:
    """Return times as microseconds since 1970 (UTC); a null becomes an arbitrary number."""
    plain = times.cast(pa.timestamp("us", getattr(times.type, "tz", None))).cast(pa.int64())
    return np.asarray(pc.fill_null(plain, 0))
