"""The tasks of a member that end with it: they are cancelled together, and one that fails is noted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final

__all__ = ["Tasks", "wait_for"]


class Tasks:
    """Tasks that should not end by themselves; ``failed`` is called when one has raised."""

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


async def wait_for(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but no longer. `asyncio.wait_for` would lose a cancellation that comes with the event."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
