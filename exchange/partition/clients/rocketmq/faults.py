"""How RocketMQ's Java producer avoids slow and broken brokers: `MQFaultStrategy` with its table of faults.

Each send updates its broker's row in the producer's table; the latency of the send decides for how long the broker is
not available. With ``sendLatencyFaultEnable``, off by default, the next queue is at an available broker. Versions
differ in what they do if no broker is available: each has a row in ``ERAS``. Table and memory are values; time and
random numbers are arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from exchange.partition.clients.rocketmq.queues import MessageQueue, find_broker_name
from exchange.partition.clients.rocketmq.round_robin import RoundRobin, Turn, find_era, find_position
from exchange.partition.hashing.hashes import MASK, to_signed
from exchange.partition.hashing.java import compute_remainder, string_hash
from exchange.partition.partitioner import Draw, Inputs
from exchange.partition.partitions import Partitions

DETECTOR_PERIOD: Final = 3000
"""Milliseconds between two rounds of the detector (`LatencyFaultToleranceImpl.startDetector`)."""
DETECT_INTERVAL: Final = 2000
"""``detectInterval``: milliseconds until a broker is probed again."""

BUCKETS: Final = 32
"""Number of buckets of a ``new ConcurrentHashMap(16)``."""


class FaultItem(NamedTuple):
    """The row of one broker in the table (`LatencyFaultToleranceImpl.FaultItem`)."""

    latency: int
    """Duration of the last send to it, in milliseconds."""
    available_from: int = 0
    """``startTimestamp``: time from which on the broker is available, in milliseconds since 1970."""
    reachable: bool = True
    """Whether the broker answered; only since 5.1.4."""
    probe_from: int = 0
    """``checkStamp``: time from which on the detector probes the broker, in milliseconds since 1970."""

    def is_available(self, now: int) -> bool:
        """Return whether it may be used again."""
        return now >= self.available_from


Faults = Mapping[str, FaultItem]
"""The table: name of a broker -> its row, in the order of insertion; a broker without a row has no fault."""


class Durations(NamedTuple):
    """The durations for which a broker is not available."""

    steps: tuple[tuple[int, int], ...]
    """Minimum latency -> duration, both in milliseconds (`latencyMax`, `notAvailableDuration`)."""
    isolation: int
    """Latency that is assumed for an isolated broker."""

    def after(self, latency: int, *, isolated: bool = False) -> int:
        """Return for how many milliseconds the broker is not available (`computeNotAvailableDuration`)."""
        assumed = self.isolation if isolated else latency
        return max([duration for least, duration in self.steps if assumed >= least], default=0)


class FaultEra(NamedTuple):
    """The rules of a range of versions."""

    durations: Durations
    takes: Callable[[str, str | None], bool]
    """Function that returns whether an available broker is taken, given also the broker of the try before."""
    shuffles: bool = False
    """Whether `pickOneAtLeast` shuffles the brokers first."""
    renames: bool = False
    """Whether the picked broker's queue also replaces the one in the client's list: the bug apache/rocketmq#7779."""
    wraps: bool = True
    """Whether the search goes on when the index passes Integer.MAX_VALUE; else it ends there, with the next queue."""
    filters: bool = False
    """Whether, if no broker is available, a reachable one is searched for, and a send can only extend the time of a
    fault; else `pickOneAtLeast` picks a broker, and each send sets the time anew."""


SLOW: Final = Durations(
    ((50, 0), (100, 0), (550, 30_000), (1000, 60_000), (2000, 120_000), (3000, 180_000), (15_000, 600_000)), 30_000
)
QUICK: Final = Durations(
    ((50, 0), (100, 0), (550, 2000), (1800, 5000), (3000, 6000), (5000, 10_000), (15_000, 30_000)), 10_000
)


def _take_any(broker: str, last: str | None) -> bool:
    return True


def _take_same(broker: str, last: str | None) -> bool:
    return last is None or broker == last


def _take_other(broker: str, last: str | None) -> bool:
    return broker != last


ERAS: Final[Mapping[tuple[int, ...], FaultEra]] = MappingProxyType({
    (4, 0): FaultEra(SLOW, _take_same, shuffles=True, renames=True),
    (4, 8): FaultEra(SLOW, _take_any, shuffles=True, renames=True),
    (4, 9, 4): FaultEra(SLOW, _take_any, renames=True),
    (4, 9, 8): FaultEra(SLOW, _take_any),
    (5, 0): FaultEra(SLOW, _take_any, renames=True),
    (5, 1, 1): FaultEra(SLOW, _take_other, renames=True, wraps=False),
    (5, 1, 4): FaultEra(QUICK, _take_other, shuffles=True, filters=True),
})  # fmt: skip
"""First version of a range -> its rules. 4.0-4.7 retry the broker that failed (apache/rocketmq#1576, #2046)."""


class ThreadMemory(NamedTuple):
    """The memory of one thread of a producer for one topic."""

    turn: Turn | None = None
    worst: int | None = None
    """Index of `pickOneAtLeast` (``whichItemWorst``), which the thread has for all topics of the producer."""
    renamed: Mapping[int, MessageQueue] = MappingProxyType({})
    """Position in the queue list -> queue that has replaced the one there; only with the bug. All threads have it in
    common."""


class FaultSelection(NamedTuple):
    """A queue, why it was selected, and the memory and the table afterwards."""

    queue: MessageQueue
    rule: str
    memory: ThreadMemory
    faults: Faults


@dataclass(frozen=True, slots=True)
class FaultStrategy:
    """`org.apache.rocketmq.client.latency.MQFaultStrategy` of a client's version."""

    version: str = "5.1.4"
    enabled: bool = True
    """``sendLatencyFaultEnable``, in a Java producer false by default."""
    faithful: bool = False
    """Whether it has the bugs of its version. Else 4.0-4.7 take any available broker, as 4.8 does, and no version
    replaces queues in its list."""

    def __post_init__(self) -> None:
        find_era(self.version)

    @property
    def era(self) -> FaultEra:
        """Rules of this version."""
        return _fault_era(self.version, self.faithful)

    def update(
        self, faults: Faults, broker: str, latency: int, now: int, *, isolated: bool, reachable: bool = True
    ) -> Faults:
        """Return the table after a send that took ``latency`` milliseconds (`updateFaultItem`); the same if disabled.

        Versions before 5.1.4 ignore ``reachable``.
        """
        if not self.enabled:
            return faults
        duration = self.era.durations.after(latency, isolated=isolated)
        item = faults.get(broker, FaultItem(latency))
        if self.era.filters:
            until = max(item.available_from, now + duration) if duration > 0 else item.available_from
            item = item._replace(latency=latency, available_from=until, reachable=reachable)
        else:
            item = item._replace(latency=latency, available_from=now + duration)
        return MappingProxyType({**faults, broker: item})

    def select(
        self,
        last_broker: str | None,
        partitions: Partitions,
        faults: Faults,
        memory: ThreadMemory,
        inputs: Inputs,
        *,
        reset_index: bool = False,
        write_queues: Mapping[str, int] | None = None,
    ) -> FaultSelection:
        """Select the queue of the next try (`selectOneMessageQueue`); ``last_broker`` is that of the try before.

        ``reset_index`` is true in 5.1.4 and later for all tries but the first. ``write_queues`` maps the brokers in the
        route to their writeQueueNums; versions before 5.1.4 pick one of them (4.9.8 only one with write permission). By
        default they are the brokers of the list, with their numbers of queues.
        """
        if not self.enabled:
            choice, turn = RoundRobin(self.version).choose_again(last_broker, partitions, memory.turn, inputs)
            queue = MessageQueue.from_partition(partitions[cast("int", choice.partition)])
            return FaultSelection(queue, choice.rule, memory._replace(turn=turn), faults)
        search = _Selection(self, partitions, faults, memory, inputs)
        if self.era.filters:
            return search.select_by_filters(last_broker, reset_index=reset_index)
        return search.select_by_availability(
            last_broker, _count_queues(partitions) if write_queues is None else write_queues
        )

    def pick_one_at_least(self, faults: Faults, worst: int | None, inputs: Inputs) -> tuple[str | None, int | None]:
        """Return the broker to use if none is available, and the new index ``worst`` (`pickOneAtLeast`).

        Before 5.1.4 the brokers in the better half of the table take turns; since then it is a random reachable broker,
        but no send calls the method any more. The broker is None if the table has none, and where 4.8 fails because
        its index is Integer.MIN_VALUE.
        """
        brokers = _in_hash_order(faults)
        if self.era.shuffles:
            _shuffle(brokers, inputs.draw)
        if self.era.filters:
            return next((broker for broker in brokers if faults[broker].reachable), None), worst
        if not brokers:
            return None, worst
        brokers.sort(key=lambda broker: _rank(faults[broker], inputs.now))
        half = len(brokers) // 2
        if not half:
            return brokers[0], worst
        index = find_era(self.version)
        worst, number = index.step(index.first(to_signed(inputs.draw(1 << 32))) if worst is None else worst)
        position = compute_remainder(number, half)
        return brokers[position] if position >= 0 else None, worst


def list_probes_due(faults: Faults, now: int) -> tuple[str, ...]:
    """Return the brokers that a round of the detector probes now (`detectByOneRound`, 5.1.4 and later).

    With ``startDetectorEnable`` there is a round every 3 seconds.
    """
    return tuple([broker for broker, item in faults.items() if now >= item.probe_from])


def probe(faults: Faults, broker: str, now: int, *, answered: bool | None) -> Faults:
    """Return the table after the probe of a broker in it: it is reachable if it answered, else as before.

    ``answered`` is None for a broker that has no known address any more; it is removed from the table.
    """
    if answered is None:
        return _without(faults, broker)
    item = faults[broker]
    item = item._replace(probe_from=now + DETECT_INTERVAL, reachable=item.reachable or answered)
    return MappingProxyType({**faults, broker: item})


class _Selection:
    """One selection. It advances the thread's index; its result has the memory and the table afterwards."""

    def __init__(
        self, strategy: FaultStrategy, partitions: Partitions, faults: Faults, memory: ThreadMemory, inputs: Inputs
    ) -> None:
        self._strategy: Final = strategy
        self._indexes: Final = find_era(strategy.version)
        self._partitions: Final = partitions
        self._faults = faults
        self._inputs: Final = inputs
        self._worst = memory.worst
        if memory.turn is not None and memory.turn.partitions == partitions:
            self._index: int | None = memory.turn.at
            self._renamed = memory.renamed
        else:
            self._index = None
            self._renamed = MappingProxyType({})

    def select_by_filters(self, last: str | None, *, reset_index: bool) -> FaultSelection:
        """Select as since 5.1.4: a queue of an available broker, else of a reachable one, else the next queue."""
        # The first loop searches for an available broker, the second one for a reachable one; both move the index.
        if reset_index:
            self._index = self._inputs.draw((1 << 31) - 1)
        for rule, is_good in (("available", self._is_available), ("reachable", self._is_reachable)):
            for _ in range(self._partitions.count):
                queue = self._queue_at(self._next_position())
                if is_good(queue.broker) and _take_other(queue.broker, last):
                    return self._build_selection(queue, f"{rule}, not {last}" if last is not None else rule)
        return self._select_next()

    def select_by_availability(self, last: str | None, write_queues: Mapping[str, int]) -> FaultSelection:
        """Select as before 5.1.4: a queue of an available broker, else of a broker picked, else the next queue."""
        era, count = self._strategy.era, self._partitions.count
        number = self._next_number()
        for ahead in range(count):
            tried = to_signed(number + ahead)
            # Java's remainder is negative then, unless it is 0: the list throws, and the client takes the next queue.
            if tried < 0 and not era.wraps and tried % count:
                return self._select_next()
            queue = self._queue_at(find_position(tried, count))
            if self._is_available(queue.broker) and era.takes(queue.broker, last):
                return self._build_selection(queue, "available")
        picked, self._worst = self._strategy.pick_one_at_least(self._faults, self._worst, self._inputs)
        queues = write_queues.get(picked, 0) if picked is not None else 0
        if picked is None or queues <= 0:
            self._faults = _without(self._faults, picked)
            return self._select_next()
        replaced = self._next_position()
        queue = MessageQueue(picked, compute_remainder(self._next_number(), queues))
        if era.renames:
            self._renamed = MappingProxyType({**self._renamed, replaced: queue})
        return self._build_selection(queue, "no available broker; one picked of the better half")

    def _select_next(self) -> FaultSelection:
        return self._build_selection(self._queue_at(self._next_position()), "the next one")

    def _next_number(self) -> int:
        index = self._indexes.first(to_signed(self._inputs.draw(1 << 32))) if self._index is None else self._index
        self._index, number = self._indexes.step(index)
        return number

    def _next_position(self) -> int:
        return find_position(self._next_number(), self._partitions.count)

    def _queue_at(self, index: int) -> MessageQueue:
        return self._renamed.get(index) or MessageQueue.from_partition(self._partitions.all[index])

    def _is_available(self, broker: str) -> bool:
        return broker not in self._faults or self._faults[broker].is_available(self._inputs.now)

    def _is_reachable(self, broker: str) -> bool:
        return broker not in self._faults or self._faults[broker].reachable

    def _build_selection(self, queue: MessageQueue, rule: str) -> FaultSelection:
        turn = None if self._index is None else Turn(self._index, self._partitions)
        return FaultSelection(queue, rule, ThreadMemory(turn, self._worst, self._renamed), self._faults)


@cache
def _fault_era(version: str, faithful: bool) -> FaultEra:
    number = (*map(int, version.split(".")), 0, 0)
    *_, era = [era for since, era in ERAS.items() if since <= number]
    if faithful:
        return era
    return era._replace(takes=_take_any if era.takes is _take_same else era.takes, renames=False)


def _count_queues(partitions: Partitions) -> Mapping[str, int]:
    """Return how many queues each broker has in the list."""
    return Counter([find_broker_name(partition) for partition in partitions])


def _without(faults: Faults, broker: str | None) -> Faults:
    return MappingProxyType({name: item for name, item in faults.items() if name != broker})


def _rank(item: FaultItem, now: int) -> tuple[bool, int, int]:
    """Return the sort key of a row, best first (`FaultItem.compareTo`)."""
    return not item.is_available(now), item.latency, item.available_from


def _in_hash_order(faults: Faults) -> list[str]:
    """Return the brokers in the order of Java's ConcurrentHashMap.

    The order matters only between brokers whose rows are equal. It is Java's for up to 23 brokers; with more brokers,
    Java's map grows.
    """

    def bucket(broker: str) -> int:
        hashed = string_hash(broker) & MASK
        return (hashed ^ hashed >> 16) & BUCKETS - 1

    return sorted(faults, key=bucket)


def _shuffle(items: list[str], draw: Draw) -> None:
    """Shuffle as ``Collections.shuffle`` does, with ``draw(n)`` for ``nextInt(n)``."""
    for size in range(len(items), 1, -1):
        at = draw(size)
        items[size - 1], items[at] = items[at], items[size - 1]
