"""Run a bridge from its configuration to its end: ``hashstar bridge run`` and programs that embed a bridge call `run`.

`bridge.daemon.signals` describes what signals do. Messages that were read and are not settled are read again by the
next run, however this one ends.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Protocol, runtime_checkable

from bridge.daemon.config import Config, read_config
from bridge.daemon.journal import Journal
from bridge.daemon.pipelines import Pipelines
from bridge.daemon.pumps import control
from bridge.daemon.signals import ENDING, Handlers, Stopping
from bridge.daemon.web import Web
from bridge.daemon.workers import SETTLED, WRONG, build_worker_command, run_workers
from bridge.pump.pump import Pump
from exchange.errors import InputError
from exchange.files.operating_system import find_signals


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
    for warning in config.warnings:
        journal.write("warning", "configuration", text=str(warning))
    try:
        if config.workers == 1 or worker is not None:
            return await _run_pumps(config, journal, worker, handle_signals=handle_signals, owns_process=owns_process)
        command = build_worker_command(config.path)
        code = await run_workers(config, journal, command, handle_signals=handle_signals, keep_handlers=owns_process)
        if code == WRONG:
            raise InputError(f"{config.path}: a worker cannot start; its own error is above")
        return code == SETTLED
    finally:
        journal.flush()


async def _run_pumps(
    config: Config, journal: Journal, worker: int | None, *, handle_signals: bool, owns_process: bool
) -> bool:
    """Run the pipelines of a configuration in this process, with health, metrics, HTTP server and signals."""
    is_worker = worker is not None
    pipelines = Pipelines(
        config, journal, lambda: read_config(Path(config.path), worker=worker),
        # After a router and its indexes are built, so that the collector never searches them.
        prepare=calm_collector if owns_process else None,
    )  # fmt: skip
    loop = asyncio.get_running_loop()
    web = None
    if config.http is not None:
        web = Web(config, pipelines.pumps, loop, pipelines.reload, pipelines.reloads, worker or 1)
        pipelines.on_change = web.show
        journal.write("info", "serving", address=web.start(), paths="/ /status /metrics /live /ready /coverage")
    several = {"pipelines": [each.name for each in config.pipelines]} if config.pipelines else {}
    journal.write("info", "started", config=config.path, process=os.getpid(), **several)
    running = asyncio.ensure_future(pipelines.run())
    stopping = Stopping(pipelines, running, journal, owns_process=owns_process)
    signals = (
        _signals(pipelines, stopping, journal, is_worker=is_worker, keep_handlers=owns_process)
        if handle_signals
        else nullcontext()
    )
    try:
        with signals:
            if owns_process and not is_worker and sys.stderr.isatty():
                showing = asyncio.ensure_future(_show_progress(pipelines))
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
        stopping.finish()
        if web is not None:
            web.stop()
    left, counts = pipelines.in_flight, pipelines.count_messages()
    journal.write("info" if not left else "warning", "stopped", not_settled=left, **counts)
    return not left


def calm_collector() -> None:
    """Make Python search for garbage cycles less often, and never among the objects that exist now.

    Messages under way consist of objects without cycles. With Python's default threshold, all messages of a window are
    searched in vain every hundred messages, which takes a sixth of all processor time.
    """
    gc.unfreeze()  # what a pump before has left
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@contextmanager
def _signals(
    pipelines: Pipelines, stopping: Stopping, journal: Journal, *, is_worker: bool, keep_handlers: bool
) -> Iterator[None]:
    """Let signals act on all pipelines while they run; in a worker, the end of standard input stops it, too."""
    loop = asyncio.get_running_loop()

    def stop_if_orphaned() -> None:
        if not os.read(0, 1):
            loop.remove_reader(0)
            journal.write("warning", "the parent is gone")
            stopping.request()

    def pause() -> None:
        journal.write("info", "paused")
        control(pipelines.pumps, Pump.pause)

    def resume() -> None:
        journal.write("info", "resumed")
        control(pipelines.pumps, Pump.resume)

    acts: dict[signal.Signals, Callable[[], object]] = {
        **dict.fromkeys(ENDING, stopping.request),
        **dict.fromkeys(find_signals("SIGUSR1"), pause),
        **dict.fromkeys(find_signals("SIGUSR2"), resume),
        **dict.fromkeys(find_signals("SIGHUP"), pipelines.request),
    }
    with Handlers(acts, dict.fromkeys(ENDING, stopping.note), keep=keep_handlers):
        if is_worker:
            loop.add_reader(0, stop_if_orphaned)
        try:
            yield
        finally:
            if is_worker:
                loop.remove_reader(0)


@runtime_checkable
class _Replaying(Protocol):
    """A source that has an end, and knows how far it is."""

    name: str

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes that were read, and all bytes there are."""


async def _show_progress(pipelines: Pipelines) -> None:
    """Show the progress of all replays on standard error, until cancelled; return at once if there are none."""

    def find_replays() -> list[tuple[str, int, _Replaying]]:
        return [
            (f"{name} {each.source.name}".strip(), pump.metrics.read_messages[each.source.name], each.source)
            for name, pump in pipelines.pumps.items()
            for each in pump.config.inlets
            if isinstance(each.source, _Replaying)
        ]

    if not find_replays():
        return
    from rich.console import Console  # installed with what reads archives
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
        TextColumn("{task.fields[messages]:,} messages"), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks: dict[str, TaskID] = {}
        while True:
            for name, messages, source in find_replays():  # a reload makes other ones
                if name not in tasks:
                    tasks[name] = progress.add_task(name, total=None, messages=0)
                read, total = source.progress
                progress.update(tasks[name], completed=read, total=total or None, messages=messages)
            await asyncio.sleep(0.2)
