"""What a streaming query reads next of its streams: where it begins, how far a micro-batch goes, what was lost.

It runs in the driver, and keeps nothing that a checkpoint needs: what is planned follows from the offsets in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from time import monotonic, sleep
from typing import Final, NamedTuple, TypeVar

from bindings.applying.amqp import Lost, OperationRefused
from bindings.spark.streams.log import (
    Connect,
    OffsetRange,
    Position,
    StreamBroker,
    StreamMessage,
    Tries,
    describe_loss,
    find_first,
    find_last,
    find_message,
    is_final,
    report_loss,
)
from bindings.spark.streams.offsets import FRESH, Offsets, Reached, limit_ends, plan_ranges
from exchange.amqp.streams import EMPTY_SECONDS, FIRST_SECONDS
from exchange.errors import InputError
from exchange.limits import PARTITIONS

LOOK_SECONDS: Final = 0.5
"""Seconds for which an answer about the ends of streams holds: Spark asks every 10 ms while there is nothing new."""
PARTITIONS_SECONDS: Final = 60.0
"""Seconds between two looks for new partitions of a super stream: the broker logs each one that finds none."""
BEHIND_SECONDS: Final = 30.0
"""Seconds after which a stream that ends before the checkpoint began anew; until then a copy may only be behind."""
NOT_FOUND: Final = 404

T = TypeVar("T")


class StreamNames(NamedTuple):
    """Which streams are read."""

    stream: str = ""
    """Name of a stream; empty for a super stream."""
    super_stream: str = ""
    keys: tuple[str, ...] = ()
    """Routing keys by which its partitions are named; empty if they are numbered."""

    def find(self, broker: StreamBroker) -> list[str]:
        """Return the names of the streams there are, at least one. Raises InputError, OperationRefused, Lost."""
        if self.stream or self.keys:
            names = [f"{self.super_stream}-{key}" for key in self.keys] or [self.stream]
            for name in names:
                if not _exists(broker, name):
                    raise InputError(f"there is no stream '{name}'")
            return names
        names = []
        while len(names) < PARTITIONS and _exists(broker, name := f"{self.super_stream}-{len(names)}"):
            names.append(name)
        if not names:
            raise InputError(
                f"there is no stream '{self.super_stream}-0': '{self.super_stream}' is no super stream, or its "
                'partitions are named by routing keys: .option("routingKeys", "KEY,KEY")'
            )
        return names


def _exists(broker: StreamBroker, name: str) -> bool:
    try:
        broker.count(name)
    except OperationRefused as refused:
        if refused.code == NOT_FOUND:
            return False
        raise
    return True


class Planner:
    """Plans what is read; holds one connection, which is opened again when it is lost."""

    def __init__(
        self,
        connect: Connect,
        names: StreamNames,
        *,
        fail_on_data_loss: bool = True,
        clock: Callable[[], float] = monotonic,
        pause: Callable[[float], None] = sleep,
    ) -> None:
        self._connect: Final = connect
        self._names: Final = names
        self._fail_on_data_loss: Final = fail_on_data_loss
        self._clock: Final = clock
        self._pause: Final = pause
        self._open: Final = ExitStack()
        self._broker: StreamBroker | None = None
        self._streams: list[str] = []
        self._streams_at = -PARTITIONS_SECONDS
        self._lasts: Mapping[str, StreamMessage | None] = {}
        """Last message of each stream, as they were looked for last."""
        self._looked_at = -LOOK_SECONDS
        self._holds = False
        """Whether the ends are those of the beginning of the query: for the trigger AvailableNow."""
        self._behind: Final[dict[str, float]] = {}
        """Stream that ends before the checkpoint -> time since when."""

    def close(self) -> None:
        """Close the connection."""
        self._broker = None
        self._open.close()

    def hold_ends(self, start: Offsets) -> None:
        """Read no further than the streams go now."""
        self._look(start)
        self._holds = True

    def find_start(self, position: Position) -> dict[str, Reached]:
        """Return where a query begins that has no checkpoint; an offset that is not there is the nearest one."""
        return self._ask(
            lambda broker: {name: _find_start(broker, name, position) for name in self._names.find(broker)}
        )

    def find_ends(self, start: Offsets, most: int | None = None) -> dict[str, Reached]:
        """Return how far the next micro-batch reads: at most ``most`` offsets, and ``start`` where nothing is new.

        Raises InputError if a stream is gone, or began anew, unless data may be lost.
        """
        if not self._holds and self._clock() - self._looked_at >= LOOK_SECONDS:
            self._look(start)
        return self._ask(lambda broker: self._choose_ends(broker, start, most))

    def plan(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """Return what workers read between two offsets. Raises InputError for what was removed before, as above."""
        ranges = plan_ranges(start, end)

        def check(broker: StreamBroker) -> None:
            for each in ranges:
                first = find_first(broker, each.stream)
                if first is not None and (lost := each.count_below(first.offset)):
                    self._lose(describe_loss(each.stream, each.start, lost, first.offset))

        self._ask(check)
        return ranges

    def _look(self, start: Offsets) -> None:
        def look(broker: StreamBroker) -> dict[str, StreamMessage | None]:
            if self._clock() - self._streams_at >= PARTITIONS_SECONDS:
                self._streams = self._names.find(broker)
                self._streams_at = self._clock()
            return {name: find_last(broker, name, start.get(name, FRESH).next) for name in self._streams}

        self._lasts = self._ask(look)
        self._looked_at = self._clock()

    def _choose_ends(self, broker: StreamBroker, start: Offsets, most: int | None) -> dict[str, Reached]:
        begun = {name: self._begin(broker, name, start.get(name, FRESH), last) for name, last in self._lasts.items()}
        ends = {
            name: begun[name] if last is None else max(begun[name], last.offset + 1)
            for name, last in self._lasts.items()
        }
        chosen: dict[str, Reached] = dict(start)  # a partition that is gone stays where it was
        for name, end in limit_ends(begun, ends, most).items():
            before = start.get(name, FRESH)
            if end == begun[name] and (begun[name] == before.next or name not in start):
                chosen.setdefault(name, before)
                continue
            last = self._lasts[name]
            if last is None or last.offset != end - 1:
                last = find_message(broker, name, end - 1, FIRST_SECONDS) if end else None
            seen = last.fingerprint if last is not None and last.offset == end - 1 else ""
            chosen[name] = Reached(end, seen, None if begun[name] == before.next else begun[name])
        for name in start.keys() - self._lasts.keys():
            self._lose(f"stream '{name}' is gone, and what was not read of it")
        return chosen

    def _begin(self, broker: StreamBroker, name: str, before: Reached, last: StreamMessage | None) -> int:
        """Return the offset at which the next micro-batch begins: 0 if the stream began anew since."""
        if last is None or not before.next:
            return before.next
        if last.offset + 1 < before.next:
            since = self._behind.setdefault(name, self._clock())
            if self._clock() - since < BEHIND_SECONDS:
                return before.next
            why = f"it ends at offset {last.offset:,}, and was read up to {before.next - 1:,}"
        else:
            self._behind.pop(name, None)
            at = last if last.offset + 1 == before.next else None
            if at is None and before.seen:
                at = find_message(broker, name, before.next - 1, FIRST_SECONDS)
            if at is None or at.offset != before.next - 1 or before.seen in ("", at.fingerprint):
                return before.next
            why = f"its message at offset {before.next - 1:,} is not the one that was read"
        self._behind.pop(name, None)
        self._lose(f"stream '{name}' was deleted and declared again: {why}; the new one is read from its beginning")
        return 0

    def _lose(self, text: str) -> None:
        report_loss(text, fails=self._fail_on_data_loss)

    def _ask(self, question: Callable[[StreamBroker], T]) -> T:
        """Ask the broker, and again on a new connection if it is lost. Raises InputError."""
        tries = Tries(self._pause)
        try:
            while True:
                try:
                    if self._broker is None:
                        self._broker = self._open.enter_context(self._connect())
                    return question(self._broker)
                except (Lost, OperationRefused) as error:
                    if not is_final(error):  # else the connection stays as it is
                        self.close()
                    tries.wait_after(error)
        except (Lost, OperationRefused) as error:
            raise InputError(str(error)) from None


def _find_start(broker: StreamBroker, name: str, position: Position) -> Reached:
    """Return where a stream begins at a position."""
    first, last = find_first(broker, name), find_last(broker, name, 0)
    if first is None or last is None:
        return FRESH
    end = last.offset + 1
    if position == "first":
        return Reached(first.offset)
    if position == "next":
        return Reached(end, last.fingerprint)
    if isinstance(position, int):
        return Reached(min(max(position, first.offset), end))
    found = find_message(broker, name, position, EMPTY_SECONDS)  # none comes for a time after all messages
    return Reached(end, last.fingerprint) if found is None else Reached(found.offset)


def find_whole(planner: Planner, position: Position, end: int | None) -> Sequence[OffsetRange]:
    """Return what a query that is no streaming one reads: from a position up to the end, or to an offset before it."""
    start = planner.find_start(position)
    ends = planner.find_ends(start)
    if end is not None:
        ends = {name: at._replace(next=min(at.next, end)) for name, at in ends.items()}
    return plan_ranges(start, ends)
