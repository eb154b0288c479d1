"""The pumps of a running bridge: each is built whole from a reading of its configuration, and follows the one before.

A reload is refused as a whole, and changes nothing, if anything in the file or the topology is wrong, or if it changes
what only a restart can change: `find_fixed`. Otherwise the pump reads nothing more and settles what it has read, in
`Policy.drain` at most, as at a stop; then the next pump begins, as at a start. So nothing is lost, the messages of a
key stay in order, and at most what was not settled in time, a window, comes again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from bridge.aside import call_aside
from bridge.daemon.config import Config
from bridge.daemon.health import Health
from bridge.daemon.journal import Journal
from bridge.daemon.metrics import Metrics
from bridge.endpoint import Delivery, Failure, Outgoing, describe
from bridge.pump.events import PumpEvents
from bridge.pump.pump import Inlet, Pump
from bridge.pump.replies import ReplyOutcome, RequestOutcome
from exchange.errors import HashstarError, InputError
from exchange.partition.python_function import find_changed_files, undo_imports
from exchange.routing.router import Router
from exchange.text.site import build_install_command

if TYPE_CHECKING:  # imports pyarrow
    from bridge.daemon.coverage import CoverageCounter

READING: Final = 60.0
"""Maximum number of seconds for reading the file and the topology again."""
GOING_BACK: Final = 0.5
"""Seconds for which a broker is left alone that was sent back messages, so that these are in their places again."""
RESTART: Final = "restart the bridge for it"


@dataclass(frozen=True, slots=True)
class BuiltPump:
    """A pump that does not run yet, and its configuration."""

    config: Config
    pump: Pump
    coverage: CoverageCounter | None = None


@dataclass(frozen=True, slots=True)
class Pipeline(BuiltPump):
    """A pump that runs. It is a value, so that threads which answer HTTP see one pump with its own health."""

    health: Health = field(kw_only=True)


def build_pump(config: Config, router: Router, journal: Journal, metrics: Metrics) -> BuiltPump:
    """Build the pump of a configuration; nothing is opened, and no counter changes.

    Raises InputError if coverage is asked for, and what counts it is not installed.
    """
    events, coverage = _Events(journal, metrics), None
    if config.coverage:
        try:
            from bridge.daemon.coverage import CoverageCounter  # imports pyarrow and numpy, which nothing else needs
        except ImportError as error:
            raise InputError(f"{config.path}: coverage: needs {error.name}: {build_install_command('audit')}") from None
        coverage = CoverageCounter(config.path, config.topology)
        events = _CoverageEvents(journal, metrics, {inlet.source.name: inlet for inlet in config.inlets}, coverage.read)
    pump = Pump(
        config.inlets, router, config.targets, events, config.policy, config.dead_letters,
        config.ignored, replies=config.replies, partitioners=config.partitioners,
    )  # fmt: skip
    return BuiltPump(config, pump, coverage)


def start_pipeline(built: BuiltPump, journal: Journal, metrics: Metrics, before: Health | None = None) -> Pipeline:
    """Begin to count and watch a pump that is about to run; ``before`` is the health of the one that ran before it."""
    config = built.config
    metrics.forget_connections()
    for inlet in config.inlets:
        if isinstance(inlet.source, Unreadable):
            inlet.source.unreadable.update(metrics.unreadable.get(inlet.source.name, {}))
            metrics.unreadable[inlet.source.name] = inlet.source.unreadable
    metrics.prepare(*list_endpoints(config))
    health = Health(
        built.pump, config.inlets, metrics, journal, config.policy, config=config.path,
        has_dead_letters=config.dead_letters is not None, before=before,
    )  # fmt: skip
    return Pipeline(config, built.pump, built.coverage, health=health)


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


class Pipelines:
    """The pumps of one bridge, of which one runs at a time.

    ``reread`` reads the configuration again, on a thread of its own. ``prepare`` is called before each pump runs, and
    ``on_change`` afterwards with each but the first.
    """

    def __init__(
        self,
        config: Config,
        journal: Journal,
        metrics: Metrics,
        reread: Callable[[], Config],
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self._journal = journal
        self._metrics = metrics
        self._reread = reread
        self._prepare = prepare or (lambda: None)
        self.on_change: Callable[[Pipeline], None] = lambda _: None
        self._turn = asyncio.Lock()
        """Held by the reload that is under way."""
        self._asked: asyncio.Task[str] | None = None
        """The reload that is asked for, and has read nothing yet."""
        self._reloading = set[asyncio.Task[str]]()
        self._next: BuiltPump | None = None
        self._began = asyncio.Event()
        """Set when the next pump has begun."""
        self._is_stopping = False
        self.current = self._begin(build_pump(config, Router(config.topology), journal, metrics))

    async def run(self) -> None:
        """Run one pump after the other, until all sources of one have ended or it is stopped."""
        try:
            while True:
                pipeline = self.current
                looking = asyncio.create_task(pipeline.health.run())
                try:
                    await pipeline.pump.run()
                finally:
                    looking.cancel()
                built, self._next = self._next, None
                if built is None:
                    return
                goes_back = any(
                    inlet.source.takes_back and (inlet.window.messages or not inlet.is_read_out)
                    for inlet in pipeline.config.inlets
                )
                if goes_back and not self._is_stopping:
                    await asyncio.sleep(GOING_BACK)
                if self._is_stopping:
                    return
                self.current = self._begin(built, pipeline)
                self.on_change(self.current)
                self._began.set()
        finally:
            for task in self._reloading:
                task.cancel()

    def stop(self) -> None:
        """Stop the pump that runs; none follows it."""
        self._is_stopping = True
        self.current.pump.stop()

    async def reload(self) -> str:
        """Read the configuration again; return why that is refused, or "" once the next pump has begun."""
        return await asyncio.shield(self.request())

    def request(self) -> asyncio.Task[str]:
        """Return the task of a reload that has not begun to read yet; what is asked for until then is one reload."""
        if self._asked is None:
            self._asked = asyncio.create_task(self._reload())
            self._reloading.add(self._asked)
            self._asked.add_done_callback(self._reloading.discard)
        return self._asked

    def _begin(self, built: BuiltPump, before: Pipeline | None = None) -> Pipeline:
        if before is not None and before.pump.paused:
            built.pump.pause()
        if before is not None and before.pump.leaves:
            built.pump.drain()
        pipeline = start_pipeline(built, self._journal, self._metrics, None if before is None else before.health)
        self._prepare()
        return pipeline

    async def _reload(self) -> str:
        async with self._turn:
            self._asked = None
            before = self.current
            try:
                async with asyncio.timeout(READING):
                    built = await self._read(before.config)
                refusal = "it is stopping" if self._is_stopping else ""
            except TimeoutError:
                refusal = f"{before.config.path}, or its topology, could not be read within {READING:.0f} s"
            except Exception as error:  # noqa: BLE001  whatever it is, the pump that runs goes on
                refusal = str(error) if isinstance(error, HashstarError) else describe(error)
            if refusal:
                self._metrics.note_reload(refusal)
                self._journal.write("error", "reload refused", reason=refusal, text="nothing has changed")
                return refusal
            self._began.clear()
            self._next = built
            before.pump.stop()
            await self._began.wait()
            self._metrics.note_reload("")
            old, new = before.config, built.config
            if (old.log_format, old.log_level) != (new.log_format, new.log_level):
                self._journal.write_as(new.log_format, new.log_level)
            for warning in new.warnings:
                self._journal.write("warning", "configuration", text=str(warning))
            self._journal.write("info", "reloaded", config=new.path, not_settled=before.pump.in_flight)
            return ""

    async def _read(self, old: Config) -> BuiltPump:
        """Build the next pump. Raises HashstarError."""

        def read() -> tuple[Config, Router, list[str]]:
            config = self._reread()
            mistakes = find_fixed(old, config)
            mistakes += [
                f"{path} has changed, and the code of partitioners is imported once: {RESTART}"
                for path in find_changed_files(config.partitioners.values(), str(Path(config.path).parent.absolute()))
            ]
            return config, Router(config.topology), mistakes

        with undo_imports():
            new, router, mistakes = await call_aside(read)
            if mistakes:
                raise HashstarError("\n".join(mistakes))
            return build_pump(new, router, self._journal, self._metrics)


def find_fixed(old: Config, new: Config) -> list[str]:
    """Return what a configuration changes and only a restart can change, one line for each."""
    fixed = {
        "http": ((old.http and (old.http.host, old.http.port)), (new.http and (new.http.host, new.http.port))),
        "http_hosts": (old.http and old.http.names, new.http and new.http.names),
        "workers": (old.workers, new.workers),
    }
    lines = [
        f"{new.path}: {key}: has changed, and cannot be reloaded: {RESTART}" for key, (a, b) in fixed.items() if a != b
    ]
    for inlet in old.inlets:
        source = inlet.source
        for other in [other.source for other in new.inlets if other.source.places & source.places]:
            where = f"{new.path}: [sources.{other.name}]"
            if source.settled_in is None:
                lines.append(f"{where} how far it was read is kept in memory only, and would be lost: {RESTART}")
            elif source.settled_in != other.settled_in:
                lines.append(f"{where} would begin anew: how far it is read is kept elsewhere; {RESTART}")
    return lines


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

    def confirmed(self, target: str, messages: Sequence[Outgoing], now: float) -> None:
        self._metrics.confirmed(target, messages, now)

    def refused(self, target: str, message: Outgoing, failure: Failure, retry_in: float | None) -> None:
        self._journal.refused(target, message, failure, retry_in)
        self._metrics.refused(target, message, failure, retry_in)

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
