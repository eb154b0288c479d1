"""The pump of a pipeline: built whole from a configuration, and begun, with its health and its counters.

What happens in it goes to its journal and its metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from bridge.daemon.config import Config
from bridge.daemon.health import Health
from bridge.daemon.journal import Journal
from bridge.daemon.telemetry.metrics import Metrics
from bridge.endpoint import Delivery, Failure, Outgoing
from bridge.pump.events import PumpEvents
from bridge.pump.pump import Inlet, Pump
from bridge.pump.replies import ReplyOutcome, RequestOutcome
from exchange.errors import InputError
from exchange.routing.router import Router
from exchange.text.site import build_install_command

if TYPE_CHECKING:  # imports pyarrow
    from bridge.daemon.coverage import CoverageCounter


@dataclass(frozen=True, slots=True)
class BuiltPump:
    """A pump that does not run yet, and its configuration."""

    config: Config
    pump: Pump
    coverage: CoverageCounter | None = None


@dataclass(frozen=True, slots=True)
class RunningPump(BuiltPump):
    """A pump that runs. It is a value, so that threads which answer HTTP see one pump with its own health."""

    metrics: Metrics = field(kw_only=True)
    health: Health = field(kw_only=True)

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself, as all its sources have; the other pipelines may run on."""
        return self.pump.is_over and not self.pump.draining


def build_pump(config: Config, router: Router, journal: Journal, metrics: Metrics) -> BuiltPump:
    """Build the pump of a configuration; nothing is opened, and no counter changes.

    Raises InputError if coverage or spans are asked for, and what makes them is not installed.
    """
    events, coverage = _Events(journal, metrics), None
    if config.coverage:
        try:
            from bridge.daemon.coverage import CoverageCounter  # imports pyarrow and numpy, which nothing else needs
        except ImportError as error:
            raise InputError(f"{config.path}: coverage: needs {error.name}: {build_install_command('audit')}") from None
        coverage = CoverageCounter(config.path, config.topology)
        events = _CoverageEvents(journal, metrics, {inlet.source.name: inlet for inlet in config.inlets}, coverage.read)
    traced: PumpEvents = events
    if config.tracing:
        try:
            from bridge.daemon.telemetry.spans import TracedEvents, is_set_up  # imports opentelemetry
        except ImportError as error:
            way_out = build_install_command("opentelemetry")
            raise InputError(f"{config.path}: tracing: needs {error.name}: {way_out}") from None
        traced = TracedEvents(events, config)
        if not is_set_up():
            text = "no SDK of OpenTelemetry is set up, so no span goes anywhere: start it with opentelemetry-instrument"
            journal.write("warning", "tracing", text=text)
    pump = Pump(
        config.inlets, router, config.targets, traced, config.policy, config.dead_letters,
        config.ignored, replies=config.replies, partitioners=config.partitioners,
    )  # fmt: skip
    return BuiltPump(config, pump, coverage)


def start_pump(built: BuiltPump, journal: Journal, metrics: Metrics, before: Health | None = None) -> RunningPump:
    """Begin to count and watch a pump that is about to run; ``before`` is the health of the one that ran before it."""
    config = built.config
    only = f" --pipeline {config.name}" if config.name else ""
    metrics.forget_connections()
    for inlet in config.inlets:
        if isinstance(inlet.source, Unreadable):
            inlet.source.unreadable.update(metrics.unreadable.get(inlet.source.name, {}))
            metrics.unreadable[inlet.source.name] = inlet.source.unreadable
    metrics.prepare(*list_endpoints(config))
    health = Health(
        built.pump, config.inlets, metrics, journal, config.policy, config=f"{config.path}{only}",
        has_dead_letters=config.dead_letters is not None, before=before,
    )  # fmt: skip
    return RunningPump(config, built.pump, built.coverage, metrics=metrics, health=health)


def control(pumps: Mapping[str, RunningPump], act: Callable[[Pump], None], pipeline: str | None = None) -> None:
    """Have all pumps, given by their pipelines, or that of one pipeline do something; not those that have ended."""
    for name, each in pumps.items():
        if pipeline in (None, name) and not each.ended:
            act(each.pump)


def list_endpoints(config: Config) -> tuple[dict[str, bool], dict[str, list[str]]]:
    """Return source -> whether it has a filter, and target -> its queues: the arguments of `Metrics.prepare`."""
    targets: dict[str, list[str]] = {}
    for queue, target in config.targets.items():
        targets.setdefault(target.name, []).append(queue)
    for callers in config.replies.callers.values():
        targets[callers.target.name] = sorted(callers.topics or [""])
    if config.dead_letters is not None:
        targets[config.dead_letters.name] = [""]
    return {inlet.source.name: inlet.filter is not None for inlet in config.inlets}, targets


@runtime_checkable
class Unreadable(Protocol):
    """A source that counts the records that it cannot read, by reason."""

    name: str
    unreadable: Counter[str]


class _Events(PumpEvents):
    """Passes events on to the journal and the metrics."""

    def __init__(self, journal: Journal, metrics: Metrics) -> None:
        self._journal = journal
        self._metrics = metrics

    def connected(self, name: str) -> None:
        self._journal.connected(name)
        self._metrics.connected(name)

    def disconnected(self, name: str, error: Exception, wait: float) -> None:
        self._journal.disconnected(name, error, wait)
        self._metrics.disconnected(name, error, wait)

    def read(self, source: str, deliveries: Sequence[Delivery]) -> None:
        self._metrics.read(source, deliveries)

    def sending(self, target: str, messages: Sequence[Outgoing]) -> None:
        pass

    def settled(self, source: str, delivery: Delivery) -> None:
        pass

    def confirmed(self, target: str, messages: Sequence[Outgoing], now: float) -> None:
        self._metrics.confirmed(target, messages, now)

    def refused(self, target: str, message: Outgoing, failure: Failure, retry_in: float | None) -> None:
        self._journal.refused(target, message, failure, retry_in)
        self._metrics.refused(target, message, failure, retry_in)

    def abandoned(self, target: str, message: Outgoing) -> None:
        pass

    def gave_up(self, target: str, message: Outgoing, failure: Failure, fate: str) -> None:
        self._journal.gave_up(target, message, failure, fate)
        self._metrics.gave_up(target, message, failure, fate)

    def unroutable(self, source: str, delivery: Delivery, fate: str, reason: str) -> None:
        self._journal.unroutable(source, delivery, fate, reason)
        self._metrics.unroutable(source, delivery, fate, reason)

    def filtered(self, source: str, delivery: Delivery, reason: str) -> None:
        self._journal.filtered(source, delivery, reason)
        self._metrics.filtered(source, delivery, reason)

    def requested(self, source: str, outcome: RequestOutcome) -> None:
        self._metrics.requested(source, outcome)

    def replied(self, source: str, outcome: ReplyOutcome) -> None:
        self._metrics.replied(source, outcome)

    def left(self, source: str) -> None:
        self._journal.left(source)
        self._metrics.left(source)

    def ended(self, source: str) -> None:
        self._journal.ended(source)
        self._metrics.ended(source)


class _CoverageEvents(_Events):
    """Passes what is read on to the coverage, too."""

    def __init__(
        self,
        journal: Journal,
        metrics: Metrics,
        inlets: dict[str, Inlet],
        count: Callable[[Inlet, Sequence[Delivery]], None],
    ) -> None:
        super().__init__(journal, metrics)
        self._inlets = inlets
        self._count = count

    def read(self, source: str, deliveries: Sequence[Delivery]) -> None:
        super().read(source, deliveries)
        if self._inlets[source].replies_of is None:  # replies go past the topology
            self._count(self._inlets[source], deliveries)
