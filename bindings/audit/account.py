"""What a pass met in an archive beside what it counted: how much it read, in which time, what it left out and why.

Accounts add, like what is counted, so that parts of an archive may be read anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from bindings.archive.inspection import OTHER, REASONS, SAMPLES
from bindings.archive.reading import Bad

__all__ = ["Account", "Accounting", "BadFacts"]


class BadFacts(NamedTuple):
    """Bad records with one reason."""

    records: int
    samples: tuple[Bad, ...]
    """A few of them, by their places the first."""

    def __add__(self, other: object) -> BadFacts:
        if not isinstance(other, BadFacts):
            return NotImplemented
        return BadFacts(self.records + other.records, _first((*self.samples, *other.samples)))


@dataclass(frozen=True, slots=True)
class Account:
    """Of an archive, or a part of it. Times are microseconds since 1970, UTC."""

    records: int = 0
    """Those that were counted."""
    first: int | None = None
    """The earliest time of one; None when none has a time."""
    last: int | None = None
    untimed: int = 0
    """Those without a time."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Why -> whole records that were not counted: no publishings, or not selected."""
    bad: Mapping[str, BadFacts] = field(default_factory=dict)
    """Why -> what could not be read as a record."""

    @property
    def window(self) -> tuple[int, int] | None:
        """The times of the first and the last record; None when no record has one."""
        return None if self.first is None or self.last is None else (self.first, self.last)

    @property
    def skipped_records(self) -> int:
        return sum(self.skipped.values())

    @property
    def bad_records(self) -> int:
        return sum([facts.records for facts in self.bad.values()])

    @property
    def read(self) -> int:
        """All that was met: counted, skipped and bad."""
        return self.records + self.skipped_records + self.bad_records

    def __add__(self, other: object) -> Account:
        if not isinstance(other, Account):
            return NotImplemented
        skipped = dict(self.skipped)
        for reason, records in other.skipped.items():
            skipped[reason] = skipped.get(reason, 0) + records
        bad = dict(self.bad)
        for reason, facts in other.bad.items():
            _put(bad, reason, facts)
        return Account(
            self.records + other.records,
            min((time for time in (self.first, other.first) if time is not None), default=None),
            max((time for time in (self.last, other.last) if time is not None), default=None),
            self.untimed + other.untimed,
            skipped,
            bad,
        )


class Accounting:
    """An account in the making."""

    def __init__(self) -> None:
        self._records = self._untimed = 0
        self._first: int | None = None
        self._last: int | None = None
        self._skipped: dict[str, int] = {}
        self._bad: dict[str, BadFacts] = {}
        self.bad_records = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Records that are counted, with their column ``time``."""
        times = batch.column("time")
        self._records += batch.num_rows
        self._untimed += times.null_count
        if times.null_count < batch.num_rows:
            ends = pc.min_max(times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())).as_py()
            self.widen(ends["min"], ends["max"])

    def add_counted(self, records: int, untimed: int, first: int | None, last: int | None) -> None:
        """Records that somebody counted."""
        self._records += records
        self._untimed += untimed
        if first is not None and last is not None:
            self.widen(first, last)

    def widen(self, first: int, last: int) -> None:
        """There are records of these times."""
        self._first = first if self._first is None else min(self._first, first)
        self._last = last if self._last is None else max(self._last, last)

    def skip(self, reason: str, records: int) -> None:
        """Records that are not counted."""
        self._skipped[reason] = self._skipped.get(reason, 0) + records

    def add_bad(self, bad: Bad, records: int = 1) -> None:
        """Something that could not be read, and how much there is of it."""
        self.bad_records += records
        _put(self._bad, bad.reason, BadFacts(records, (bad,)))

    def account(self) -> Account:
        """What it is until now."""
        return Account(self._records, self._first, self._last, self._untimed, dict(self._skipped), dict(self._bad))


def _put(bad: dict[str, BadFacts], reason: str, facts: BadFacts) -> None:
    told = reason if reason in bad or len(bad) < REASONS else OTHER
    known = bad.get(told)
    bad[told] = facts if known is None else known + facts


def _first(samples: tuple[Bad, ...]) -> tuple[Bad, ...]:
    return tuple(sorted(samples, key=lambda bad: (bad.source, bad.offset, bad.reason))[:SAMPLES])
