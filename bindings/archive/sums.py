"""Add up counts of parts of an archive: messages with their times, unread records by reason, kinds of files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from bindings.archive.figures import Time

if TYPE_CHECKING:  # it imports pyarrow, which reports do without
    from bindings.archive.reading import Bad

REASONS: Final = 100
"""Maximum number of reasons that are counted one by one, as some reasons quote the wrong value."""
OTHER: Final = "other reasons"
UNKNOWN_LOSS: Final = ", which costs an unknown number of records"
"""Ends a reason where it is shown, if some of its records stand for damage whose records nobody can count."""
SAMPLES: Final = 3
"""Maximum number of bad records kept for each reason."""


class Span(NamedTuple):
    """Number of messages, and the times of the first and the last of them, in microseconds since 1970, UTC."""

    messages: int = 0
    first: Time | None = None
    """None if no message has a time."""
    last: Time | None = None

    @property
    def window(self) -> tuple[int, int] | None:
        """Times of the first and the last message; None if no message has a time."""
        return None if self.first is None or self.last is None else (self.first, self.last)

    def is_sound(self) -> bool:
        """Return whether messages can have this span: a file may claim any."""
        return self.first is None or self.last is None or (self.messages > 0 and self.first <= self.last)

    def __add__(self, other: object) -> Span:
        if not isinstance(other, Span):
            return NotImplemented
        messages = self.messages + other.messages
        if other.first is None or other.last is None:
            return Span(messages, self.first, self.last)
        if self.first is None or self.last is None:
            return Span(messages, other.first, other.last)
        return Span(messages, min(self.first, other.first), max(self.last, other.last))


@dataclass(slots=True)
class Unread:
    """The records that were not counted, by reason.

    If bad records have more than ``REASONS`` reasons, the first ones in alphabetical order are kept, with exact counts.
    A reason that is among the first of the whole archive is also among the first of each part that has it, so sums do
    not depend on the parts.
    """

    skipped: Counter[str] = field(default_factory=Counter)
    """Reason -> number of whole records that are no publishings, or not selected."""
    bad: Counter[str] = field(default_factory=Counter)
    """Reason -> number of bad records."""
    samples: dict[str, tuple[Bad, ...]] = field(default_factory=dict)
    """Reason -> a few bad records: the first ones by file and offset."""
    uncounted: Counter[str] = field(default_factory=Counter)
    """Reason -> how many of its bad records each stand for damage that costs an unknown number of records."""

    @classmethod
    def from_counts(
        cls,
        skipped: Mapping[str, int],
        bad: Mapping[str, int],
        uncounted: Mapping[str, int],
        samples: Mapping[str, tuple[Bad, ...]] | None = None,
    ) -> Unread:
        """Return what a file has; earlier releases wrote `UNKNOWN_LOSS` after a reason in place of ``uncounted``."""
        unread = cls(Counter(skipped))
        for text, records in bad.items():
            reason = text.removesuffix(UNKNOWN_LOSS)
            lost = uncounted.get(text, 0) if reason == text else records
            unread._add(reason, records, (samples or {}).get(text, ()), lost)
        return unread

    @property
    def skipped_records(self) -> int:
        """Number of records that were skipped."""
        return self.skipped.total()

    @property
    def bad_records(self) -> int:
        """Number of records that could not be read."""
        return self.bad.total()

    def explain(self, reason: str) -> str:
        """Return a reason as it is shown."""
        return reason + UNKNOWN_LOSS * (reason in self.uncounted)

    def add_bad(self, bad: Bad, times: int = 1) -> None:
        """Count the records that were not read, or this many times as many of the same reason."""
        is_uncounted = bad.records is None
        self._add(bad.reason, (bad.records or is_uncounted) * times, (bad,), times * is_uncounted)

    def __add__(self, other: object) -> Unread:
        if not isinstance(other, Unread):
            return NotImplemented
        total = Unread(self.skipped + other.skipped, Counter(self.bad), dict(self.samples), Counter(self.uncounted))
        for reason, records in other.bad.items():
            total._add(reason, records, other.samples.get(reason, ()), other.uncounted[reason])
        return total

    def _add(self, reason: str, records: int, samples: tuple[Bad, ...], uncounted: int) -> None:
        self.bad[reason] += records
        if uncounted:
            self.uncounted[reason] += uncounted
        if samples:
            self.samples[reason] = tuple(sorted((*self.samples.get(reason, ()), *samples), key=_order)[:SAMPLES])
        if len(self.bad.keys() - {OTHER}) > REASONS:
            last = max(self.bad.keys() - {OTHER})
            self._add(OTHER, self.bad.pop(last), self.samples.pop(last, ()), self.uncounted.pop(last, 0))


def _order(bad: Bad) -> tuple[str, int, bytes]:
    return bad.source, -1 if bad.offset is None else bad.offset, bad.sample


class FileKind(NamedTuple):
    """What a report says of a file that was looked at when it was read."""

    archive: str
    """Path of its archive, as the user gave it."""
    format: str
    bias: str
    """Name of a `Bias`."""
    note: str


@dataclass(slots=True)
class Detected:
    """The files that were looked at when they were read. Sums do not depend on the order."""

    kinds: dict[FileKind, tuple[int, str]] = field(default_factory=dict)
    """Kind -> number of files, and the path of the first one."""
    others: list[tuple[str, str]] = field(default_factory=list)
    """Path of the archive, and of a file in it that is none, in no order."""

    def add(self, kind: FileKind, path: str, files: int = 1) -> None:
        """Add files of a kind, of which this is the first one."""
        number, first = self.kinds.get(kind, (0, path))
        self.kinds[kind] = number + files, min(first, path, key=split_path)

    def __add__(self, other: object) -> Detected:
        if not isinstance(other, Detected):
            return NotImplemented
        total = Detected(dict(self.kinds), self.others + other.others)
        for kind, (files, first) in other.kinds.items():
            total.add(kind, first, files)
        return total


def split_path(path: str) -> list[str]:
    """Return the parts of a path, by which the files of a folder are sorted."""
    return path.replace(os.sep, "/").split("/")
