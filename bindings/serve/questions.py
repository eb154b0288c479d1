"""Answer questions within bounds: a number of them at once, and a time for each.

A question runs on a thread of its own. If it takes longer than it may, its asker gets `OutOfTime` and the thread goes
on to its end, which counts as one of the questions that may run at once. So slow questions never add up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from exchange.errors import HashstarError

__all__ = ["Busy", "OutOfTime", "Questions"]

Answer = TypeVar("Answer")


class OutOfTime(HashstarError):
    """A question was not answered within its time."""


class Busy(HashstarError):
    """As many questions are being answered as may be at once."""


class Questions:
    """Runs at most ``at_once`` questions, and waits for each at most ``seconds``."""

    def __init__(self, at_once: int, seconds: float) -> None:
        self.seconds: Final = seconds
        self._free: Final = threading.BoundedSemaphore(at_once)

    def answer(self, work: Callable[[], Answer]) -> Answer:
        """Return what ``work`` returns, or raise what it raises; else raise OutOfTime or Busy."""
        if not self._free.acquire(timeout=self.seconds / 4):
            raise Busy("too many questions are being answered: ask again in a second")
        answers: list[Answer] = []
        errors: list[BaseException] = []
        done = threading.Event()

        def run() -> None:
            try:
                answers.append(work())
            except BaseException as error:  # noqa: BLE001  raised again where the answer is awaited
                errors.append(error)
            finally:
                self._free.release()
                done.set()

        threading.Thread(target=run, name="hashstar-question", daemon=True).start()
        if not done.wait(self.seconds):
            raise OutOfTime(f"undecided: out of time after {self.seconds:g} s")
        if errors:
            raise errors[0]
        return answers[0]
