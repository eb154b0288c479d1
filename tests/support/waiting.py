"""Wait for what has no event: poll a condition until it holds, with one generous limit for all tests.

Nothing waits for a time: a test goes on as soon as what it waits for is there, and the limit, which grows with the load
of the machine, is reached by a fault only.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

TEST_LIMIT: Final = 240.0
"""Time that a test may take on a usual machine with a processor to spare, in seconds; it is ended then."""
COMPUTING: Final = 40.0
"""Processor time in it, in seconds: what a busy or slow machine makes longer. To wait takes as long on any."""
MOST: Final = 3000.0
"""Maximum time that a test may take on any machine, in seconds: less than CI gives a run."""
LIMIT: Final = 120.0
"""Time that anything may take on such a machine, in seconds."""
PAUSE: Final = 0.01
LONGEST: Final = 0.1
"""Least and greatest time between two looks at a condition, in seconds."""
USUAL: Final = 0.008
"""Processor time of `_compute` on a usual machine, in seconds."""
MEASURED: Final = 0.1
"""Processor time that `measure_slowness` takes at least, in seconds."""

_ends = math.inf
"""When the test that runs is ended, by `time.monotonic`."""


def stretch(seconds: float) -> float:
    """Return the seconds that may pass where these may on a usual machine: more on a busy one, and on a slow one."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)) * find_slowness()


@cache
def find_slowness() -> float:
    """Return how many times as long as a usual machine this one computes, at least 1."""
    return max(1.0, min(_compute() for _ in range(3)) / USUAL)


def measure_slowness() -> float:
    """Return the same of just now, on average: a machine may become several times slower while tests run on it."""
    times = [_compute()]
    while sum(times) < MEASURED:
        times.append(_compute())
    return max(1.0, sum(times) / len(times) / USUAL)


def _compute() -> float:
    began = time.process_time()
    sum(number * number for number in range(100_000))
    return time.process_time() - began


def begin_test(seconds: float) -> float:
    """Begin a test that may take these seconds on a usual machine, 0 for any, and return how long it may take here.

    No wait in it, in this process, ends later than that: what was waited for is then in the failure.
    """
    global _ends  # noqa: PLW0603  one test runs at a time
    limit = seconds and max(seconds, min(seconds + stretch(COMPUTING) - COMPUTING, MOST))
    _ends = time.monotonic() + limit if limit else math.inf
    return limit


def find_limit(seconds: float = LIMIT) -> float:
    """Return the time to wait, in seconds: longer where processes wait for processors, and less than the test has."""
    return max(PAUSE, min(stretch(seconds), 0.9 * (_ends - time.monotonic())))


def find_pause(waited: float) -> float:
    """Return the time until the next look at a condition: a look may cost a broker as much as it costs us."""
    return min(max(PAUSE, waited / 20), LONGEST)


def wait_until(
    condition: Callable[[], Any], describe: Callable[[], object] = str, running: Sequence[asyncio.Future[None]] = ()
) -> Any:
    """Wait until a condition returns something true, and return that.

    Raises `AssertionError` with the result of `describe` if it does not within the limit, or never will, as one of the
    pumps that are ``running`` has ended; what that died of is raised instead.
    """
    began = time.monotonic()
    end = began + find_limit()
    while not (value := condition()):
        for each in running:
            if each.done():
                each.result()
                raise AssertionError(f"a pump has ended: {describe()}")
        now = time.monotonic()
        assert now < end, f"it did not happen: {describe()}"
        time.sleep(find_pause(now - began))
    return value


async def until(condition: Callable[[], Any], describe: Callable[[], object] = str) -> Any:
    """Do the same on an event loop, which goes on meanwhile; the condition may be awaited."""
    began = time.monotonic()
    end = began + find_limit()
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        now = time.monotonic()
        assert now < end, f"it did not happen: {describe()}"
        await asyncio.sleep(find_pause(now - began))
