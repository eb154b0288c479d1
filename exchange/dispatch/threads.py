"""Plain handlers in threads, where they may block; a thread cannot be cancelled."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from exchange.dispatch.delivery import Delivery, Ticket
from exchange.dispatch.failures import place_of

log: Final = logging.getLogger(__name__)

THREADS: Final = 64
"""Maximum number of threads for the plain handlers of one consumer."""


class HandlerThreads:
    """The threads of one consumer, which are started as they are needed."""

    def __init__(self, queue: str, concurrency: int) -> None:
        self._queue: Final = queue
        self._size: Final = min(concurrency, THREADS)
        self._pool: ThreadPoolExecutor | None = None
        self._running_on: Final[dict[Ticket, Future[object]]] = {}

    async def call(self, handler: Callable[[Delivery], object], delivery: Delivery) -> object:
        """Call a handler in a thread, in the caller's context. If this is cancelled, the thread may run on."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._size, thread_name_prefix=f"handlers of {self._queue}")
        called = self._pool.submit(contextvars.copy_context().run, _call, handler, delivery)
        try:
            return await asyncio.wrap_future(called)
        except asyncio.CancelledError:
            if not called.cancel() and called.running():
                self._running_on[delivery._ticket] = called
                log.warning("%s, was cancelled, and its handler runs on in its thread", place_of(delivery))
            raise

    def take_running(self, ticket: Ticket) -> Future[object] | None:
        """Return the future of a delivery's thread that runs on after its cancellation; only the first call does."""
        return self._running_on.pop(ticket, None)

    def shutdown(self) -> None:
        """Start no thread any more; those that run are not waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _call(handler: Callable[[Delivery], object], delivery: Delivery) -> object:
    """Call a handler. A future cannot carry a StopIteration: as in a coroutine, it is wrapped."""
    try:
        return handler(delivery)
    except StopIteration as error:
        raise RuntimeError("a handler raised StopIteration") from error
