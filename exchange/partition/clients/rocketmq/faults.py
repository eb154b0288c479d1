"""How RocketMQ's Java producer keeps away from slow and broken brokers: `MQFaultStrategy` with its table of faults.

Each send leaves a row in its producer's table, and the latency there says how long the broker is not available. With
``sendLatencyFaultEnable``, off by default, the next queue is one of an available broker; what happens where there is
none differs between versions, a row each in ``ERAS``. Table and memory are values: time and chance come from outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from exchange.partition.clients.rocketmq.message_queue import MessageQueue
from exchange.partition.clients.rocketmq.queues import broker_name
from exchange.partition.clients.rocketmq.round_robin import RoundRobin, Turn, era_of, position
from exchange.partition.hashing.hashes import MASK, signed
from exchange.partition.hashing.java import remainder, string_hash
from exchange.partition.partitioner import Draw, Inputs
from exchange.partition.partitions import Partitions

__all__ = [
    "DETECTOR_PERIOD", "DETECT_INTERVAL", "ERAS", "Durations", "FaultEra", "FaultItem", "FaultStrategy", "Faults",
    "Memory", "Selection", "probe", "probes_due",
]  # fmt: skip

DETECTOR_PERIOD: Final = 3000
"""Milliseconds between two rounds of the detector (`LatencyFaultToleranceImpl.startDetector`)."""
DETECT_INTERVAL: Final = 2000
"""``detectInterval``: so many milliseconds a broker is not probed again."""

BUCKETS: Final = 32
"""Of a ``new ConcurrentHashMap(16)``."""


class FaultItem(NamedTuple):
    """What the table says of one broker (`LatencyFaultToleranceImpl.FaultItem`)."""

    latency: int
    """Milliseconds that the last send to it took."""
    available_from: int = 0
    """``startTimestamp``: milliseconds since 1970."""
    reachable: bool = True
    """Since 5.1.4."""
    probe_from: int = 0
    """``checkStamp``: from when on, in milliseconds since 1970, the detector probes it."""

    def is_available(self, now: int) -> bool:
        """Whether it is to be used again."""
        return now >= self.available_from


Faults = Mapping[str, FaultItem]
"""Broker name -> what is known of it, in the order in which they came; no row is a broker without a fault."""


class Durations(NamedTuple):
    """How long a broker is not available."""

    steps: tuple[tuple[int, int], ...]
    """From so many milliseconds of latency on, so many (`latencyMax`, `notAvailableDuration`)."""
    isolation: int
    """The latency that an isolated broker is taken to have."""

    def after(self, latency: int, *, isolated: bool = False) -> int:
        """Milliseconds (`computeNotAvailableDuration`)."""
        counted = self.isolation if isolated else latency
        return max([duration for least, duration in self.steps if counted >= least], default=0)


class FaultEra(NamedTuple):
    """What a range of versions does."""

    durations: Durations
    takes: Callable[[str, str | None], bool]
    """Whether an available broker is taken, given it and the last one."""
    shuffles: bool = False
    """Whether `pickOneAtLeast` shuffles the brokers first."""
    renames: bool = False
    """Whether the queue in the list itself becomes that of the broker picked: the bug apache/rocketmq#7779."""
    wraps: bool = True
    """Whether the search goes on when the index passes Integer.MAX_VALUE; else it fails there, and takes turns."""
    filters: bool = False
    """Whether reachable brokers are second best and the time of a fault is only ever extended; else one is picked."""


SLOW: Final = Durations(
    ((50, 0), (100, 0), (550, 30_000), (1000, 60_000), (2000, 120_000), (3000, 180_000), (15_000, 600_000)), 30_000
)
QUICK: Final = Durations(
    ((50, 0), (100, 0), (550, 2000), (1800, 5000), (3000, 6000), (5000, 10_000), (15_000, 30_000)), 10_000
)


def _any(broker: str, last: str | None) -> bool:
    return True


def _same(broker: str, last: str | None) -> bool:
    return last is None or broker == last


def _other(broker: str, last: str | None) -> bool:
    return broker != last


ERAS: Final[Mapping[tuple[int, ...], FaultEra]] = MappingProxyType({
    (4, 0): FaultEra(SLOW, _same, shuffles=True, renames=True),
    (4, 8): FaultEra(SLOW, _any, shuffles=True, renames=True),
    (4, 9, 4): FaultEra(SLOW, _any, renames=True),
    (4, 9, 8): FaultEra(SLOW, _any),
    (5, 0): FaultEra(SLOW, _any, renames=True),
    (5, 1, 1): FaultEra(SLOW, _other, renames=True, wraps=False),
    (5, 1, 4): FaultEra(QUICK, _other, shuffles=True, filters=True),
})  # fmt: skip
"""The version that brought it -> what it does. 4.0-4.7 retry the broker that failed (apache/rocketmq#1576, #2046)."""


class Memory(NamedTuple):
    """What one thread of a producer remembers of one topic."""

    turn: Turn | None = None
    worst: int | None = None
    """The index of `pickOneAtLeast` (``whichItemWorst``); the thread has it for all topics of the producer."""
    renamed: Mapping[int, MessageQueue] = MappingProxyType({})
    """Position in the queue list -> what the list has there now; only with the bug, and then for all threads."""


class Selection(NamedTuple):
    """A queue, why it was selected, and what is remembered afterwards."""

    queue: MessageQueue
    rule: str
    memory: Memory
    faults: Faults


@dataclass(frozen=True, slots=True)
class FaultStrategy:
    """`org.apache.rocketmq.client.latency.MQFaultStrategy` of a client's version."""

    version: str = "5.1.4"
    enabled: bool = True
    """``sendLatencyFaultEnable``, which is false in a producer that was not told otherwise."""
    faithful: bool = False
    """With the bugs of its version; else 4.0-4.7 take any available broker as 4.8 does, and no list is changed."""

    def __post_init__(self) -> None:
        era_of(self.version)

    @property
    def era(self) -> FaultEra:
        """What this version does."""
        return _fault_era(self.version, self.faithful)

    def update(
        self, faults: Faults, broker: str, latency: int, now: int, *, isolated: bool, reachable: bool = True
    ) -> Faults:
        """The table after a send that took ``latency`` milliseconds (`updateFaultItem`); the same while not enabled.

        Versions before 5.1.4 know nothing of ``reachable``.
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
        memory: Memory,
        inputs: Inputs,
        *,
        reset_index: bool = False,
        write_queues: Mapping[str, int] | None = None,
    ) -> Selection:
        """The queue of the next try (`selectOneMessageQueue`); ``last_broker`` is that of the try before, if any.

        ``reset_index`` is what 5.1.4 and later pass for the second try and those after it. ``write_queues`` are the
        brokers in the route with their writeQueueNums, of which before 5.1.4 one is picked (in 4.9.8 only of those with
        write permission); left out, they are those of the list.
        """
        if not self.enabled:
            choice, turn = RoundRobin(self.version).choose_again(last_broker, partitions, memory.turn, inputs)
            queue = MessageQueue.of(partitions[cast("int", choice.partition)])
            return Selection(queue, choice.rule, memory._replace(turn=turn), faults)
        search = _Search(self, partitions, faults, memory, inputs)
        if self.era.filters:
            return search.filtered(last_broker, reset_index=reset_index)
        return search.available(last_broker, _written(partitions) if write_queues is None else write_queues)

    def pick_one_at_least(self, faults: Faults, worst: int | None, inputs: Inputs) -> tuple[str | None, int | None]:
        """A broker where none is good, and the thread's ``worst`` index after it (`pickOneAtLeast`).

        Before 5.1.4 one of the better half of the table by turns; since then a random one that is reachable, which no
        send asks for any more. None where there is none, and where 4.8 fails because its index is Integer.MIN_VALUE.
        """
        brokers = list(_as_hashed(faults))
        if self.era.shuffles:
            _shuffle(brokers, inputs.draw)
        if self.era.filters:
            return next((broker for broker in brokers if faults[broker].reachable), None), worst
        if not brokers:
            return None, worst
        brokers.sort(key=lambda broker: _badness(faults[broker], inputs.now))
        half = len(brokers) // 2
        if not half:
            return brokers[0], worst
        index = era_of(self.version)
        worst, number = index.step(index.first(signed(inputs.draw(1 << 32))) if worst is None else worst)
        at = remainder(number, half)
        return brokers[at] if at >= 0 else None, worst


def probes_due(faults: Faults, now: int) -> tuple[str, ...]:
    """The brokers that a round of the detector probes now (`detectByOneRound`, 5.1.4 and later).

    With ``startDetectorEnable`` there is a round every 3 seconds.
    """
    return tuple([broker for broker, item in faults.items() if now >= item.probe_from])


def probe(faults: Faults, broker: str, now: int, *, answered: bool | None) -> Faults:
    """The table after the probe of a broker in it: one that answered is reachable, one that did not stays what it was.

    ``answered`` is None for a broker of which no address is known any more; it leaves the table.
    """
    if answered is None:
        return _without(faults, broker)
    item = faults[broker]
    item = item._replace(probe_from=now + DETECT_INTERVAL, reachable=item.reachable or answered)
    return MappingProxyType({**faults, broker: item})


class _Search:
    """One selection: it moves the thread's index along."""

    def __init__(
        self, strategy: FaultStrategy, partitions: Partitions, faults: Faults, memory: Memory, inputs: Inputs
    ) -> None:
        self._strategy: Final = strategy
        self._indexes: Final = era_of(strategy.version)
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

    def filtered(self, last: str | None, *, reset_index: bool) -> Selection:
        """Since 5.1.4."""
        if reset_index:
            self._index = self._inputs.draw((1 << 31) - 1)
        for rule, is_good in (("available", self._is_available), ("reachable", self._is_reachable)):
            for _ in range(self._partitions.count):
                at = self._turn()
                broker = self._at(at).broker
                if is_good(broker) and _other(broker, last):
                    return self._selection(self._at(at), f"{rule}, not {last}" if last is not None else rule)
        return self._next()

    def available(self, last: str | None, write_queues: Mapping[str, int]) -> Selection:
        """Before 5.1.4: an available queue, else a queue of a broker picked, else the next."""
        era, count = self._strategy.era, self._partitions.count
        number = self._step()
        for ahead in range(count):
            tried = signed(number + ahead)
            if tried < 0 and not era.wraps and tried % count:
                return self._next()
            queue = self._at(position(tried, count))
            if self._is_available(queue.broker) and era.takes(queue.broker, last):
                return self._selection(queue, "available")
        picked, self._worst = self._strategy.pick_one_at_least(self._faults, self._worst, self._inputs)
        queues = write_queues.get(picked, 0) if picked is not None else 0
        if picked is None or queues <= 0:
            self._faults = _without(self._faults, picked)
            return self._next()
        at = self._turn()
        queue = MessageQueue(picked, remainder(self._step(), queues))
        if era.renames:
            self._renamed = MappingProxyType({**self._renamed, at: queue})
        return self._selection(queue, "no available broker; one picked of the better half")

    def _next(self) -> Selection:
        return self._selection(self._at(self._turn()), "the next one")

    def _step(self) -> int:
        index = self._indexes.first(signed(self._inputs.draw(1 << 32))) if self._index is None else self._index
        self._index, number = self._indexes.step(index)
        return number

    def _turn(self) -> int:
        return position(self._step(), self._partitions.count)

    def _at(self, at: int) -> MessageQueue:
        return self._renamed.get(at) or MessageQueue.of(self._partitions.all[at])

    def _is_available(self, broker: str) -> bool:
        return broker not in self._faults or self._faults[broker].is_available(self._inputs.now)

    def _is_reachable(self, broker: str) -> bool:
        return broker not in self._faults or self._faults[broker].reachable

    def _selection(self, queue: MessageQueue, rule: str) -> Selection:
        turn = None if self._index is None else Turn(self._index, self._partitions)
        return Selection(queue, rule, Memory(turn, self._worst, self._renamed), self._faults)


@cache
def _fault_era(version: str, faithful: bool) -> FaultEra:
    number = (*map(int, version.split(".")), 0, 0)
    *_, era = [era for since, era in ERAS.items() if since <= number]
    if faithful:
        return era
    return era._replace(takes=_any if era.takes is _same else era.takes, renames=False)


def _written(partitions: Partitions) -> Mapping[str, int]:
    """Broker -> its queues in the list."""
    return Counter([broker_name(partition) for partition in partitions])


def _without(faults: Faults, broker: str | None) -> Faults:
    return MappingProxyType({name: item for name, item in faults.items() if name != broker})


def _badness(item: FaultItem, now: int) -> tuple[bool, int, int]:
    """`FaultItem.compareTo`."""
    return not item.is_available(now), item.latency, item.available_from


def _as_hashed(faults: Faults) -> list[str]:
    """The brokers in the order of the ConcurrentHashMap that the table is.

    Only where nothing else tells brokers apart does it count. It is Java's own up to 23 brokers, as many as the table
    takes before it grows.
    """

    def bucket(broker: str) -> int:
        hashed = string_hash(broker) & MASK
        return (hashed ^ hashed >> 16) & BUCKETS - 1

    return sorted(faults, key=bucket)


def _shuffle(items: list[str], draw: Draw) -> None:
    """``Collections.shuffle``, whose ``nextInt(n)`` is ``draw(n)``."""
    for size in range(len(items), 1, -1):
        at = draw(size)
        items[size - 1], items[at] = items[at], items[size - 1]
