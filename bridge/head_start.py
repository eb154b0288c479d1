"""Ask several servers of which one is enough: a server that hangs does not keep the next from being asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

HEAD_START_SECONDS: Final = 1.0
"""Seconds that a server has to itself before the next one is asked as well; one that is well needs a tenth of it."""

T = TypeVar("T")


class NoneSucceededError(Exception):
    """Every attempt has failed; ``args`` are their errors, in their order."""


async def take_first(
    attempts: Sequence[Callable[[], Coroutine[Any, Any, T]]],
    failure: type[Exception],
    discard: Callable[[T], object] = lambda _: None,
) -> T:
    """Return the result of the attempt that succeeds first; raises NoneSucceededError if each raises ``failure``.

    An attempt begins when all before it have failed, or `HEAD_START_SECONDS` after the one before it. The others are
    cancelled and have ended when this returns; ``discard`` gets the result of one that succeeded all the same.
    """
    begun: list[asyncio.Task[T]] = []
    taken: asyncio.Task[T] | None = None
    try:
        for number, attempt in enumerate(attempts, 1):
            begun.append(asyncio.ensure_future(attempt()))
            taken = await _wait_for_success(begun, failure, HEAD_START_SECONDS if number < len(attempts) else None)
            if taken is not None:
                return taken.result()
        raise NoneSucceededError(*[task.exception() for task in begun])
    finally:
        others = [task for task in begun if task is not taken]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for task in others:
            if not task.cancelled() and task.exception() is None:
                discard(task.result())


async def _wait_for_success(
    tasks: Sequence[asyncio.Task[T]], failure: type[Exception], seconds: float | None
) -> asyncio.Task[T] | None:
    """Return the first task that succeeds; None when all have failed, or after some seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            running = {task for task in tasks if not task.done()}
            while running:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    with suppress(failure):
                        task.result()
                        return task
    return None
