"""Calls that block, in virtual time: each is made on a thread of its own, which runs only while the loop waits for it.

So code that sleeps, or waits for a broker in a loop of its own, is simulated as it is. Of all threads one runs at any
time, and the loop decides which: a seed is the same life each time.
"""

from __future__ import annotations

import asyncio
from _thread import allocate_lock, start_new_thread
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, TypeVar

from tests.simulation import kafka_topic
from tests.simulation.kafka_topic import Late

T = TypeVar("T")


class _Over(BaseException):
    """The life has ended in which a call waits."""


class Turns:
    """A call on a thread of its own; the loop and it take turns."""

    running: ClassVar[Turns | None] = None
    """The call that runs now; None: the loop does."""
    waiting: ClassVar[dict[Turns, None]] = {}
    """Calls that wait, in the order of their beginnings."""

    def __init__(self, function: Callable[[], Any], end: Callable[[Any, Exception | None], None]) -> None:
        self.loop: Final = asyncio.get_running_loop()
        self.is_over = False
        self._mine, self._theirs = allocate_lock(), allocate_lock()
        self._mine.acquire()
        self._theirs.acquire()
        self._function = function
        self._end = end
        self._result: tuple[Any, Exception | None] | None = None
        self.waiting[self] = None
        start_new_thread(self._run, ())
        self._go_on()

    def _run(self) -> None:
        self._mine.acquire()
        events._set_running_loop(self.loop)
        try:
            self._result = self._function(), None
        except Late as late:
            self._result = None, late
        except Exception as error:  # noqa: BLE001  it is raised where it is awaited
            self._result = None, error
        except _Over:
            pass
        self._theirs.release()

    def _go_on(self) -> None:
        """Let it run until it waits, or has ended."""
        before, Turns.running = Turns.running, self
        self._mine.release()
        self._theirs.acquire()
        Turns.running = before
        if self._result is None:
            return
        self.waiting.pop(self, None)
        result, error = self._result
        if isinstance(error, Late):
            self.loop.call_later(error.seconds, self._end, None, error.error)
        else:
            self._end(result, error)

    def wait(self, seconds: float) -> None:
        """Wait; called on its thread."""
        self.loop.call_later(seconds, self._go_on)
        self._theirs.release()
        self._mine.acquire()
        if self.is_over:
            raise _Over

    def leave(self) -> None:
        """End the thread, whose life has ended."""
        self.is_over = True
        self._mine.release()
        self._theirs.acquire()


def block(seconds: float) -> bool:
    """Wait, within a call of `Calls`, and return True; elsewhere no time can pass."""
    call = Turns.running
    if call is None:
        return False
    call.wait(seconds)
    return True


class Calls(kafka_topic.Calls):
    """Takes the place of `bridge.endpoints.kafka.cluster.calls.Calls` where calls block."""

    def _run(self) -> None:
        Turns(self._queue[0][0], self._end)


@contextmanager
def ending_calls() -> Iterator[None]:
    """End calls that still wait when their life has ended."""
    try:
        yield
    finally:
        while Turns.waiting:
            Turns.waiting.popitem()[0].leave()
