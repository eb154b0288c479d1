"""Parts of an archive that need not be read, since no record in them can be one that is wanted.

What a part holds is told by the statistics of Parquet's row groups, and by the topic of files of Kafka, where the topic
is the exchange. Only what is certain is left out; the records of what is left are still to be filtered.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from bindings.archive.formats.connect import NAME, Connect
from bindings.archive.formats.kafka_segment import KafkaSegment, topic_of
from bindings.archive.formats.parquet import UNREADABLE, Parquet
from bindings.archive.names import escape
from bindings.archive.reading import Format, Split
from bindings.archive.times import EPOCH, MICROSECOND

__all__ = ["Wanted", "pruned"]


class Wanted(NamedTuple):
    """Which records are wanted; as columns hold them, so that names are `bindings.archive.names.escape`."""

    exchanges: frozenset[str] | None = None
    """None: all."""
    first: int | None = None
    """Microseconds since 1970, UTC: nothing earlier is wanted, nor without a time."""
    last: int | None = None

    def exchange(self, names: Iterable[str]) -> Wanted:
        """What is also of one of these exchanges."""
        wanted = frozenset(names)
        return self._replace(exchanges=wanted if self.exchanges is None else self.exchanges & wanted)

    def since(self, time: int) -> Wanted:
        return self._replace(first=time if self.first is None else max(self.first, time))

    def until(self, time: int) -> Wanted:
        return self._replace(last=time if self.last is None else min(self.last, time))


def pruned(form: Format, path: str, splits: list[Split], wanted: Wanted) -> list[Split]:
    """The splits of a file that may hold something wanted."""
    if isinstance(form, Connect | KafkaSegment):
        return splits if wanted.exchanges is None or _topic_may_hold(form, path, wanted.exchanges) else []
    if isinstance(form, Parquet):
        return _pruned_parquet(path, splits, wanted)
    return splits


def _topic_may_hold(form: Connect | KafkaSegment, path: str, exchanges: frozenset[str]) -> bool:
    place = form.mapping.exchange
    if place.startswith("="):
        return escape(place[1:]) in exchanges
    if place != "topic":
        return True
    if isinstance(form, KafkaSegment):
        return escape(topic_of(path)) in exchanges
    found = NAME.fullmatch(path.rpartition("/")[2])
    return found is None or escape(found["topic"]) in exchanges


def _pruned_parquet(path: str, splits: list[Split], wanted: Wanted) -> list[Split]:
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
        found = column.statistics if column.path_in_schema in ("exchange", "time") else None
        if found is None or not found.has_min_max:
            continue
        if column.path_in_schema == "exchange":
            if wanted.exchanges is not None and not any(
                str(found.min).encode() <= name.encode() <= str(found.max).encode() for name in wanted.exchanges
            ):
                return False
            continue
        least, greatest = _microseconds(found.min), _microseconds(found.max)
        if least is None or greatest is None:
            continue
        if wanted.first is not None and greatest < wanted.first:
            return False
        if wanted.last is not None and least > wanted.last:
            return False
    return True


def _microseconds(value: Any) -> int | None:
    """A time of Parquet's statistics; None for what is no time in UTC."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value.astimezone(UTC) - EPOCH) // MICROSECOND
