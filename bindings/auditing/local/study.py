"""Define studies: what a pass over an archive counts.

A `Study` is a small value that contains the topologies; it is pickled and sent to the process that reads the records.
There it creates a `Counting`, a counter that caches the classes of keys and is kept from task to task. The values that
it counts add, so the parts of an archive may be counted in any process and in any order.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import pyarrow as pa

from bindings.archive.inspection import Account


class Additive(Protocol):
    """A value with a commutative and associative ``+``."""

    def __add__(self, other: Any, /) -> Any: ...


V = TypeVar("V", bound=Additive)
V_co = TypeVar("V_co", bound=Additive, covariant=True)


class Counting(Protocol[V_co]):
    """Counts records, batch after batch; for one thread only."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of `bindings.archive.record.SCHEMA` that it reads."""

    @property
    def by_key(self) -> bool:
        """Whether messages of one slot of time with the same exchange, key, CC and BCC may be given as one row.

        Such a row has the columns ``count``, ``time`` (of its first message) and ``last`` (time of its last message).
        """

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the records of a batch that has at least ``columns``, in any order."""

    def result(self) -> V_co:
        """Return the counts of the batches added since the last call, and begin again at zero."""


class Study(Protocol[V]):
    """Something that a pass counts: a frozen value that can be pickled."""

    def counter(self) -> Counting[V]:
        """Return a new counter."""

    def zero(self) -> V:
        """Return the value of no records."""

    def table_of(self, value: V) -> pa.Table:
        """Encode a value as a table, to send it to another process or save it."""

    def value_of(self, table: pa.Table) -> V:
        """Decode a value from a table that ``table_of`` returned."""

    def finish(self, value: V, account: Account) -> V:
        """Return the value of a finished pass; add the parts of the account that the value holds."""
