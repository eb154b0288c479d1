"""Messages by the hour, by the exchange they were published to, and by whether a queue gets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bindings.batch.spans import counted, microseconds
from bindings.batch.table import IntArray
from bindings.outcome import Outcome
from bindings.tally import HOUR
from exchange.errors import InputError

__all__ = ["Timeline"]

NEAR: Final = 1_000
"""Hours that lie within so many are counted without sorting."""


class Timeline:
    """Counts rows of batches."""

    def __init__(self) -> None:
        self.counts: Final[dict[tuple[int, str, bool | None], int]] = {}
        """An hour since 1970, an exchange, whether a queue gets them -> messages."""

    def add(
        self,
        batch: pa.RecordBatch,
        classes: IntArray,
        weights: npt.NDArray[np.int64] | None,
        outcomes: Sequence[Outcome],
    ) -> None:
        """Count the rows that have a time. Raises InputError where a row stands for messages of different hours."""
        if "time" not in batch.schema.names:
            return
        times = batch.column("time")
        hours = microseconds(times) // HOUR
        if times.null_count:
            there = np.asarray(pc.is_valid(times))
            hours, classes = hours[there], classes[there]
            weights = None if weights is None else weights[there]
        if not len(hours):
            return
        if "last" in batch.schema.names:
            lasts = microseconds(batch.column("last"))[np.asarray(pc.is_valid(times))] // HOUR
            if (lasts != hours).any():
                raise InputError("messages of different hours were counted together, so a timeline cannot be told")
        begin, number = int(hours.min()), len(outcomes)
        places = (hours - begin) * number + classes
        if int(hours.max()) - begin < NEAR:
            counts = counted(places, weights)
            distinct = np.flatnonzero(counts)
            counts = counts[distinct]
        else:
            distinct, which = np.unique(places, return_inverse=True)
            counts = counted(which, weights)
        for place, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            outcome = outcomes[place % number]
            key = (begin + place // number, outcome.exchange, outcome.routed)
            self.counts[key] = self.counts.get(key, 0) + count
