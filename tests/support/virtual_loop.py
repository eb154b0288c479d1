"""An event loop whose clock jumps to the next timer as soon as nothing else is to be done: hours pass in no time."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

__all__ = ["on_a_virtual_loop", "pass_time", "run_virtually"]

P = ParamSpec("P")
T = TypeVar("T")


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready:  # type: ignore[attr-defined]
            timers = [timer for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
            if not timers:
                raise AssertionError("nothing is waited for, and nothing is done")
            self._now = max(self._now, min(timer.when() for timer in timers))
        super()._run_once()  # type: ignore[misc]


def on_a_virtual_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a test of a coroutine function that waits for timers and events of its own loop only."""

    @functools.wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        run_virtually(test(*arguments, **named))

    return run


async def pass_time(seconds: float) -> None:
    """Let seconds pass by the clock of the running loop, which must be a virtual one: nobody waits for them."""
    assert isinstance(asyncio.get_running_loop(), _Loop), "these seconds would be waited for"
    await asyncio.sleep(seconds)


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for timers and events of its own loop only, and return its result."""
    loop = _Loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.run_until_complete(_end_all())
        loop.close()


async def _end_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
