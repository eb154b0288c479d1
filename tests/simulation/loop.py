"""An event loop that a seed decides on: virtual time, and callbacks that are ready together in any order.

What a program may not rely on differs from seed to seed: which of the callbacks of one moment runs first, and how long
a call on another thread takes. Such a call is made on the loop, some virtual time later. Other threads, and sockets,
are refused: nothing but the seed may decide.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from random import Random
from threading import Thread
from typing import Any, Final, TypeVar
from unittest.mock import patch

from bridge.aside import ASIDE
from tests.support.virtual_loop import VirtualLoop, end_all

T = TypeVar("T")

MOST_TURNS: Final = 10_000
"""Number of turns of the loop without a moment's progress after which it spins."""


class Spinning(AssertionError):
    """The program turns round and round without waiting for anything."""


class _NoSockets(selectors.BaseSelector):
    """Refuses all files."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        raise AssertionError("the simulation has no sockets")

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        raise KeyError(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        raise KeyError(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return []


class _Call(asyncio.TimerHandle):
    """A call of which the loop need not know that it was cancelled."""

    def __init__(self, when: float, callback: Any, args: Any, loop: Any, context: Any) -> None:
        self._context = copy_context() if context is None else context
        self._loop, self._callback, self._args, self._when = loop, callback, args, when
        self._cancelled = self._scheduled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled, self._callback, self._args = True, None, ()


class SimulatedLoop(VirtualLoop):
    """The loop. ``calls`` is the maximum number of virtual seconds that a call on another thread takes.

    It has no files to look at, so that a turn is little more than its callbacks: a third of what a life costs is turns.
    """

    get_debug = bool  # never, which each handle and future asks: a type needs no frame

    def __init__(self, random: Random, calls: float = 0.02) -> None:
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        """Timers by their times, and in the order in which they were made."""
        self._made = 0
        super().__init__(_NoSockets())
        self.random: Final = random
        self.calls = calls

    def _make_self_pipe(self) -> None:
        """Make none: no thread wakes this loop."""

    def _close_self_pipe(self) -> None:
        """There is none."""

    def _write_to_self(self) -> None:
        """Do nothing: a call from another thread is one of this loop's own."""

    def call_at(  # type: ignore[override]  # as the loop's, of any arguments
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = _Call(when, callback, args, self, context)
        self._made += 1
        heapq.heappush(self._timers, (when, self._made, timer))
        return timer

    def call_later(  # type: ignore[override]  # as above
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        handle = _Call(0.0, callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def _run_once(self) -> None:
        """Run all turns until the loop is stopped: one after the other, without a call of this for each."""
        ready, timers, shuffle, turns = self._ready, self._timers, self.random.shuffle, 0  # type: ignore[attr-defined]
        while not self._stopping:  # type: ignore[attr-defined]
            handles = [*ready]
            ready.clear()
            if len(handles) > 1:
                shuffle(handles)
            elif not handles:
                while timers and timers[0][2]._cancelled:
                    heapq.heappop(timers)
                if not timers:
                    raise AssertionError("nothing is waited for, and nothing is done")
                if timers[0][0] > self._now:
                    self._now, turns = timers[0][0], 0
            while timers and timers[0][0] <= self._now:
                handles.append(heapq.heappop(timers)[2])
            for handle in handles:
                if not handle._cancelled:
                    handle._run()
            turns += 1
            if turns > MOST_TURNS:
                raise Spinning(f"{MOST_TURNS} turns at {self._now:.3f} s, and no time passes")

    def run_in_executor(  # type: ignore[override]  # as the loop's, simpler
        self, executor: Any, function: Callable[..., T], *arguments: Any
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                result = function(*arguments)
            except Exception as error:  # noqa: BLE001  it is raised where it is awaited
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_later(self.random.random() * self.calls, run)
        return future

    @contextmanager
    def without_threads(self) -> Iterator[None]:
        """Run what `call_aside` is given on this loop; refuse all other threads."""

        def start(thread: Thread) -> None:
            assert thread.name == ASIDE, f"the simulation has no threads: {thread.name}"
            self.call_later(self.random.random() * self.calls, thread.run)

        with patch.object(Thread, "start", start):
            yield


def simulate(work: Coroutine[Any, Any, T], random: Random) -> tuple[T, float]:
    """Run a coroutine on a loop of its own; return its result, and how many virtual seconds passed."""
    loop = SimulatedLoop(random)
    try:
        with loop.without_threads():
            return loop.run_until_complete(work), loop.time()
    finally:
        try:
            with loop.without_threads():
                loop.run_until_complete(end_all())
        finally:
            loop.close()
