"""The tasks of a member that end with it, and that of them which rebalances: when, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from enum import Enum
from typing import Final

REBALANCE_AGAIN: Final = 1.0
"""Seconds until the next rebalance after one that failed for a topic (``rocketmq.client.rebalance.minInterval``)."""
REBALANCE_MOST: Final = 4.0
"""Maximum number of seconds until the next one while all fail: a broker that is back is noticed no later."""


class Tasks:
    """Tasks that should not end by themselves, and are cancelled together; ``failed`` is called when one has raised."""

    def __init__(self, failed: Callable[[], None]) -> None:
        self.broken: Exception | None = None
        """Exception of the last task that raised one."""
        self._failed: Final = failed
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    def start(self, what: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def cancel(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.broken = error if isinstance(error, Exception) else RuntimeError(repr(error))
            self._failed()


class Division(Enum):
    """The outcome of a rebalance."""

    COMPLETE = "complete"
    """This member has all queues of its share."""
    WAITS = "waits"
    """Queues are missing, which another member has to give up first."""
    FAILED = "failed"
    """A whole topic failed, for example because it does not exist."""


class Rebalancing:
    """Rebalances when the group or a route has changed, and every ``interval`` seconds; sooner if it is incomplete."""

    def __init__(self, rebalance: Callable[[], Awaitable[Division]], interval: float) -> None:
        self._rebalance: Final = rebalance
        self._interval: Final = interval
        self._changed: Final = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        """Futures of those who wait for the end of the next rebalance."""

    def start(self, tasks: Tasks) -> None:
        """Begin, in a task of its own."""
        self._task = tasks.start(self._run())

    def request(self) -> None:
        """Have a rebalance begin soon."""
        self._changed.set()

    async def finish_next(self) -> None:
        """Have a rebalance begin now, and wait until it is done, or has failed; do nothing after the last one."""
        if self._task is not None and not self._task.done():
            self._waiting.append(asyncio.get_running_loop().create_future())
            self._changed.set()
            await self._waiting[-1]

    def stop(self) -> None:
        """Begin no further rebalance, and release the callers that wait for one."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._release(self._waiting)

    async def _run(self) -> None:
        failures, waiting = 0, list[asyncio.Future[None]]()
        try:
            while True:
                self._changed.clear()
                waiting, self._waiting = self._waiting, []
                division = await self._rebalance()
                self._release(waiting)
                failures = failures + 1 if division is Division.FAILED else 0
                # While queues are missing, the next try is after 1 s. While a whole topic fails, the interval doubles.
                soon = min(REBALANCE_AGAIN * 2 ** min(failures, 8), REBALANCE_MOST, self._interval)
                await wait_for(self._changed, self._interval if division is Division.COMPLETE else soon)
        finally:  # also for those who came meanwhile: no other rebalance follows
            self._release([*waiting, *self._waiting])

    def _release(self, waiting: list[asyncio.Future[None]]) -> None:
        for each in waiting:
            if not each.done():  # its caller may have been cancelled
                each.set_result(None)
        waiting.clear()


async def wait_for(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but no longer. `asyncio.wait_for` would lose a cancellation that comes with the event."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
