"""The plan of a run: its faults, and after how many messages each comes; made from a seed, so that it can be repeated.

Faults are spread evenly over the messages, each at a random position in its share of them; the order of their kinds is
random. Some come before the last one is over: for instance, a bridge is killed while its connection is stalled, and
started again while the broker still has the old connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import cycle, islice
from random import Random
from typing import Final, NamedTuple


class Kind(Enum):
    """A kind of fault."""

    KILL = "kill"
    """The bridge is ended with SIGKILL, and started again."""
    RESTART = "restart"
    """A broker is ended with SIGTERM, and started again."""
    BROKER_KILL = "broker kill"
    """A broker is ended with SIGKILL, and started again."""
    CUT = "cut"
    """Connections of one side are ended."""
    STALL = "stall"
    """For a while, nothing passes the connections of one side, which stay open; a long stall spares new ones."""
    SLOW = "slow"
    """For a while, little passes through the connections of one side."""


RELAYED: Final = (Kind.CUT, Kind.STALL, Kind.SLOW)
ENDED_BY_TIME: Final = (Kind.STALL, Kind.SLOW)

SHORT: Final = (0.1, 1.5)
"""Minimum and maximum duration of most stalls and slow times, in seconds."""
LONG: Final = (6.5, 8.0)
"""The same of long stalls, which outlast the heartbeats of `tests.chaos.places`."""
LONG_SHARE: Final = 0.15
"""Share of the stalls that are long."""
TOGETHER: Final = 0.3
"""Share of the faults after a lasting one that come while it lasts."""
RATES: Final = (20e3, 200e3)
"""Minimum and maximum rate of slow connections, in bytes per second."""


class Fault(NamedTuple):
    """One fault of a plan."""

    at: int
    """Number of messages that were read before it."""
    kind: Kind
    side: int = 0
    """The broker or its connections, as an index into the sides of a pair that have a broker."""
    seconds: float = 0.0
    """Its duration; for a kill, the time until the bridge is started again."""
    rate: float = 0.0
    """Rate of slow connections, in bytes per second."""

    @property
    def is_long(self) -> bool:
        """Whether it is a stall that outlasts heartbeats."""
        return self.kind is Kind.STALL and self.seconds >= LONG[0]


def plan(messages: int, counts: Mapping[Kind, int], cuts: int, sides: int, random: Random) -> Sequence[Fault]:
    """Return ``counts`` faults of each kind, in order; ``cuts`` are cuts, stalls and slow times in equal parts."""
    kinds = [*Counter(counts).elements(), *islice(cycle(RELAYED), cuts)]
    random.shuffle(kinds)
    turns = {kind: random.randrange(sides) for kind in Kind}
    faults: list[Fault] = []
    for n, kind in enumerate(kinds):
        at = int((n + random.uniform(0.2, 0.8)) / len(kinds) * messages)
        before = faults[-1] if faults else None
        if before and before.kind in ENDED_BY_TIME and kind not in ENDED_BY_TIME and random.random() < TOGETHER:
            at = before.at
        turns[kind] += 1  # each kind takes the sides in turn
        faults.append(Fault(at, kind, turns[kind] % sides, _seconds(kind, random), random.uniform(*RATES)))
    return faults


def _seconds(kind: Kind, random: Random) -> float:
    if kind is Kind.KILL:
        return random.uniform(0.0, 0.3)
    if kind not in ENDED_BY_TIME:
        return 0.0
    return random.uniform(*(LONG if kind is Kind.STALL and random.random() < LONG_SHARE else SHORT))
