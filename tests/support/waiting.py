"""Wait for what has no event: poll a condition until it holds, with one generous limit for all tests.

Nothing waits for a time: a test goes on as soon as what it waits for is there, and the limit, which grows with the load
of the machine, is reached by a fault only.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Callable
from typing import Any, Final

LIMIT: Final = 120.0
"""Time that anything may take on a machine with a processor to spare, in seconds."""
PAUSE: Final = 0.01
"""Time between two looks at a condition, in seconds."""


def stretch(seconds: float) -> float:
    """Return the seconds that may pass where these may on a machine with a processor to spare: more on a busy one."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def find_limit() -> float:
    """Return the time to wait, in seconds: longer where processes wait for processors."""
    return stretch(LIMIT)


def wait_until(condition: Callable[[], Any], describe: Callable[[], object] = str) -> Any:
    """Wait until a condition returns something true, and return that.

    Raises `AssertionError` with the result of `describe` if it does not within the limit.
    """
    end = time.monotonic() + find_limit()
    while not (value := condition()):
        assert time.monotonic() < end, f"it did not happen: {describe()}"
        time.sleep(PAUSE)
    return value


async def until(condition: Callable[[], Any], describe: Callable[[], object] = str) -> Any:
    """Do the same on an event loop, which goes on meanwhile; the condition may be awaited."""
    end = time.monotonic() + find_limit()
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < end, f"it did not happen: {describe()}"
        await asyncio.sleep(PAUSE)
