"""What health finds: states and conditions. They are values, so other threads read them without a lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exchange.values.documents import document

__all__ = ["Condition", "SourceState", "TargetState"]


@document("ConditionJson")
@dataclass(frozen=True, slots=True)
class Condition:
    """A reason why messages do not move, or soon will not."""

    endpoint: str
    """The name of an endpoint; "" for the bridge."""
    kind: str
    """One of those in docs/bridge-operations.md: ``bridge.daemon.health.KINDS``."""
    reason: str
    since: float
    """Start time, in seconds since 1970."""
    way_out: str = ""
    """What the owner of the bridge can do about it; "" if there is nothing to do."""

    def __str__(self) -> str:
        return f"{self.endpoint}: {self.reason}" if self.endpoint else self.reason


@dataclass(frozen=True, slots=True)
class SourceState:
    """State of a source at the last look."""

    up: bool
    """Whether it is connected and without trouble."""
    lag: int | None
    withheld: int
    vanished: int
    unsettled_bytes: int
    fill: float
    """Used share of the window, by messages or by bytes, whichever is larger; 1: full."""
    oldest_age: float
    """Seconds since the oldest unsettled message was read; 0 if there is none."""
    oldest: str
    """Origin of that message; "" if there is none."""
    on_hold: int
    """Number of messages on hold."""
    held: tuple[tuple[str, str], ...]
    """Origin and reason of the first of these messages."""
    survives: float | None = None
    """Longest outage, in seconds, that what waits survives; None if no time bounds it, as far as is known."""
    dead_letter_share: float = 0.0
    """Share of dead letters among its latest messages for one queue, that with the highest."""


@dataclass(frozen=True, slots=True)
class TargetState:
    """State of a target at the last look."""

    up: bool
    oldest_age: float
    """Seconds since the oldest message without an answer was read; 0 if none is old enough for a scan."""
    waiting: Mapping[str, str]
    """Queue of the topology -> reason why it takes nothing now."""
