"""Several workers: processes that each run the whole bridge, started and watched by a parent that does nothing else.

=============  ======================================================================================================
source         how several workers share it
=============  ======================================================================================================
RabbitMQ       each consumes from the queue, so the order of a key is kept only within a worker; with a single active
               consumer the order is kept, and one worker at a time reads the queue
Kafka          each joins the group and has its share of the partitions; the order of a key is kept
archive        the first worker alone reads it
=============  ======================================================================================================

Every worker writes to all targets. Worker K serves HTTP on the configured port + K - 1, so that each worker is scraped
and probed by itself. A worker that dies is started again. All signals are sent on to the workers; in one that starts,
they are blocked until it can handle them (`bridge.daemon.signals`). If a worker's first process ends with exit code 2,
all workers end. If a later process does, as after a wrong change of the configuration, this is logged, and the worker
is started again.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Final

from bridge.daemon.config import Config
from bridge.daemon.journal import Journal
from bridge.daemon.signals import ACTING, ENDING, Handlers
from bridge.pump.policy import Backoff
from exchange.concurrency.processes import build_command, build_environment
from exchange.files.operating_system import block_signals, unblock_signals

AGAIN: Final = Backoff(0.5, 30.0)
"""Time before a worker that died is started again; it grows with each death in a row."""
WELL: Final = 60.0
"""Seconds after which a worker counts as healthy: if it dies later, it waits for the shortest time again."""

SETTLED: Final = 0
NOT_SETTLED: Final = 1
WRONG: Final = 2
"""Exit codes of ``hashstar bridge run``."""


async def run_workers(
    config: Config, journal: Journal, command: Sequence[str], *, handle_signals: bool = True, keep_handlers: bool = True
) -> int:
    """Run ``command`` with ``--worker K`` for each worker until all have ended; return the highest exit code.

    The command finds its signals blocked, and unblocks them when it can handle them.

    With ``handle_signals``, signals are sent on to the workers; with ``keep_handlers``, they are ignored afterwards.
    Cancelling it ends the workers, and waits for them.
    """
    workers = [_Worker(number, command, journal) for number in range(1, config.workers + 1)]

    def send_on(number: signal.Signals) -> None:
        for worker in workers:
            worker.signal(number)

    acts = {number: partial(send_on, number) for number in (*ENDING, *ACTING)}
    with Handlers(acts, keep=keep_handlers) if handle_signals else nullcontext():
        journal.write("info", "started", config=config.path, process=os.getpid(), workers=config.workers)
        running = [asyncio.create_task(worker.run()) for worker in workers]
        try:
            while True:
                done, left = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                if not left:
                    break
                if any(task.result() == WRONG for task in done):
                    send_on(signal.SIGTERM)
                running = [*left]
        except asyncio.CancelledError:
            send_on(signal.SIGTERM)
            await asyncio.wait(running)
            raise
    return max(worker.code for worker in workers)


class _Worker:
    """One worker: its process, which is started again when it dies, and its exit code."""

    def __init__(self, number: int, command: Sequence[str], journal: Journal) -> None:
        self.number = number
        self.code = SETTLED
        self._command = [*command, "--worker", str(number)]
        self._journal = journal
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process; after a signal to end, the process is not started again."""
        if number in ENDING:
            self._stopping.set()
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def run(self) -> int:
        """Run the process until it ends by itself or after a signal; return its exit code."""
        loop, attempt, is_first = asyncio.get_running_loop(), 0, True
        while True:
            began = loop.time()
            # In a session of its own, so that Ctrl-C reaches it once, through us. Its standard input ends with us.
            # Born with blocked signals. While this one awaits, others are started, and unblock only what they blocked:
            # asyncio starts the process before it gives way.
            blocked = block_signals(*ENDING, *ACTING)
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command, stdin=PIPE, start_new_session=True, env=build_environment()
                )
            finally:
                unblock_signals(*blocked)
            if self._stopping.is_set():
                self._process.terminate()
            code = await self._process.wait()
            if code in (SETTLED, NOT_SETTLED) or (code == WRONG and (is_first or self._stopping.is_set())):
                self.code = code
                return code
            is_first = False
            self.code = NOT_SETTLED
            if self._stopping.is_set():
                return NOT_SETTLED
            attempt = 1 if loop.time() - began > WELL else attempt + 1
            wait = AGAIN.delay(attempt, 0.0)
            self._journal.write("error", "worker died", worker=self.number, code=code, again_in=wait)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._stopping.wait()
            if self._stopping.is_set():
                return NOT_SETTLED


def build_worker_command(config: str) -> list[str]:
    """Return the command that starts a worker, without its number."""
    return [*build_command("bridge.cli"), "bridge", "run", config]
