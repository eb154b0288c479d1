"""How many records of its partitions a member has not read: those that wait, that are withheld, that were deleted.

librdkafka's own ``consumer_lag`` is no help: it is unknown until something is committed, counts what was read and not
committed, and ends where the first open transaction begins. So the lag is counted here, up to the high watermark.
Offsets of aborted messages and of the marks that end transactions count as records until they are passed.

Kafka deletes records whether they were read or not, by retention or on request. Then the consumer goes on at the first
that is left, and only librdkafka's log has a line. The offsets that were passed over and are before the start of the
log are those that were lost; other gaps in the offsets are from compaction and transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from bridge.endpoints.deletions import Deletions
from bridge.endpoints.kafka.cluster.errors import LOG
from exchange.text.display import count_noun

OPEN_FOR: Final = 30.0
"""Seconds for which an open transaction withholds records before that is trouble. Java's producers end theirs after 60
s, unless they have another timeout; one that hangs never ends."""

HANGING: Final = "kafka-transactions.sh find-hanging finds those that never will, and aborts them"


class Lane(Protocol):
    """The part of `assignment.Lane` that is looked at."""

    @property
    def next(self) -> int: ...
    @property
    def checked(self) -> bool: ...
    @property
    def begins_anew(self) -> bool: ...
    @property
    def deletions(self) -> Deletions: ...
    @property
    def end(self) -> int: ...


class Backlog:
    """What a source has not read; it outlives the source's connections, as the number of deleted records only grows.

    ``reads_committed`` is False for a consumer that reads the records of open transactions, too.
    """

    def __init__(self, name: str, *, reads_committed: bool) -> None:
        self._name = name
        self._reads_committed = reads_committed
        self._open: dict[tuple[str, int, int], float] = {}
        """Topic, partition and first offset of an open transaction -> when it was first seen."""
        self.lag: int | None = None
        """Number of records that were not read; None if it is not known."""
        self.withheld = 0
        """Number of these that are in or behind an open transaction."""
        self.vanished = 0
        """Number of records that were deleted before they were read."""
        self.trouble: str | None = None
        """Which transaction withholds records, if one has for long."""

    def forget(self) -> None:
        """Forget what is only known while there is a connection."""
        self.lag, self.withheld, self.trouble = None, 0, None
        self._open.clear()

    def look(
        self,
        statistics: Mapping[str, Any],
        lanes: Mapping[tuple[str, int], Lane],
        now: float,
        *,
        unread: int = 0,
        is_drained: bool = False,
    ) -> None:
        """Take in librdkafka's statistics, decoded; ``now`` is in seconds.

        ``unread`` are the records that were taken from librdkafka and not read; with ``is_drained`` it had no more.
        """
        lags, withheld = [], []
        for (topic, partition), lane in lanes.items():
            known = find_partition(statistics["topics"], topic, partition)
            if known is None:
                continue
            low, high, stable = (int(known[each]) for each in ("lo_offset", "hi_offset", "ls_offset"))
            high = max(high, lane.end)
            position = _position_of(known, low)
            if position is not None and high >= 0:
                lags.append(max(0, high - position))
                if self._reads_committed and 0 <= stable <= position < high:
                    withheld.append((topic, partition, stable, high - stable))
            if lane.checked and low >= 0 and not lane.begins_anew:
                self._count_deleted(topic, partition, lane, low, is_drained=is_drained)
        self.lag = sum(lags) + unread if lags else None
        self._note_open(withheld, now)

    def _count_deleted(self, topic: str, partition: int, lane: Lane, low: int, *, is_drained: bool) -> None:
        count = lane.deletions.count(lane.next, low, is_drained=is_drained)
        if count:
            self.vanished += count
            LOG.error(
                "%s: %s-%d: Kafka has deleted %s records before they were read: its log begins at offset %d; give the "
                "topic a longer retention", self._name, topic, partition, f"{count:,}", low,
            )  # fmt: skip

    def _note_open(self, withheld: Iterable[tuple[str, int, int, int]], now: float) -> None:
        found = {(topic, partition, stable): count for topic, partition, stable, count in withheld}
        self.withheld = sum(found.values())
        self._open = {each: self._open.get(each, now) for each in found}
        self.trouble = None
        for (topic, partition, stable), since in self._open.items():
            if now - since >= OPEN_FOR:
                count = found[topic, partition, stable]
                are = "is" if count == 1 else "are"
                self.trouble = (
                    f"{topic}-{partition}: {count_noun(count, 'record')} from offset {stable} on {are} not given out, "
                    f"as a transaction there has not ended for {now - since:.0f} s; {HANGING}"
                )
                return


def find_partition(topics: Mapping[str, Any], topic: str, partition: int) -> Mapping[str, Any] | None:
    """Return what librdkafka's statistics have of a partition in ``topics``; None if they do not mention it."""
    known: Mapping[str, Any] | None = topics.get(topic, {"partitions": {}})["partitions"].get(str(partition))
    return known


def _position_of(known: Mapping[str, Any], low: int) -> int | None:
    """Return the offset of the first record that librdkafka has not given away; None if it is not known."""
    for each in ("app_offset", "committed_offset"):
        if (offset := int(known[each])) >= 0:
            return max(offset, low)
    offset = int(known["next_offset"])  # where it begins to read without an offset of the group
    return max(offset, low) if offset >= 0 else None
