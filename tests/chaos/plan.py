"""Which faults a run suffers, and after how many messages: a value made of a seed, so that it can be had again.

Faults are spread evenly over the messages, each somewhere in its share of them; the order of their kinds is random.
Some strike while the one before is not over: a bridge is killed while its connection is stalled, and the next one
comes while the broker still believes in the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import cycle, islice
from random import Random
from typing import Final, NamedTuple

__all__ = ["RELAYED", "Fault", "Kind", "plan"]


class Kind(Enum):
    """What is done."""

    KILL = "kill"
    """The bridge is ended with SIGKILL, and started again."""
    RESTART = "restart"
    """A broker is told to stop, and started again."""
    BROKER_KILL = "broker kill"
    """A broker is ended with SIGKILL, and started again."""
    CUT = "cut"
    """Connections of one side are ended."""
    STALL = "stall"
    """Nothing passes the connections of one side for a while, and they stay; a long stall spares new connections."""
    SLOW = "slow"
    """Little passes them for a while."""


RELAYED: Final = (Kind.CUT, Kind.STALL, Kind.SLOW)
ENDED_BY_TIME: Final = (Kind.STALL, Kind.SLOW)

SOME: Final = (0.1, 1.5)
"""Seconds that most stalls and slow times take."""
LONG: Final = (6.5, 8.0)
"""And some: longer than the heartbeats of `tests.chaos.places` endure."""
HOW_MANY_LONG: Final = 0.15
TOGETHER: Final = 0.3
"""How many of the faults behind one that takes time come while it lasts."""
RATES: Final = (20e3, 200e3)
"""Bytes a second of slow connections."""


class Fault(NamedTuple):
    """One of them."""

    at: int
    """When so many messages were read."""
    kind: Kind
    side: int = 0
    """Of which connections, or which broker: an index into the sides of a pair that have one."""
    seconds: float = 0.0
    """How long it lasts; of a kill, until the next bridge is started."""
    rate: float = 0.0
    """Bytes a second, of slow connections."""

    @property
    def is_long(self) -> bool:
        """Whether it is a stall that outlasts heartbeats."""
        return self.kind is Kind.STALL and self.seconds >= LONG[0]


def plan(messages: int, counts: Mapping[Kind, int], cuts: int, sides: int, random: Random) -> Sequence[Fault]:
    """So many faults of each kind, in their order; ``cuts`` are cut, stalled and slow connections in equal parts."""
    kinds = [*Counter(counts).elements(), *islice(cycle(RELAYED), cuts)]
    random.shuffle(kinds)
    turns = {kind: random.randrange(sides) for kind in Kind}
    faults: list[Fault] = []
    for n, kind in enumerate(kinds):
        at = int((n + random.uniform(0.2, 0.8)) / len(kinds) * messages)
        before = faults[-1] if faults else None
        if before and before.kind in ENDED_BY_TIME and kind not in ENDED_BY_TIME and random.random() < TOGETHER:
            at = before.at
        turns[kind] += 1  # each kind strikes all sides in turn
        faults.append(Fault(at, kind, turns[kind] % sides, _seconds(kind, random), random.uniform(*RATES)))
    return faults


def _seconds(kind: Kind, random: Random) -> float:
    if kind is Kind.KILL:
        return random.uniform(0.0, 0.3)
    if kind not in ENDED_BY_TIME:
        return 0.0
    return random.uniform(*(LONG if kind is Kind.STALL and random.random() < HOW_MANY_LONG else SOME))
