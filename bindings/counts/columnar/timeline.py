"""Count messages per slot of time, exchange of publication, and whether a queue gets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.counts.columnar.arrays.spans import count_by_number, to_microseconds
from bindings.counts.outcome import Outcome
from bindings.counts.slots import WIDTHS, SlotCounts, choose_width
from exchange.arrays.table import IntArray
from exchange.errors import InputError

DENSE: Final = 1 << 18
"""Maximum number of possible cells for which one array element each is reserved; with more, cells are sorted."""

PENDING: Final = 1 << 18
"""Maximum number of cells that wait to be summed up; they take some megabytes."""


class _Cells(NamedTuple):
    """Counts per slot and group, as three parallel columns."""

    width: int
    slots: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


class TimelineCounter:
    """Counts rows of batches per cell: a pair of slot and group.

    A group is a pair of an exchange and whether a queue gets the messages; there are far fewer groups than outcomes.
    Cells are kept as columns and summed up for many batches at once, because a Python loop over the cells of every
    batch would take as long as all other work.
    """

    def __init__(self) -> None:
        self._width = WIDTHS[0]
        self._window: tuple[int, int] | None = None
        self._pending: list[_Cells] = []
        self._waiting = 0
        self._numbers: dict[tuple[str, bool | None], int] = {}
        self._group_of = np.zeros(0, np.int64)
        """Number of an outcome -> number of its group."""

    def add(
        self,
        batch: pa.RecordBatch,
        classes: IntArray,
        weights: npt.NDArray[np.int64] | None,
        outcomes: Sequence[Outcome],
    ) -> None:
        """Count the rows that have a time.

        If a row stands for several messages, slots become wide enough to hold its first and last message in one slot.
        Raises InputError if no width is wide enough.
        """
        if "time" not in batch.schema.names:
            return
        times = batch.column("time")
        lasts = batch.column("last") if "last" in batch.schema.names else None
        firsts = to_microseconds(times)
        ends = firsts if lasts is None else to_microseconds(lasts)
        if times.null_count:
            known = np.asarray(pc.is_valid(times))
            firsts, ends, classes = firsts[known], ends[known], classes[known]
            weights = None if weights is None else weights[known]
        if not len(firsts):
            return
        begin, end = int(firsts.min()), int(ends.max())
        if self._window is not None:
            begin, end = min(begin, self._window[0]), max(end, self._window[1])
        self._window = (begin, end)
        self._width = choose_width(begin, end, self._width)
        slots = firsts // self._width
        while lasts is not None and (slots != ends // self._width).any():
            self._width = _wider(self._width)
            slots = firsts // self._width
        cells = self._sum(slots, self._groups(classes, outcomes), weights)
        self._pending.append(cells)
        self._waiting += len(cells.slots)
        if self._waiting > PENDING:
            self._sum_up()

    def result(self) -> SlotCounts:
        """Return the counts per slot, exchange and whether a queue gets the messages."""
        if not self._pending:
            return SlotCounts()
        cells = self._sum_up()
        groups = list(self._numbers)
        columns = zip(cells.slots.tolist(), cells.groups.tolist(), cells.counts.tolist(), strict=True)
        return SlotCounts(cells.width, {(slot, *groups[group]): count for slot, group, count in columns})

    def _groups(self, classes: IntArray, outcomes: Sequence[Outcome]) -> npt.NDArray[np.int64]:
        """Return the group of each row; of all rows at once, if there is only one."""
        known = len(self._group_of)
        if known < len(outcomes):
            numbers = self._numbers
            new = [numbers.setdefault((each.exchange, each.routed), len(numbers)) for each in outcomes[known:]]
            self._group_of = np.append(self._group_of, np.array(new, np.int64))
        return self._group_of[classes] if len(self._numbers) > 1 else np.zeros(1, np.int64)

    def _sum(
        self, slots: npt.NDArray[np.int64], groups: npt.NDArray[np.int64], weights: npt.NDArray[np.int64] | None
    ) -> _Cells:
        """Return the cells with messages, each once; ``slots`` are of the present width."""
        begin, number = int(slots.min()), len(self._numbers)
        codes = (slots - begin) * number + groups
        if (int(slots.max()) - begin + 1) * number <= DENSE:
            counts = count_by_number(codes, weights)
            distinct = np.flatnonzero(counts)
            counts = counts[distinct]
        else:
            distinct, which = np.unique(codes, return_inverse=True)
            counts = count_by_number(which, weights)
        return _Cells(self._width, distinct // number + begin, distinct % number, counts)

    def _sum_up(self) -> _Cells:
        """Merge the waiting cells into one ``_Cells`` of the present width."""
        slots = np.concatenate([cells.slots // (self._width // cells.width) for cells in self._pending])
        groups = np.concatenate([cells.groups for cells in self._pending])
        cells = self._sum(slots, groups, np.concatenate([cells.counts for cells in self._pending]))
        # The merged cells do not count as waiting: if they were more than PENDING, every batch would merge again.
        self._pending, self._waiting = [cells], 0
        return cells


def _wider(width: int) -> int:
    """Return the next greater slot width. Raises InputError if there is none."""
    wider = next((each for each in WIDTHS if each > width), None)
    if wider is None:
        raise InputError("messages of very different times were counted together, so they have no place in a timeline")
    return wider
