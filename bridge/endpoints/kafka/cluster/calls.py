"""Calls of librdkafka that wait for a broker, made on a thread of their own, one after another.

It is a daemon thread, so a broker that never answers does not keep the process from ending. Calls are made in the order
in which they were queued, so a client is closed only after the last call that uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from confluent_kafka import Producer

from bridge.aside import prepare_call

T = TypeVar("T")


class Calls:
    """A thread and the queue of its calls. `end` it after the last call."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=self._run, name="hashstar-kafka", daemon=True).start()

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            call()
            del call  # while the thread waits, it must hold no reference: a client ends when its last one goes

    def call(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Have the function called on the thread, and return the future of its result."""
        run, future = prepare_call(function)
        self._queue.put(run)
        return future

    def end(self) -> None:
        """End the thread after the calls that are queued."""
        self._queue.put(None)


def take_back(producer: Producer, *, in_flight: bool = True) -> None:
    """Have a producer write nothing more of what it has; delivery reports give it back. It does not wait for that.

    confluent-kafka, up to 2.16.1, takes ``blocking`` the wrong way round. Waiting, it holds Python's lock: as long as a
    thread of librdkafka waits for a name server, nothing in the process runs, also not what ends it in time.
    """
    producer.purge(in_queue=True, in_flight=in_flight, blocking=True)
