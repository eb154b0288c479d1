"""What the owner decided: how much may be under way, how failures are met, what becomes of the unroutable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

__all__ = ["Attempts", "Backoff", "Policy", "Unroutable"]


class Unroutable(Enum):
    """What becomes of a message that no queue of the topology gets."""

    DEAD_LETTER = "dead-letter"
    HOLD = "hold"
    """It waits, and all of its lane that comes after it stays unsettled, until it can be routed."""
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before trying again, in seconds: it doubles from ``first`` to ``most``, with jitter."""

    first: float = 0.1
    most: float = 30.0

    def delay(self, attempt: int, random: float) -> float:
        """Before attempt 1, 2 ...; ``random`` is in [0, 1), and takes away up to half."""
        full = min(self.most, self.first * 2.0 ** min(attempt - 1, 60))
        return full * (1 - random / 2)


class Attempts:
    """The tries to make one connection, and how long to wait before each.

    A connection that lasts for less than the longest wait, and over which nothing was done, counts as a try that
    failed: a broker that accepts a connection and closes it a moment later must not be asked ten times a second.
    """

    def __init__(self, backoff: Backoff, random: Callable[[], float]) -> None:
        self._backoff = backoff
        self._random = random
        self._count = 0

    def lasted(self, seconds: float, *, progressed: bool) -> None:
        """Take note of a connection that lasted for ``seconds``, and whether anything was done over it."""
        if progressed or seconds >= self._backoff.most:
            self._count = 0

    def next_wait(self) -> float:
        """Return how long to wait before the next try, in seconds."""
        self._count += 1
        return self._backoff.delay(self._count, self._random())


@dataclass(frozen=True, slots=True)
class Policy:
    """All of it, for a pump.

    >>> Policy(window=100, one_at_a_time=True).tries
    5
    """

    window: int = 2_000
    """Messages of a source that are not settled, at most."""
    window_bytes: int = 256 << 20
    tries: int = 5
    """Number of refusals after which a message is a dead letter. Back-pressure is no refusal of the message."""
    backoff: Backoff = Backoff()
    """Between the tries of a message."""
    reconnect: Backoff = Backoff(0.2, 10.0)
    unroutable: Unroutable = Unroutable.DEAD_LETTER
    one_at_a_time: bool = False
    """Whether of a key only one message is under way to a target, always: then not even a refusal in the middle of a
    batch can change the order, and a key costs a round trip a message."""
    rate: float | None = None
    """Messages a second, read from each source, at most."""
    drain: float = 30.0
    """Seconds that a graceful stop may take."""
    stalled_after: float = 10.0
    """Seconds after which a message that is not settled, or a window that is full, makes the bridge not ready."""
    max_hops: int = 8
    """Number of bridges that a message may have passed; beyond, it is in a loop and becomes a dead letter."""
    give_up_after: float | None = None
    """Seconds of back-pressure after which a message is a dead letter all the same; None: it waits."""
