"""The owner's decisions: how many messages may be under way, how to retry, what becomes of unroutable messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Unroutable(Enum):
    """The fate of a message that no queue of the topology gets."""

    DEAD_LETTER = "dead-letter"
    HOLD = "hold"
    """The message waits until it can be routed; until then, nothing after it in its lane is settled."""
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds to wait before each try: from ``first`` to ``most``, doubling, with jitter."""

    first: float = 0.1
    most: float = 30.0

    def delay(self, attempt: int, random: float) -> float:
        """Return the seconds to wait before attempt 1, 2 ...; ``random``, in [0, 1), takes away up to half of them."""
        full = min(self.most, self.first * 2.0 ** min(attempt - 1, 60))
        return full * (1 - random / 2)


class Attempts:
    """Counts the failed tries to make one connection, to compute the time to wait before the next one.

    A connection that was shorter than the longest wait, and over which nothing was done, counts as a failed try: if a
    broker accepts connections and closes them a moment later, it must not get ten of them a second.
    """

    def __init__(self, backoff: Backoff, random: Callable[[], float]) -> None:
        self._backoff = backoff
        self._random = random
        self._count = 0

    def note_connection(self, seconds: float, *, progressed: bool) -> None:
        """Take note of a connection that lasted for ``seconds``, and of whether anything was done over it."""
        if progressed or seconds >= self._backoff.most:
            self._count = 0

    def next_wait(self, tried_for: float = 0.0) -> float:
        """Return the seconds to wait before the next try, after one that lasted for ``tried_for`` seconds.

        These count: a broker that is back is not to be waited for after a try that has waited for it long enough.
        """
        self._count += 1
        return max(0.0, self._backoff.delay(self._count, self._random()) - tried_for)


@dataclass(frozen=True, slots=True)
class Policy:
    """All decisions about one pump.

    >>> Policy(window=100, one_at_a_time=True).tries
    5
    """

    window: int = 2_000
    """Maximum number of unsettled messages of a source."""
    window_bytes: int = 256 << 20
    """Maximum size of these messages in memory, in bytes."""
    tries: int = 5
    """Number of refusals after which a message becomes a dead letter. Back-pressure is no refusal of the message."""
    backoff: Backoff = Backoff()
    """Time between the tries of a message."""
    reconnect: Backoff = Backoff(0.2, 5.0)
    """Time between the tries to connect: a broker that is back is noticed no later."""
    unroutable: Unroutable = Unroutable.DEAD_LETTER
    one_at_a_time: bool = False
    """Whether at most one message of each key is under way to a target at any time. Then not even a refusal in the
    middle of a batch can change the order, but each message of a key costs a round trip."""
    rate: float | None = None
    """Maximum number of messages per second read from each source; None: no limit."""
    drain: float = 30.0
    """Maximum duration of a graceful stop, in seconds."""
    stalled_after: float = 10.0
    """Seconds after which an unsettled message or a full window makes the bridge not ready."""
    max_hops: int = 8
    """Maximum number of bridges that a message may have passed; with more, it is in a loop: a dead letter."""
    give_up_after: float | None = None
    """Seconds of back-pressure after which the waiting messages become dead letters; None: they wait for ever."""
    max_dead_letters: float = 0.5
    """Maximum share of a source's latest messages for one queue that become dead letters, beyond ten; more wait, until
    the share is lower or they are written. 1: any."""
