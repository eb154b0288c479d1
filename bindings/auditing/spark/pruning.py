"""Leave out the parts of an archive that cannot hold a wanted record.

The statistics of Parquet's row groups show this, and the topic of Kafka's files if the topic is the exchange. A part is
left out only if it certainly holds no wanted record; the records of all other parts must still be filtered.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from bindings.archive.formats.connect import NAME, Connect
from bindings.archive.formats.parquet import UNREADABLE, Parquet
from bindings.archive.kafka.segment import KafkaSegment, topic_of
from bindings.archive.names import escape
from bindings.archive.reading import Format, Split
from bindings.archive.times import EPOCH, MICROSECOND

__all__ = ["Wanted", "prune"]


class Wanted(NamedTuple):
    """The condition for wanted records; names are escaped as in columns (`bindings.archive.names.escape`)."""

    exchanges: frozenset[str] | None = None
    """Exchanges of wanted records; None for all."""
    first: int | None = None
    """Earliest wanted time, in microseconds since 1970, UTC; if set, records without a time are not wanted."""
    last: int | None = None
    """Latest wanted time, in microseconds since 1970, UTC."""

    def with_exchanges(self, names: Iterable[str]) -> Wanted:
        """Return the condition narrowed to these exchanges."""
        wanted = frozenset(names)
        return self._replace(exchanges=wanted if self.exchanges is None else self.exchanges & wanted)

    def since(self, time: int) -> Wanted:
        """Return the condition narrowed to this time or later."""
        return self._replace(first=time if self.first is None else max(self.first, time))

    def until(self, time: int) -> Wanted:
        """Return the condition narrowed to this time or earlier."""
        return self._replace(last=time if self.last is None else min(self.last, time))


def prune(form: Format, path: str, splits: list[Split], wanted: Wanted) -> list[Split]:
    """Return the splits of a file that may hold a wanted record."""
    if isinstance(form, Connect | KafkaSegment):
        return splits if wanted.exchanges is None or _topic_may_hold(form, path, wanted.exchanges) else []
    if isinstance(form, Parquet) and not form.mapping.columns:
        return _prune_parquet(path, splits, wanted)
    return splits


def _topic_may_hold(form: Connect | KafkaSegment, path: str, exchanges: frozenset[str]) -> bool:
    origin = form.mapping.exchange
    if origin.startswith("="):
        return escape(origin[1:]) in exchanges
    if origin != "topic":
        return True
    if isinstance(form, KafkaSegment):
        return escape(topic_of(path)) in exchanges
    match = NAME.fullmatch(path.rpartition("/")[2])
    return match is None or escape(match["topic"]) in exchanges


def _prune_parquet(path: str, splits: list[Split], wanted: Wanted) -> list[Split]:
    try:
        metadata = pq.read_metadata(path)
    except UNREADABLE:
        return splits
    kept: list[Split] = []
    for split in splits:
        groups = range(split.start, metadata.num_row_groups if split.end is None else split.end)
        if any(_group_may_hold(metadata.row_group(group), wanted) for group in groups):
            kept.append(split)
    return kept


def _group_may_hold(group: Any, wanted: Wanted) -> bool:
    for number in range(group.num_columns):
        column = group.column(number)
        statistics = column.statistics if column.path_in_schema in ("exchange", "time") else None
        if statistics is None or not statistics.has_min_max:
            continue
        if column.path_in_schema == "exchange":
            if not isinstance(statistics.min, str):  # bytes or numbers of other programs, in another order than texts
                continue
            if wanted.exchanges is not None and not any(
                statistics.min.encode() <= name.encode() <= statistics.max.encode() for name in wanted.exchanges
            ):
                return False
            continue
        least, greatest = _microseconds(statistics.min), _microseconds(statistics.max)
        if least is None or greatest is None:
            continue
        if wanted.first is not None and greatest < wanted.first:
            return False
        if wanted.last is not None and least > wanted.last:
            return False
    return True


def _microseconds(value: Any) -> int | None:
    """Return a time in Parquet statistics as microseconds since 1970; None for a value without a time zone."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value.astimezone(UTC) - EPOCH) // MICROSECOND
