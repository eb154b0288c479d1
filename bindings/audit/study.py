"""What a pass over an archive counts.

A `Study` is a small value with the topologies in it; it is pickled and sent to where the records are. There it makes a
`Counting`, which learns as it counts and is kept from task to task. What that finds are values that add, so the parts
of an archive may be counted anywhere and in any order.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import pyarrow as pa

from bindings.audit.account import Account

__all__ = ["Additive", "Counting", "Study"]


class Additive(Protocol):
    """A value with ``+``, which is commutative and associative."""

    def __add__(self, other: Any, /) -> Any: ...


V = TypeVar("V", bound=Additive)
V_co = TypeVar("V_co", bound=Additive, covariant=True)


class Counting(Protocol[V_co]):
    """Counts records, batch after batch; used by one thread."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of `bindings.archive.record.SCHEMA` that it reads."""

    @property
    def by_key(self) -> bool:
        """Whether messages of one slot of time with the same exchange, key, CC and BCC may come as one row.

        It then has columns ``count``, ``time`` of the first and ``last``, the time of the last.
        """

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the records of a batch, which has ``columns`` at least, in any order."""

    def result(self) -> V_co:
        """What was added since the last time; begins anew."""


class Study(Protocol[V]):
    """Something to count: a frozen value that can be pickled."""

    def counter(self) -> Counting[V]:
        """A new counter."""

    def zero(self) -> V:
        """What is counted of no records."""

    def table_of(self, value: V) -> pa.Table:
        """A value on its way to another process."""

    def value_of(self, table: pa.Table) -> V:
        """The value that ``table_of`` made a table of."""

    def finished(self, value: V, account: Account) -> V:
        """The value of a whole pass, with what it should tell of records that were skipped or bad."""
