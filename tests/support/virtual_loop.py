"""An event loop whose clock jumps to the next timer as soon as nothing else is to be done: hours pass in no time."""

from __future__ import annotations

import asyncio
import functools
import heapq
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from bridge.aside import ASIDE
from tests.support.waiting import stretch

P = ParamSpec("P")
T = TypeVar("T")

HANGS = 1.0
"""Seconds, on a machine without other work, after which a call aside is one that hangs."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; `run_virtually` makes one."""

    def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
        super().__init__(selector)
        self._now = 0.0
        self._of_others = _find_calls_aside()
        self._hanging = set[threading.Thread]()
        """Calls aside that were waited for in vain: time passes without them."""

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready:  # type: ignore[attr-defined]
            timers = self._scheduled  # type: ignore[attr-defined]
            while timers and timers[0].cancelled():  # as the loop does, too late for this
                self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
                heapq.heappop(timers)._scheduled = False
            if timers:
                self._wait_for_calls_aside()
                if not self._ready:  # type: ignore[attr-defined]
                    self._now = max(self._now, timers[0].when())
            # What a call aside has returned is among what is ready before its thread has ended.
            elif _find_calls_aside() <= self._of_others and not self._ready:  # type: ignore[attr-defined]
                raise AssertionError("nothing is waited for, and nothing is done")
        super()._run_once()  # type: ignore[misc]

    def _wait_for_calls_aside(self) -> None:
        """Let no time pass while a call aside does what takes none: a busy machine may give its thread no turn."""
        if threading.active_count() > 1:
            for thread in _find_calls_aside() - self._of_others - self._hanging:
                thread.join(stretch(HANGS))
                if thread.is_alive():
                    self._hanging.add(thread)


def _find_calls_aside() -> set[threading.Thread]:
    """Return the threads of calls that run: an earlier test may have left one behind whose server hangs."""
    return {each for each in threading.enumerate() if each.name == ASIDE}


def on_a_virtual_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a test of a coroutine function that waits for timers and events of its own loop only."""

    @functools.wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        run_virtually(test(*arguments, **named))

    return run


async def pass_time(seconds: float) -> None:
    """Let seconds pass by the clock of the running loop, which must be a virtual one: nobody waits for them."""
    assert isinstance(asyncio.get_running_loop(), VirtualLoop), "these seconds would be waited for"
    await asyncio.sleep(seconds)


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for timers and events of its own loop only, and return its result."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.run_until_complete(end_all())
        loop.close()


async def end_all() -> None:
    """Cancel all other tasks of the running loop, and wait for their ends."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
