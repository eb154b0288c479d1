"""What signals do to a bridge, and how it ends in time even if something hangs.

==================  =======================================================================================
SIGTERM, SIGINT     stop reading, settle what was read, end: within the longest `Policy.drain` and 5 s
a second one        end at once, if it comes at least `APART` seconds after the first
SIGUSR1, SIGUSR2    pause, resume
SIGHUP              read the configuration again: `bridge.daemon.pipelines`
==================  =======================================================================================

A process that starts has read nothing: a signal to end ends it at once, and as if all were settled. The other signals
wait until their handlers stand; without that, they would end it. In a worker all wait from before it exists
(`bridge.daemon.workers`), as the time until its first instruction is not its own.

Programs that end others often send a signal twice within milliseconds: GNU timeout sends it to its child and then to
the group of both, service managers send it to the main process and then to all processes. That is one request to end,
not two.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType, MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from exchange.files.operating_system import block_signals, find_signals, unblock_signals

if TYPE_CHECKING:  # they take seconds to import, in which signals are to be handled
    from bridge.daemon.journal import Journal
    from bridge.daemon.pipelines import Pipelines

ENDING: Final = find_signals("SIGTERM", "SIGINT", "SIGBREAK")
"""The signals that ask for an end."""

ACTING: Final = find_signals("SIGUSR1", "SIGUSR2", "SIGHUP")
"""The others that act on a bridge. All signals here end a process that does not handle them."""

APART: Final = 1.0
"""Seconds after the first signal to end during which another one counts as the same request."""

CLOSING: Final = 4.0
"""Maximum number of seconds, after the longest `Policy.drain`, for closing all endpoints; then pumps are cancelled."""

SECOND_SIGNAL_SECONDS: Final = 3.0
"""Maximum number of seconds for closing all endpoints after a second signal."""

LAST: Final = 0.5
"""Seconds from the first cancellation until the process ends itself, whatever it waits for. That costs time but no
messages: those that are not settled are read again."""

AGAIN: Final = 1.0
"""Seconds between cancellations. A task may miss one if what it awaits ends at the same moment."""

Handler = Callable[[int, FrameType | None], Any] | int | None


class Handlers:
    """Signal handlers that run on the event loop, from ``__enter__`` to ``__exit__``; those ``at_once`` run before, in
    the middle of whatever the main thread does, as the loop may hang.

    Signals that were blocked until here act now. With ``keep``, they are ignored afterwards; else the handlers from
    before are restored. The handlers are Python's and not the loop's: removing one from the loop restores the default
    for a moment, in which a signal to end would kill the process with a wrong exit code.
    """

    def __init__(
        self,
        acts: Mapping[signal.Signals, Callable[[], object]],
        at_once: Mapping[signal.Signals, Callable[[], None]] = MappingProxyType({}),
        *,
        keep: bool,
    ) -> None:
        self._acts = acts
        self._at_once = at_once
        self._keep = keep
        self._before: dict[signal.Signals, Handler] = {}

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()

        def hand_over(number: int, _: FrameType | None) -> None:
            if (act := self._at_once.get(signal.Signals(number))) is not None:
                act()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._acts[signal.Signals(number)])

        for number in self._acts:
            self._before[number] = signal.signal(number, hand_over)
        unblock_signals(*self._acts)  # those that came since `handle_early_signals`
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, _ignore if self._keep or before is None else before)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing. Unlike SIG_IGN, this handler is not inherited by programs that are started."""


class Stopping:
    """Ends running pipelines in time, once a signal has asked for it.

    With ``owns_process`` the process ends itself if a pump cannot be stopped.
    """

    def __init__(
        self, pipelines: Pipelines, running: asyncio.Future[None], journal: Journal, *, owns_process: bool
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipelines = pipelines
        self._running = running
        self._journal = journal
        self._owns_process = owns_process
        self._asked_at: float | None = None
        self._at_once = False
        self._timers: list[asyncio.TimerHandle] = []
        self._over = threading.Event()
        self._asked: int | None = None
        """Descriptor that a thread reads from, which ends the process in time; None: nothing does."""
        if owns_process:
            asked, self._asked = os.pipe()
            threading.Thread(target=self._watch, args=(asked,), name="hashstar-end", daemon=True).start()

    def note(self) -> None:
        """Take note that the process is to end, so that it does even if the loop never comes to `request`.

        A handler of a signal may call it, and interrupt whatever holds a lock.
        """
        if self._asked is not None:
            os.write(self._asked, b"x")

    def _watch(self, asked: int) -> None:
        with os.fdopen(asked, "rb", buffering=0) as pipe:
            if pipe.read(1):
                self._force(self._drain + CLOSING + LAST)

    @property
    def _drain(self) -> float:
        return self._pipelines.drain

    @property
    def _in_flight(self) -> int:
        return self._pipelines.in_flight

    def request(self) -> None:
        """Stop all pipelines; a second request, at least `APART` seconds later, cancels it."""
        now = self._loop.time()
        if self._asked_at is None:
            self._asked_at = now
            self._journal.write("info", "stopping", in_flight=self._in_flight, within=self._drain)
            self._pipelines.stop()
            self.note()
            self._cancel_in(self._drain + CLOSING)
        elif not self._at_once and now - self._asked_at >= APART:
            self._at_once = True
            self._journal.write("warning", "stopping at once", in_flight=self._in_flight)
            self._running.cancel()
            self._cancel_in(SECOND_SIGNAL_SECONDS)
            if self._owns_process:
                limit = SECOND_SIGNAL_SECONDS + LAST
                threading.Thread(target=self._force, args=(limit,), name="hashstar-end", daemon=True).start()

    def finish(self) -> None:
        """Take note that the pump has ended: cancel the timers and the thread that were to end it."""
        self._over.set()
        asked, self._asked = self._asked, None
        if asked is not None:
            os.close(asked)
        for timer in self._timers:
            timer.cancel()

    def _cancel_in(self, seconds: float) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = [self._loop.call_later(seconds, self._cancel)]

    def _cancel(self) -> None:
        self._running.cancel()
        self._timers = [self._loop.call_later(AGAIN, self._cancel)]

    def _force(self, seconds: float) -> None:
        """End the process unless the pump ends in time. Runs on a thread, as the event loop itself may hang."""
        if not self._over.wait(seconds):
            with suppress(Exception):  # the set of tasks changes meanwhile, or the log cannot be written
                waiting = sorted(
                    {getattr(each.get_coro(), "__qualname__", "") for each in asyncio.all_tasks(self._loop)}
                )
                self._journal.write("error", "ended by force", waiting=waiting, in_flight=self._in_flight)
                self._journal.flush()
            os._exit(1)


def handle_early_signals() -> None:
    """End this process with exit code 0 at a signal to end, and let the others wait, until `Handlers` take over.

    It ends whatever it does, as reading the configuration may hang.
    """
    block_signals(*ACTING)
    for number in ENDING:
        signal.signal(number, lambda *_: os._exit(0))
    unblock_signals(*ENDING)


def end_process_within(seconds: float, code: int) -> threading.Timer:
    """Start a timer that ends this process with an exit code after some seconds.

    The event loop waits for threads of client libraries before it closes, and those may wait for a broker.
    """
    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()
    return timer
