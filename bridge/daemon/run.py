"""Run a bridge from its configuration to its end: ``hashstar bridge run`` and programs that embed a bridge call `run`.

`bridge.daemon.signals` describes what signals do. Messages that were read and are not settled are read again by the
next run, however this one ends.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Protocol, runtime_checkable

from bridge.daemon.config import Config, read_config
from bridge.daemon.health import Health
from bridge.daemon.journal import Journal
from bridge.daemon.metrics import Metrics
from bridge.daemon.signals import Handlers, Stopping
from bridge.daemon.web import Web
from bridge.daemon.workers import SETTLED, WRONG, build_worker_command, run_workers
from bridge.endpoint import Delivery, Failure, Outgoing
from bridge.pump.events import PumpEvents
from bridge.pump.pump import Inlet, Pump
from bridge.pump.replies import ReplyOutcome, RequestOutcome
from exchange.errors import InputError
from exchange.files.operating_system import find_signals
from exchange.routing.router import Router
from exchange.text.site import build_install_command

__all__ = ["calm_collector", "run"]


async def run(
    config: Config | str | os.PathLike[str],
    journal: Journal | None = None,
    *,
    worker: int | None = None,
    handle_signals: bool = False,
    owns_process: bool = False,
) -> bool:
    """Run a bridge until all its sources have ended; return whether all messages that were read are settled.

    To end it earlier, cancel it. ``config`` is a path, or a configuration from `read_config`; the default ``journal``
    writes to standard error. If the configuration has several workers, each is a process of its own; with ``worker``,
    this process is that worker, and runs the bridge itself.

    With ``handle_signals``, signals act on the bridge while it runs (only on the main thread), and a worker stops when
    its standard input ends, as then its parent is gone. ``owns_process`` includes ``handle_signals``; in
    addition, the signals are ignored afterwards, a terminal shows progress, garbage collection is tuned for the whole
    process, and the process ends itself if the bridge cannot be stopped.

    Raises InputError if the configuration is wrong or the address for HTTP is taken.

    >>> source, target = MemorySource([Message("", "billing", body=b"{}")]), MemoryTarget()
    >>> source.end()
    >>> topology = Topology(queues=[Queue("billing")])
    >>> config = Config("example", topology, (Inlet(source),), {"billing": target}, log_level="warning")
    >>> asyncio.run(run(config))
    True
    >>> [outgoing.message.body for outgoing in target.messages]
    [b'{}']
    """
    if not isinstance(config, Config):
        config = read_config(Path(config), worker=worker)
    if journal is None:
        journal = Journal(config.log_format, config.log_level, worker=worker)
    handle_signals |= owns_process
    try:
        return await _run(config, journal, worker, handle_signals=handle_signals, owns_process=owns_process)
    finally:
        journal.flush()


async def _run(
    config: Config, journal: Journal, worker: int | None, *, handle_signals: bool, owns_process: bool
) -> bool:
    for warning in config.warnings:
        journal.write("warning", "configuration", text=str(warning))
    if config.workers > 1 and worker is None:
        code = await run_workers(
            config,
            journal,
            build_worker_command(config.path),
            handle_signals=handle_signals,
            keep_handlers=owns_process,
        )
        if code == WRONG:
            raise InputError(f"{config.path}: a worker cannot start; its own error is above")
        return code == SETTLED
    is_worker = worker is not None
    return await _run_pump(config, journal, is_worker, handle_signals=handle_signals, owns_process=owns_process)


async def _run_pump(
    config: Config, journal: Journal, is_worker: bool, *, handle_signals: bool, owns_process: bool
) -> bool:
    """Run the pump of a configuration in this process, with its health, metrics, HTTP server and signals."""
    metrics = Metrics()
    for inlet in config.inlets:
        if isinstance(inlet.source, Unreadable):
            metrics.unreadable[inlet.source.name] = inlet.source.unreadable
    events = _Events(journal, metrics)
    coverage = None
    if config.coverage:
        try:
            from bridge.daemon.coverage import CoverageCounter  # imports pyarrow and numpy, which nothing else needs
        except ImportError as error:
            raise InputError(f"{config.path}: coverage: needs {error.name}: {build_install_command('audit')}") from None
        coverage = CoverageCounter(config.path, config.topology)
        events = _CoverageEvents(journal, metrics, {inlet.source.name: inlet for inlet in config.inlets}, coverage.read)
    pump = Pump(
        config.inlets, Router(config.topology), config.targets, events, config.policy, config.dead_letters,
        config.ignored, replies=config.replies, partitioners=config.partitioners,
    )  # fmt: skip
    metrics.prepare(*list_endpoints(config))
    health = Health(
        pump, config.inlets, metrics, journal, config.policy, config=config.path,
        has_dead_letters=config.dead_letters is not None,
    )  # fmt: skip
    if owns_process:
        calm_collector()  # after the router and its indexes are built, so that the collector never searches them
    loop = asyncio.get_running_loop()
    web = None
    if config.http is not None:
        web = Web(config, pump, metrics, health, loop, coverage)
        journal.write("info", "serving", address=web.start(), paths="/ /status /metrics /live /ready /coverage")
    journal.write("info", "started", config=config.path, process=os.getpid())
    running = asyncio.ensure_future(pump.run())
    looking = asyncio.create_task(health.run())
    stopping = Stopping(pump, running, journal, config.policy.drain, owns_process=owns_process)
    signals = (
        _signals(pump, stopping, journal, is_worker=is_worker, keep_handlers=owns_process)
        if handle_signals
        else nullcontext()
    )
    try:
        with signals:
            if owns_process and not is_worker and sys.stderr.isatty():
                showing = asyncio.ensure_future(_show_progress(config, metrics))
                running.add_done_callback(lambda _: showing.cancel())
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                running.cancel()
                await asyncio.wait([running])
                raise
        if not running.cancelled():
            running.result()
    finally:
        looking.cancel()
        stopping.finish()
        if web is not None:
            web.stop()
    left = pump.in_flight
    counts = {"read": sum(metrics.read_messages.values()), "written": sum(metrics.written.values())}
    journal.write("info" if not left else "warning", "stopped", not_settled=left, **counts)
    return not left


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


def calm_collector() -> None:
    """Make Python search for garbage cycles less often, and never among the objects that exist now.

    Messages under way consist of objects without cycles. With Python's default threshold, all messages of a window are
    searched in vain every hundred messages, which takes a sixth of all processor time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@contextmanager
def _signals(
    pump: Pump, stopping: Stopping, journal: Journal, *, is_worker: bool, keep_handlers: bool
) -> Iterator[None]:
    """Let signals act on a pump while it runs; in a worker, the end of standard input stops it, too."""
    loop = asyncio.get_running_loop()

    def stop_if_orphaned() -> None:
        if not os.read(0, 1):
            loop.remove_reader(0)
            journal.write("warning", "the parent is gone")
            stopping.request()

    def pause() -> None:
        journal.write("info", "paused")
        pump.pause()

    def resume() -> None:
        journal.write("info", "resumed")
        pump.resume()

    ends = find_signals("SIGTERM", "SIGINT", "SIGBREAK")
    acts = {
        **dict.fromkeys(ends, stopping.request),
        **dict.fromkeys(find_signals("SIGUSR1"), pause),
        **dict.fromkeys(find_signals("SIGUSR2"), resume),
        **dict.fromkeys(find_signals("SIGHUP"), journal.write_hangup),
    }
    with Handlers(acts, dict.fromkeys(ends, stopping.note), keep=keep_handlers):
        if is_worker:
            loop.add_reader(0, stop_if_orphaned)
        try:
            yield
        finally:
            if is_worker:
                loop.remove_reader(0)


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


@runtime_checkable
class _Replaying(Protocol):
    """A source that has an end, and knows how far it is."""

    name: str

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes that were read, and all bytes there are."""


async def _show_progress(config: Config, metrics: Metrics) -> None:
    """Show the progress of all replays on standard error, until cancelled; return at once if there are none."""
    replays = [inlet.source for inlet in config.inlets if isinstance(inlet.source, _Replaying)]
    if not replays:
        return
    from rich.console import Console  # installed with what reads archives
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
        TextColumn("{task.fields[messages]:,} messages"), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks = {source.name: progress.add_task(source.name, total=None, messages=0) for source in replays}
        while True:
            for source in replays:
                read, total = source.progress
                progress.update(
                    tasks[source.name], completed=read, total=total or None,
                    messages=metrics.read_messages[source.name],
                )  # fmt: skip
            await asyncio.sleep(0.2)
