"""What signals do to a bridge, and how it ends in time whatever hangs.

==================  =======================================================================================
SIGTERM, SIGINT     read nothing more, settle what was read, end: within `Policy.drain` and `CLOSING` seconds
the same again      end at once, if it comes `APART` seconds after the first or later
SIGUSR1, SIGUSR2    pause, resume
SIGHUP              is logged: nothing is reloaded
==================  =======================================================================================

Programs that end others often signal twice within milliseconds: GNU timeout signals its child and then the group of
both, service managers the main process and then all of them. That is one wish to end, not two.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, Self

from bridge.daemon.journal import Journal
from bridge.pump.pump import Pump

__all__ = ["APART", "AT_ONCE", "CLOSING", "Handlers", "Stopping", "end_process_within"]

APART: Final = 1.0
"""Seconds after the first signal to end before which another is taken for the same wish."""

CLOSING: Final = 10.0
"""Seconds that all endpoints together may take to close beyond `Policy.drain`; then what they wait for is cancelled."""

AT_ONCE: Final = 3.0
"""The same once a second signal came."""

LAST: Final = 5.0
"""Seconds after the first cancellation at which a process ends itself, whatever it waits for. Nothing is lost then but
time: what is not settled is read again."""

AGAIN: Final = 1.0
"""Seconds between cancellations. A task may miss one: awaiting something that is done at that very moment."""

Handler = Callable[[int, FrameType | None], Any] | int | None


class Handlers:
    """Signal handlers that run on the event loop, from ``__enter__`` to ``__exit__``.

    With ``keep``, signals do nothing after that; else what they did before. The handlers are Python's and not the
    loop's, because those of the loop are removed by restoring the default, and a signal to end that comes just then
    kills the process with a wrong exit code.
    """

    def __init__(self, acts: Mapping[signal.Signals, Callable[[], None]], *, keep: bool) -> None:
        self._acts = acts
        self._keep = keep
        self._before: dict[signal.Signals, Handler] = {}

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()

        def hand_over(number: int, _: FrameType | None) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._acts[signal.Signals(number)])

        for number in self._acts:
            self._before[number] = signal.signal(number, hand_over)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, _ignore if self._keep or before is None else before)


def _ignore(number: int, frame: FrameType | None) -> None:
    """A handler that does nothing; unlike SIG_IGN, programs that are started do not inherit it."""


class Stopping:
    """The end of a running pump: wished for by a signal, and brought about in time.

    With ``owns_process`` the process ends itself when all else fails.
    """

    def __init__(
        self, pump: Pump, running: asyncio.Future[None], journal: Journal, drain: float, *, owns_process: bool
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._pump = pump
        self._running = running
        self._journal = journal
        self._drain = drain
        self._owns_process = owns_process
        self._asked_at: float | None = None
        self._at_once = False
        self._timers: list[asyncio.TimerHandle] = []
        self._over = threading.Event()

    def ask(self) -> None:
        """Have the pump stop; asked again, at once."""
        now = self._loop.time()
        if self._asked_at is None:
            self._asked_at = now
            self._journal.tell("info", "stopping", in_flight=self._pump.in_flight, within=self._drain)
            self._pump.stop()
            self._end_in(self._drain + CLOSING)
        elif not self._at_once and now - self._asked_at >= APART:
            self._at_once = True
            self._journal.tell("warning", "stopping at once", in_flight=self._pump.in_flight)
            self._running.cancel()
            self._end_in(AT_ONCE)

    def over(self) -> None:
        """It has ended: nothing needs to be brought about any more."""
        self._over.set()
        for timer in self._timers:
            timer.cancel()

    def _end_in(self, seconds: float) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = [self._loop.call_later(seconds, self._cancel)]
        if self._owns_process:
            threading.Thread(target=self._force, args=(seconds + LAST,), name="hashstar-end", daemon=True).start()

    def _cancel(self) -> None:
        self._running.cancel()
        self._timers = [self._loop.call_later(AGAIN, self._cancel)]

    def _force(self, seconds: float) -> None:
        """End the process unless the pump ends in time. On a thread, as the event loop may be what hangs."""
        if not self._over.wait(seconds):
            with suppress(Exception):  # the tasks change meanwhile, or the log cannot be written
                waiting = sorted(
                    {getattr(each.get_coro(), "__qualname__", "") for each in asyncio.all_tasks(self._loop)}
                )
                self._journal.tell("error", "ended by force", waiting=waiting, in_flight=self._pump.in_flight)
            os._exit(1)


def end_process_within(seconds: float, code: int) -> threading.Timer:
    """End this process with an exit code after some seconds, unless the timer is cancelled: its event loop waits for
    threads of clients before it closes, and those may wait for a broker.
    """
    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()
    return timer
