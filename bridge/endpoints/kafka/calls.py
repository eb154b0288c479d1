"""Calls that wait, made on a thread of their own, one after another: librdkafka's that ask a broker.

The thread is a daemon's: a broker that never answers does not keep the process from ending. As calls are in line,
closing a client waits for the call that still uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

__all__ = ["Calls"]

T = TypeVar("T")


class Calls:
    """A line of calls. ``end`` it when nothing more will be called."""

    def __init__(self) -> None:
        self._line: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=self._run, name="hashstar-kafka", daemon=True).start()

    def _run(self) -> None:
        while (call := self._line.get()) is not None:
            call()
            del call  # and with it what it was called with: a client is destroyed by its last reference

    def call(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """What the function will return or raise."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def tell(answer: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(answer)

        def run() -> None:
            answer, problem = None, None
            try:
                answer = function()
            except BaseException as error:  # noqa: BLE001  it is raised where it was called
                problem = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(tell, answer, problem)

        self._line.put(run)
        return future

    def end(self) -> None:
        """After the calls in line the thread ends."""
        self._line.put(None)
