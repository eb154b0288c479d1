"""``hashstar bridge run``: a configuration at work, until it ends or is told to.

What signals do is in `bridge.daemon.signals`. What was read and is not settled comes again, whenever the end comes.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from bridge.daemon.config import Config
from bridge.daemon.health import Health
from bridge.daemon.journal import Journal
from bridge.daemon.metrics import Metrics
from bridge.daemon.progress import progress_of
from bridge.daemon.signals import Handlers, Stopping
from bridge.daemon.web import Web
from bridge.endpoint import Delivery, Failure, Outgoing
from bridge.pump.pump import Inlet, Pump, PumpEvents
from exchange.errors import InputError
from exchange.routing.router import Router

__all__ = ["calm_collector", "run"]


async def run(
    config: Config, journal: Journal, metrics: Metrics, *, is_worker: bool = False, owns_process: bool = False
) -> bool:
    """Run until all sources have ended or a signal came; return whether everything that was read is settled.

    A worker also stops when its standard input ends, as its parent is gone then. With ``owns_process``, signals do
    nothing once it has ended, and the process ends itself if it cannot be stopped. Raises InputError.
    """
    journal.listen()
    for warning in config.warnings:
        journal.tell("warning", "configuration", text=str(warning))
    for inlet in config.inlets:
        if isinstance(inlet.source, Unreadable):
            metrics.unreadable[inlet.source.name] = inlet.source.unreadable
    events = _Both(journal, metrics)
    coverage = None
    if config.coverage:
        try:
            from bridge.daemon.coverage import Coverage  # pyarrow and numpy, which nobody else needs
        except ImportError as error:
            raise InputError(f"{config.path}: coverage: needs {error.name}: pip install 'hashstar[audit]'") from None
        coverage = Coverage(config.path, config.topology)
        events = _WithCoverage(journal, metrics, {inlet.source.name: inlet for inlet in config.inlets}, coverage.read)
    pump = Pump(
        config.inlets, Router(config.topology), config.targets, events, config.policy, config.dead_letters,
        config.ignored,
    )  # fmt: skip
    metrics.prepare(*endpoints_of(config))
    health = Health(
        pump, config.inlets, metrics, journal, config.policy, config=config.path,
        has_dead_letters=config.dead_letters is not None,
    )  # fmt: skip
    calm_collector()
    loop = asyncio.get_running_loop()
    web = None
    if config.http is not None:
        web = Web(config, pump, metrics, health, loop, coverage)
        journal.tell("info", "serving", address=web.start())
    journal.tell("info", "started", config=config.path, process=os.getpid())
    running = asyncio.ensure_future(pump.run())
    looking = asyncio.create_task(health.run())
    stopping = Stopping(pump, running, journal, config.policy.drain, owns_process=owns_process)
    try:
        with _signals(pump, stopping, journal, is_worker=is_worker, owns_process=owns_process):
            if sys.stderr.isatty() and not is_worker:
                showing = asyncio.ensure_future(progress_of(config, metrics))
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
        stopping.over()
        if web is not None:
            web.stop()
    left = pump.in_flight
    journal.tell("info" if not left else "warning", "stopped", not_settled=left)
    return not left


def endpoints_of(config: Config) -> tuple[dict[str, bool], dict[str, list[str]]]:
    """Return source -> whether it has a filter, and target -> its queues, as `Metrics.prepare` takes them."""
    targets: dict[str, list[str]] = {}
    for queue, target in config.targets.items():
        targets.setdefault(target.name, []).append(queue)
    if config.dead_letters is not None:
        targets[config.dead_letters.name] = [""]
    return {inlet.source.name: inlet.filter is not None for inlet in config.inlets}, targets


def calm_collector() -> None:
    """Have Python look for cycles of garbage more seldom, and never in what the program itself is made of.

    A message on its way is some objects and no cycle. A window of them is looked through in vain each time, at the
    threshold that Python begins with every hundred messages, which is a sixth of all work.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@contextmanager
def _signals(
    pump: Pump, stopping: Stopping, journal: Journal, *, is_worker: bool, owns_process: bool
) -> Iterator[None]:
    """Have signals act on a pump while it runs."""
    loop = asyncio.get_running_loop()

    def orphaned() -> None:
        if not os.read(0, 1):
            loop.remove_reader(0)
            journal.tell("warning", "the parent is gone")
            stopping.ask()

    def pause() -> None:
        journal.tell("info", "paused")
        pump.pause()

    def resume() -> None:
        journal.tell("info", "resumed")
        pump.resume()

    acts = {
        signal.SIGTERM: stopping.ask,
        signal.SIGINT: stopping.ask,
        signal.SIGUSR1: pause,
        signal.SIGUSR2: resume,
        signal.SIGHUP: journal.hung_up,
    }
    with Handlers(acts, keep=owns_process):
        if is_worker:
            loop.add_reader(0, orphaned)
        try:
            yield
        finally:
            if is_worker:
                loop.remove_reader(0)


@runtime_checkable
class Unreadable(Protocol):
    """A source that counts what it cannot read."""

    name: str
    unreadable: Counter[str]


class _Both(PumpEvents):
    """Tells the journal and the metrics."""

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

    def ended(self, source: str) -> None:
        self._journal.ended(source)
        self._metrics.ended(source)


class _WithCoverage(_Both):
    """Counts bindings too."""

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
        self._count(self._inlets[source], deliveries)
