"""What health looks at, and what it finds: the parts of a pump that may be read, and its states and conditions.

None of the former changes the pump; the latter are values, so other threads read them without a lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bridge.endpoint import Disconnected, Failure, Outgoing, Source, Target
from bridge.pump.dead_letters import DeadLetterLimit
from bridge.pump.policy import Policy
from bridge.pump.window import Pending
from exchange.values.documents import document

__all__ = ["Condition", "InletLike", "OutletLike", "PumpLike", "SourceState", "TargetState", "WindowLike"]


class WindowLike(Protocol):
    """The readable part of `bridge.pump.window.Window`."""

    @property
    def messages(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def room(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def capacity_bytes(self) -> int: ...
    @property
    def full_since(self) -> float | None: ...
    @property
    def limit(self) -> DeadLetterLimit | None: ...
    def oldest(self) -> Pending | None: ...
    def on_hold(self) -> Sequence[Pending]: ...


class InletLike(Protocol):
    """The readable part of `bridge.pump.pump.Inlet`."""

    @property
    def source(self) -> Source: ...
    @property
    def window(self) -> WindowLike: ...
    @property
    def exchange(self) -> str | None: ...
    @property
    def policy(self) -> Policy | None: ...


class OutletLike(Protocol):
    """The readable part of `bridge.pump.outlet.Outlet`."""

    @property
    def target(self) -> Target: ...
    @property
    def connected(self) -> bool: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def held(self) -> int: ...
    @property
    def error(self) -> Disconnected | None: ...
    @property
    def waiting(self) -> Mapping[str, Failure]: ...
    def oldest(self) -> Outgoing | None: ...


class PumpLike(Protocol):
    """The readable part of `bridge.pump.pump.Pump`."""

    @property
    def outlets(self) -> Sequence[OutletLike]: ...
    @property
    def paused(self) -> bool: ...
    @property
    def draining(self) -> bool: ...
    def waiting_for(self, inlet: Any, /) -> str | None: ...


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
