"""Join small batches into larger ones, so that the fixed cost per batch is paid for many rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

__all__ = ["BatchCollector"]


class BatchCollector:
    """Collects batches until they have ``rows`` rows together, and keeps only the given columns."""

    def __init__(self, columns: Sequence[str], rows: int) -> None:
        self._columns: Final = columns
        self._enough: Final = rows
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Take a batch, and return the joined batches that are ready: none, one, or two with different schemas.

        A batch with another schema than the waiting ones ends their window early, since they cannot be joined.
        """
        part = batch.select([name for name in batch.schema.names if name in self._columns])
        ready = self.take_rest() if self._batches and part.schema != self._batches[0].schema else []
        self._batches.append(part)
        self._rows += part.num_rows
        return [*ready, *self.take_rest()] if self._rows >= self._enough else ready

    def take_rest(self) -> list[pa.RecordBatch]:
        """Return the waiting batches, joined into one; an empty list if no rows wait."""
        batches, rows = self._batches, self._rows
        self._batches, self._rows = [], 0
        if not rows:
            return []
        if len(batches) == 1:
            return batches
        whole = pa.Table.from_batches(batches).combine_chunks()
        columns = [column.chunk(0) for column in whole.columns]
        return [pa.RecordBatch.from_arrays(columns, schema=whole.schema)]
