"""What a pass over an archive counts.

A `Study` is a small value with the topologies in it; it is pickled and sent to where the records are. There it makes a
`Counting`, which learns as it counts and is kept from task to task. Its results are values that add, so the parts of an
archive may be counted anywhere and in any order.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import pyarrow as pa

from bindings.archive.account import Account

__all__ = ["Additive", "Counting", "Study"]


class Additive(Protocol):
    """A value with ``+``, which is commutative and associative."""

    def __add__(self, other: Any, /) -> Any: ...


V = TypeVar("V", bound=Additive)
V_co = TypeVar("V_co", bound=Additive, covariant=True)


class Counting(Protocol[V_co]):
    """A counter of records, batch after batch; used by one thread."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of `bindings.archive.record.SCHEMA` that it reads."""

    @property
    def by_key(self) -> bool:
        """Whether messages of one slot of time with the same exchange, key, CC and BCC may come as one row.

        That row then has the columns ``count``, ``time`` of the first message and ``last``, the time of the last.
        """

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the records of a batch that has at least ``columns``, in any order."""

    def result(self) -> V_co:
        """Return the counts of what was added since the last call, and begin anew."""


class Study(Protocol[V]):
    """A question that a pass answers by counting: a frozen value that can be pickled."""

    def counter(self) -> Counting[V]:
        """Return a new counter."""

    def zero(self) -> V:
        """Return the value of no records."""

    def table_of(self, value: V) -> pa.Table:
        """Return a value as a table, for another process."""

    def value_of(self, table: pa.Table) -> V:
        """Return the value of a table that ``table_of`` made."""

    def finish(self, value: V, account: Account) -> V:
        """Return the value of a whole pass, with what it keeps of the account."""
