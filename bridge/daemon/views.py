"""What health finds: states and conditions, values that other threads read without a lock. `/status` consists of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict

from bridge.daemon.telemetry.metrics import HistoryJson
from bridge.endpoint import Place
from exchange.values.documents import document


@document("ConditionJson", "pipeline if any, endpoint, kind, reason, since, way_out")
@dataclass(frozen=True, slots=True)
class Condition:
    """A reason why messages do not move, or soon will not."""

    endpoint: str
    """The name of an endpoint; "" for the bridge."""
    kind: str
    """One of those in docs/bridge-operations.md: ``bridge.daemon.conditions.KINDS``."""
    reason: str
    since: float
    """Start time, in seconds since 1970."""
    way_out: str = ""
    """What the owner of the bridge can do about it; "" if there is nothing to do."""
    pipeline: str | None = None
    """The pipeline that has it; absent if the file has only one."""

    def __str__(self) -> str:
        return "".join([f"{each}: " for each in (self.pipeline, self.endpoint) if each]) + self.reason


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


class HeldJson(TypedDict):
    """A message on hold."""

    origin: str
    reason: str


class SourceJson(TypedDict):
    """A source."""

    pipeline: NotRequired[str]
    """Its pipeline, if the file has several."""
    name: str
    up: bool
    """Whether it is connected and without trouble."""
    ended: bool
    places: list[Place]
    messages: int
    """Messages read."""
    bytes: int
    redelivered: int
    filtered: int
    """Messages that its filter rejected."""
    unreadable: int
    unsettled: int
    unsettled_bytes: int
    fill: float
    """Used share of the window; 1: full."""
    oldest: str
    """Origin of the oldest unsettled message; "" if there is none."""
    oldest_age: float
    """Seconds since it was read."""
    lag: int | None
    """Messages in the system that are not read yet; null if unknown."""
    withheld: int
    """Those of them that are given to nobody, or to another reader."""
    vanished: int
    """Messages that the system removed before they were read."""
    survives: float | None
    """Longest outage, in seconds, that messages that wait survive; null if no time bounds it, as far as is known."""
    on_hold: int
    held: list[HeldJson]
    """The first of the messages on hold."""


class WaitingJson(TypedDict):
    """A queue that takes nothing now."""

    queue: str
    reason: str


class LatencyJson(TypedDict):
    """The time from reading a message to its confirmation."""

    seconds: float
    """Sum over all messages."""
    buckets: list[int]
    """Messages up to each of the `latency_bounds`, and above the last."""


class TargetJson(TypedDict):
    """A target."""

    pipeline: NotRequired[str]
    """Its pipeline, if the file has several."""
    name: str
    up: bool
    places: list[Place]
    dead_letters: bool
    """Whether it is the target of dead letters."""
    in_flight: int
    held: int
    """Messages that are kept back so that the messages of a key stay in order."""
    oldest_age: float
    """Seconds since the oldest message without an answer was read; 0 if none is old."""
    waiting: list[WaitingJson]
    queues: dict[str, int]
    """Queue of the topology -> messages confirmed."""
    refusals: dict[str, int]
    """Reason -> number of refusals."""
    latency: LatencyJson


class FateJson(TypedDict):
    """Messages that were given up."""

    pipeline: NotRequired[str]
    """The pipeline of the endpoint, if the file has several."""
    endpoint: str
    fate: str
    """`dead-letter`, `hold` or `drop`."""
    messages: int


@document("PipelineJson")
@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """A pipeline of several."""

    name: str
    ready: bool
    ended: bool
    """Whether all its sources have ended, and it with them."""
    paused: bool
    draining: bool
    drained: bool
    unsettled: int
    missing: tuple[str, ...]
    """Why it is not ready."""


class StatusJson(TypedDict):
    """The state of a running bridge: `/status`."""

    version: Literal[1]
    hashstar: str
    """Version of hashstar."""
    python: str
    """Version of Python."""
    config: str
    """The file."""
    worker: int
    """Number of this process among the workers."""
    workers: int
    """Number of processes that share the work; each has a status of its own."""
    started: float
    """Seconds since 1970."""
    now: float
    """Seconds since 1970."""
    alive: bool
    """Whether the event loop runs."""
    ready: bool
    """Whether all its pipelines are ready."""
    missing: list[str]
    """Why it is not ready."""
    conditions: Sequence[Condition]
    paused: bool
    """Whether it is paused: of several pipelines, all that have not ended."""
    draining: bool
    """Whether it, or one of several pipelines, waits until everything that was read is settled, as it stops, reloads or
    is drained."""
    drained: bool
    """Whether it was drained, or all pipelines were: nothing is read or under way, and its sources are closed."""
    unsettled: int
    pipelines: NotRequired[list[PipelineStatus]]
    """The pipelines, if the file has several; each source, target, condition and fate has the name of its own then."""
    sources: list[SourceJson]
    targets: list[TargetJson]
    fates: list[FateJson]
    latency_bounds: list[float]
    """Upper bounds of the buckets of latencies, in seconds."""
    history: HistoryJson
    reloads: int
    """Times that the configuration was read again, and has come into effect."""
    last_reload: float | None
    """When the configuration was last read again, whether refused or not, in seconds since 1970; null if never."""
    reload_refused: str
    """Why the last reload was refused; "" if it was not."""
