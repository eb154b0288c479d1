"""``hashstar bridge run``: a configuration at work, until it ends or is told to.

SIGTERM and SIGINT stop reading and wait for what was read; a second one does not wait. SIGUSR1 pauses, SIGUSR2 resumes.
What was read and is not settled comes again, whenever the end comes.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Any

from bridge.config import Config
from bridge.endpoint import Delivery, Failure, Outgoing
from bridge.journal import Journal
from bridge.metrics import Metrics
from bridge.pump import Pump, PumpEvents
from bridge.web import Web
from exchange.router import Router

__all__ = ["run"]


async def run(config: Config, journal: Journal, metrics: Metrics) -> bool:
    """Run until all sources have ended or a signal came; whether everything that was read is settled."""
    pump = Pump(
        config.inlets,
        Router(config.topology),
        config.targets,
        _Both(journal, metrics),
        config.policy,
        config.dead_letters,
        config.ignored,
    )
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(pump.run())
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            journal.tell("info", "stopping", in_flight=pump.in_flight, within=config.policy.drain)
            pump.stop()
        else:
            journal.tell("warning", "stopping at once", in_flight=pump.in_flight)
            running.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGUSR1, pump.pause)
    loop.add_signal_handler(signal.SIGUSR2, pump.resume)
    web = None
    if config.http is not None:
        web = Web(config, pump, metrics, loop)
        address = web.start()
        journal.tell("info", "serving", address=address)
    journal.tell("info", "started", config=config.path, process=os.getpid())
    try:
        await running
    except asyncio.CancelledError:
        pass
    finally:
        if web is not None:
            web.stop()
    left = pump.in_flight
    journal.tell("info" if not left else "warning", "stopped", not_settled=left)
    return not left


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

    def ended(self, source: str) -> None:
        self._journal.ended(source)
        self._metrics.ended(source)


def gauges(pump: Pump) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """What only the moment knows of a pump, for `bridge.metrics.Metrics.lines`."""
    outlets: dict[str, Any] = {"in_flight": {}, "held": {}}
    for outlet in pump.outlets:
        label = (("target", outlet.target.name),)
        outlets["in_flight"][label] = outlet.in_flight
        outlets["held"][label] = outlet.held
    return {
        "hashstar_unsettled_messages": {(): pump.in_flight},
        "hashstar_paused": {(): pump.paused},
        "hashstar_in_flight_messages": outlets["in_flight"],
        "hashstar_held_messages": outlets["held"],
    }
