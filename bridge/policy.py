"""What the owner decided: how much may be under way, how failures are met, what becomes of the unroutable."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Backoff", "Policy", "Unroutable"]


class Unroutable(Enum):
    """What becomes of a message that no queue gets, or that a target had nowhere to put."""

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


@dataclass(frozen=True, slots=True)
class Policy:
    """All of it, for a pump."""

    window: int = 2_000
    """Messages of a source that are not settled, at most."""
    window_bytes: int = 256 << 20
    tries: int = 5
    """After so many refusals a message is a dead letter."""
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
